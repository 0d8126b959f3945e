"""How what an author's code keeps becomes bytes, and digests by which it is compared.

What is made anew with each process, an instance itself and what the engine gave it, is written by
its name: a bound method in a field, or a helper that has its collector, is restored with the ones
of the new process. Pickle alone would write copies of them, to which changes would then be lost.
A text of `config` with a value of the environment in it is written as what the file has. A metric
in a helper is written as what it is called, and what it has counted is not.
"""

from __future__ import annotations

import copyreg
import hashlib
import pickle
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from itertools import repeat
from typing import Any
from uuid import UUID, SafeUUID  # noqa: TID251 (the type alone)

from typing_extensions import override

from fulmen.api.signals import Family, Metric
from fulmen.engine.tuples.salvage import deeply
from fulmen.errors import PASSED_ON, NotReadable, error_text
from fulmen.secrets import FromEnvironment, restored

CONTEXT = "context"
NO_PARTS: Mapping[str, Any] = {}
NO_TOKENS: Mapping[int, int] = {}
INSTANCE = "instance"
"""The name by which an author's instance is written. It is in checkpoints."""

IDS = "message ids"
"""The name of the part that has a spout's message ids."""

_made = threading.local()


class Elsewhere:
    """Stands for what is in another process, for those who only look.

    Where it is written again, it is written by its name, as it was.
    """

    def __init__(self, name: str, *reduced: Any) -> None:
        self._name = name
        self._reduced = reduced

    def __reduce__(self) -> Any:
        if not self._reduced:
            raise pickle.PicklingError(f"{self!r} is in another process")
        return self._reduced

    def __repr__(self) -> str:
        return f"<{self._name}>"

    def __getattr__(self, name: str) -> Elsewhere:
        if name.startswith("__"):
            raise AttributeError(name)
        return Elsewhere(f"{self._name}.{name}")


def part(name: str) -> Any:
    """The part of that name in the process that restores. Pickled bytes call it."""
    parts: Mapping[str, Any] = getattr(_made, "parts", {})
    return parts[name] if name in parts else Elsewhere(name, part, (name,))


def metric(family: Family, labels: tuple[str, ...]) -> Any:
    """A metric in the process that restores. What was pickled calls it."""
    context = part(CONTEXT)
    if isinstance(context, Elsewhere):
        return Elsewhere(f"{family.kind} {family.name}", metric, (family, labels))
    return context.signals.again(family, labels)


def message_id(token: int, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """A message id that is one object in all that is restored. What was pickled calls it."""
    ids = part(IDS)
    return make(*arguments) if isinstance(ids, Elsewhere) else ids.one(token, make, arguments)


@contextmanager
def made_of(parts: Mapping[str, Any]) -> Iterator[None]:
    """Have what is unpickled in this thread refer to these parts, by their names."""
    _made.parts = parts
    try:
        yield
    finally:
        _made.parts = {}


Shape = tuple[type, int, int]
_proven: set[Shape] = set()
"""Kinds of objects that were read again in this process. Of a class and a number of attributes."""


@contextmanager
def noting(shapes: set[Shape]) -> Iterator[None]:
    """Have the shapes of what `dumps` writes in this thread noted."""
    _made.noted = shapes
    try:
        yield
    finally:
        _made.noted = None


def _shape(obj: Any) -> Shape:
    """The marks by which an object's readability can be told quickly."""
    arguments = len(obj.args) if isinstance(obj, BaseException) else 0
    return type(obj), len(getattr(obj, "__dict__", ())), arguments


_USUAL = {kind: (kind, 0, 0) for kind in (UUID, Decimal, datetime, date, time, timedelta)}
"""The shapes of usual values that are objects: one look instead of a question for each part."""


class _StatePickler(pickle.Pickler):
    """A pickler that is asked about no objects but those of classes, to be fast.

    Attributes:
        shapes: Those of the objects among them.
    """

    def __init__(
        self, file: BytesIO, names: Mapping[int, str], tokens: Mapping[int, int] = NO_TOKENS
    ) -> None:
        super().__init__(file, 5)
        self._names = names
        self._tokens = tokens
        self.shapes: set[Shape] = set()

    @override
    def reducer_override(self, obj: Any) -> Any:
        if (shape := _USUAL.get(type(obj))) is not None:
            self.shapes.add(shape)
            if self._tokens and (token := self._tokens.get(id(obj))) is not None:
                return _with_token(obj, token)
            return _reduced(obj) if type(obj) is UUID else NotImplemented
        if isinstance(obj, type):
            return NotImplemented
        if isinstance(obj, FromEnvironment):
            return restored, (obj.template,)
        name = self._names.get(id(obj))
        if name is not None:
            return part, (name,)
        if isinstance(obj, Metric):
            return metric, obj.series
        self.shapes.add(_shape(obj))
        if self._tokens and (token := self._tokens.get(id(obj))) is not None:
            return _with_token(obj, token)
        return NotImplemented


def _reduced(obj: Any) -> Any:
    """What an object is made of again."""
    own = copyreg.dispatch_table.get(type(obj))
    if own is not None:
        return own(obj)
    if type(obj) is UUID and obj.is_safe is SafeUUID.unknown:
        return UUID, (None, None, None, None, obj.int)  # its own way takes four times as long
    return obj.__reduce_ex__(5)


def _with_token(obj: Any, token: int) -> Any:
    reduced = _reduced(obj)
    if isinstance(reduced, str):  # the name of something global
        return NotImplemented
    make, arguments, *rest = reduced
    return message_id, (token, make, arguments), *rest


class _Comparer(_StatePickler):
    """Writes equal sets as equal bytes: their order depends on the process and on their past."""

    @override
    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, set | frozenset):
            return None
        kind, own = type(obj), getattr(obj, "__dict__", None)
        elements = sorted(map(self._element, obj))
        return kind.__module__, kind.__qualname__, own, elements

    def _element(self, element: Any) -> bytes:
        data, shapes = _pickled(_Comparer, element, self._names)
        self.shapes |= shapes
        return data


