"""Calls of functions as Python source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fulmen.expressions.library import functions, text, times
from fulmen.expressions.library.arithmetic import Failed
from fulmen.expressions.mistakes import ExpressionError
from fulmen.expressions.source import operators
from fulmen.expressions.source.fragments import NOT_CONSTANT, NULL, Fragment, Parts, Scope
from fulmen.expressions.source.inlined import inlined
from fulmen.expressions.sql_types import UNCOMPARED, SqlType

if TYPE_CHECKING:
    from sqlglot import exp


MOST_MADE = 256
"""Patterns and the like that are kept where they are no constants."""


def called(compiler: Parts, scope: Scope, name: str, nodes: Sequence[exp.Expr]) -> Fragment:
    """A call of a function.

    Raises:
        ExpressionError: There is no such function, or none for these arguments.
    """
    known = functions.ALIASES.get(name.lower(), name.lower())
    if (mistake := _mistake_of(name, known, len(nodes))) is not None:
        for node in nodes:  # so that their mistakes are told as well
            compiler.of(node)
        raise mistake
    if known in functions.OWN:
        return _own(compiler, scope, known, nodes)
    values = [compiler.of(node) for node in nodes]
    types = [value.type for value in values]
    fitting = [one for one in functions.BY_NAME[known] if one.takes(types)]
    if fitting:
        best = fitting[0]
        inline = inlined(scope, known, best.call, values, nodes)
        found = inline or _call(scope, best, values)
        if SqlType.UNKNOWN in types and any(one.result is not found.type for one in fitting):
            return replace(found, type=SqlType.UNKNOWN)  # the value of each row decides
        return replace(found, element=fitting[0].element)
    given = ", ".join(of.value for of in types)
    there_are = " or ".join(signature(one) for one in functions.BY_NAME[known])
    raise ExpressionError(f"there is no {known}({given})", f"There is {there_are}.")


def _mistake_of(name: str, known: str, given: int) -> ExpressionError | None:
    """What is wrong with a call whatever the types of its arguments are."""
    if known in functions.OWN:
        least, most = functions.OWN[known]
        if least <= given <= most:
            return None
        count = f"{least}" if least == most else f"at least {least}"
        return ExpressionError(f"{name} takes {count} arguments, and not {given}")
    if known in functions.BY_NAME:
        return None
    return ExpressionError(
        f"there is no function {name!r}", wrong=name.lower(), among=functions.NAMES
    )


def signature(one: functions.Function) -> str:
    """A function with the types of its arguments, as people write it."""
    names = ["/".join(of.value for of in types) for types in one.arguments]
    needed = len(names) - one.optional
    rest = "".join(f"[, {name}]" for name in names[needed:])
    return f"{one.name}({', '.join(names[:needed])}{rest})"


def _call(scope: Scope, one: functions.Function, values: Sequence[Fragment]) -> Fragment:
    if one.fixed:
        return _made_call(scope, one, values)
    arguments = [
        scope.converted(value, SqlType.DOUBLE) if SqlType.DOUBLE in wanted else value
        for value, wanted in zip(values, one.arguments, strict=False)
    ]
    result = one.result
    if isinstance(one.call, str) and one.call.startswith("."):
        method = one.call
        return scope.strict(
            arguments, result, lambda first, *rest: f"{first}{method}({', '.join(rest)})"
        )
    name = one.call if isinstance(one.call, str) else scope.bind(one.call)
    return scope.strict(arguments, result, lambda *sources: f"{name}({', '.join(sources)})")


def _made_call(scope: Scope, one: functions.Function, values: Sequence[Fragment]) -> Fragment:
    """A call of what is made of some of its arguments."""
    assert not isinstance(one.call, str)
    fixed = [values[i] for i in one.fixed if i < len(values)]
    free = [value for i, value in enumerate(values) if i not in one.fixed]
    if all(value.is_constant and value.constant is not None for value in fixed):
        try:
            name = scope.bind(one.call(*(value.constant for value in fixed)))
        except Failed as error:
            raise ExpressionError(str(error)) from error
        return scope.strict(
            free,
            one.result,
            lambda *sources: f"{name}({', '.join(sources)})",
            nullable=one.nullable,
        )
    make = scope.bind(lru_cache(MOST_MADE)(one.call))

    def source(*sources: str) -> str:
        made, rest = sources[: len(fixed)], sources[len(fixed) :]
        return f"{make}({', '.join(made)})({', '.join(rest)})"

    return scope.strict([*fixed, *free], one.result, source, nullable=one.nullable)


def _own(compiler: Parts, scope: Scope, name: str, nodes: Sequence[exp.Expr]) -> Fragment:
    """A function that decides by itself about NULL and types."""
    if name == "if":
        test = compiler.condition(nodes[0], "if")
        with scope.perhaps():
            return compiler.chosen([(test, compiler.of(nodes[1]))], compiler.of(nodes[2]), "if")
    if name == "coalesce":
        return _coalesced(compiler, scope, compiler.one_by_one(nodes))
    if name == "try":
        with scope.apart():
            return tried(scope, compiler.of(nodes[0]))
    values = [compiler.of(node) for node in nodes]
    if name == "nullif":
        set_it, first = scope.named(values[0])
        equal = operators.compared(scope, "=", first, values[1])
        return replace(
            first,
            source=f"(None if {set_it}{equal.source} else {first.source})",
            nullable=True,
            is_name=False,
            constant=NOT_CONSTANT,
        )
    if name == "concat":
        return joined_texts(scope, [_or_empty(scope, _as_text(scope, one)) for one in values])
    if name == "concat_ws":
        separator, *texts = [_as_text(scope, one) for one in values]
        helper = scope.bind(text.joined)
        parts = "".join(f"{one.source}, " for one in texts)
        return scope.strict(
            [separator], SqlType.VARCHAR, lambda source: f"{helper}({source}, ({parts}))"
        )
    return _extreme(compiler, scope, name, values)


def _coalesced(compiler: Parts, scope: Scope, values: list[Fragment]) -> Fragment:
    of = compiler.unified(values, "coalesce")
    values = [scope.converted(one, of) for one in values if one.type is not SqlType.NULL]
    result = NULL
    for one in reversed(values):
        if not one.nullable:
            result = one
            continue
        set_it, first = ("", one) if one.is_name else (scope.temporary(), one)
        name = set_it or first.source
        test = f"({set_it} := {first.source})" if set_it else first.source
        source = f"({name} if {test} is not None else {result.source})"
        result = Fragment(source, of, nullable=result.nullable)
    return result


def _extreme(compiler: Parts, scope: Scope, name: str, values: list[Fragment]) -> Fragment:
    of = compiler.unified(values, name)
    if of in UNCOMPARED:
        raise ExpressionError(f"{name} takes values that can be compared")
    values = [scope.converted(one, of) for one in values if one.type is not SqlType.NULL]
    if not values:
        return NULL
    sources = ", ".join(one.source for one in values)
    nullable = all(one.nullable for one in values)
    is_plain = of in _PLAINLY_ORDERED and not any(one.nullable for one in values)
    if is_plain and len(values) > 1:
        builtin = {"least": "min", "greatest": "max"}[name]
        return Fragment(f"{builtin}({sources})", of, nullable=False)
    helper = scope.bind(_EXTREMES[name])
    return Fragment(f"{helper}({sources})", of, nullable=nullable)


_PLAINLY_ORDERED = (SqlType.BIGINT, SqlType.VARCHAR, SqlType.DATE)


def _order(value: Any) -> Any:
    """NaN is above all. A time may have an offset, or none."""
    if isinstance(value, datetime):
        return (False, times.plain(value))
    return (value != value, value if value == value else 0)


def _least(*values: Any) -> Any:
    return min((one for one in values if one is not None), key=_order, default=None)


def _greatest(*values: Any) -> Any:
    return max((one for one in values if one is not None), key=_order, default=None)


_EXTREMES: dict[str, Callable[..., Any]] = {"least": _least, "greatest": _greatest}


def tried(scope: Scope, one: Fragment) -> Fragment:
    """A value, or NULL where there is none."""
    helper = scope.bind(_tried)
    return Fragment(f"{helper}(lambda: {one.source})", one.type)


def or_null(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, but NULL where there is no result."""

    def tried_call(*values: Any) -> Any:
        try:
            return call(*values)
        except (ArithmeticError, ValueError, TypeError, Failed):
            return None

    return tried_call


