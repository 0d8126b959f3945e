"""The journals of a task whose states are on disk: segments are read if the disk lacks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from itertools import count
from pathlib import Path

from fulmen.api.components import Component
from fulmen.checkpoint import Manifest, Store, load_many, read_commit
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.keyed.stores.local_store import LocalStore
from fulmen.engine.state.entries.disk_entries import DiskEntries, Reached, unheard
from fulmen.engine.state.entries.disk_queue import place_of
from fulmen.engine.state.entries.disk_state import DiskState
from fulmen.engine.state.entries.keyed_state import KeyedState, is_of, segment_journals
from fulmen.engine.state.entries.own_blocks import own_block, share_of
from fulmen.engine.state.entries.segment_blocks import BlockContent, decode_pickled
from fulmen.engine.state.journals import STATE, TIMERS
from fulmen.engine.state.pickling import Dumper
from fulmen.errors import NotFound

TaskState = KeyedState | DiskState
"""Entries of a task, in memory or on disk: what both have is all that others make use of."""
_AT_ONCE = 2
"""So many segments are read at once. As many more are in memory."""


def is_on_disk(journal: str) -> bool:
    """Whether a journal is a segment of a state that is on disk, where states of its task are."""
    return is_of(STATE, journal) or is_of(TIMERS, journal)


class DiskJournals(dict[str, Sequence[bytes]]):
    """What a checkpoint has of a task, without the segments of states that are on disk."""

    def __init__(
        self,
        journals: Mapping[str, Sequence[bytes]],
        store: Store,
        manifest: Manifest,
        task_key: str,
        folder: Path,
    ) -> None:
        """The task's states are on disk in `folder`; `manifest` says where their segments are."""
        super().__init__(journals)
        self._source = store, manifest, task_key
        self._folder = folder

    @cached_property
    def local(self) -> LocalStore:
        """Where the task's states are on disk.

        Raises:
            ServiceUnavailable: The disk refuses it.
        """
        for number in count():
            with suppress(BlockingIOError):  # it is of a process that is about to end
                return LocalStore(self._folder / str(number))
        raise AssertionError

    def segments(self, name: str) -> TaskSegments:
        """The segments of one of its states."""
        return TaskSegments(*self._source, name)


class TaskSegments:
    """The segments of a state of a task in a checkpoint."""

    def __init__(self, store: Store, manifest: Manifest, task_key: str, name: str) -> None:
        """`manifest` says where they are; their journals begin with `name`."""
        self._store, self._manifest, self._task = store, manifest, task_key
        self._refs = manifest.tasks.get(task_key, {})
        self.journals: Sequence[str] = segment_journals(self._refs, name)

    def tag_of(self, journal: str) -> str:
        """The tag of the commit that has written a segment."""
        [ref] = self._refs[journal]
        if ref.file is not None:
            return ref.file.split(".")[1]
        return read_commit(self._store, ref.commit).tag

    def tag_at(self, number: int) -> str | None:
        """The tag of a commit; None: that is not known any more."""
        if number > self._manifest.number:
            return None
        try:
            return read_commit(self._store, number).tag
        except NotFound:
            return None

    def read(self, journals: Sequence[str]) -> Iterator[tuple[str, int, Iterator[BlockContent]]]:
        """Each of these journals, its size and what is in it, with pickled values.

        The next ones are read meanwhile.
        """
        dumps_all = Dumper({}).dumps_all
        groups = [journals[start : start + _AT_ONCE] for start in range(0, len(journals), _AT_ONCE)]
        with ThreadPoolExecutor(1) as reader:
            coming = [reader.submit(self._read, group) for group in groups[:1]]
            for number, group in enumerate(groups):
                read = coming.pop().result()
                coming += [reader.submit(self._read, one) for one in groups[number + 1 :][:1]]
                for journal in group:
                    [data] = read[journal]
                    where = f"keyed state of {self._task!r}, journal {journal!r}"
                    own = partial(own_block, share_of(journal))
                    yield journal, len(data), decode_pickled(where, data, dumps_all, own)

    def _read(self, journals: Sequence[str]) -> Mapping[str, Sequence[bytes]]:
        wanted = set(journals).__contains__
        return load_many(self._store, self._manifest, [self._task], wanted)[self._task]


def restored_entries(
    journals: Journals,
    name: str,
    owner: Component | None = None,
    reached: Reached = unheard,
) -> TaskState:
    """A keyed state that is in the journals of a task.

    Args:
        journals: All of the task's. `DiskJournals`: the state is on disk.
        name: How its journals begin.
        owner: The instance that it is for.
        reached: Is told how far it is, if it takes long.

    Raises:
        ServiceUnavailable: It is on disk, and the disk refuses it.
    """
    if not isinstance(journals, DiskJournals):
        return KeyedState.restore(journals, owner, name)
    place = place_of if name == TIMERS else None
    entries = DiskEntries(journals.local, name, journals.segments(name), place, reached)
    return DiskState(entries, owner)
