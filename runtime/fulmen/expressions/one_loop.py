"""`where` and `select` as one loop over the rows of a chunk, if all are of the types of its first.

The types are looked at in the loop itself: no column is made to see them, and none for the next
expression. A row of other types, or one for which there is no value, ends the loop, and all rows
are looked at anew in the way that tells them apart. That is right, as expressions change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from fulmen.errors import PASSED_ON
from fulmen.expressions.fragments import Fragment, Scope, column_of
from fulmen.expressions.mistakes import ExpressionError
from fulmen.expressions.sql_types import SqlType

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

    def sources(self, columns: Mapping[str, Fragment], scope: Scope) -> str:
        """Their source."""


class Unlike(Exception):
    """The rows have to be told apart."""


def _unlike() -> NoReturn:
    raise Unlike


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
        scope, of_used = Scope(), dict(zip(self._used, types, strict=True))
        columns = {
            name: column_of(f"v{i}", of_used.get(i), self._nulls[i])
            for i, name in enumerate(self._fields)
        }
        values = "".join(f"v{i}, " for i in range(len(self._fields)))
        unlike = f"{scope.bind(_unlike)}()"

        def guarded(one: Expressions) -> tuple[str, str]:
            tests = [f"type(v{i}) is {scope.bind(of_used[i])}" for i in one.used]
            return " and ".join(tests) or "True", one.sources(columns, scope)

        def looked_up(found: Iterable[int]) -> str:
            return "".join(f" for v{i} in (row[{i}],)" for i in sorted(found))

        lines = ["def loop(items):"]
        try:
            if self._select is not None:
                are_like, row = guarded(self._select)
                row = f"{row} if {are_like} else {unlike}"
            if self._where is None:
                lines.append(f" return [{row} for {values} in items], None")
            else:
                are_like, taken = guarded(self._where)
                taken = f"({are_like} or {unlike}) and ({taken})"
                each, rest, first = f"i, ({values}) in enumerate(items)", "", self._named_in(taken)
                if 2 * len(first) <= len(self._fields):  # of rows left out, no more is looked at
                    each = f"i, row in enumerate(items){looked_up(first)}"
                    rest = looked_up(self._named_in(row) - first) if self._select else ""
                if self._select is None:
                    lines.append(f" return None, [i for {each} if {taken}]")
                else:
                    lines += [" at = []", " add = at.append"]
                    chosen = f"{row} for {each} if {taken}{rest} if add(i) is None"
                    lines.append(f" return [{chosen}], at")
            exec(compile("\n".join(lines), "<expression>", "exec"), scope.names)
        except (ExpressionError, SyntaxError, RecursionError, MemoryError):
            return None  # the other way says what is wrong
        loop: Loop = scope.names["loop"]
        return loop

    def _named_in(self, source: str) -> set[int]:
        """The places of the fields whose values a source names, and perhaps of some others."""
        named = {int(number) for number in re.findall(r"\bv(\d+)", source)}
        return named & {*range(len(self._fields))}
