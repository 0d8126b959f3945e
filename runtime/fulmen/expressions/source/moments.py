"""Arithmetic of dates and times as Python source: intervals, days, and parts by their name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fulmen.expressions.library import times
from fulmen.expressions.library.arithmetic import Failed
from fulmen.expressions.mistakes import ExpressionError
from fulmen.expressions.source.fragments import Fragment, Parts, Scope
from fulmen.expressions.sql_types import SqlType

if TYPE_CHECKING:
    from sqlglot import exp

_FREE = (SqlType.NULL, SqlType.UNKNOWN)
_AMOUNT = re.compile(r"([+-]?\d{1,18}) *([a-z]+)?", re.ASCII | re.IGNORECASE)
_CURE = "Write INTERVAL 10 MINUTE, INTERVAL '1 day 2 hours' or INTERVAL (number) DAY."


def shifted(compiler: Parts, scope: Scope, node: exp.Binary) -> Fragment | None:
    """A time that is so much later or earlier; None: there is no interval on either side."""
    time, interval, sign = node.this, node.expression, 1 if node.key == "add" else -1
    if time.key == "interval" and sign > 0:
        time, interval = interval, time
    if interval.key != "interval":
        return None
    one = compiler.of(time)
    if one.type not in (SqlType.DATE, SqlType.TIMESTAMP, *_FREE):
        raise ExpressionError(
            f"an INTERVAL is added to a DATE or a TIMESTAMP, and to no {one.type.value}"
        )
    for count, unit in _amounts(compiler, scope, interval):
        name = scope.bind(times.later(unit, sign))
        one = scope.strict(
            [one, count], SqlType.TIMESTAMP, lambda at, n, name=name: f"{name}({at}, {n})"
        )
    return one


def _amounts(compiler: Parts, scope: Scope, node: exp.Expr) -> list[tuple[Fragment, str]]:
    """The counts of an interval, and of which unit each is."""
    unit, amount = node.args.get("unit"), node.this
    if amount is not None and amount.key != "literal":
        count = compiler.of(amount)
        if count.type not in (SqlType.BIGINT, *_FREE) or unit is None:
            raise ExpressionError("an INTERVAL is a whole number of a unit", _CURE)
        return [(count, _unit(unit.name))]
    text = "" if amount is None else amount.name.strip()
    found = list(_AMOUNT.finditer(text))
    rest = _AMOUNT.sub("", text).strip()
    if not found or rest or any((one[2] is None) == (unit is None) for one in found):
        raise ExpressionError(f"INTERVAL {text!r} can't be read", _CURE)
    return [
        (scope.constant(int(one[1]), SqlType.BIGINT), _unit(one[2] or unit.name)) for one in found
    ]


def _unit(name: str) -> str:
    try:
        return times.unit(name)
    except Failed as error:
        raise ExpressionError(str(error)) from error


def calculated(scope: Scope, operator: str, left: Fragment, right: Fragment) -> Fragment | None:
    """A date and days, or the days between two dates; None: it is neither."""
    date, days = SqlType.DATE, SqlType.BIGINT
    if operator == "-" and left.type is right.type is date:
        name = scope.bind(times.days_between)
        return scope.strict([left, right], days, lambda a, b: f"{name}({a}, {b})")
    if operator == "+" and (left.type, right.type) == (days, date):
        left, right = right, left
    if operator in "+-" and left.type is date and right.type in (days, *_FREE):
        name, sign = scope.bind(times.days_later), "-" if operator == "-" else ""
        return scope.strict([left, right], date, lambda a, b: f"{name}({a}, {sign}{b})")
    return None


def part(compiler: Parts, scope: Scope, node: exp.Extract) -> Fragment:
    """`EXTRACT(part FROM time)`."""
    one = compiler.of(node.expression)
    try:
        name = scope.bind(times.part(node.this.name))
    except Failed as error:
        raise ExpressionError(str(error)) from error
    if one.type not in (SqlType.DATE, SqlType.TIMESTAMP, *_FREE):
        raise ExpressionError(f"a {one.type.value} has no {node.this.name}")
    return scope.strict([one], SqlType.BIGINT, lambda at: f"{name}({at})")