def _pickled(
    kind: type[_StatePickler],
    value: Any,
    names: Mapping[int, str],
    tokens: Mapping[int, int] = NO_TOKENS,
) -> tuple[bytes, set[Shape]]:
    def dump() -> tuple[bytes, set[Shape]]:
        file = BytesIO()
        pickler = kind(file, names, tokens)
        pickler.dump(value)
        return file.getvalue(), pickler.shapes

    return deeply(dump)


def dumps(value: Any, names: Mapping[int, str], parts: Mapping[str, Any] = NO_PARTS) -> bytes:
    """The bytes of a value.

    They are read again once if there is an object in them as no value of before had: of another
    class, or with another number of attributes. What can't be read would stop the topology when it
    is restored, perhaps weeks later.

    Raises:
        NotReadable: It can't be unpickled again.
    """
    tokens = parts[IDS].tokens if IDS in parts else NO_TOKENS
    data, shapes = _pickled(_StatePickler, value, names, tokens)
    _look_at(shapes, data, parts)
    return data


_PLAIN = frozenset({int, float, str, bytes, bool, type(None)})
"""Types of values without parts."""
_ALIKE = frozenset({int, str, bytes})
"""Those of which two that are equal have the same bytes; `0.0` and `-0.0` have not."""


class Dumper:
    """Calls `dumps` for many values, with one pickler for all: a third of the time of small ones.

    Each value is written as if it were alone.
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        """Arguments as for `dumps`."""
        self._names = names
        self._renew()

    def _renew(self) -> None:
        self._file = BytesIO()
        self._pickler = _StatePickler(self._file, self._names)

    def dumps_all(self, values: Collection[Any]) -> list[bytes]:
        """The bytes of each value. Raises what `dumps` does."""
        kinds = set(map(type, values))
        if len(kinds) == 1 and not _ALIKE.isdisjoint(kinds):
            different = set(values)
            if len(different) * 2 < len(values):  # such as counts: each of them once
                known = {value: pickle.dumps(value, 5) for value in different}
                return list(map(known.__getitem__, values))
        if kinds <= _PLAIN:
            return list(map(pickle.dumps, values, repeat(5)))
        return list(map(self.dumps, values))

    def dumps(self, value: Any) -> bytes:
        """The bytes of a value. Raises what `dumps` does."""
        if type(value) in _PLAIN:  # a third of the time
            return pickle.dumps(value, 5)
        try:
            self._pickler.dump(value)
        except BaseException:  # noqa: BLE001 (it is raised again, or it was nested too deeply)
            self._renew()
            return dumps(value, self._names)
        self._pickler.clear_memo()
        data = self._file.getvalue()
        self._file.seek(0)
        self._file.truncate()
        if shapes := self._pickler.shapes:
            _look_at(shapes, data)
            shapes.clear()
        return data


def _look_at(shapes: set[Shape], data: bytes, parts: Mapping[str, Any] = NO_PARTS) -> None:
    """Prove that objects of these shapes can be read again, and note the shapes."""
    if not shapes <= _proven:
        _prove(data, parts)
        _proven.update(shapes)
    if shapes and (noted := getattr(_made, "noted", None)) is not None:
        noted |= shapes


def _prove(data: bytes, parts: Mapping[str, Any]) -> None:
    before = getattr(_made, "parts", NO_PARTS)
    try:
        with made_of({name: made for name, made in parts.items() if name != IDS}):
            pickle.loads(data)
    except PASSED_ON:
        raise
    except BaseException as e:
        raise NotReadable(
            f"it can be pickled, but not unpickled again: {error_text(e)}. Keep plain values in its"
            " place, or give its class a __reduce__ with the arguments that its __init__ or __new__"
            " needs"
        ) from e
    finally:
        _made.parts = before


def digest(
    value: Any, names: Mapping[int, str], parts: Mapping[str, Any] = NO_PARTS
) -> bytes | None:
    """Equal for equal values, in whatever process; None if the value can't be pickled and read.

    Arguments as for `dumps`.
    """
    try:
        data, shapes = _pickled(_Comparer, value, names)
        if not shapes <= _proven:
            dumps(value, names, parts)
        return mark(data)
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (an author's __getstate__ may raise anything)
        return None


def mark(data: bytes) -> bytes:
    """Equal for equal bytes only: what is thought to be unchanged is not written."""
    return hashlib.blake2b(data, digest_size=16).digest()
