"""The steps of an input: which rows of a stream it takes, and what it makes of each.

A row's values decide what an expression means for it, not what is declared: so the same row gives
the same result, whichever rows come with it. For all rows of a chunk whose values have the same
types, one function is made, and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Any

from fulmen.errors import PASSED_ON, error_text, repr_of
from fulmen.expressions.library.arithmetic import Failed
from fulmen.expressions.library.parts import rows_of_lists
from fulmen.expressions.mistakes import ExpressionError, TooDeep
from fulmen.expressions.nested import (
    NestedPart,
    part_getter,
    with_lists_as_columns,
    with_parts_as_columns,
)
from fulmen.expressions.parsing import parsed, quoted_name, shown
from fulmen.expressions.source.compiling import Compiler
from fulmen.expressions.source.fragments import Fragment, Scope, column_of
from fulmen.expressions.source.one_loop import OneLoop
from fulmen.expressions.sql_types import SqlType, declared_type

if TYPE_CHECKING:
    from sqlglot import exp

MOST_PROGRAMS = 64
"""Functions that are kept for different types of values."""
Types = tuple[type, ...]
Rows = Sequence[Sequence[Any]]
Program = Callable[[Iterable[Any]], list[Any]]


@dataclass(frozen=True)
class Steps:
    """What is done to the rows of a stream before they are divided among tasks.

    Attributes:
        fields: The stream's fields.
        where: Which rows are taken; None: all.
        select: The text of each new field; None: rows stay as they are.
        types: The types of the stream's fields, as far as they are declared.
        kept: How many of the first fields are kept in front of the new ones.
    """

    fields: tuple[str, ...]
    where: str | None = None
    select: tuple[tuple[str, str], ...] | None = None
    types: tuple[tuple[str, str], ...] = ()
    kept: int = 0

    @property
    def selected(self) -> tuple[str, ...]:
        """The fields of the rows that come out."""
        if self.select is None:
            return self.fields
        return (*self.fields[: self.kept], *(name for name, _ in self.select))


@dataclass
class Stepped:
    """What has become of some rows.

    Attributes:
        rows: Those that were taken, as they are now; None: they are as they were.
        at: The place of the row that each was made of; None: all were taken. With `unnest`, several
            may be of the same.
        failed: Place -> why there is no result for that row.
    """

    rows: list[Any] | None = None
    at: list[int] | None = None
    failed: dict[int, str] = field(default_factory=dict)


class StepsRunner:
    """Runs steps over rows.

    With an `unnest` there are two: the first gives its list to each row, the second makes the rows
    of the values of that.
    """

    def __init__(self, steps: Steps) -> None:
        declared = dict(steps.types)
        nulls = [declared_type(declared.get(name)) for name in steps.fields]
        self._lists = 0
        self._rest: _OneStep | None = None
        where = None if steps.where is None else [_Text("", steps.where, parsed(steps.where))]
        select = steps.select
        if select is not None:
            kept = [(name, quoted_name(name)) for name in steps.fields[: steps.kept]]
            select = (*kept, *select)
        texts = None if select is None else [_Text(*one, parsed(one[1])) for one in select]
        if texts is not None:
            lists: dict[str, _Text] = {}
            plain = []
            for one in texts:
                found = with_lists_as_columns(one.tree, one.text, steps.fields)
                for name, of in found.lists.items():
                    lists.setdefault(name, replace(one, tree=of))
                plain.append(replace(one, tree=found.tree))
            if lists:
                self._lists = len(lists)
                names = (*steps.fields, *lists)
                self._rest = _OneStep(names, [*nulls, *[SqlType.UNKNOWN] * len(lists)], None, plain)
                texts = [_passed_on(name) for name in steps.fields] + [*lists.values()]
        self._first = _OneStep(steps.fields, nulls, where, texts)

    def run(self, rows: Rows) -> Stepped:
        """Run the steps. Each row is a list or a tuple with a value for each field."""
        done = self._first.run(rows)
        return done if self._rest is None else self._unnested(self._rest, done)

    def _unnested(self, rest: _OneStep, done: Stepped) -> Stepped:
        """Go on with a row for each value of the lists. What fails for one fails its row."""
        given = done.rows or []
        at = range(len(given)) if done.at is None else done.at
        rows: list[Any] = []
        places: list[int] = []
        for place, row in zip(at, given, strict=True):
            try:
                some = rows_of_lists(row, self._lists)
            except Failed as error:
                done.failed[place] = f"select: {error}"
                continue
            rows += some
            places += [place] * len(some)
        then = rest.run(rows)
        made = then.rows if then.rows is not None else []
        if then.at is not None:
            for i, why in then.failed.items():
                done.failed.setdefault(places[i], why)
            places = [places[i] for i in then.at]
            left = [i for i, place in enumerate(places) if place not in done.failed]
            made, places = [made[i] for i in left], [places[i] for i in left]
        return Stepped(made or None, places, done.failed)


@dataclass(frozen=True)
class _Text:
    """An expression: the name of its field, "" for a condition; its text; and its tree."""

    name: str
    text: str
    tree: exp.Expr


def _passed_on(name: str) -> _Text:
    text = quoted_name(name)
    return _Text(name, text, parsed(text))


class _OneStep:
    """A condition and the fields of a new row, over rows with the parts that they ask for."""

    def __init__(
        self,
        fields: Sequence[str],
        nulls: Sequence[SqlType],
        where: Sequence[_Text] | None,
        select: Sequence[_Text] | None,
    ) -> None:
        parts: dict[str, NestedPart] = {}
        taken, made = (
            None if some is None else [_plain(one, fields, parts) for one in some]
            for some in (where, select)
        )
        self._widened = part_getter(fields, list(parts.values())) if parts else None
        fields, nulls = (*fields, *parts), [*nulls, *[SqlType.UNKNOWN] * len(parts)]
        self._where = None if taken is None else _Expressions(fields, nulls, taken, parts)
        self._select = (
            None if made is None else _Expressions(fields, nulls, made, parts, is_row=True)
        )
        self._one_loop = OneLoop(fields, nulls, self._where, self._select)

    def run(self, rows: Rows) -> Stepped:
        if self._widened is not None:
            rows = [*map(self._widened, rows)]
        if len(rows) and (found := self._one_loop.run(rows)) is not None:
            made, places = found
            return Stepped(made or None, None if places and len(places) == len(rows) else places)
        done = Stepped()
        if self._where is not None:
            taken, done.failed = self._where.of(rows)
            done.at = list(compress(range(len(rows)), taken))
            if len(done.at) == len(rows):
                done.at = None
            elif self._select is not None:
                rows = list(compress(rows, taken))
        if self._select is None or not len(rows):
            return done
        done.rows, failed = self._select.of(rows)
        if failed:
            at = range(len(rows)) if done.at is None else done.at
            done.failed |= {at[i]: why for i, why in failed.items()}
            done.at = [place for i, place in enumerate(at) if i not in failed]
            done.rows = [row for i, row in enumerate(done.rows) if i not in failed]
        return done


def _plain(one: _Text, fields: Sequence[str], parts: dict[str, NestedPart]) -> _Text:
    """An expression that asks only for columns; `parts`: gets the columns that are new."""
    found = with_parts_as_columns(one.tree, one.text, fields)
    parts |= found.parts
    return replace(one, tree=found.tree)


class _Expressions:
    """Expressions over the same rows: one condition, or the fields of a new row.

    Attributes:
        used: The places of the fields whose types decide what is meant.
    """

    def __init__(
        self,
        fields: Sequence[str],
        nulls: Sequence[SqlType],
        texts: Sequence[_Text],
        parts: Collection[str],
        *,
        is_row: bool = False,
    ) -> None:
        self._fields, self._nulls, self._is_row = fields, nulls, is_row
        self._texts, self._parts = texts, parts
        used = {
            node.name
            for one in texts
            if one.tree.key != "column" or one.tree.name in parts  # else it is passed on as it is
            for node in one.tree.walk()
            if node.key == "column"
        }
        self.used: Sequence[int] = [i for i, name in enumerate(fields) if name in used]
        self._programs: dict[Types, Program | str] = {}

    def of(self, rows: Rows) -> tuple[list[Any], dict[int, str]]:
        """The result for each row, and why some have none: by their places."""
        if not rows:
            return [], {}
        columns = [[row[i] for row in rows] for i in self.used]
        kinds = [set(map(type, column)) for column in columns]
        if all(len(kind) == 1 for kind in kinds):
            types = tuple(kind.pop() for kind in kinds)
            return self._alike(types, rows, columns)
        groups: dict[Types, list[int]] = {}
        for i, types in enumerate(zip(*(map(type, column) for column in columns), strict=True)):
            groups.setdefault(types, []).append(i)
        results: list[Any] = [None] * len(rows)
        failed: dict[int, str] = {}
        for types, at in groups.items():
            of = [[column[i] for i in at] for column in columns]
            some, wrong = self._alike(types, [rows[i] for i in at], of)
            for i, result in zip(at, some, strict=True):
                results[i] = result
            failed |= {at[i]: why for i, why in wrong.items()}
        return results, failed

    def _alike(
        self, types: Types, rows: Rows, columns: Sequence[Sequence[Any]]
    ) -> tuple[list[Any], dict[int, str]]:
        program = self._program(types)
        if isinstance(program, str):
            return [None] * len(rows), {i: self._why(row, program) for i, row in enumerate(rows)}
        try:
            return program(self._items(rows, columns)), {}
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (values may raise anything)
            return self._one_by_one(program, rows, columns)  # again: expressions change nothing

    def _one_by_one(
        self, program: Program, rows: Rows, columns: Sequence[Sequence[Any]]
    ) -> tuple[list[Any], dict[int, str]]:
        results: list[Any] = []
        failed = {}
        for i, item in enumerate(self._items(rows, columns)):
            try:
                results += program([item])
            except PASSED_ON:
                raise
            except BaseException as error:  # noqa: BLE001
                results.append(None)
                failed[i] = self._why(rows[i], _text_of(error))
        return results, failed

    def _items(self, rows: Rows, columns: Sequence[Sequence[Any]]) -> Iterable[Any]:
        """What a program runs over: rows, or for a condition only the values that it looks at."""
        if self._is_row or not columns:
            return rows
        return columns[0] if len(columns) == 1 else zip(*columns, strict=True)

    def _why(self, row: Sequence[Any], what: str) -> str:
        """Which of the expressions has no value for a row, and why: `what`, if there is one."""
        for one in self._alone:
            _, failed = one.of([row])
            if failed:
                return failed[0]
        values = ", ".join(f"{self._fields[i]} is {_shown(row[i])}" for i in self.used)
        what = f"{_place(self._texts[0].name, self._texts[0].text)}: {what}"
        return f"{what} ({values})" if values else what

    @cached_property
    def _alone(self) -> list[_Expressions]:
        """Each expression of a row by itself, if there are several."""
        if len(self._texts) == 1:
            return []
        of = self._fields, self._nulls
        return [_Expressions(*of, [text], self._parts, is_row=True) for text in self._texts]

    def _program(self, types: Types) -> Program | str:
        """The function for rows with values of these types; or why there is none."""
        program = self._programs.get(types)
        if program is None:
            if len(self._programs) >= MOST_PROGRAMS:
                self._programs.clear()
            program = self._programs[types] = self._made(types)
        return program

    def _made(self, types: Types) -> Program | str:
        scope = Scope()
        columns = {}
        of_used = dict(zip(self.used, types, strict=True))
        for i, name in enumerate(self._fields):
            columns[name] = column_of(f"v{i}", of_used.get(i), self._nulls[i])
        if self._is_row:
            item = "".join(f"v{i}, " for i in range(len(self._fields)))
        else:
            item = ", ".join(f"v{i}" for i in self.used)
        try:
            return compiled(self.sources(columns, scope), scope, item or "_")
        except ExpressionError as error:
            return str(error)

    @property
    def trees(self) -> list[exp.Expr]:
        """Their trees, in the order in which they are compiled."""
        return [one.tree for one in self._texts]

    def sources(self, columns: Mapping[str, Fragment], scope: Scope) -> str:
        """Their source: of a condition, or of a tuple of the fields."""
        sources = []
        for one in self._texts:
            compiler = Compiler(one.text, columns, scope)
            if not self._is_row:
                return compiler.condition(one.tree, "where")
            sources.append(compiler.of(one.tree).source)
        return f"({''.join(f'{source}, ' for source in sources)})"


def _text_of(error: BaseException) -> str:
    return str(error) if isinstance(error, Failed) else error_text(error)


def _place(name: str, text: str) -> str:
    """How messages name an expression."""
    return f"select {name} {shown(text)}" if name else f"where {shown(text)}"


def compiled(source: str, scope: Scope, item: str) -> Program:
    """A function that gives the value of a source for each of some items, named so."""
    lines = f"def program(items):\n    return [{source} for {item} in items]\n"
    try:
        exec(compile(lines, "<expression>", "exec"), scope.names)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise TooDeep("it is nested too deeply") from error
    program: Program = scope.names["program"]
    return program


def _shown(value: Any) -> str:
    text = repr_of(value)
    return text if len(text) <= 60 else text[:60] + "…"
