"""What a task keeps for good: keyed state, the fields of its instance, and how both become bytes.

Each task has some slots in the checkpoint; a slot is a list of records, replayed in their order. A
new record may say from which commit on the older ones are still needed.

Keyed state is a log of changes that is compacted a part at a time: along with the keys that a batch
changed goes a slice of the others, in the order of a list of keys that was taken when the cycle
began. When that list has been written once, every change from before the cycle is superfluous. So a
batch never writes more than in proportion to what it changed (and 1/256 of the keys), and the log
never holds more than two cycles. Rejected: buckets by hash, since Python's hashes differ between
processes, and rewriting everything at once, since that batch would be slow.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from typing_extensions import override

from fulmen.api.components import Component
from fulmen.errors import StateError

V = TypeVar("V")

WARN_FIELD_BYTES = 5 * 1024 * 1024
MOST_RECORDS = 1000
"""More are in a log only if restarts have ended all cycles before their time: then compact it."""
_MISSING = object()
_UNCHANGEABLE = {int, float, str, bytes, bool, type(None)}


class KeyedState(dict[Any, Any]):
    """`self.state` of a component: a dict that knows which keys changed since the last commit.

    A key changes when it is assigned or deleted, not when its value is changed in place.

    Either each assignment is noted, or, while batches have more calls than there are keys, what
    changed is found by comparing with a copy: then an assignment is as fast as a dict's (150
    instead of 330 ns for `state[k] = state.get(k, 0) + 1`). It changes between the two by changing
    its class. A value that could have been changed in place can't be compared.
    """

    __slots__ = ("_before", "_changed", "_cycle", "_is_long", "_position", "_since", "_touch")

    def __init__(
        self, items: Mapping[Any, Any] | None = None, at: int = 0, records: int = 0
    ) -> None:
        """`items` is what was restored from commit `at`, from so many records."""
        super().__init__(items or {})
        self._is_long = records > MOST_RECORDS
        self._before: dict[Any, Any] = {}
        self._changed: set[Any] = set()
        self._touch = self._changed.add
        self._begin_cycle(at)

    def _begin_cycle(self, at: int) -> None:
        self._cycle = list(self)
        self._position = 0
        self._since = at + 1

    def __setitem__(self, key: Any, value: Any, _set: Any = dict.__setitem__) -> None:
        _set(self, key, value)
        self._touch(key)

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self._touch(key)

    @override
    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        if key not in self:
            if default is _MISSING:
                raise KeyError(key)
            return default
        value = self[key]
        del self[key]
        return value

    @override
    def popitem(self) -> tuple[Any, Any]:
        key, value = super().popitem()
        self._touch(key)
        return key, value

    @override
    def clear(self) -> None:
        self._changed.update(self)
        super().clear()

    @override
    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    @override
    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __ior__(self, other: Any) -> KeyedState:  # type: ignore[misc]
        self.update(other)
        return self

    def __reduce__(self) -> Any:
        return dict, (dict(self),)

    def record(self, number: int, calls: int = 0) -> tuple[bytes, int] | None:
        """What commit `number` has to write; None if nothing changed.

        Args:
            number: Of the commit.
            calls: How often the author's code was called since the last one.

        Returns:
            The record, and from which commit on records are still needed.
        """
        changed = self._find_changed()
        few = 8 * len(changed) < len(self)
        self._note_by(_Compared if calls > len(self) and not few else KeyedState)
        if not changed:
            return None
        values = {key: self[key] for key in changed if key in self}
        deleted = [key for key in changed if key not in self]
        end = self._position + max(16, len(changed) // 2, len(self) // 256)
        if self._is_long:
            end, self._is_long = len(self._cycle), False
        for key in self._cycle[self._position : end]:
            if key in self:
                values.setdefault(key, self[key])
        self._position = end
        data = pickle.dumps((values, deleted), 5)
        if end < len(self._cycle):
            return data, 0
        keep_from = min(self._since, number)
        self._begin_cycle(number)
        return data, keep_from

    def _find_changed(self) -> Collection[Any]:
        changed, self._changed = self._changed, set()
        self._touch = self._changed.add
        return changed

    def _note_by(self, way: type[KeyedState]) -> None:
        """How changes are noticed from now on."""
        if way is _Compared and not set(map(type, self.values())) <= _UNCHANGEABLE:
            way = KeyedState
        self.__class__ = way
        self._before = dict(self) if way is _Compared else {}

    @staticmethod
    def restore(records: Iterable[bytes], at: int) -> KeyedState:
        """The state that these records, in their order, say was there at commit `at`."""
        items: dict[Any, Any] = {}
        n = 0
        for n, data in enumerate(records, 1):  # noqa: B007
            values, deleted = pickle.loads(data)
            items.update(values)
            for key in deleted:
                items.pop(key, None)
        return KeyedState(items, at, n)


class _Compared(KeyedState):
    """The same while changes are found by comparing: a dict's own methods, which are in C."""

    __slots__ = ()
    __setitem__ = dict.__setitem__  # type: ignore[assignment]
    __delitem__ = dict.__delitem__
    __ior__ = dict.__ior__
    pop = dict.pop  # type: ignore[assignment]
    popitem = dict.popitem
    clear = dict.clear
    setdefault = dict.setdefault  # type: ignore[assignment]
    update = dict.update

    @override
    def _find_changed(self) -> Collection[Any]:
        before = self._before
        changed = [k for k, value in self.items() if before.get(k, _MISSING) is not value]
        return changed + [k for k in before if k not in self]


