"""Steps as one loop over the rows of a chunk. Pure.

Functions that follow each other become one generated function, in which a row is made once for all
of them; expressions between them run as those of an input do. A row that raises fails alone:
nothing of it comes out, and no function runs twice for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from fulmen.api import Stream
from fulmen.api.signals import StepRows
from fulmen.errors import PASSED_ON, FulmenError, error_text
from fulmen.expressions.selection import steps_of
from fulmen.expressions.steps import StepsRunner
from fulmen.streams.graph.nodes import StepNode
from fulmen.streams.rows.folding import with_time
from fulmen.streams.rows.shapes import Shape

Rows = Sequence[Any]
NULLS_TOLD = 5
Fail = Callable[[int, int, BaseException], None]
Loop = Callable[[Rows, Fail], tuple[list[Any], list[int], tuple[int, ...]]]
"""Gives rows, the places of those that they were made of, and of each step how many rows a filter
has left out, or a flat_map has made."""


class StepFailed(FulmenError):
    """A function of an author's raised. Its text says in which step, and where that is."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class FailedRow(NamedTuple):
    """A row for which there is no result.

    Attributes:
        step: The name of the step.
        reason: Why.
        error: What it raised.
    """

    step: str
    reason: str
    error: BaseException


class LoopResult(NamedTuple):
    """What has become of some rows.

    Attributes:
        rows: Those that come out.
        at: The place of the row that each was made of.
        failed: Place -> what happened.
        steps: How many rows each step got and gave.
    """

    rows: list[Any]
    at: list[int]
    failed: dict[int, FailedRow]
    steps: Sequence[StepRows] = ()


class StepsLoop:
    """Runs steps over rows.

    Attributes:
        fields: Of the rows that come out.
    """

    def __init__(self, steps: Sequence[StepNode], stream: Stream) -> None:
        """Compile the steps.

        Args:
            steps: One after another.
            stream: The fields of the rows that come, and what is known of their types.
        """
        self._numbers = {step: number for number, step in enumerate(steps, 1)}
        self._parts: list[tuple[Sequence[StepNode], StepsRunner | Loop, Sequence[str]]] = []
        fields = stream.fields
        for is_text, some in groupby(steps, key=lambda step: step.is_text):
            listed = list(some)
            for step in listed if is_text else ():
                texts = step.expressions(fields)
                where = texts.pop("", None)
                ran = steps_of(Stream(fields), where, None if where is not None else texts)
                assert ran is not None
                self._parts.append(([step], StepsRunner(ran), fields))
                fields = ran.selected
            if not is_text:
                self._parts.append((listed, _compiled(listed, fields), fields))
                fields = fields_after(listed, fields)
        self.fields = fields

    def run(self, rows: Rows) -> LoopResult:
        """Run them. Each row is a list or a tuple."""
        given, failed = rows, dict[int, FailedRow]()
        at: Sequence[int] | None = None
        done_by: list[StepRows] = []
        for steps, part, fields in self._parts:
            n = len(given)
            wrong: dict[int, FailedRow] = {}
            if isinstance(part, StepsRunner):
                done = part.run(given)
                places: Sequence[int] | None = done.at
                if done.rows is not None:
                    given = done.rows
                elif places is not None:
                    given = [given[i] for i in places]
                for i, why in done.failed.items():
                    text = f"{self._where(steps[0])}: {why}"
                    wrong[i] = FailedRow(steps[0].name, text, StepFailed(text))
                done_by.append(StepRows(steps[0].name, n, len(given), len(wrong)))
            else:
                failures = [0] * len(steps)
                noted = self._noted(steps, fields, given, wrong, failures)
                given, places, counted = part(given, noted)
                done_by += _done(steps, n, counted, failures)
            if at is not None:
                wrong = {at[i]: one for i, one in wrong.items()}
                places = at if places is None else [at[i] for i in places]
            at = places if places is not None else at
            failed |= wrong
        rows_out = given if isinstance(given, list) else list(given)
        places_out = list(range(len(rows_out))) if at is None else list(at)
        if failed and any(place in failed for place in places_out):  # another row of the same one
            left = [i for i, place in enumerate(places_out) if place not in failed]
            rows_out, places_out = [rows_out[i] for i in left], [places_out[i] for i in left]
        return LoopResult(rows_out, places_out, failed, done_by)

    def _noted(
        self,
        steps: Sequence[StepNode],
        fields: Sequence[str],
        rows: Rows,
        into: dict[int, FailedRow],
        failures: list[int],
    ) -> Fail:
        def fail(row: int, number: int, error: BaseException) -> None:
            step = steps[number]
            failures[number] += 1
            if error.__traceback__ is not None:  # without this loop
                error.__traceback__ = error.__traceback__.tb_next
            why = f"{error_text(error)}{_nulls(error, fields, rows[row])}"
            into[row] = FailedRow(step.name, f"{self._where(step)}: {why}", error)

        return fail

    def _where(self, step: StepNode) -> str:
        return f"step {self._numbers[step]} {step.operator!r} ({step.place})"


def _nulls(error: BaseException, fields: Sequence[str], row: Sequence[Any]) -> str:
    """The fields that are None, if that may be why a function raised."""
    if not isinstance(error, TypeError | AttributeError) or "NoneType" not in str(error):
        return ""
    nulls = [name for name, value in zip(fields, row, strict=True) if value is None]
    more = f" and {len(nulls) - NULLS_TOLD} more" if len(nulls) > NULLS_TOLD else ""
    return f" (None in this row: {', '.join(nulls[:NULLS_TOLD])}{more})" if nulls else ""