_tried = or_null(lambda value: value())


def _as_text(scope: Scope, one: Fragment) -> Fragment:
    if one.type in (*UNCOMPARED, SqlType.BLOB):
        raise ExpressionError(f"{one.type.value} is no text", "Write a CAST.")
    return scope.converted(one, SqlType.VARCHAR)


def _or_empty(scope: Scope, one: Fragment) -> Fragment:
    if one.constant is None:
        return scope.constant("", SqlType.VARCHAR)
    return (
        replace(one, source=f"({one.source} or '')", nullable=False, is_name=False)
        if one.nullable
        else one
    )


def joined_texts(scope: Scope, values: Sequence[Fragment]) -> Fragment:
    """`a || b || …`."""
    texts = [_as_text(scope, one) for one in values]
    return scope.strict(texts, SqlType.VARCHAR, lambda *sources: f"({' + '.join(sources)})")


def like(
    scope: Scope, value: Fragment, pattern: Fragment, escape: Fragment | None, operator: str
) -> Fragment:
    """`value LIKE pattern`, or ILIKE."""
    for one in (value, pattern, *((escape,) if escape else ())):
        if one.type not in (SqlType.VARCHAR, SqlType.NULL, SqlType.UNKNOWN):
            raise ExpressionError(f"{operator.upper()} takes texts, and no {one.type.value}")
    if operator == "ilike":
        folded = scope.bind(text.lower)
        value, pattern = (
            scope.constant(text.lower(one.constant), SqlType.VARCHAR)
            if isinstance(one.constant, str)
            else scope.strict([one], SqlType.VARCHAR, lambda source: f"{folded}({source})")
            for one in (value, pattern)
        )
    if isinstance(pattern.constant, str) and (escape is None or isinstance(escape.constant, str)):
        try:
            said = pattern.constant, escape.constant if escape else ""
            source = text.like_source(*said) or _call_of(scope.bind(text.like(*said)))
        except ValueError as error:
            raise ExpressionError(str(error)) from error
        return scope.strict([value], SqlType.BOOLEAN, source)
    name = scope.bind(text.is_like)
    operands = [value, pattern, *((escape,) if escape else ())]
    return scope.strict(operands, SqlType.BOOLEAN, lambda *sources: f"{name}({', '.join(sources)})")


def _call_of(name: str) -> Callable[[str], str]:
    return lambda source: f"{name}({source})"
