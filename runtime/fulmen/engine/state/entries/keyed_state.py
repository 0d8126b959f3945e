"""`self.state` of a task, which is kept for good, and how it becomes bytes.

Each task has some journals in the checkpoint. Keyed state has a journal for each segment, which is
what a commit has written of it. `segments` says which segments are written anew, and
`segment_format` what is in one.
"""

from __future__ import annotations

import copy
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from types import MethodType
from typing import Any

from typing_extensions import override

from fulmen.api.components import Component
from fulmen.api.keys import NAN_CURE, NOT_EQUAL_TO_ITSELF, has_nan, unusual
from fulmen.engine.state.entries.measures import KeyMeasures
from fulmen.engine.state.entries.own_blocks import of_many, own_blocks, settle, take_many
from fulmen.engine.state.entries.segment_blocks import decode
from fulmen.engine.state.entries.segment_format import DELETED_BYTES, encode
from fulmen.engine.state.entries.segments import GONE, Segments
from fulmen.engine.state.entries.state_tables import StateTable
from fulmen.engine.state.journals import STATE
from fulmen.engine.state.pickling import INSTANCE, made_of
from fulmen.engine.state.values.copies import EqualCopies
from fulmen.engine.state.values.renamed_classes import met
from fulmen.errors import StateError, repr_of

_MISSING = object()
_OPERATORS = ("__setitem__", "__delitem__", "__ior__")
_COPIES = EqualCopies()
_UNCHANGEABLE = {int, float, str, bytes, bool, type(None)}