def _done(
    steps: Sequence[StepNode], rows: int, counted: Sequence[int], failures: Sequence[int]
) -> Iterator[StepRows]:
    """How many rows each step of a loop got and gave, given the rows that the first one got."""
    for step, count, failed in zip(steps, counted, failures, strict=True):
        if step.operator == "flat_map":
            given = count
        else:
            given = 0 if step.operator == "for_each" else rows - count - failed
        yield StepRows(step.name, rows, given, failed)
        rows = given


def fields_after(steps: Sequence[StepNode], fields: Sequence[str]) -> tuple[str, ...]:
    """The fields behind steps."""
    for step in steps:
        if step.shape is not None:
            fields = step.shape.fields
        elif step.operator == "with_fields":
            fields = tuple(dict.fromkeys([*fields, *step.functions, *step.texts]))
        elif "" not in step.texts and step.texts:
            fields = tuple(step.texts)
    return tuple(fields)


def _compiled(steps: Sequence[StepNode], fields: tuple[str, ...]) -> Loop:
    """The loop of some functions."""
    source = _LoopSource(steps, fields)
    exec(compile("\n".join(source.lines()), "<steps>", "exec"), source.names)
    loop: Loop = source.names["loop"]
    return loop


class _LoopSource:
    """The source of a loop. In it `v` is the values of a row, and `r` the object of them.

    An object is only made for a function that gets it, and values of it only where there are none:
    its class may have fewer fields than the rows, or have them in another order.
    """

    def __init__(self, steps: Sequence[StepNode], fields: tuple[str, ...]) -> None:
        self.names: dict[str, Any] = {"PASSED_ON": PASSED_ON}
        self._steps = steps
        self._shape = Shape(fields, steps[0].parents[0].row)
        self._has_object, self._has_values = False, True

    def _bound(self, value: Any) -> str:
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def lines(self) -> Iterator[str]:
        """Its lines."""
        makes_several = any(step.operator == "flat_map" for step in self._steps)
        yield "def loop(rows, fail):"
        yield "  out, at = [], []"
        yield "  add, note = out.append, at.append"
        yield f"  {' = '.join(f'c{number}' for number in range(len(self._steps)))} = 0"
        yield "  for i, v in enumerate(rows):"
        if makes_several:
            yield "    n = len(out)"
        yield "    s = 0"
        yield "    try:"
        indent = " " * 6
        for number, step in enumerate(self._steps):
            yield from (indent + line for line in self._object())
            if number:
                yield f"{indent}s = {number}"
            yield from (indent + line for line in self._lines_of(number, step))
            if step.operator == "flat_map":
                indent += "  "
        if self._steps[-1].operator != "for_each":
            yield f"{indent}add({self._values()}); note(i)"
        yield "    except PASSED_ON: raise"
        yield "    except BaseException as error:"
        if makes_several:
            yield "      del out[n:], at[n:]"
        yield "      fail(i, s, error)"
        yield f"  return out, at, ({''.join(f'c{i}, ' for i in range(len(self._steps)))})"

    def _object(self) -> Iterator[str]:
        if not self._has_object:
            yield f"r = {self._bound(self._shape.wrap)}(v)"
            self._has_object = True

    def _values(self) -> str:
        return "v" if self._has_values else f"{self._bound(self._shape.unwrap)}(r)"

    def _lines_of(self, number: int, step: StepNode) -> Iterator[str]:
        """Those of a step, which has its object."""
        called = [f"{self._bound(function)}(r)" for function in step.functions.values()]
        shape = step.shape
        if step.operator == "filter":
            yield f"if not {called[0]}:"
            yield f"  c{number} += 1"
            yield "  continue"
        elif shape is None and step.operator != "with_fields":  # peek and for_each
            yield called[0]
        elif shape is None:
            yield from self._with_fields(step, called)
        else:
            self._shape, self._has_values = shape, False
            if step.operator == "map":
                yield f"r = {self._bound(shape.accept)}({called[0]})"
            else:
                yield f"for r in {self._bound(shape.accept_all)}({called[0]}):"
                yield f"  c{number} += 1"

    def _with_fields(self, step: StepNode, called: Sequence[str]) -> Iterator[str]:
        fields = self._shape.fields
        made = dict(zip(step.functions, called, strict=True))
        new = fields_after([step], fields)
        if not self._has_values:
            yield f"v = {self._values()}"
        if new == (*fields, *made):
            values = ["*v", *called]
        else:
            values = [made.get(name) or f"v[{fields.index(name)}]" for name in new]
        yield f"v = [{', '.join(values)}]"
        self._shape = Shape(new, step.row)
        self._has_object, self._has_values = False, True


def typed(steps: Sequence[StepNode], stream: Stream) -> Stream:
    """The stream behind steps of functions, with what is known of its types and its time."""
    for step in steps:
        fields = fields_after([step], stream.fields)
        types: Mapping[str, str] = stream.types
        if step.shape is not None:
            types = step.shape.types
        elif step.functions and step.operator == "with_fields":
            types = {name: kind for name, kind in types.items() if name not in step.functions}
        stream = with_time(Stream(fields, types=types), stream)
    return stream
