"""The fields of a component's instance, which are kept for good, and how they become bytes.

What is made anew with each process, the instance itself and what the engine gave it, is written by
its name: a bound method in a field, or a helper that has its collector, is restored with the ones
of the new process. Pickle alone would write copies of them, to which changes would then be lost.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any, TypeVar

from typing_extensions import override

from fulmen.api.components import Component
from fulmen.errors import StateError

V = TypeVar("V")

WARN_FIELD_BYTES = 5 * 1024 * 1024
_CONTAINERS = (dict, list, set, deque)
_NONE: Mapping[str, Any] = {}

_made = threading.local()


class Elsewhere:
    """Stands for what is in another process, for those who only look at fields."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name}>"

    def __getattr__(self, name: str) -> Elsewhere:
        if name.startswith("__"):
            raise AttributeError(name)
        return Elsewhere(f"{self._name}.{name}")


def part(name: str) -> Any:
    """What has that name in the process that restores. Pickled fields call it."""
    parts: Mapping[str, Any] = getattr(_made, "parts", {})
    return parts.get(name, Elsewhere(name))


@contextmanager
def _made_of(parts: Mapping[str, Any]) -> Iterator[None]:
    _made.parts = parts
    try:
        yield
    finally:
        _made.parts = {}


class _Pickler(pickle.Pickler):
    """Writes parts by their names; is asked about none but objects of classes, to be fast."""

    def __init__(self, file: BytesIO, names: Mapping[int, str]) -> None:
        super().__init__(file, 5)
        self._names = names

    @override
    def reducer_override(self, obj: Any) -> Any:
        name = self._names.get(id(obj))
        return NotImplemented if name is None else (part, (name,))


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
        self._parts = {**injected, "instance": instance}
        self._names = {id(x): name for name, x in self._parts.items()}
        self._transient = {"state", *type(instance).transient}
        self._unpicklable: set[str] = set()
        self._initial: dict[str, bytes] = {}
        self._passing: set[str] = set()
        self._has_been_durable: set[str] = set()
        self._last: bytes | None = None
        self.warnings: list[str] = []
        self._warned_size = False
        given = self._durable() if is_copy else {}
        self._given = {name: self._digest(value) for name, value in given.items()}

    def _durable(self) -> dict[str, Any]:
        return _interned(
            {
                name: value
                for name, value in self._instance.__dict__.items()
                if name not in self._transient
                and name not in self._unpicklable
                and id(value) not in self._names
            }
        )

    def apply(self, record: bytes) -> dict[str, Any]:
        """Put restored fields into the instance, before `open` or `prepare` is called.

        Returns:
            What `settle` needs afterwards.
        """
        with _made_of(self._parts):
            fields, initial, given = pickle.loads(record)
        self._initial = _interned(initial)
        self._last = _mark(record)
        changed = {n for n in given.keys() & self._given.keys() if given[n] != self._given[n]}
        fields = {name: value for name, value in fields.items() if name not in changed}
        self._instance.__dict__.update(fields)
        return {name: (value, self._digest(value)) for name, value in fields.items()}

    def settle(self, restored: Mapping[str, Any] | None) -> None:
        """Decide between restored fields and what `open` or `prepare` has just set.

        A field that these set to the same as the first time keeps its restored value.
        """
        for name, value in self._durable().items():
            digest = self._digest(value)
            if digest is None or value is None:  # a connection, or what will be one
                self._passing.add(name)
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
            data = self._pickled((fields, self._initial, self._given))
        except Exception:  # noqa: BLE001 (an author's __getstate__ may raise anything)
            self._exclude(fields)
            fields = self._durable()
            data = self._pickled((fields, self._initial, self._given))
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

    def _pickled(self, value: Any) -> bytes:
        file = BytesIO()
        _Pickler(file, self._names).dump(value)
        return file.getvalue()

    def _digest(self, value: Any) -> bytes | None:
        try:
            return _mark(self._pickled(value))
        except Exception:  # noqa: BLE001 (an author's __getstate__ may raise anything)
            return None

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
