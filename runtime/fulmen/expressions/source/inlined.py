"""Functions that are operations of Python, most of them only if some arguments are constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fulmen.expressions.source.fragments import Fragment, Scope
from fulmen.expressions.source.repeated import split_by
from fulmen.expressions.sql_types import SqlType

if TYPE_CHECKING:
    from sqlglot import exp

SIZE_BITS: Final = 48
"""Nothing in memory has more characters or values than a number of so many bits says."""
Values = Sequence[Fragment]
Call = Callable[..., Any] | str


def inlined(
    scope: Scope, name: str, call: Call, values: Values, nodes: Sequence[exp.Expr]
) -> Fragment | None:
    """A call of a function without a call of ours; None: that can't be.

    Args:
        scope: Where it is.
        name: The function's.
        call: What it calls otherwise.
        values: Its arguments; they are of the types that it takes.
        nodes: The same as they are in the tree.
    """
    if name == "split_part":
        return _split_part(scope, values, nodes)
    if name in ("lower", "upper"):
        return _letters(scope, name, call, values)
    make = _MAKERS.get(name)
    return None if make is None else make(scope, values)


def twice(scope: Scope, source: str) -> tuple[str, str]:
    """A value where it is asked for first, and where it is asked for again."""
    if source.isidentifier():
        return source, source
    name = scope.temporary()
    return f"({name} := {source})", name


def _split_part(scope: Scope, values: Values, nodes: Sequence[exp.Expr]) -> Fragment | None:
    plain = split_by(nodes)
    if plain is None:
        return None
    by, part = plain
    most = scope.most_parts(nodes[0], by, part)

    def divided() -> Fragment:
        return scope.strict([values[0]], SqlType.LIST, lambda a: f"{a}.split({by!r}, {most})")

    def source(parts: str) -> str:
        if part == 1:
            return f"{parts}[0]"
        first, again = twice(scope, parts)
        return f"({again}[{part - 1}] if len({first}) >= {part} else '')"

    parts = scope.once([nodes[0], by], divided)
    return scope.strict([parts], SqlType.VARCHAR, source)


def _letters(scope: Scope, method: str, call: Call, values: Values) -> Fragment:
    otherwise = scope.bind(call)

    def source(of: str) -> str:
        first, again = twice(scope, of)
        return f"({again}.{method}() if {first}.isascii() else {otherwise}({again}))"

    return scope.strict(values, SqlType.VARCHAR, source)


def _stripped(method: str) -> Callable[[Scope, Values], Fragment | None]:
    def make(scope: Scope, values: Values) -> Fragment | None:
        letters = values[1].constant if len(values) == 2 else " "
        if not isinstance(letters, str) or not letters:
            return None
        return scope.strict(values[:1], SqlType.VARCHAR, lambda a: f"{a}.{method}({letters!r})")

    return make


def _length(scope: Scope, values: Values) -> Fragment:
    found = scope.strict(values, SqlType.BIGINT, lambda a: f"len({a})")
    return replace(found, bits=SIZE_BITS)


def _place(scope: Scope, values: Values) -> Fragment:
    found = scope.strict(values, SqlType.BIGINT, lambda a, b: f"({a}.find({b}) + 1)")
    return replace(found, bits=SIZE_BITS)


def _replaced(scope: Scope, values: Values) -> Fragment | None:
    if not values[1].constant or not values[1].is_constant:
        return None
    return scope.strict(values, SqlType.VARCHAR, lambda a, b, c: f"{a}.replace({b}, {c})")


def _string_split(scope: Scope, values: Values) -> Fragment | None:
    if not values[1].constant or not values[1].is_constant:
        return None
    return scope.strict(values, SqlType.LIST, lambda a, b: f"{a}.split({b})")


def _contains(scope: Scope, values: Values) -> Fragment:
    return scope.strict(values, SqlType.BOOLEAN, lambda a, b: f"({b} in {a})")


def _substr(scope: Scope, values: Values) -> Fragment | None:
    numbers = [value.constant for value in values[1:]]
    if not all(isinstance(number, int) for number in numbers) or numbers[0] < 1:
        return None
    if len(numbers) == 1:
        return _slice(scope, values, f"{numbers[0] - 1}:")
    if numbers[1] < 0:
        return None
    return _slice(scope, values, f"{numbers[0] - 1}:{numbers[0] - 1 + numbers[1]}")


def _left(scope: Scope, values: Values) -> Fragment | None:
    count = values[1].constant
    return _slice(scope, values, f":{count}") if isinstance(count, int) and count >= 0 else None


def _right(scope: Scope, values: Values) -> Fragment | None:
    count = values[1].constant
    return _slice(scope, values, f"-{count}:") if isinstance(count, int) and count > 0 else None


def _slice(scope: Scope, values: Values, of: str) -> Fragment:
    return scope.strict(values[:1], SqlType.VARCHAR, lambda a: f"{a}[{of}]")


_MAKERS: Final[Mapping[str, Callable[[Scope, Values], Any]]] = {
    "length": _length,
    "strpos": _place,
    "replace": _replaced,
    "string_split": _string_split,
    "contains": _contains,
    "substr": _substr,
    "left": _left,
    "right": _right,
    "trim": _stripped("strip"),
    "ltrim": _stripped("lstrip"),
    "rtrim": _stripped("rstrip"),
}
