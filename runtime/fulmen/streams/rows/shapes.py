"""How functions see rows: by attribute, by name, or as objects of an author's class. Pure."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import keyword
import types
import typing
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from operator import attrgetter, itemgetter
from typing import Any, Final

from fulmen.topology.problems import did_you_mean

_TYPES: Final[Mapping[Any, str]] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    bytes: "binary",
    decimal.Decimal: "decimal",
    datetime.datetime: "timestamp",
    datetime.date: "date32",
    datetime.time: "time",
}
"""How `Stream.types` names the classes of annotations."""


class Shape:
    """The fields of rows, and the class of the objects that functions get.

    Attributes:
        fields: Their names.
        types: What annotations say of their types.
        cls: That class; None: rows of our own.
        wrap: Makes the object of a row's values.
        unwrap: Makes the values of the object.
    """

    def __init__(self, fields: Sequence[str], cls: type | None = None, *, is_one: bool = False):
        """Make it.

        Args:
            fields: The names of the values.
            cls: A NamedTuple, dataclass or TypedDict with these fields; None: rows of our own.
            is_one: Whether a result is the value of the only field, whatever it is.
        """
        self.fields = tuple(fields)
        self.types: Mapping[str, str] = {}
        self.cls, self._is_one = cls, is_one
        self.wrap: Callable[[Sequence[Any]], Any]
        self.unwrap: Callable[[Any], list[Any]] = list
        if cls is None:
            self.wrap = partial(tuple.__new__, row_class(self.fields))
        elif issubclass(cls, tuple):
            self.wrap = _maker(cls, self.fields)
        elif issubclass(cls, dict):  # a TypedDict
            self.wrap = lambda values: dict(zip(self.fields, values, strict=True))
            self.unwrap = lambda row: [row[name] for name in self.fields]
        else:
            of = attrgetter(*self.fields)
            self.wrap = _maker(cls, self.fields)
            self.unwrap = (lambda row: list(of(row))) if len(fields) > 1 else lambda row: [of(row)]
        if cls is not None:
            self.types = _types_of(cls)

    def accept(self, result: Any) -> Any:
        """The object of what a function has returned.

        Raises:
            TypeError: It is no row with these fields.
        """
        if self._is_one:
            return self.wrap([result])
        if self.cls is not None:
            if isinstance(result, dict if issubclass(self.cls, dict) else self.cls):
                return result
        elif isinstance(result, Mapping):
            if result.keys() == set(self.fields):
                return self.wrap([result[name] for name in self.fields])
        elif isinstance(result, list | tuple):
            if len(result) == len(self.fields):
                return self.wrap(result)
        elif len(self.fields) == 1 and result is not None:
            return self.wrap([result])
        wanted = self.cls.__name__ if self.cls else f"a row of {list(self.fields)}"
        raise TypeError(f"the function returned {_short(result)}, but must return {wanted}")

    def accept_all(self, result: Any) -> list[Any]:
        """The objects of the rows that a function has returned.

        Raises:
            TypeError: It is no list or other iterable of rows.
        """
        if result is None or isinstance(result, str | bytes) or not isinstance(result, Iterable):
            raise TypeError(f"flat_map returned {_short(result)}, but must return a list of rows")
        return [self.accept(one) for one in result]


def _maker(cls: Any, fields: Sequence[str]) -> Callable[[Sequence[Any]], Any]:
    """Makes an object of a class of the values of rows that have its fields, in any order.

    Raises:
        ValueError: They have not all of them.
    """
    own = fields_of(cls) or ()
    if missing := [name for name in own if name not in fields]:
        near = did_you_mean(missing[0], fields)
        raise ValueError(
            f"{cls.__name__} has a field {missing[0]!r}, and the rows have not. {near}"
        )
    if own == tuple(fields):
        return lambda values: cls(*values)
    places = [fields.index(name) for name in own]
    return lambda values: cls(*[values[i] for i in places])


class _Named(tuple[Any, ...]):
    """What rows have besides being tuples."""

    __slots__ = ()
    places_: Mapping[str, int]

    def __getitem__(self, at: Any) -> Any:
        if type(at) is str:
            try:
                at = self.places_[at]
            except KeyError:
                raise KeyError(_missing(at, self.places_)) from None
        return tuple.__getitem__(self, at)

    def __getattr__(self, name: str) -> Any:
        if name in self.places_:
            return tuple.__getitem__(self, self.places_[name])
        raise AttributeError(_missing(name, self.places_), name=name)

    def __reduce__(self) -> Any:
        return _row, (tuple(self.places_), tuple(self))


@lru_cache(maxsize=1024)
def row_class(fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """Tuples whose values are found by their names, as attributes and in brackets."""
    safe = [
        name
        if name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
        else f"field_{i}_"
        for i, name in enumerate(fields)
    ]
    places = {name: i for i, name in enumerate(fields)}
    base = namedtuple("Row", safe)  # type: ignore[misc]
    body = {"__slots__": (), "places_": places, "__qualname__": "Row"}
    return type("Row", (_Named, base), body)


def _row(fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return tuple.__new__(row_class(fields), values)


def mapping_of(row: Any) -> dict[str, Any]:
    """The values of a row by their names, whatever class it has."""
    if isinstance(row, Mapping):
        return dict(row)
    if isinstance(row, _Named):
        return dict(zip(row.places_, row, strict=True))
    names = fields_of(type(row)) or ()
    return {name: getattr(row, name) for name in names}


def fields_of(cls: Any) -> tuple[str, ...] | None:
    """The fields of a NamedTuple, dataclass or TypedDict; None: it is none of them."""
    if not isinstance(cls, type):
        return None
    if issubclass(cls, tuple):
        return getattr(cls, "_fields", None)
    if dataclasses.is_dataclass(cls):
        return tuple(one.name for one in dataclasses.fields(cls) if one.init)
    return tuple(cls.__annotations__) if typing.is_typeddict(cls) else None


def result_class(function: Callable[..., Any], *, of_many: bool = False) -> type | None:
    """The class that a function says it returns, or returns a list of, if that is a row's."""
    try:
        hinted = typing.get_type_hints(function).get("return")
    except (NameError, TypeError, AttributeError):
        return None
    if of_many:
        hinted = next(iter(typing.get_args(hinted)), None)
    return hinted if fields_of(hinted) is not None else None


def _types_of(cls: type) -> dict[str, str]:
    try:
        hints = typing.get_type_hints(cls)
    except (NameError, TypeError):
        return {}
    plain = {name: _TYPES.get(_without_none(hint)) for name, hint in hints.items()}
    return {name: found for name, found in plain.items() if found}


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        others = [one for one in typing.get_args(hint) if one is not types.NoneType]
        return others[0] if len(others) == 1 else hint
    return hint


def key_getter(fields: Sequence[str], key: Sequence[str]) -> Callable[[Sequence[Any]], Any]:
    """Takes the values of a key out of a row."""
    return itemgetter(*(fields.index(name) for name in key))


def _missing(name: str, among: Iterable[str]) -> str:
    there = list(among)
    return f"the row has no field {name!r}. {did_you_mean(name, there) or f'There are {there}'}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
