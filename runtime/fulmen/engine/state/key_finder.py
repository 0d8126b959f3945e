"""Finds single keys of keyed state in a checkpoint, by how they are shown.

A segment is never changed, so what was read of one serves later commits as well: only what these
have added is read anew. Blocks are remembered with the texts of their keys, up to a size; payloads
that are in commit objects, which are small, as long as the commit is asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from fulmen.checkpoint import Manifest, Store, load_many, read_state_part
from fulmen.engine.state.entries.keyed_state import segment_journals
from fulmen.engine.state.entries.own_blocks import of_many, own_block, settle, share_of, take_many
from fulmen.engine.state.entries.segment_blocks import (
    HEAD_BYTES,
    Block,
    BlockContent,
    blocks_for,
    blocks_in,
    content,
    decode,
    head_bytes,
)
from fulmen.engine.state.journals import STATE
from fulmen.errors import text_of
from fulmen.plan import task_of_key

MOST_HEADS = 200
"""Segments whose heads are remembered."""


class _BlockKeys(NamedTuple):
    """What is in a block.

    Attributes:
        texts: The keys that are shown as a text; those of `deleted`, too.
        entries: Key -> the key as it was written, and its value.
        deleted: Keys.
        size: The bytes of the block.
    """

    texts: Mapping[str, Sequence[Any]]
    entries: Mapping[Any, tuple[Any, Any]]
    deleted: Mapping[Any, None]
    size: int

    @staticmethod
    def of(block: BlockContent, size: int) -> _BlockKeys:
        """Those of a block."""
        entries = {entry[0]: entry for _, group in block.groups for entry in group.items()}
        deleted = dict.fromkeys(block.deleted)
        texts: dict[str, tuple[Any, ...]] = {}
        for key in (*entries, *deleted):
            text = text_of(key)
            texts[text] = (*texts.get(text, ()), key)
        return _BlockKeys(texts, entries, deleted, size)

    def content(self, keys: Iterable[Any]) -> BlockContent:
        """What a block has of some keys."""
        entries = dict(self.entries[key] for key in keys if key in self.entries)
        deleted = [key for key in keys if key in self.deleted]
        return BlockContent([(0.0, entries)] if entries else [], deleted)


class KeyFinder:
    """Looks for keys in one checkpoint. Several threads may."""

    def __init__(self, store: Store, remembered_bytes: int = 0) -> None:
        """Begin.

        Args:
            store: The checkpoint's.
            remembered_bytes: The bytes of blocks that are remembered; what is made of them takes
                some times as much.
        """
        self._store, self._room = store, remembered_bytes
        self._remembers = remembered_bytes > 0
        self._lock = threading.Lock()
        self._heads: OrderedDict[str, list[Block]] = OrderedDict()
        self._blocks: OrderedDict[tuple[str, int], _BlockKeys] = OrderedDict()
        self._commit: tuple[Manifest, int] | None = None
        self._small: dict[str, Mapping[str, Sequence[_BlockKeys]]] = {}  # of its tasks

    def find(self, manifest: Manifest, component: str, text: str) -> dict[int, dict[Any, Any]]:
        """The keys of a component's keyed state that are shown as a text, by task.

        Args:
            manifest: The commit to look into.
            component: Whose state it is.
            text: What `str` makes of the key.

        Raises:
            NotFound: The commit is too old to be read.
            CheckpointError: An object is damaged, or of a newer format.
        """
        return {
            task: self._of_task(manifest, key, text)
            for key, task in sorted(tasks_of(manifest, component).items(), key=itemgetter(1))
        }

    def _of_task(self, manifest: Manifest, key: str, text: str) -> dict[Any, Any]:
        journals = manifest.tasks[key]
        names = segment_journals(journals, STATE)
        many, small = of_many(names), self._small_of(manifest, key)
        blocks: list[tuple[str, _BlockKeys]] = []
        for journal in names:
            file = journals[journal][-1].file
            found = small[journal] if file is None else self._blocks_of(file, text)
            blocks += ((journal, block) for block in found)
        # `1` may have changed what `1.0` has written: equal keys are one, shown as it came first
        keys = dict.fromkeys(key for _, block in blocks for key in block.texts.get(text, ()))
        items: dict[Any, Any] = {}
        for journal, block in blocks:
            groups, deleted = own_block(share_of(journal), block.content(keys))
            if many is not None:
                take_many(many, journal, groups, deleted)
            for _, entries in groups:
                items.update(entries)
            for gone in deleted:
                items.pop(gone, None)
        if many is not None:
            settle(many, items, {})
        return {key: value for key, value in items.items() if text_of(key) == text}

    def _small_of(self, manifest: Manifest, key: str) -> Mapping[str, Sequence[_BlockKeys]]:
        """The segments of a task that have no file of their own."""
        commit = (manifest, manifest.number)  # a manifest of who commits goes on by itself
        with self._lock:
            if not self._is_at(commit):
                self._commit, self._small = commit, {}
            known = self._small.get(key)
        if known is not None:
            return known
        journals = manifest.tasks[key]
        wanted = {name for name in segment_journals(journals, STATE) if not journals[name][-1].file}
        loaded = load_many(self._store, manifest, [key], wanted.__contains__)[key]
        made = {
            journal: [
                _BlockKeys.of(block, 0)
                for block in decode(f"checkpoint {self._store.uri}, {journal!r}", data)
            ]
            for journal, (data,) in loaded.items()
        }
        with self._lock:
            if self._is_at(commit):
                self._small[key] = made
        return made

    def _is_at(self, commit: tuple[Manifest, int]) -> bool:
        known = self._commit
        return known is not None and known[0] is commit[0] and known[1] == commit[1]

    def _blocks_of(self, file: str, text: str) -> Iterator[_BlockKeys]:
        """The blocks of a segment that may have a key which is shown as `text`."""
        where = f"checkpoint {self._store.uri}, {file}"
        blocks = self._heads.get(file) or self._head(where, file)
        for number in blocks_for(text, len(blocks)):
            if blocks[number].length:
                yield self._block(where, file, number, blocks[number])

    def _head(self, where: str, file: str) -> list[Block]:
        head = read_state_part(self._store, file, 0, HEAD_BYTES)
        if head_bytes(head) > len(head):
            head = read_state_part(self._store, file, 0, head_bytes(head))
        blocks = blocks_in(where, head)
        if self._remembers:
            with self._lock:
                self._heads[file] = blocks
                while len(self._heads) > MOST_HEADS:
                    self._heads.popitem(last=False)
        return blocks

    def _block(self, where: str, file: str, number: int, block: Block) -> _BlockKeys:
        place = (file, number)
        with self._lock:
            known = self._blocks.get(place)
            if known is not None:
                self._blocks.move_to_end(place)
                return known
        data = read_state_part(self._store, file, block.start, block.length)
        made = _BlockKeys.of(content(where, block, data), block.length)
        with self._lock:
            if place not in self._blocks:
                self._room -= made.size
            self._blocks[place] = made
            while self._room < 0:
                _, oldest = self._blocks.popitem(last=False)
                self._room += oldest.size
        return made


def tasks_of(manifest: Manifest, component: str) -> dict[str, int]:
    """The keys of a component's tasks, and their numbers within it."""
    keys = {key: task_of_key(key) for key in manifest.tasks}
    return {key: number for key, (name, number) in keys.items() if name == component}
