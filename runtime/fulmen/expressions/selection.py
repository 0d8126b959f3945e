"""What the steps of an input make of a stream, and what is wrong with them: before they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fulmen.api import Stream
from fulmen.expressions.mistakes import ExpressionError
from fulmen.expressions.nested import (
    NESTED,
    NestedPart,
    with_lists_as_columns,
    with_parts_as_columns,
)
from fulmen.expressions.parsing import column_of, parsed
from fulmen.expressions.source.compiling import Compiler
from fulmen.expressions.source.fragments import Fragment, Scope
from fulmen.expressions.sql_types import SqlType, declared_name, declared_type, element_name
from fulmen.expressions.steps import Steps, compiled

if TYPE_CHECKING:
    from sqlglot import exp

ANY_FIELDS = Stream(())
"""A stream of which nothing is known: expressions may name any field."""


class _AnyColumn(dict[str, Fragment]):
    def __missing__(self, name: str) -> Fragment:
        return Fragment("v0", SqlType.UNKNOWN, is_name=True)

    def get(self, name: str, default: object = None) -> Fragment:  # noqa: ARG002
        return self[name]


@dataclass
class Selection:
    """The stream that a bolt gets from an input with steps.

    Attributes:
        stream: Its fields, and what is known of their types.
        mistakes: The name of the new field, or "" for the condition; and what is wrong.
    """

    stream: Stream
    mistakes: list[tuple[str, ExpressionError]] = field(default_factory=list)


def steps_of(
    stream: Stream, where: str | None, select: Mapping[str, str] | None, kept: int = 0
) -> Steps | None:
    """The steps of an input; None: it has none.

    Args:
        stream: The stream that is subscribed to.
        where: The condition of rows that are taken; None: all are.
        select: The expression of each new field; None: rows stay as they are.
        kept: How many of the first fields stay in front of the new ones.
    """
    if where is None and select is None:
        return None
    texts = None if select is None else tuple(select.items())
    return Steps(stream.fields, where, texts, tuple(stream.types.items()), kept)


def selected(steps: Steps | None, stream: Stream) -> Selection:
    """The stream that steps make of another."""
    if steps is None:
        return Selection(stream)
    columns: dict[str, Fragment] = {
        name: _column(f"v{i}", stream.types.get(name)) for i, name in enumerate(stream.fields)
    }
    if stream is ANY_FIELDS:
        columns = _AnyColumn()
    done = Selection(stream)
    if steps.where is not None:
        _checked(steps.where, "", columns, done)
    if steps.select is None:
        return done
    types = {n: stream.types[n] for n in stream.fields[: steps.kept] if n in stream.types}
    renamed: dict[str, str] = {}
    made_of: dict[str, set[str]] = {}
    for name, text in steps.select:
        of, source, made_of[name] = _checked(text, name, columns, done)
        if source is not None:
            renamed.setdefault(source, name)
            known = stream.types.get(source)
        else:
            known = declared_name(of.type, of.element)
        if known is not None:
            types[name] = known
    done.stream = replace(
        stream,
        fields=steps.selected,
        types=types,
        no_key={renamed[n]: why for n, why in stream.no_key.items() if n in renamed},
        parts=[frozenset(n for n, of in made_of.items() if of & same) for same in stream.parts],
        time=stream.time
        and (
            replace(stream.time, field=renamed[stream.time.field])
            if stream.time.field in renamed
            else None
        ),
    )
    return done


def _checked(
    text: str, name: str, columns: dict[str, Fragment], done: Selection
) -> tuple[Fragment, str | None, set[str]]:
    """An expression's source, the field that it only passes on, and all that it is made of."""
    fragment = Fragment("None", SqlType.UNKNOWN)
    try:
        tree = parsed(text)
    except ExpressionError as error:
        done.mistakes.append((name, error))
        return fragment, None, set()
    wrong: list[ExpressionError] = []
    scope = Scope()
    try:
        plain = with_lists_as_columns(tree, text, columns)
        values: dict[str, SqlType] = {}
        for new, of in plain.lists.items():
            found = _fragment(of, text, columns, scope, wrong)
            values[new] = found.element
            if (mistake := _no_list(of, text, found, is_condition=not name)) is not None:
                wrong.append(mistake)
        known = _with(columns, values)
        fragment = _fragment(plain.tree, text, known, scope, wrong, is_condition=not name)
        if not wrong:
            compiled(fragment.source, scope, "_")
    except ExpressionError as error:
        wrong.append(error)
    done.mistakes += [(name, error) for error in wrong]
    is_passed_on = tree.key == "column" and not wrong
    names = {part.name for part in tree.walk() if part.key == "column"}
    return fragment, tree.name if is_passed_on else None, names


def _fragment(
    tree: exp.Expr,
    text: str,
    columns: dict[str, Fragment],
    scope: Scope,
    wrong: list[ExpressionError],
    *,
    is_condition: bool = False,
) -> Fragment:
    """The fragment of an expression without `unnest`, whose parts are of fields that have some."""
    plain = with_parts_as_columns(tree, text, columns)
    types = dict.fromkeys(plain.parts, SqlType.UNKNOWN)
    for name, part in plain.parts.items():
        of = columns.get(part.field)
        if of is None:
            among = tuple(columns)
            message = f"there is no field {part.field!r}"
            wrong.append(ExpressionError(message, "", part.column, wrong=part.field, among=among))
        elif of.type not in NESTED:
            cure = f'Write "{name}" if that is its name.' if name.rstrip("'") in columns else ""
            message = f"{part.field!r} is a {of.type.value}, which has no parts"
            wrong.append(ExpressionError(message, cure, part.column))
        elif (mistake := _no_part(of, part)) is not None:
            wrong.append(mistake)
        else:
            types[name] = of.element
    compiler = Compiler(text, _with(columns, types), scope, wrong)
    if is_condition:
        return Fragment(compiler.condition(plain.tree, "where"), SqlType.BOOLEAN)
    return compiler.of(plain.tree)


def _column(source: str, declared: str | None) -> Fragment:
    element = declared_type(element_name(declared))
    return Fragment(source, declared_type(declared), is_name=True, element=element)


def _no_part(of: Fragment, part: NestedPart) -> ExpressionError | None:
    """What is wrong with a part of a list."""
    if of.type is not SqlType.LIST:
        return None
    first, *more = part.steps
    if isinstance(first, str):
        message, cure = f"{part.field!r} is a LIST, whose parts have numbers", "Write {}[1]."
        return ExpressionError(message, cure.format(part.field), part.column)
    if more and of.element not in NESTED:
        message = f"{part.field}[{first}] is a {of.element.value}, which has no parts"
        return ExpressionError(message, "", part.column)
    return None


def _no_list(
    of: exp.Expr, text: str, found: Fragment, *, is_condition: bool
) -> ExpressionError | None:
    """What is wrong with the argument of an `unnest`."""
    if is_condition:
        cure = "Write unnest in select, and the condition at the next input."
        return ExpressionError("where can't make rows of a list", cure, column_of(of, text))
    if found.type in NESTED:
        return None
    cure = f"Write string_split({of.sql()}, ',')." if found.type is SqlType.VARCHAR else ""
    message = f"unnest takes a LIST, and no {found.type.value}"
    return ExpressionError(message, cure, column_of(of, text))


def _with(columns: dict[str, Fragment], types: Mapping[str, SqlType]) -> dict[str, Fragment]:
    """The columns and more, of these types."""
    more = {name: Fragment("v0", of, is_name=True) for name, of in types.items()}
    return columns if isinstance(columns, _AnyColumn) else columns | more