def take_state(instance: Component, state: KeyedState, is_new: bool = False) -> None:
    """Put the state where the author's code uses it.

    Args:
        instance: The author's.
        state: What is in the checkpoint.
        is_new: `__init__`, `open` or `prepare` were just called: an empty dict of theirs says the
            same as a state that is new.

    Raises:
        StateError: Something else is there, which would be in no checkpoint.
    """
    found = instance.__dict__.get("state", state)
    if found is not state and not (is_new and type(found) is dict and not found):
        raise StateError(
            "self.state was assigned, or filled in __init__, but it is what Fulmen keeps in the"
            " checkpoint: change its items later, as in self.state[key] = value, or give the"
            " field another name"
        )
    instance.__dict__["state"] = state


class Fields:
    """The durable fields of one instance."""

    def __init__(
        self, instance: Component, injected: Iterable[Any] = (), is_copy: bool = False
    ) -> None:
        """Look at a new instance.

        Args:
            instance: Before `open` or `prepare`.
            injected: What the engine gave it, such as its collector. Never durable.
            is_copy: It is a copy of an object in the topology, and its fields were set there.
        """
        self._instance = instance
        self._injected = [id(x) for x in injected]
        self._keep_alive = list(injected)
        self._transient = {"state", *type(instance).transient}
        self._unpicklable: set[str] = set()
        self._initial: dict[str, bytes] = {}
        self._passing: set[str] = set()
        self._has_been_durable: set[str] = set()
        self._last: bytes | None = None
        self.warnings: list[str] = []
        self._warned_size = False
        given = self._durable() if is_copy else {}
        self._given = {name: _digest(value) for name, value in given.items()}

    def _durable(self) -> dict[str, Any]:
        return _interned(
            {
                name: value
                for name, value in self._instance.__dict__.items()
                if name not in self._transient
                and name not in self._unpicklable
                and id(value) not in self._injected
            }
        )

    def apply(self, record: bytes) -> dict[str, Any]:
        """Put restored fields into the instance, before `open` or `prepare` is called.

        Returns:
            What `settle` needs afterwards.
        """
        fields, initial, given = pickle.loads(record)
        self._initial = _interned(initial)
        self._last = _mark(record)
        changed = {n for n in given.keys() & self._given.keys() if given[n] != self._given[n]}
        fields = {name: value for name, value in fields.items() if name not in changed}
        self._instance.__dict__.update(fields)
        return {name: (value, _digest(value)) for name, value in fields.items()}

    def settle(self, restored: Mapping[str, Any] | None) -> None:
        """Decide between restored fields and what `open` or `prepare` has just set.

        A field that these set to the same as the first time keeps its restored value.
        """
        for name, value in self._durable().items():
            digest = _digest(value)
            if digest is None or value is None:  # a connection, or what will be one
                self._passing.add(name)
            else:
                self._has_been_durable.add(name)
            if restored and name in restored:
                old, old_digest = restored[name]
                if (
                    digest != old_digest
                    and digest is not None
                    and digest == self._initial.get(name)
                ):
                    self._instance.__dict__[name] = old
                    if old is not None:
                        self._has_been_durable.add(name)
                    continue
            if digest is not None and (
                not restored or name not in restored or digest != restored[name][1]
            ):
                self._initial[name] = digest

    def record(self) -> bytes | None:
        """The fields' bytes, or None if they are the same as last time.

        Raises:
            StateError: A field that is in the checkpoint can't be pickled any more.
        """
        fields = self._durable()
        if not fields and self._last is None:
            return None
        try:
            data = pickle.dumps((fields, self._initial, self._given), 5)
        except Exception:  # noqa: BLE001 (an author's __getstate__ may raise anything)
            self._exclude(fields)
            fields = self._durable()
            data = pickle.dumps((fields, self._initial, self._given), 5)
        mark = _mark(data)
        if mark == self._last:
            return None
        self._last = mark
        self._has_been_durable |= {n for n, value in fields.items() if value is not None}
        if len(data) > WARN_FIELD_BYTES and not self._warned_size:
            self._warned_size = True
            self.warnings.append(
                f"its fields take {len(data) / 1e6:.1f} MB, and all of that is written whenever one"
                " of them changes. Keep what grows in self.state: of that, only what changed is"
                " written"
            )
        return data

    def _exclude(self, fields: Mapping[str, Any]) -> None:
        for name, value in fields.items():
            try:
                pickle.dumps(value, 5)
            except Exception as e:
                if name in self._has_been_durable:
                    raise StateError(
                        f"field {name!r} can't be pickled any more ({e}): what it held is in the"
                        " checkpoint, and would be lost with its process. Keep only values in it"
                        " that can be pickled, or name it in `transient` if it may be lost"
                    ) from e
                self._unpicklable.add(name)
                if name not in self._passing:
                    self.warnings.append(
                        f"field {name!r} can't be pickled ({e}) and is not set before the first"
                        " tuple, so it would be lost with its process. Set it in prepare() or"
                        " open(), keep what it is made from in a field that can be pickled, or name"
                        " it in `transient`"
                    )


def _interned(by_name: Mapping[str, V]) -> dict[str, V]:
    """The same, in which equal names are one object: pickle writes that otherwise than two."""
    return {sys.intern(str(name)): value for name, value in by_name.items()}


def _mark(data: bytes) -> bytes:
    """Equal for equal bytes only: what is thought to be unchanged is not written."""
    return hashlib.blake2b(data, digest_size=16).digest()


def _digest(value: Any) -> bytes | None:
    try:
        return _mark(pickle.dumps(value, 5))
    except Exception:  # noqa: BLE001 (an author's __getstate__ may raise anything)
        return None