class KeyedState(dict[Any, Any]):
    """`self.state` of a component: a dict that knows which keys changed since the last commit.

    A key changes when it is assigned or deleted, not when its value is changed in place.

    Either each assignment is noted, or, while batches have more calls than there are keys, what
    changed is found by comparing with a copy: then an assignment is as fast as a dict's (150
    instead of 330 ns for `state[k] = state.get(k, 0) + 1`). What `update` changes is noted at once,
    so nothing is compared while most of it changes in that way. It changes between the two by
    changing its class, which only decides what the operators do: `state[k] = v`, `del state[k]` and
    `|=`.
    A method that somebody has taken from it and keeps notes what it changes, whatever the class
    was then: those by which operators are called, too, since an instance's own attributes come
    first where a method is looked up by its name. A value that could have been changed in place
    can't be compared.
    """

    __slots__ = (
        "__dict__",
        "_at_once",
        "_before",
        "_changed",
        "_dropped",
        "_measures",
        "_name",
        "_names",
        "_segments",
        "_tables",
        "_watch",
        "get",  # a dict's own, at hand: where an instance has attributes it is looked for longer
    )

    def __init__(
        self,
        items: Mapping[Any, Any] | None = None,
        owner: Component | None = None,
        name: str = STATE,
        segments: Segments | None = None,
    ) -> None:
        """`items` is what was restored from these segments, whose journals begin with `name`."""
        super().__init__(items or {})
        self._names = {} if owner is None else {id(owner): INSTANCE}
        self._name = name
        self._segments = Segments() if segments is None else segments
        self._measures = KeyMeasures()
        self._tables: dict[Any, StateTable] = {}
        self._dropped: list[str] = []  # journals of tables that are gone
        self._before: dict[Any, Any] = {}
        self._changed: dict[Any, Any] = {}  # the values, or `GONE`, in order: memory is read so
        self._at_once = 0
        self._watch: Callable[[Collection[Any]], None] | None = None
        self.get = super().get  # type: ignore[method-assign]
        for operator in _OPERATORS:
            self.__dict__[operator] = MethodType(KeyedState.__dict__[operator], self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in KeyedState.__slots__:
            raise AttributeError(
                f"self.state keeps no attribute {name!r}. Write self.state[{name!r}] = ..."
            )
        super().__setattr__(name, value)

    def __setitem__(self, key: Any, value: Any, _set: Any = dict.__setitem__) -> None:
        _set(self, key, value)
        self._changed[key] = value

    def __delitem__(self, key: Any) -> None:
        dict.__delitem__(self, key)
        self._changed[key] = GONE

    @override
    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        if key not in self:
            if default is _MISSING:
                raise KeyError(key)
            return default
        self._changed[key] = GONE
        return dict.pop(self, key)

    @override
    def popitem(self) -> tuple[Any, Any]:
        key, value = super().popitem()
        self._changed[key] = GONE
        return key, value

    @override
    def clear(self) -> None:
        self._changed.update(dict.fromkeys(self, GONE))
        super().clear()

    @override
    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    @override
    def update(self, *args: Any, **kwargs: Any) -> None:
        items = dict(*args, **kwargs)
        dict.update(self, items)
        self._changed.update(items)
        self._at_once += len(items)

    def __ior__(self, other: Any) -> KeyedState:  # type: ignore[misc]
        self.update(other)
        return self

    def twin(self) -> KeyedState:
        """Copy it: the copy changes and is committed in place of this one."""
        return KeyedState(self, name=self._name, segments=copy.deepcopy(self._segments))

    def __reduce__(self) -> Any:
        return dict, (dict(self),)

    def updates(self, number: int, calls: int = 0) -> dict[str, tuple[bytes | None, int]]:
        """The records for commit `number`; empty if nothing changed.

        Args:
            number: The number of the commit.
            calls: How often the author's code was called since the last one.

        Returns:
            By journal: a segment, or None if the journal is dropped; and from which commit on what
            is in the journal is still needed.

        Raises:
            StateError: A value can't be pickled, or a key could never be found again.
        """
        changed = self._find_changed()
        for key in unusual(changed):
            if key in self:  # it may have been deleted again
                _refuse_lost(key)
        many = 8 * len(changed) >= len(self) and 2 * self._at_once <= len(changed)
        self._note_by(_Compared if calls > len(self) and many else KeyedState)
        self._at_once = 0
        records = self._changed_entries(changed, number) if changed else {}
        for table in self._tables.values():
            records |= table.updates(self._name, number, len(records))
        records |= dict.fromkeys(self._dropped, (None, number))
        self._dropped = []
        return records

    def _changed_entries(
        self, changed: dict[Any, Any], number: int
    ) -> dict[str, tuple[bytes | None, int]]:
        if self._watch is not None:
            self._watch(changed)
        turn = self._segments.turn(changed, self)
        records: dict[str, tuple[bytes | None, int]] = dict.fromkeys(turn.dropped, (None, number))
        pieces = encode(turn.values, turn.deleted, self._names, self._measures)
        for i, piece in enumerate(pieces):
            journal = f"{self._name}.{number}.{i}"
            self._segments.add(journal, len(piece.data), piece.parts)
            records[journal] = piece.data, 0
        return records

    def table(self, prefix: Any, kinds: Sequence[type]) -> StateTable:
        """Begin a table of entries whose keys are a pair of `prefix` and another value.

        The state had no such entries yet. `kinds`: NumPy's types, of each of a value's numbers.
        """
        table = self._tables[prefix] = StateTable(prefix, kinds)
        return table

    def drop_table(self, prefix: Any) -> None:
        """Delete a table with all its entries."""
        self._dropped += self._tables.pop(prefix).journals

    def watched_by(self, watch: Callable[[Collection[Any]], None] | None) -> None:
        """Have each commit tell which keys were assigned or deleted."""
        self._watch = watch

    def begin_batch(self, tag: str) -> None:
        """See `DiskState.begin_batch`. There is nothing to do."""

    def fetch(self, keys: Iterable[Any]) -> None:
        """See `DiskState.fetch`. There is nothing to do."""

    def key_pages(self) -> Iterator[Collection[Any]]:
        """All keys."""
        yield list(self)

    def take_warnings(self) -> list[str]:
        """See `DiskState.take_warnings`. There are none."""
        return []

    def close(self) -> None:
        """See `DiskState.close`. There is nothing to do."""

    @property
    def noted(self) -> Collection[Any]:
        """Keys that were assigned or deleted since the last commit, while each of them is noted."""
        return self._changed

    @property
    def size(self) -> tuple[int, int]:
        """The number of keys, and the bytes of its segments."""
        tables = self._tables.values()
        keys = len(self) + sum(map(len, tables))
        return keys, self._segments.bytes + sum(table.bytes for table in tables)

    def _find_changed(self) -> dict[Any, Any]:
        changed, self._changed = self._changed, {}
        return changed

    def _note_by(self, way: type[KeyedState]) -> None:
        """Choose how changes are noticed from now on."""
        if way is _Compared and not set(map(type, self.values())) <= _UNCHANGEABLE:
            way = KeyedState
        object.__setattr__(self, "__class__", way)
        self._before = dict(self) if way is _Compared else {}

    @staticmethod
    def restore(
        journals: Mapping[str, Sequence[bytes]],
        owner: Component | None = None,
        name: str = STATE,
    ) -> KeyedState:
        """The state that is in these journals of a task.

        Args:
            journals: Journal -> what is in it. Those of others are left alone.
            owner: The instance that it is for, to which values may refer.
            name: How its journals begin.
        """
        segments = Segments()
        state = KeyedState(owner=owner, name=name, segments=segments)
        names = segment_journals(journals, name)
        many = of_many(names)
        with made_of({} if owner is None else {INSTANCE: owner}):
            for journal in names:
                clipped = 0.0
                [data] = journals[journal]
                parts: list[tuple[float, Sequence[Any]]] = []
                before = met()
                all_of_it = decode(f"keyed state, journal {journal!r}", data)
                for (groups, deleted), others in own_blocks(journal, all_of_it):
                    is_renamed, before = met() > before, met()
                    if many is not None:
                        take_many(many, journal, groups, deleted)
                    for weight, entries in groups:
                        dict.update(state, entries)
                        if is_renamed:  # it is written anew, under the new names
                            state._changed.update(dict.fromkeys(entries))
                        parts.append((weight, list(entries)))
                    for key in deleted:
                        dict.pop(state, key, None)
                    parts.append((DELETED_BYTES, deleted))
                    clipped += others
                segments.restore(journal, len(data), parts, clipped)
        if many is not None:
            settle(many, state, state._changed)  # they are written anew, as this task's alone
        state._changed = {key: dict.get(state, key, GONE) for key in state._changed}
        return state


def is_of(name: str, journal: str) -> bool:
    """Whether a journal belongs to the keyed state of that name."""
    return journal.partition(".")[0] == name


def segment_journals(journals: Iterable[str], name: str) -> list[str]:
    """The journals of these that hold segments of a keyed state, the oldest first."""
    pairs = [
        (journal.split("."), journal) for journal in journals if journal.startswith(f"{name}.")
    ]
    return [
        journal for _, journal in sorted(((int(p[1]), int(p[2])), journal) for p, journal in pairs)
    ]


def _refuse_lost(key: Any) -> None:
    """Raise StateError if no restart would find what is kept under a key."""
    if has_nan(key):
        raise StateError(f"the key {repr_of(key)} of self.state {NOT_EQUAL_TO_ITSELF}. {NAN_CURE}")
    if not _COPIES.has(key):
        raise StateError(
            f"the key {repr_of(key)} of self.state is equal to itself alone: after a restart it"
            " would not be found. Use plain values as the key, or give its class an __eq__ and a"
            " __hash__"
        )


class _Compared(KeyedState):
    """`KeyedState` while changes are found by comparing: its operators are a dict's own, in C."""

    __slots__ = ()
    __setitem__ = dict.__setitem__  # type: ignore[assignment]
    __delitem__ = dict.__delitem__
    __ior__ = dict.__ior__

    @override
    def _find_changed(self) -> dict[Any, Any]:
        self._changed.clear()  # what was noted in any case
        before = self._before
        changed = {k: value for k, value in self.items() if before.get(k, _MISSING) is not value}
        return changed | {k: GONE for k in before if k not in self}


def take_state(instance: Component, state: MutableMapping[Any, Any], is_new: bool = False) -> None:
    """Put the state where the author's code uses it.

    Args:
        instance: The author's.
        state: What is in the checkpoint.
        is_new: `__init__`, `open` or `prepare` were just called: an empty dict of theirs says the
            same as a state that is new.

    Raises:
        StateError: Something else is there, which would be in no checkpoint.
    """
    assigned = instance.__dict__.get("state", state)
    if assigned is not state and not (is_new and type(assigned) is dict and not assigned):
        raise StateError(
            "self.state was assigned, or filled in __init__, but it is what Fulmen keeps in the"
            " checkpoint: change its items later, as in self.state[key] = value, or give the"
            " field another name"
        )
    instance.__dict__["state"] = state
