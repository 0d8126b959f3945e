"""The fields of a component's instance, which are kept for good, and how they become bytes."""

from __future__ import annotations

import inspect
import sys
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from fulmen import secrets
from fulmen.api.components import Component
from fulmen.api.signals import Metric
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.state.journals import FIELDS
from fulmen.engine.state.pickling import INSTANCE, digest, dumps, made_of, mark
from fulmen.engine.state.values.renamed_classes import (
    are_any_renamed,
    is_of_renamed,
    loads,
)
from fulmen.errors import PASSED_ON, NotReadable, StateError

V = TypeVar("V")

WARN_FIELD_BYTES = 5 * 1024 * 1024
_CONTAINERS = (dict, list, set, deque)
_NONE: Mapping[str, Any] = {}


def record_of(journals: Journals) -> bytes | None:
    """The record of an instance's fields, for `Fields.apply`; None: there is none."""
    records = journals.get(FIELDS)
    return records[-1] if records else None


def fields_of(journals: Journals) -> dict[str, Any]:
    """The fields that the checkpoint has, for those who only look."""
    record = record_of(journals)
    fields: dict[str, Any] = loads(record)[0] if record else {}
    return fields


class Fields:
    """The durable fields of one instance."""

    def __init__(
        self, instance: Component, injected: Mapping[str, Any] = _NONE, is_copy: bool = False
    ) -> None:
        """Look at a new instance.

        Args:
            instance: Before `open` or `prepare`.
            injected: What the engine gave it, such as its collector, by name. Never durable.
            is_copy: It is a copy of an object in the topology, and its fields were set there.
        """
        self._instance = instance
        self._parts = {**injected, INSTANCE: instance}
        self._names = {id(x): name for name, x in self._parts.items()}
        self._is_left_out = _left_out(type(instance))
        self._unpicklable: dict[str, Any] = {}  # that field's value: another one is tried again
        self._initial: dict[str, bytes] = {}
        self._passing: set[str] = set()
        self._empty: set[str] = set()  # None to begin with: of a connection, or of data
        self._has_been_durable: set[str] = set()
        self._secret: dict[str, bytes] = {}  # what `open` or `prepare` makes of the environment
        self._last: bytes | None = None
        self.warnings: list[str] = []
        self._warned_size = False
        given = self._durable() if is_copy else {}
        self._given = {name: self._digest(value) for name, value in given.items()}

    def _durable(self) -> dict[str, Any]:
        left_out = self._unpicklable
        return _interned(
            {
                name: value
                for name, value in self._instance.__dict__.items()
                if not self._is_left_out(name)
                and id(value) not in self._names
                and not isinstance(value, Metric)
                and not (name in left_out and left_out[name] is value)
                and not (name in self._secret and self._digest(value) == self._secret[name])
            }
        )

    def apply(self, record: bytes) -> dict[str, Any]:
        """Put restored fields into the instance, before `open` or `prepare` is called.

        Returns:
            What `settle` needs afterwards.
        """
        with made_of(self._parts):
            fields, initial, given = loads(record)
        self._initial = _interned(initial)
        self._last = mark(record)
        changed = {n for n in given.keys() & self._given.keys() if given[n] != self._given[n]}
        changed = {n for n in changed if not self._is_of_renamed(fields.get(n))}
        fields = {
            name: value
            for name, value in fields.items()  # of another version of the class, perhaps
            if name not in changed and not self._is_left_out(name)
        }
        self._instance.__dict__.update(fields)
        return {name: (value, self._digest(value)) for name, value in fields.items()}

    def settle(self, restored: Mapping[str, Any] | None) -> None:
        """Decide between restored fields and what `open` or `prepare` has just set.

        A field that these set to the same as the first time keeps its restored value. A field with
        a value of the environment in it is not durable as long as it is what they have made of it.
        """
        for name, value in self._durable().items():
            now = self._digest(value)
            is_restored = restored and name in restored and restored[name][1] == now
            if now is not None and not is_restored and self._is_secret(value):
                self._secret[name] = now
            if now is None or value is None:  # a connection, or what will be one
                self._passing.add(name)
                if value is None:
                    self._empty.add(name)
                if self._loses(value):
                    self.warnings.append(
                        f"field {name!r} is a {type(value).__name__} that can't be pickled, so what"
                        " is put into it would be lost with its process. Use one that can, such as"
                        " defaultdict(int) for defaultdict(lambda: 0), or self.state; or name it in"
                        " `transient` if it may be lost"
                    )
            else:
                self._has_been_durable.add(name)
            if restored and name in restored:
                old, old_digest = restored[name]
                is_first = now == self._initial.get(name) or self._is_of_renamed(value)
                if now != old_digest and now is not None and is_first:
                    self._instance.__dict__[name] = old
                    self._initial[name] = now
                    if old is not None:
                        self._has_been_durable.add(name)
                    continue
            if now is not None and (
                not restored or name not in restored or now != restored[name][1]
            ):
                self._initial[name] = now

    def record(self) -> bytes | None:
        """The fields' bytes, or None if they are the same as last time.

        Raises:
            StateError: A field that is in the checkpoint can't be pickled any more.
        """
        fields = self._durable()
        if not fields and self._last is None:
            return None
        try:
            data = self._pickled((fields, self._digests(fields), self._given))
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (an author's __getstate__ may raise anything)
            self._exclude(fields)
            fields = self._durable()
            data = self._pickled((fields, self._digests(fields), self._given))
        now = mark(data)
        if now == self._last:
            return None
        self._last = now
        self._has_been_durable |= {n for n, value in fields.items() if value is not None}
        if len(data) > WARN_FIELD_BYTES and not self._warned_size:
            self._warned_size = True
            self.warnings.append(
                f"its fields take {len(data) / 1e6:.1f} MB, and all of that is written whenever one"
                " of them changes. Keep what grows in self.state: of that, only what changed is"
                " written"
            )
        return data

    def digests(self) -> dict[str, bytes | None]:
        """A digest of each durable field, which shows whether it has changed."""
        return {name: self._digest(value) for name, value in self._durable().items()}

    def _is_of_renamed(self, value: Any) -> bool:
        """Whether its class had another name: then nobody knows if it is what it was at first."""
        return are_any_renamed() and is_of_renamed(self._pickled(value))

    def _is_secret(self, value: Any) -> bool:
        return secrets.is_anything_secret() and secrets.are_in(self._pickled(value))

    def _digests(self, fields: Mapping[str, Any]) -> dict[str, bytes]:
        """The digests to keep: none of a secret that is not kept, since it could be guessed."""
        return {n: d for n, d in self._initial.items() if n in fields or n not in self._secret}

    def _pickled(self, value: Any) -> bytes:
        return dumps(value, self._names, self._parts)

    def _digest(self, value: Any) -> bytes | None:
        return digest(value, self._names, self._parts)

    def _loses(self, value: Any) -> bool:
        """Whether it is a container that can't be pickled though all that is in it can."""
        if not isinstance(value, _CONTAINERS):
            return False
        inside = list(value.items()) if isinstance(value, dict) else list(value)
        return self._digest(inside) is not None

    def _exclude(self, fields: Mapping[str, Any]) -> None:
        for name, value in fields.items():
            try:
                self._pickled(value)
            except PASSED_ON:
                raise
            except BaseException as e:
                if name in self._has_been_durable:
                    if isinstance(e, NotReadable):
                        raise NotReadable(
                            f"field {name!r} can't be kept ({e}; or name the field in `transient`"
                            " if it may be lost)"
                        ) from e
                    raise StateError(
                        f"field {name!r} can't be pickled any more ({e}): what it held is in the"
                        " checkpoint, and would be lost with its process. Keep only values in it"
                        " that can be pickled, or name it in `transient` if it may be lost"
                    ) from e
                is_data = isinstance(e, NotReadable) and name in self._empty
                is_told = name in self._unpicklable or (name in self._passing and not is_data)
                self._unpicklable[name] = value
                if not is_told:
                    self.warnings.append(
                        f"field {name!r} can't be pickled ({e}) and is not set before the first"
                        " tuple, so it would be lost with its process. Set it in prepare() or"
                        " open(), keep what it is made from in a field that can be pickled, or name"
                        " it in `transient`"
                    )


@lru_cache(maxsize=1024)
def _left_out(cls: type[Component]) -> Callable[[str], bool]:
    """Whether a field is not kept, by what its class declares."""
    transient = {"state", *cls.transient}
    ours = [base for base in cls.__mro__ if base.__module__.startswith("fulmen.")]
    # of Fulmen's own classes alone: an author may give a field of his that name
    declared = next((vars(base)["durable"] for base in ours if "durable" in vars(base)), None)
    if declared is None:
        return transient.__contains__
    durable = {*declared} - transient
    if cls in ours:
        return lambda name: name not in durable
    # an author has derived from it: his own fields are kept as those of any class of his
    code = [f.__code__ for base in ours for f in vars(base).values() if inspect.isfunction(f)]
    left_out = transient.union(*(one.co_names for one in code)) - durable
    return left_out.__contains__


def _interned(by_name: Mapping[str, V]) -> dict[str, V]:
    """Intern the names: pickle writes two equal names otherwise than one object."""
    return {sys.intern(str(name)): value for name, value in by_name.items()}
