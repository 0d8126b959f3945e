"""Steps that are expressions, as `where` and `select` of the inputs behind them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fulmen.api import Stream
from fulmen.expressions.mistakes import ExpressionError
from fulmen.expressions.nested import makes_rows
from fulmen.expressions.parsing import parsed
from fulmen.expressions.selection import Selection, selected, steps_of
from fulmen.topology.problems import did_you_mean, there_are

WINDOW_LAST = "window_last"
"""The time of a window's result, which has a `window_end`: see `AggregateOptions.time`."""
ANY = Stream(())
"""Of a stream of which nothing is known, as its component has mistakes."""
LONGEST = 4_000
"""Characters of an expression that others are put into; more becomes a bolt's own steps."""


@dataclass(frozen=True)
class RowSource:
    """Where rows can be had: a stream of a component, and what an input is to do with it.

    Attributes:
        component: Its name.
        stream: The stream.
        emitted: That stream, as the component declares it.
        received: What the input gets.
        is_timed: Whether the component declares the stream's event time.
        where: The condition of the input.
        select: The fields of the input.
        ahead: Steps that the input has behind these, some of them functions.
        before: What these get; None: there are none.
    """

    component: str
    stream: str
    emitted: Stream
    received: Stream
    is_timed: bool = False
    where: str | None = None
    select: Mapping[str, str] | None = None
    ahead: tuple[Any, ...] = ()
    before: Stream | None = None

    def folded(self, texts: Mapping[str, str]) -> RowSource | None:
        """With one more step of expressions; None: it doesn't fit into an input.

        Behind a step that makes rows of lists, another one is not about the rows of the input.

        Args:
            texts: The new fields; or a condition, by the name "".
        """
        if self.ahead or any(map(makes_rows, (self.select or {}).values())):
            return None
        inner = self.select or {name: quoted(name) for name in self.emitted.fields}
        outer = {name: substituted(text, inner) for name, text in texts.items()}
        if "" in outer:
            where = outer[""] if self.where is None else f"({self.where}) and ({outer['']})"
            found = replace(self, where=where)
        else:
            found = replace(self, select=outer)
        if max(map(len, (found.where or "", *(found.select or {}).values()))) > LONGEST:
            return None
        steps = steps_of(self.emitted, found.where, found.select)
        received = selected(steps, self.emitted).stream
        return replace(found, received=with_time(received, self.received))

    def ordered(self, fields: Sequence[str]) -> RowSource:
        """With the same fields in another order."""
        if tuple(fields) == self.received.fields:
            return self
        if self.select is not None:
            select = {name: self.select[name] for name in fields}
            received = replace(self.received, fields=tuple(fields))
            return replace(self, select=select, received=received)
        folded = self.folded({name: quoted(name) for name in fields})
        return folded or self


def after(stream: Stream, texts: Mapping[str, str]) -> Selection:
    """The stream behind a step of expressions, and its mistakes."""
    where = texts.get("")
    found = selected(steps_of(stream, where, None if "" in texts else texts), stream)
    if "window_end" in found.stream.fields:
        found.stream = with_time(found.stream, stream)
    return found


def with_time(stream: Stream, before: Stream) -> Stream:
    """A stream that keeps the event time of the one before, if its field has kept its name."""
    if stream.time is not None or before.time is None:
        return stream
    name = "window_end" if before.time.field == WINDOW_LAST else before.time.field
    return replace(stream, time=before.time) if name in stream.fields else stream


def told(error: ExpressionError) -> tuple[str, str]:
    """What is wrong with an expression, and the cure."""
    if not error.wrong:
        return str(error), error.cure
    cure = did_you_mean(error.wrong, error.among)
    return str(error), cure or (there_are(error.among) if error.among else "")


def quoted(name: str) -> str:
    """The expression that only passes on a field."""
    if name.isidentifier():
        try:
            tree = parsed(name)
        except ExpressionError:
            pass
        else:
            if tree.key == "column" and tree.name == name:
                return name
    return '"' + name.replace('"', '""') + '"'


def substituted(text: str, inner: Mapping[str, str]) -> str:
    """An expression over other fields: those of which its own are made."""
    names: Callable[[str], str] = lambda name: _operand(inner.get(name, quoted(name)))  # noqa: E731
    for start, end, name in sorted(_columns(text), reverse=True):
        whole = names(name)
        if start == 0 and end == len(text):
            return inner.get(name, text)
        text = text[:start] + whole + text[end:]
    return text


def _operand(text: str) -> str:
    is_name = text.isidentifier() or (text[0] == text[-1] == '"' and text.count('"') == 2)
    return text if is_name else f"({text})"


def _columns(text: str) -> Iterator[tuple[int, int, str]]:
    """The places of the columns in an expression, and their names."""
    try:
        tree = parsed(text)
    except ExpressionError:  # which is told where the step stands
        return
    for node in tree.walk():
        if node.key == "column" and "start" in node.this.meta:
            yield node.this.meta["start"], node.this.meta["end"] + 1, node.name
