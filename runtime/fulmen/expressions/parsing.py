"""Texts of expressions as trees. Every call of a function stays as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fulmen.expressions.mistakes import ExpressionError

if TYPE_CHECKING:
    from sqlglot import exp

LONGEST = 10_000
"""Characters that an expression may have."""

_MOST_SHOWN = 80


def shown(text: str) -> str:
    """The text of an expression as messages quote it."""
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")


def quoted_name(name: str) -> str:
    """A field's name in quotes: the expression that only passes it on."""
    return '"' + name.replace('"', '""') + '"'


def parsed(text: str) -> exp.Expr:
    """Parse an expression.

    Raises:
        ExpressionError: It is none.
    """
    # here, as it takes 0.1 s: most topologies have no expression
    from fulmen.expressions import dialect

    if len(text) > LONGEST:
        raise ExpressionError(f"it has {len(text)} characters, and {LONGEST} are the most")
    return dialect.parsed(text)


def column_of(node: exp.Expr, text: str) -> int | None:
    """The column at which a part of an expression begins, from 1; None: it is not known."""
    starts = [one.meta["start"] for one in node.walk() if "start" in one.meta]
    if not starts or "\n" in text[: min(starts)]:
        return None
    return int(min(starts)) + 1
