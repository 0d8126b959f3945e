"""`where` and `select` as one loop over the rows of a chunk, if all are of the types of its first.

The types are looked at in the loop itself: no column is made to see them, and none for the next
expression. A row of other types, or one for which there is no value, ends the loop, and all rows
are looked at anew in the way that tells them apart. That is right, as expressions change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from fulmen.errors import PASSED_ON
from fulmen.expressions.mistakes import ExpressionError
from fulmen.expressions.source.fragments import Fragment, Scope, column_of
from fulmen.expressions.source.repeated import RowScope
from fulmen.expressions.sql_types import SqlType

if TYPE_CHECKING:
    from sqlglot import exp

MOST_LOOPS = 64
"""Loops that are kept for different types of values."""
PAUSE = 32
"""After a loop that has ended early, so many chunks are not tried: theirs may be as mixed."""
Found = tuple[list[Any] | None, list[int] | None]
"""The rows that come out, None: they are as they were; and their places, None: all were taken."""
Loop = Callable[[Sequence[Any]], Found]


class Expressions(Protocol):
    """A condition, or the fields of a new row.

    Attributes:
        used: The places of the fields whose types decide what is meant.
    """

    used: Sequence[int]

    @property
    def trees(self) -> Iterable[exp.Expr]:
        """Their trees, in the order in which they are compiled."""

    def sources(self, columns: Mapping[str, Fragment], scope: Scope) -> str:
        """Their source."""


class Unlike(Exception):
    """The rows have to be told apart."""


def _unlike() -> NoReturn:
    raise Unlike


def _looked_up(places: Iterable[int]) -> list[str]:
    return [f"v{i} = row[{i}]" for i in sorted(places)]


class OneLoop:
    """The steps of an input."""

    def __init__(
        self,
        fields: Sequence[str],
        nulls: Sequence[SqlType],
        where: Expressions | None,
        select: Expressions | None,
    ) -> None:
        self._fields, self._nulls = fields, nulls
        self._where, self._select = where, select
        self._used = sorted({i for one in (where, select) if one for i in one.used})
        self._loops: dict[tuple[type, ...], Loop | None] = {}
        self._pause = 0

    def run(self, rows: Sequence[Any]) -> Found | None:
        """Run the steps over at least one row. None: rows have to be told apart."""
        if self._pause:
            self._pause -= 1
            return None
        first = rows[0]
        loop = self._loop(tuple([type(first[i]) for i in self._used]))
        if loop is not None:
            try:
                return loop(rows)
            except PASSED_ON:
                raise
            except BaseException:  # noqa: BLE001 (values may raise anything)
                pass
        self._pause = PAUSE
        return None

    def _loop(self, types: tuple[type, ...]) -> Loop | None:
        if types not in self._loops:
            if len(self._loops) >= MOST_LOOPS:
                self._loops.clear()
            self._loops[types] = self._made(types)
        return self._loops[types]

    def _made(self, types: tuple[type, ...]) -> Loop | None:
        of_used = dict(zip(self._used, types, strict=True))
        trees = [tree for one in (self._where, self._select) if one for tree in one.trees]
        scope = RowScope(trees)
        columns = {
            name: column_of(f"v{i}", of_used.get(i), self._nulls[i])
            for i, name in enumerate(self._fields)
        }
        try:
            lines = self._lines(scope, columns, of_used)
            exec(compile("\n".join(lines), "<expression>", "exec"), scope.names)
        except (ExpressionError, SyntaxError, RecursionError, MemoryError):
            return None  # the other way says what is wrong
        loop: Loop = scope.names["loop"]
        return loop

    def _lines(
        self, scope: RowScope, columns: Mapping[str, Fragment], of_used: Mapping[int, type]
    ) -> list[str]:
        """The function's source."""
        unlike, known = scope.bind(_unlike), set[int]()

        def calculated(one: Expressions) -> tuple[list[str], str]:
            others = [f"type(v{i}) is not {scope.bind(of_used[i])}" for i in one.used]
            others = [test for i, test in zip(one.used, others, strict=True) if i not in known]
            known.update(one.used)
            source = one.sources(columns, scope)
            return [
                *([f"if {' or '.join(others)}: {unlike}()"] if others else []),
                *scope.taken_lines(),
            ], source

        before, taken = ([], "") if self._where is None else calculated(self._where)
        then, row = ([], "") if self._select is None else calculated(self._select)
        if row:
            then.append(f"rows.append({row})")
        if self._where is not None:
            then.append("at.append(i)")
        each, values = "row", "".join(f"v{i}, " for i in range(len(self._fields)))
        first, rest = self._named_in(" ".join([*before, taken])), self._named_in(" ".join(then))
        if self._where is None or 2 * len(first) > len(self._fields):
            each = f"({values})"
        else:  # of rows left out, no more is looked at
            before = [*_looked_up(first), *before]
            then = [*_looked_up(rest - first), *then]
        if self._where is None:
            head, result = f"for {each} in items:", "rows, None"
        else:
            head, result = f"for i, {each} in enumerate(items):", "rows, at" if row else "None, at"
        body = [f" {line}" for line in then]
        if self._where is not None:
            body = [*before, f"if {taken}:", *body]
            body = [f" {line}" for line in body]
        return [
            "def loop(items):",
            " rows, at = [], []",
            f" {head}",
            *(f" {line}" for line in body),
            f" return {result}",
        ]

    def _named_in(self, source: str) -> set[int]:
        """The places of the fields whose values a source names, and perhaps of some others."""
        named = {int(number) for number in re.findall(r"\bv(\d+)", source)}
        return named & {*range(len(self._fields))}
