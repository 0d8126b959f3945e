"""Until when each left row of an interval join may be matched, as an expression of it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fulmen.api.components import FailedException
from fulmen.api.declarer import Stream
from fulmen.api.times.event_time import MUST_BE, NO_TIMES
from fulmen.errors import EventTimeError
from fulmen.expressions.parsing import shown
from fulmen.expressions.selection import selected, steps_of
from fulmen.expressions.steps import StepsRunner
from fulmen.topology.problems import did_you_mean, there_are
from fulmen.windows.joins.options import IntervalJoinOptions
from fulmen.windows.joins.side_rows import Row

UNTIL = "until"


class RowEnds:
    """Reads the times until which left rows may be matched."""

    def __init__(
        self, options: IntervalJoinOptions, inputs: Mapping[tuple[str, str], Stream]
    ) -> None:
        assert options.until is not None
        steps = steps_of(_left_of(options, inputs), None, {UNTIL: options.until})
        assert steps is not None
        self._runner, self._reader = StepsRunner(steps), options.reader()

    def of(self, rows: Sequence[Row]) -> list[int | FailedException | None]:
        """The time of each row; None: it has no end of its own; or why it can't be told."""
        done = self._runner.run(rows)
        if done.failed or done.rows is None or len(done.rows) != len(rows):
            return [self._of(row) for row in rows]
        return [self._read(value) for (value,) in done.rows]

    def _of(self, row: Row) -> int | FailedException | None:
        done = self._runner.run([row])
        if done.failed:
            return FailedException(done.failed[0].removeprefix("select "))
        assert done.rows is not None
        return self._read(done.rows[0][0])

    def _read(self, value: object) -> int | FailedException | None:
        if value is None:
            return None
        try:
            return self._reader.read(value)
        except EventTimeError as error:
            return FailedException(f"until: {error}")


def mistaken_until(
    options: IntervalJoinOptions, inputs: Mapping[tuple[str, str], Stream]
) -> Iterator[str]:
    """Yield the mistakes of `until`."""
    text, stream = options.until or "", _left_of(options, inputs)
    found = selected(steps_of(stream, None, {UNTIL: text}), stream)
    for _, error in found.mistakes:
        near = error.cure
        if error.wrong:
            near = did_you_mean(error.wrong, error.among) or there_are(error.among)
        wrong = f"until {shown(text)}: {error}"
        yield f"{wrong}. {near}" if near else wrong
    if (kind := found.stream.types.get(UNTIL)) in NO_TIMES:
        yield f"until {shown(text)} is a {kind}, {MUST_BE}"


def _left_of(options: IntervalJoinOptions, inputs: Mapping[tuple[str, str], Stream]) -> Stream:
    """The outputs of the left side, with the types that are known."""
    side = options.left
    stream = inputs.get((side.from_, side.stream))
    known = {} if stream is None else stream.types
    types = {name: known[of] for name, of in side.outputs.items() if of in known}
    return Stream(tuple(side.outputs), types=types)
