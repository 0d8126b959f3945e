"""`self.state` of a task with `state: {backend: disk}`: a mapping whose entries are on disk.

What a batch reads or changes is in dicts until it is committed. Then, when the next batch has begun
on top of it, it is one write to the store of this process. So nothing is ever taken back: whatever
comes to nothing is forgotten with this object.

A value lives for one batch: the next one reads it again. So a value that is changed in place and
not assigned is as before in the next batch, always, and not only after a restart. Numbers and short
texts, which nobody can change in place, stay at hand.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    ItemsView,
    Iterable,
    Iterator,
    MutableMapping,
    ValuesView,
)
from itertools import islice
from typing import Any

from typing_extensions import override

from fulmen.api.components import Component
from fulmen.engine.keyed.entries_of_many import NOTHING
from fulmen.engine.keyed.stores.key_bytes import bytes_of, key_of, prefix_of
from fulmen.engine.state.entries.disk_entries import DiskEntries
from fulmen.engine.state.entries.disk_records import EntryRecord
from fulmen.engine.state.pickling import INSTANCE, Dumper, made_of
from fulmen.engine.state.values.renamed_classes import loads, met
from fulmen.errors import PASSED_ON, NotReadable, StateError, repr_of, text_of

_ABSENT: Any = object()
_LOOKED_AT = 32
"""Of so many values that a batch has read it is seen whether they were changed in place."""
_PAGE = 5000
"""So many keys are read at once."""
_NUMBERS, _TEXTS = frozenset({int, float, bool}), frozenset({str, bytes})
_UNCHANGEABLE = _NUMBERS | _TEXTS | {type(None)}
_KEPT = 50_000
"""Of so many keys the values stay at hand, about, if they are numbers or as short as this:"""
_SHORT = 100


class DiskState(MutableMapping[Any, Any]):
    """A mapping that knows which keys changed since the last commit, as `KeyedState` does."""

    __slots__ = (
        "_changed",
        "_changed_by",
        "_dumper",
        "_has_warned",
        "_kept",
        "_owner",
        "_read",
        "_values",
        "_warnings",
        "_watch",
        "entries",
    )

    def __init__(self, entries: DiskEntries, owner: Component | None = None) -> None:
        """`entries` are those of the checkpoint; values may refer to `owner`."""
        self.entries = entries
        self._owner = {} if owner is None else {INSTANCE: owner}
        self._dumper = Dumper({id(one): name for name, one in self._owner.items()})
        self._values: dict[Any, Any] = {}  # of this batch, as it has them now
        self._kept: dict[Any, Any] = {}  # of batches before, and of no key that has another value
        self._changed: dict[Any, None] = {}
        self._changed_by: dict[int, tuple[dict[Any, list[Any]], int]] = {}
        """By so many of their first parts, and how many of them."""
        self._watch: Callable[[Collection[Any]], None] | None = None
        self._read: dict[Any, bytes] = {}  # the first few values that may be changed in place
        self._warnings: list[str] = []
        self._has_warned = False
        for key, value in entries.settled:
            self._values[key] = _ABSENT if value is NOTHING else value
            self._changed[key] = None

    # A mapping

    def __getitem__(self, key: Any) -> Any:
        value = self.get(key, _ABSENT)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    @override
    def get(self, key: Any, default: Any = None) -> Any:
        value = self._values.get(key, self)
        if value is self:
            value = self._values[key] = self._fetched(key)
        return default if value is _ABSENT else value

    def fetch(self, keys: Iterable[Any]) -> None:
        """Have the values of these keys at hand: at once it takes a third of the time."""
        values, kept = self._values, self._kept
        missing = []
        for key in dict.fromkeys(keys):
            if key not in values:
                if key in kept:
                    values[key] = kept[key]
                else:
                    missing.append(key)
        for key, record in self.entries.get_many(missing).items():
            self._values[key] = self._read_from(key, record)

    def key_pages(self) -> Iterator[Collection[Any]]:
        """All keys that are on disk, some at a time. Between two of these, entries may change."""
        last = b""
        while kbs := [kb for kb, _ in islice(self.entries.scan(last), _PAGE)]:
            yield list(map(key_of, kbs))
            last = kbs[-1]

    def _fetched(self, key: Any) -> Any:
        if key in self._kept:
            return self._kept[key]
        return self._read_from(key, self.entries.get(key))

    def _read_from(self, key: Any, record: EntryRecord | None) -> Any:
        if record is None or not record.data:
            return _ABSENT
        before = met()
        value = self._loaded(record)
        if met() != before:  # its class has another name by now, under which it is written anew
            self._changed[key] = None
        if len(self._read) < _LOOKED_AT and type(value) not in _UNCHANGEABLE:
            self._read[key] = record.data
        return value

    def _loaded(self, record: EntryRecord) -> Any:
        if not self._owner:
            return loads(record.data)
        with made_of(self._owner):
            return loads(record.data)

    @override
    def __contains__(self, key: object) -> bool:
        return self.get(key, _ABSENT) is not _ABSENT

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[key] = value
        self._changed[key] = None

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyError(key)
        self._values[key] = _ABSENT
        self._changed[key] = None

    def __len__(self) -> int:
        known = self.entries.get_many(list(self._changed))
        before = sum(1 for record in known.values() if record is not None and record.data)
        now = sum(1 for key in self._changed if self._values[key] is not _ABSENT)
        return self.entries.count - before + now

    def __bool__(self) -> bool:
        return bool(self.entries.count and not self._changed) or len(self) > 0

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._scan())

    @override
    def items(self) -> ItemsView[Any, Any]:
        return _Items(self)

    @override
    def values(self) -> ValuesView[Any]:
        return _Values(self)

    def items_of(self, *parts: Any, after: Any = None) -> Iterator[tuple[Any, Any]]:
        """All entries whose keys are tuples that begin with these parts; none of them stays.

        They come in the order of `key_bytes`. Those that were given may change meanwhile.

        Args:
            parts: The parts.
            after: Begin with the keys that come after this one. None: with the first.
        """
        begin = b"" if after is None else bytes_of(after)
        some = ((bytes_of(key), key) for key in self._changed_of(parts))
        changed = sorted((kb, key) for kb, key in some if kb > begin)
        there, at = {kb for kb, _ in changed}, 0
        for kb, record in self.entries.scan(begin, prefix_of(parts)):
            while at < len(changed) and changed[at][0] < kb:
                yield from self._changed_item(changed[at][1])
                at += 1
            if kb not in there:
                key = key_of(kb)
                value = self._values.get(key, self)
                if value is not _ABSENT:
                    yield key, self._loaded(record) if value is self else value
        for _, key in changed[at:]:
            yield from self._changed_item(key)

    def _changed_item(self, key: Any) -> Iterator[tuple[Any, Any]]:
        if (value := self._values[key]) is not _ABSENT:
            yield key, value

    def _changed_of(self, parts: tuple[Any, ...]) -> Collection[Any]:
        """The keys that begin so, and were assigned or deleted since the last commit."""
        known, seen = self._changed_by.get(len(parts), ({}, 0))
        for key in islice(reversed(self._changed), len(self._changed) - seen):
            if isinstance(key, tuple):
                known.setdefault(key[: len(parts)], []).append(key)
        self._changed_by[len(parts)] = known, len(self._changed)
        return known.get(parts, ())

    def keys_of(self, *parts: Any) -> Iterator[Any]:
        """The keys of `items_of` as of the last commit: changes of this batch are not looked at."""
        return (key_of(kb) for kb, _ in self.entries.scan(of=prefix_of(parts)))

    def forget(self, keys: Iterable[Any]) -> None:
        """Delete keys, whether they are there or not: nothing is read for it."""
        gone = dict.fromkeys(keys, _ABSENT)
        self._values.update(gone)
        self._changed.update(dict.fromkeys(gone))

    def _scan(self) -> Iterator[tuple[Any, Any]]:
        """All entries, those of the disk in the order of `key_bytes`; none of them stays."""
        changed = dict.fromkeys(self._changed)
        for kb, record in self.entries.scan():
            key = key_of(kb)
            if key not in changed:
                value = self._values.get(key, self)
                yield key, self._loaded(record) if value is self else value
        for key in changed:
            if (value := self._values[key]) is not _ABSENT:
                yield key, value

    def __reduce__(self) -> Any:
        return dict, (dict(self.items()),)

    def __repr__(self) -> str:
        return f"<self.state with {len(self):,} keys on disk>"

    # Commits

    @property
    def noted(self) -> Collection[Any]:
        """Keys that were assigned or deleted since the last commit."""
        return self._changed

    def begin_batch(self, tag: str) -> None:
        """What was committed last is durable: it is written to the store.

        Args:
            tag: Of the attempt that begins.

        Raises:
            ServiceUnavailable: The disk refuses it.
        """
        self.entries.confirm()
        self.entries.tag = tag

    def watched_by(self, watch: Callable[[Collection[Any]], None] | None) -> None:
        """See `KeyedState.watched_by`."""
        self._watch = watch

    def updates(self, number: int, calls: int = 0) -> dict[str, tuple[bytes | None, int]]:  # noqa: ARG002
        """The records for commit `number`, as those of `KeyedState`.

        Raises:
            StateError: A value can't be pickled, or a key can't be kept on disk.
            ServiceUnavailable: The disk does not answer, or did not answer `get`.
        """
        self._look_for_lost()
        changed = self._all_pickled()
        if changed and self._watch is not None:
            self._watch(changed)
        records = self.entries.updates(number, changed)
        self._keep_some()
        self._values, self._changed, self._read, self._changed_by = {}, {}, {}, {}
        return records

    def _keep_some(self) -> None:
        """Have small values of this batch at hand for the next ones."""
        small = {
            key: value
            for key, value in self._values.items()
            if type(value) in _NUMBERS or (type(value) in _TEXTS and len(value) <= _SHORT)
        }
        kept = self._kept
        for key in self._changed:
            if key not in small:
                kept.pop(key, None)
        if len(kept) + len(small) > _KEPT:
            kept.clear()  # what is asked for soon is read again
        if len(small) <= _KEPT:
            kept.update(small)

    @property
    def size(self) -> tuple[int, int]:
        """See `KeyedState.size`; as of the last commit."""
        return self.entries.count, self.entries.bytes

    def _all_pickled(self) -> dict[Any, bytes | None]:
        values = [self._values[key] for key in self._changed]
        if _UNCHANGEABLE.issuperset(map(type, values)):
            return dict(zip(self._changed, self._dumper.dumps_all(values), strict=True))
        return {key: self._pickled(key) for key in self._changed}

    def _pickled(self, key: Any) -> bytes | None:
        value = self._values[key]
        if value is _ABSENT:
            return None
        try:
            return self._dumper.dumps(value)
        except PASSED_ON:
            raise
        except NotReadable as e:
            raise NotReadable(f"self.state[{repr_of(key)}] can't be kept ({text_of(e)})") from e
        except BaseException as e:
            raise StateError(f"self.state[{repr_of(key)}] can't be pickled ({text_of(e)})") from e

    def _look_for_lost(self) -> None:
        """Warn once of a value that was changed in place and not assigned."""
        if self._has_warned:
            return
        for key, data in self._read.items():
            if key in self._changed:
                continue
            try:
                is_same = self._dumper.dumps(self._values[key]) == data
            except PASSED_ON:
                raise
            except BaseException:  # noqa: BLE001 (it was changed to what can't be pickled)
                is_same = False
            if not is_same and self._dumper.dumps(loads(data)) == data:
                self._has_warned = True
                self._warnings.append(
                    f"self.state[{repr_of(key)}] was changed in place, and not assigned: on disk"
                    " such a change is gone with its batch. Assign the value when it has changed,"
                    " as in self.state[key] = value"
                )
                return

    def take_warnings(self) -> list[str]:
        """Take the warnings about values; each is given once."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def close(self) -> None:
        """Let go of the store, which stays for the next process."""
        self.entries.close()


class _Items(ItemsView[Any, Any]):
    _mapping: DiskState

    @override
    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping._scan()  # noqa: SLF001


class _Values(ValuesView[Any]):
    _mapping: DiskState

    @override
    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping._scan())  # noqa: SLF001
