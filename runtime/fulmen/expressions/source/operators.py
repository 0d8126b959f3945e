"""Operators as Python source: arithmetic, comparisons, AND and OR."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from fulmen.expressions.library import arithmetic, times
from fulmen.expressions.library.casts import CASTS
from fulmen.expressions.mistakes import ExpressionError
from fulmen.expressions.source import moments
from fulmen.expressions.source.fragments import NULL, Fragment, Scope
from fulmen.expressions.sql_types import NUMBERS, UNCOMPARED, SqlType, common

_FREE = (SqlType.NULL, SqlType.UNKNOWN)
_TIMES = (SqlType.DATE, SqlType.TIME, SqlType.TIMESTAMP)
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}
_PYTHON = {"=": "==", "<>": "!="}
_DECIMAL = {
    "+": arithmetic.DECIMALS.add,
    "-": arithmetic.DECIMALS.subtract,
    "*": arithmetic.DECIMALS.multiply,
    "%": arithmetic.decimal_mod,
}


def calculated(scope: Scope, operator: str, left: Fragment, right: Fragment) -> Fragment:
    """`left operator right`, of numbers; or of a date and days."""
    if (found := moments.calculated(scope, operator, left, right)) is not None:
        return found
    for one in (left, right):
        if one.type not in (*NUMBERS, *_FREE):
            cure = "Write CAST(… AS DOUBLE)." if one.type is SqlType.VARCHAR else ""
            if left.type in _TIMES or right.type in _TIMES:
                cure = "Write + INTERVAL 1 DAY, or date_diff('second', a, b)."
            between = f"{left.type.value} and {right.type.value}"
            raise ExpressionError(f"{operator} takes numbers, but is between {between}", cure)
    of = common((left.type, right.type)) or SqlType.UNKNOWN
    if operator == "/" or (operator == "//" and of is SqlType.DECIMAL):
        of = SqlType.DOUBLE
    if of is SqlType.DOUBLE:
        return _of_floats(scope, operator, left, right)
    if of is SqlType.DECIMAL:
        called = scope.bind(_DECIMAL[operator])
        return scope.strict([left, right], of, lambda a, b: f"{called}({a}, {b})")
    if of is SqlType.UNKNOWN and SqlType.DOUBLE in (left.type, right.type):
        of = SqlType.DOUBLE
    return _of_integers(scope, operator, left, right, of)


def _of_floats(scope: Scope, operator: str, left: Fragment, right: Fragment) -> Fragment:
    left, right = (
        scope.converted(one, SqlType.DOUBLE)
        if one.is_constant or one.type is SqlType.DECIMAL
        else one
        for one in (left, right)
    )
    if SqlType.DOUBLE not in (left.type, right.type):
        left = scope.converted(left, SqlType.DOUBLE)
    if operator in "+-*":
        return scope.strict([left, right], SqlType.DOUBLE, lambda a, b: f"({a} {operator} {b})")
    if operator in ("/", "//") and right.is_constant and right.constant:
        return scope.strict([left, right], SqlType.DOUBLE, lambda a, b: f"({a} / {b})")
    helpers = {
        "/": arithmetic.divide, "//": arithmetic.float_divide, "%": arithmetic.float_mod,
    }  # fmt: skip
    called = scope.bind(helpers[operator])
    left, right = (scope.converted(one, SqlType.DOUBLE) for one in (left, right))
    return scope.strict([left, right], SqlType.DOUBLE, lambda a, b: f"{called}({a}, {b})")


def _of_integers(
    scope: Scope, operator: str, left: Fragment, right: Fragment, of: SqlType
) -> Fragment:
    if operator in "+-*":
        bits = left.bits + right.bits if operator == "*" else max(left.bits, right.bits) + 1
        if bits < 64:  # so it can't overflow
            found = scope.strict([left, right], of, lambda a, b: f"({a} {operator} {b})")
            return replace(found, bits=bits)
        value = scope.temporary()
        over = scope.bind(arithmetic.overflow)
        return scope.strict(
            [left, right],
            of,
            lambda a, b: (
                f"({value} if {arithmetic.LEAST} <= ({value} := {a} {operator} {b})"
                f" <= {arithmetic.GREATEST} else {over}({value}))"
            ),
        )
    if isinstance(right.constant, int) and right.constant > 0:
        name = left.source if left.is_name else scope.temporary()

        def source(a: str, b: str) -> str:
            tested = a if left.is_name else f"({name} := {a})"
            return f"({name} {operator} {b} if {tested} >= 0 else -(-{name} {operator} {b}))"

        divisor = right.constant.bit_length()
        bits = divisor if operator == "%" else left.bits  # what comes may have more than 64
        return replace(scope.strict([left, right], of, source), bits=bits)
    called = scope.bind(arithmetic.int_divide if operator == "//" else arithmetic.int_mod)
    return scope.strict([left, right], of, lambda a, b: f"{called}({a}, {b})")


def negated(scope: Scope, one: Fragment) -> Fragment:
    """`-one`."""
    if one.type not in (*NUMBERS, *_FREE):
        raise ExpressionError(f"- takes a number, and no {one.type.value}")
    if isinstance(one.constant, float):
        return scope.constant(-one.constant, one.type)
    if one.type is SqlType.BIGINT:
        fits = scope.bind(arithmetic.fits)
        return scope.strict([one], one.type, lambda a: f"{fits}(-{a})")
    return scope.strict([one], one.type, lambda a: f"(-{a})")


def compared(scope: Scope, operator: str, left: Fragment, right: Fragment) -> Fragment:
    """`left operator right`, with one of = <> < <= > >=."""
    left, right = _time_of_text(scope, left, right), _time_of_text(scope, right, left)
    of = common((left.type, right.type))
    if of is None or left.type in UNCOMPARED or right.type in UNCOMPARED:
        cure = "Write a CAST of one of them." if of is None else ""
        raise ExpressionError(
            f"{left.type.value} and {right.type.value} can't be compared by {operator}", cure
        )
    if left.constant is None or right.constant is None:
        return replace(NULL, type=SqlType.BOOLEAN)
    if of is SqlType.DOUBLE:
        return _floats_compared(scope, operator, left, right)
    if of is SqlType.TIMESTAMP:
        left, right = scope.converted(left, of), scope.converted(right, of)
        called = scope.bind(times.COMPARISONS[operator])
        return scope.strict([left, right], SqlType.BOOLEAN, lambda a, b: f"{called}({a}, {b})")
    python = _PYTHON.get(operator, operator)
    return scope.strict([left, right], SqlType.BOOLEAN, lambda a, b: f"({a} {python} {b})")


def _time_of_text(scope: Scope, one: Fragment, other: Fragment) -> Fragment:
    """A text that is compared with a time is one."""
    cast = CASTS.get((SqlType.VARCHAR, other.type))
    if other.type not in _TIMES or not isinstance(one.constant, str) or cast is None:
        return one
    try:
        return scope.constant(cast(one.constant), other.type)
    except arithmetic.Failed as error:
        raise ExpressionError(str(error)) from error


def _floats_compared(scope: Scope, operator: str, left: Fragment, right: Fragment) -> Fragment:
    left, right = (scope.converted(one, SqlType.DOUBLE) for one in (left, right))
    if left.is_constant:
        left, right, operator = right, left, _FLIPPED[operator]
    if right.is_constant and not math.isnan(right.constant):
        sources = {"=": "({} == {})", "<>": "({} != {})", "<": "({} < {})", "<=": "({} <= {})",
                   ">": "(not {} <= {})", ">=": "(not {} < {})"}  # fmt: skip
        return scope.strict([left, right], SqlType.BOOLEAN, sources[operator].format)
    equal, less = scope.bind(arithmetic.float_equal), scope.bind(arithmetic.float_less)
    calls = {
        "=": f"{equal}({{0}}, {{1}})", "<>": f"(not {equal}({{0}}, {{1}}))",
        "<": f"{less}({{0}}, {{1}})", ">": f"{less}({{1}}, {{0}})",
        "<=": f"(not {less}({{1}}, {{0}}))", ">=": f"(not {less}({{0}}, {{1}}))",
    }  # fmt: skip
    return scope.strict([left, right], SqlType.BOOLEAN, calls[operator].format)


def same(scope: Scope, left: Fragment, right: Fragment) -> Fragment:
    """`left IS NOT DISTINCT FROM right`."""
    if left.constant is None or right.constant is None:
        return is_null(right if left.constant is None else left)
    set_left, left = scope.named(left)
    set_right, right = scope.named(right)
    equal = compared(scope, "=", left, right)
    if not equal.nullable:
        source = f"({set_left}{set_right}{equal.source})"
        return Fragment(source, SqlType.BOOLEAN, nullable=False)
    source = f"{equal.source} is True"
    if left.nullable and right.nullable:
        source = f"({left.source} is None and {right.source} is None or {source})"
    source = f"({set_left}{set_right}{source})"
    return Fragment(source, SqlType.BOOLEAN, nullable=False)


def is_null(one: Fragment) -> Fragment:
    """`one IS NULL`."""
    source = f"({one.source} is None)" if one.nullable else "False"
    return Fragment(source, SqlType.BOOLEAN, nullable=False)


def boolean(one: Fragment, where: str) -> Fragment:
    """Refuse what is no truth value."""
    if one.type not in (SqlType.BOOLEAN, *_FREE):
        raise ExpressionError(f"{where} takes a BOOLEAN, and no {one.type.value}")
    return one


def inverted(scope: Scope, one: Fragment) -> Fragment:
    """`NOT one`."""
    return scope.strict([boolean(one, "NOT")], SqlType.BOOLEAN, lambda a: f"(not {a})")


def both(scope: Scope, operator: str, operands: Sequence[Fragment]) -> Fragment:
    """`a AND b AND …`, or the same with OR. What follows the result's being known is not asked."""
    for one in operands:
        boolean(one, operator)
    python, decides = ("and", "False") if operator == "AND" else ("or", "True")
    if not any(one.nullable for one in operands):
        source = f" {python} ".join(one.source for one in operands)
        return Fragment(f"({source})", SqlType.BOOLEAN, nullable=False)
    tests, nulls = [], []
    for one in operands:
        name = one.source if one.is_name else scope.temporary()
        set_it = one.source if one.is_name else f"({name} := {one.source})"
        tests.append(f"{set_it} is {decides}")
        if one.nullable:
            nulls.append(f"{name} is None")
    other = "True" if operator == "AND" else "False"
    source = f"({decides} if {' or '.join(tests)} else None if {' or '.join(nulls)} else {other})"
    return Fragment(source, SqlType.BOOLEAN)
