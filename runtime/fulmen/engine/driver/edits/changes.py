"""What people have changed in a checkpoint: who, when, why; and what was there before, for an undo.

The checkpoint has a section with the last changes. The older values of the keys that a change has
set or removed are kept beside the component's state, in segments of their own that no task reads.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from fulmen.checkpoint import Manifest, Store, load_many
from fulmen.engine.state.entries.keyed_state import is_of
from fulmen.engine.state.entries.segment_blocks import decode
from fulmen.engine.state.journals import LETTERS, OLDER
from fulmen.engine.state.key_finder import tasks_of
from fulmen.errors import CheckpointError

CHANGES: Final = "changes"
"""The section with the last changes."""
SHOWN_KEYS = 5
"""So many keys of a change are named."""
MOST_CHARACTERS = 80
"""Of each of them."""
MOST_CHANGES = 100
"""So many changes of state are known of a checkpoint, and so many of dead letters: each manifest
has them."""


@dataclass(frozen=True)
class Author:
    """A person who changes a checkpoint.

    Attributes:
        name: Of the person, and the machine.
        because: Why.
        command: What the person has called.
        at: When, as text.
    """

    name: str
    because: str
    command: str = "an edit"
    at: str = ""

    @property
    def who(self) -> str:
        """Who it is, for the message of a driver that runs."""
        return f"{self.command}, by {self.name}"

    @property
    def told(self) -> str:
        """Who it is and why, for those who look at what was asked for."""
        return f"{self.name}: {self.because}".removesuffix(": ")


def now_as_text(seconds: float) -> str:
    """A moment as changes have it."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


@dataclass(frozen=True)
class StateChange:
    """One change.

    Attributes:
        action: What was done: a verb, such as "set".
        component: To which component's state.
        kind: To what of it: "state", "fields", "timers". "": to all of it.
        count: To how many keys, fields or tasks.
        keys: The first few of them, as text.
        tasks: How many tasks the component had.
        number: The commit.
        at: When, as text.
        author: Who.
        because: Why.
        sent: Of messages of files: what tells those that were sent from others.
    """

    action: str
    component: str
    kind: str = ""
    count: int = 0
    keys: Sequence[str] = ()
    tasks: int = 0
    number: int = 0
    at: str = ""
    author: str = ""
    because: str = ""
    sent: Sequence[str] = ()

    def by(self, author: Author, number: int) -> StateChange:
        """The change as it is committed."""
        return replace(
            self,
            number=number,
            at=author.at,
            author=author.name,
            because=author.because,
            keys=[key[:MOST_CHARACTERS] for key in self.keys[:SHOWN_KEYS]],
        )

    def to_json(self) -> dict[str, Any]:
        """Turn it into plain values."""
        return asdict(self)


def changes_in(manifest: Manifest) -> list[StateChange]:
    """The last changes that people have made, the oldest first."""
    data = manifest.sections.get(CHANGES)
    return [StateChange(**one) for one in json.loads(data)] if data else []


def renamed_changes(manifest: Manifest, moves: Mapping[str, str]) -> dict[str, bytes]:
    """The section of `changes_in` with the new names of components; empty if there is none."""
    changes = [
        replace(one, component=", ".join(moves.get(n, n) for n in one.component.split(", ")))
        for one in changes_in(manifest)
    ]
    return {CHANGES: changes_section(changes)} if changes else {}


def with_changes(manifest: Manifest, new: Iterable[StateChange]) -> dict[str, bytes]:
    """The section of `changes_in` with new changes; of older ones the last of each kind."""
    changes = [*changes_in(manifest), *new]
    for is_of_letters in (False, True):
        some = [one for one in changes if (one.kind == LETTERS) is is_of_letters]
        surplus = set(map(id, some[:-MOST_CHANGES]))
        changes = [one for one in changes if id(one) not in surplus]
    return {CHANGES: changes_section(changes)}


def changes_section(changes: Iterable[StateChange]) -> bytes:
    """The section that `changes_in` reads."""
    return json.dumps([one.to_json() for one in changes]).encode()


class OldValue(NamedTuple):
    """What a key had before a change.

    Attributes:
        task: The task that had it, or has got it.
        kind: The journal: of the state, of timers, or of fields.
        key: The key, or the name of the field.
        was_there: Whether the key was there.
        value: What it had.
        after: The digest of what the change has set; None: the change has removed it.
    """

    task: int
    kind: str
    key: Any
    was_there: bool
    value: Any
    after: bytes | None


def old_entries(values: Iterable[OldValue]) -> Mapping[Any, Any]:
    """Older values as entries of a segment."""
    return {(one.task, one.kind, one.key): tuple(one[3:]) for one in values}


def old_values(store: Store, manifest: Manifest, change: StateChange) -> Iterator[OldValue]:
    """Read what a change's keys had before it.

    Raises:
        CheckpointError: It is not kept any more.
    """
    prefix = f"{OLDER}.{change.number}."
    keys = tasks_of(manifest, change.component)
    found = False
    for journals in load_many(store, manifest, keys, lambda j: j.startswith(prefix)).values():
        for journal, [data] in sorted(journals.items()):
            found = True
            for groups, _ in decode(f"checkpoint {store.uri}, {journal!r}", data):
                for _, entries in groups:
                    for (task, kind, key), rest in entries.items():
                        yield OldValue(task, kind, key, *rest)
    if not found:
        raise CheckpointError(
            f"checkpoint {store.uri}: what was there before commit {change.number}"
            f" ({change.action}) is not kept, so it can't be undone. Of each component the older"
            f" values of its last {MOST_UNDONE} changes by set, delete, import and undo are kept."
        )


MOST_UNDONE = 20
"""Of so many changes of a component the older values are kept."""


def outdated(manifest: Manifest, component: str) -> Iterator[tuple[str, str]]:
    """The tasks' journals with older values of changes that no undo may ask for any more."""
    pairs = [
        (int(journal.split(".")[1]), key, journal)
        for key in tasks_of(manifest, component)
        for journal in manifest.tasks[key]
        if is_of(OLDER, journal)
    ]
    kept = sorted({number for number, _, _ in pairs})[1 - MOST_UNDONE :]
    return ((key, journal) for number, key, journal in pairs if number not in kept)
