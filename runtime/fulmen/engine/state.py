"""`self.state` of a task, which is kept for good, and how it becomes bytes.

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

import pickle
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from fulmen.api.components import Component
from fulmen.engine.pickling import INSTANCE, dumps, made_of
from fulmen.errors import StateError, repr_of, text_of

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

    __slots__ = (
        "_before",
        "_changed",
        "_cycle",
        "_is_long",
        "_names",
        "_position",
        "_since",
        "_touch",
    )

    def __init__(
        self,
        items: Mapping[Any, Any] | None = None,
        at: int = 0,
        records: int = 0,
        owner: Component | None = None,
    ) -> None:
        """`items` is what was restored from commit `at`, from so many records."""
        super().__init__(items or {})
        self._names = {} if owner is None else {id(owner): INSTANCE}
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
        data = self._pickled(values, deleted)
        if end < len(self._cycle):
            return data, 0
        keep_from = min(self._since, number)
        self._begin_cycle(number)
        return data, keep_from

    def _pickled(self, values: Mapping[Any, Any], deleted: Sequence[Any]) -> bytes:
        try:
            return dumps((values, deleted), self._names)
        except Exception:
            for key, value in values.items():
                try:
                    dumps((key, value), self._names)
                except Exception as e:
                    raise StateError(
                        f"self.state[{repr_of(key)}] can't be pickled ({text_of(e)})"
                    ) from e
            raise

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
    def restore(records: Iterable[bytes], at: int, owner: Component | None = None) -> KeyedState:
        """The state that these records, in their order, say was there at commit `at`.

        Args:
            records: The bytes.
            at: A commit.
            owner: The instance that it is for, to which values may refer.
        """
        items: dict[Any, Any] = {}
        n = 0
        with made_of({} if owner is None else {INSTANCE: owner}):
            for n, data in enumerate(records, 1):  # noqa: B007
                values, deleted = pickle.loads(data)
                items.update(values)
                for key in deleted:
                    items.pop(key, None)
        return KeyedState(items, at, n, owner)


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
