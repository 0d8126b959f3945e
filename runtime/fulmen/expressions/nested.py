"""Parts of lists and objects in expressions, and `unnest`, which makes a row of each value. Pure.

Of which type a part is, only its value says. So each part becomes a column of its own beside those
of the row, and each list that is unnested one with its values: an expression sees plain columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fulmen.expressions.library.functions import UNNEST
from fulmen.expressions.library.parts import Steps, part_of
from fulmen.expressions.mistakes import ExpressionError
from fulmen.expressions.parsing import column_of, parsed
from fulmen.expressions.sql_types import SqlType

if TYPE_CHECKING:
    from sqlglot import exp

_PARTS = ("dot", "bracket")
NESTED = (SqlType.LIST, SqlType.OTHER, SqlType.UNKNOWN, SqlType.NULL)
"""The types of values that may have parts."""


@dataclass(frozen=True)
class NestedPart:
    """A part of a value that an expression asks for.

    Attributes:
        field: The field that it is a part of.
        steps: The way to it.
        column: Where the field begins in the expression's text, from 1.
    """

    field: str
    steps: Steps
    column: int | None = None


@dataclass
class PlainExpression:
    """An expression that asks only for columns.

    Attributes:
        tree: Its tree.
        parts: The part that each of its new columns is.
        lists: The list whose values each of its new columns has.
    """

    tree: exp.Expr
    parts: dict[str, NestedPart] = field(default_factory=dict)
    lists: dict[str, exp.Expr] = field(default_factory=dict)


def with_lists_as_columns(tree: exp.Expr, text: str, fields: Collection[str]) -> PlainExpression:
    """Put a column in place of each `unnest`.

    Raises:
        ExpressionError: An `unnest` can't be.
    """
    plain = PlainExpression(tree)

    def column(node: exp.Expr) -> exp.Expr:
        if not is_unnest(node):
            return node
        at = column_of(node, text)
        if len(node.expressions) != 1:
            raise ExpressionError(f"{node.this} takes one list", column=at)
        (of,) = node.expressions
        if any(map(is_unnest, of.walk())):
            raise ExpressionError(
                f"{node.this} is in another one",
                "Write it in select of one input, and the other one in that of the next.",
                at,
            )
        name = _new_name(f"unnest({of.sql(dialect='duckdb')})", fields)
        plain.lists[name] = of
        return _named(name, of)

    if any(map(is_unnest, tree.walk())):
        plain.tree = tree.transform(column)
    return plain


def with_parts_as_columns(tree: exp.Expr, text: str, fields: Collection[str]) -> PlainExpression:
    """Put a column in place of each part of a list or an object, as `doc.user` or `tags[1]`.

    Raises:
        ExpressionError: A part can't be.
    """
    plain = PlainExpression(tree)

    def column(node: exp.Expr) -> exp.Expr:
        if node.key not in _PARTS:
            return node
        base, steps = _way_to(node)
        if base.key != "column":
            raise ExpressionError(
                "only a field or an unnest has parts",
                "Give it a name in select, and take its part in that of the next input.",
                column_of(node, text),
            )
        way = "".join(f".{one}" if isinstance(one, str) else f"[{one}]" for one in steps)
        name = _new_name(f"{base.name}{way}", fields)
        plain.parts[name] = NestedPart(base.name, steps, column_of(base, text))
        return _named(name, base)

    if any(node.key in _PARTS for node in tree.walk()):
        plain.tree = tree.transform(column)
    return plain


def is_unnest(node: exp.Expr) -> bool:
    """Whether a part of a tree makes rows of a list."""
    return node.key == "anonymous" and str(node.this).lower() in UNNEST


def makes_rows(text: str) -> bool:
    """Whether an expression makes rows of a list. One that can't be read does not."""
    if not any(word in text.lower() for word in UNNEST):
        return False
    try:
        return any(map(is_unnest, parsed(text).walk()))
    except ExpressionError:
        return False


def _way_to(node: exp.Expr) -> tuple[exp.Expr, Steps]:
    """The value that something is a part of, and the way from there."""
    if node.key == "paren":
        return _way_to(node.this)
    if node.key == "dot" and node.expression.key == "identifier":
        base, steps = _way_to(node.this)
        return base, (*steps, node.expression.name)
    if node.key == "bracket" and len(node.expressions) == 1:
        base, steps = _way_to(node.this)
        return base, (*steps, _place(node.expressions[0]))
    return node, ()


def _place(node: exp.Expr) -> int | str:
    """A place in a list, or the name of a member. The parser has made places begin with 0."""
    if node.key == "literal" and node.is_string:
        return str(node.this)
    number = node.this if node.key == "neg" else node
    if number.key == "literal" and number.this.isdigit() and len(number.this) < 10:
        return (-1 if number is not node else 1) * int(number.this) + 1
    raise ExpressionError(
        "in brackets is a whole number or a name in quotes", "Write tags[1] or doc['name']."
    )


def _new_name(name: str, fields: Collection[str]) -> str:
    while name in fields:  # which has a dot in its own name
        name += "'"
    return name


def _named(name: str, like: exp.Expr) -> exp.Expr:
    """A column that stands where something stood."""
    # here, as it takes 0.1 s: most topologies have no expression
    from sqlglot import exp

    identifier = exp.to_identifier(name, quoted=True)
    for one in like.walk():
        if "start" in one.meta:
            identifier.meta.update(one.meta)
            break
    return exp.Column(this=identifier)


def part_getter(fields: Sequence[str], parts: Sequence[NestedPart]) -> Callable[[Any], Any]:
    """What makes a row with these parts behind its values."""
    ways = [(fields.index(part.field), part.steps) for part in parts]

    def of(row: Sequence[Any]) -> list[Any]:
        return [*row, *(part_of(row[at], steps) for at, steps in ways)]

    return of
