"""The condition that a tuple has to meet to be shown, such as `amount > 100 and country == "DE"`.

It has the syntax of Python's comparisons, is read by Python's own parser, and is never evaluated as
Python: only comparisons of fields with literals are known here.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from fulmen.connectors.formats import DEFAULT
from fulmen.errors import FulmenError

LONGEST = 1000
DEEPEST = 40
"""Levels of parts within parts. What the driver could read, and a worker with more calls on its
stack could not, would fail batches."""
Row = Mapping[str, Any]
Value = Callable[[Row], Any]

_GRAMMAR: Final = (
    'Write such as: amount > 100 and (country == "DE" or not paid). There are == != < <= > >= in,'
    ' and, or, not, parentheses, "text", numbers, true, false, null, members as in user.age, and'
    ' tuple["from"] for a field whose name Python has itself'
)
_CONSTANTS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}
_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, all_of: one in all_of,
    ast.NotIn: lambda one, all_of: one not in all_of,
}
_AS_THEY_ARE = (str, int, float, Decimal, list, dict, type(None))


class ConditionError(FulmenError):
    """A condition can't be read."""


@dataclass(frozen=True)
class Condition:
    """What a tuple has to meet.

    Attributes:
        fields: The fields that it is about.
        names: These, and the members of their values that it is about.
        value: Of a row; true: the row meets it.
    """

    fields: frozenset[str]
    names: frozenset[str]
    value: Value

    def is_met(self, row: Row) -> bool:
        """Whether a tuple meets it. One that lacks a field does not."""
        try:
            return bool(self.value(row))
        except (KeyError, TypeError, ValueError, ArithmeticError):
            return False


@lru_cache(maxsize=64)
def condition_of(text: str) -> Condition:
    """Read a condition.

    Raises:
        ConditionError: It can't be read, or asks for what there is not.
    """
    if len(text) > LONGEST:
        raise ConditionError(f"the condition has more than {LONGEST:,} characters.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval")
        reader = _Reader()
        value = reader.value(tree.body)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        said = getattr(error, "msg", None) or "it is nested too deeply"
        raise ConditionError(f"the condition {text!r} can't be read: {said}. {_GRAMMAR}.") from None
    except _Unknown as error:
        raise ConditionError(
            f"the condition {text!r} can't be read: {error}. {_GRAMMAR}."
        ) from None
    if not reader.fields:
        raise ConditionError(f"the condition {text!r} names no field. {_GRAMMAR}.")
    return Condition(frozenset(reader.fields), frozenset(reader.names), value)


class _Unknown(Exception):
    """Something of Python that conditions have not."""


class _Reader:
    """Makes functions of what the parser has found."""

    def __init__(self) -> None:
        self.fields: set[str] = set()
        self.names: set[str] = set()
        self._depth = 0

    def value(self, node: ast.expr) -> Value:
        """What a part of a condition is, of a row."""
        with self._below():
            return self._value(node)

    @contextmanager
    def _below(self) -> Iterator[None]:
        if self._depth == DEEPEST:
            raise _Unknown(f"it is nested more than {DEEPEST} levels deep")
        self._depth += 1
        yield
        self._depth -= 1

    def _value(self, node: ast.expr) -> Value:
        match node:
            case ast.BoolOp(op=op, values=values):
                parts = [self._safely(self.value(one)) for one in values]
                some = all if isinstance(op, ast.And) else any
                return lambda row: some(part(row) for part in parts)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._safely(self.value(operand))
                return lambda row: not inner(row)
            case ast.Compare():
                return self._comparison(node)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return lambda _: -number
            case ast.Constant(value=str() | int() | float() | None as constant):
                return lambda _: constant
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                parts = [self.value(one) for one in elements]
                return lambda row: [part(row) for part in parts]
            case ast.Name(id=name) if name in _CONSTANTS:
                constant = _CONSTANTS[name]
                return lambda _: constant
        return self._path(node)

    def _comparison(self, node: ast.Compare) -> Value:
        parts = [self.value(one) for one in (node.left, *node.comparators)]
        compare = []
        for op in node.ops:
            if type(op) not in _COMPARISONS:
                raise _Unknown("'is' is not known, write ==")
            compare.append(_COMPARISONS[type(op)])

        def compared(row: Row) -> bool:
            values = [part(row) for part in parts]
            pairs = zip(compare, values, values[1:], strict=False)
            return all(holds(one, another) for holds, one, another in pairs)

        return compared

    def _safely(self, value: Value) -> Value:
        """A part of a condition: one whose values can't be compared does not hold."""

        def held(row: Row) -> bool:
            try:
                return bool(value(row))
            except (TypeError, ValueError, ArithmeticError):
                return False

        return held

    def _path(self, node: ast.expr) -> Value:
        """A field, or a member of its value."""
        with self._below():
            return self._path_of(node)

    def _path_of(self, node: ast.expr) -> Value:
        match node:
            case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Constant(value=str() as name)):
                return self._field(name)
            case ast.Name(id=name):
                return self._field(name)
            case ast.Attribute(value=inner, attr=name):
                return self._member(inner, name)
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)):
                return self._member(inner, key)
            case ast.Subscript(
                value=inner,
                slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as key)),
            ):
                return self._member(inner, -key)
        raise _Unknown(f"{ast.unparse(node)!r} is neither a field nor a literal")

    def _field(self, name: str) -> Value:
        self.fields.add(name)
        self.names.add(name)
        return lambda row: _comparable(row[name])

    def _member(self, inner: ast.expr, key: str | int) -> Value:
        of = self._path(inner)
        if isinstance(key, str):
            self.names.add(key)

        def member(row: Row) -> Any:
            value = of(row)
            if isinstance(value, dict) and isinstance(key, str):
                return _comparable(value.get(key))
            if isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
                return _comparable(value[key])
            return None

        return member


def _comparable(value: Any) -> Any:
    """A value as it is written down, unless it is a number or the like: times are texts."""
    return value if isinstance(value, _AS_THEY_ARE) else DEFAULT.text(value)
