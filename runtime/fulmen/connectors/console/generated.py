"""Spouts that make up what they emit: a clock, and a generator of rows."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, model_validator
from typing_extensions import override

from fulmen.api.components import Outputs
from fulmen.api.components.kept import Kept
from fulmen.api.declarer import Stream
from fulmen.api.times.event_time import milliseconds
from fulmen.connectors.base.source import MessageSource
from fulmen.connectors.options import Duration, Options

AGES = 1000 * 365 * 24 * 3600 * 1000
"""After so many milliseconds, made-up times begin again: there are none after the year 9999."""


class ClockOptions(Options):
    """The speed of the clock."""

    interval_seconds: Annotated[float, Field(gt=0)] = 1.0
    """The time between two ticks."""
    count: Annotated[int, Field(ge=1)] | None = None
    """The spout ends after so many ticks. Default: never."""


class ClockSpout(MessageSource):
    """Emits its number and the time, in seconds since 1970, at regular intervals.

    A tick that is missed is left out. Only the first task emits.
    """

    config_model = ClockOptions
    options: ClockOptions
    durable = ("number", "failed")

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    @override
    @classmethod
    def redistribute(cls, kept: Sequence[Kept], tasks: int) -> Sequence[Kept]:
        return [kept[0], *(Kept() for _ in range(1, tasks))]

    @override
    def outputs_for(self, options: Any) -> Outputs:
        return ("number", "time")

    @override
    def connect(self) -> None:
        self._is_mine = self.context.task_index == 0
        self._next: float | None = None

    @override
    def emit_next(self) -> bool:
        now = self.clock()
        if self.is_exhausted() or (self._next is not None and now < self._next):
            return False
        interval = self.options.interval_seconds
        late = 0.0 if self._next is None else (now - self._next) % interval
        self._next = now - late + interval
        number, self.number = self.number, self.number + 1
        self.emit_again((number, type(self).today()))
        return True

    @override
    def emit_again(self, msg_id: tuple[int, float]) -> None:
        self.collector.emit(list(msg_id), msg_id=msg_id)

    @property
    @override
    def knows_its_end(self) -> bool:
        return self.options.count is not None

    @override
    def is_exhausted(self) -> bool:
        count = self.options.count
        is_over = count is not None and self.number >= count
        return not self.failed and (is_over or not self._is_mine)


class SequenceField(Options):
    """0, 1, 2 and so on: each number once among all tasks."""

    type: Literal["sequence"]
    start: int = 0
    """The first number."""


class IntegerField(Options):
    """Random whole numbers."""

    type: Literal["integer"]
    min: int = 0
    """The least."""
    max: int = 100
    """The greatest."""


class NumberField(Options):
    """Random numbers."""

    type: Literal["number"]
    min: float = 0.0
    """All are at least this."""
    max: float = 1.0
    """All are below this."""


class ChoiceField(Options):
    """Values of a list, at random."""

    type: Literal["choice"]
    values: Annotated[tuple[Any, ...], Field(min_length=1)]
    """The list. What is in it twice is chosen twice as often."""


class TextField(Options):
    """Random letters."""

    type: Literal["text"]
    length: Annotated[int, Field(ge=1, le=64)] = 8
    """How many."""


class TimeField(Options):
    """Times that go on with the number of the row, in no strict order: event times to try."""

    type: Literal["time"]
    start: Annotated[
        AwareDatetime,
        Field(ge=datetime(1100, 1, 1, tzinfo=UTC), lt=datetime(8900, 1, 1, tzinfo=UTC)),
    ] = datetime(2026, 1, 1, tzinfo=UTC)
    """The time of the first row, with its offset from UTC."""
    step: Duration = "1s"
    """How much later each row is than the one before."""
    jitter: Duration = "0s"
    """Each time is earlier by a random part of this."""


AnyField = Annotated[
    SequenceField | IntegerField | NumberField | ChoiceField | TextField | TimeField,
    Field(discriminator="type"),
]


class GeneratorOptions(Options):
    """The rows, and how many there are."""

    fields: Annotated[dict[Annotated[str, Field(min_length=1)], AnyField], Field(min_length=1)]
    """The fields and what their values are: `{type: sequence}`, `integer` or `number` (with `min`
    and `max`), `choice` (with `values`), `text` (with `length`) or `time` (with `start`, `step` and
    `jitter`)."""
    rate: Annotated[float, Field(gt=0)] | None = 10.0
    """Rows a second, of all tasks together; null: as many as the topology takes."""
    count: Annotated[int, Field(ge=0)] | None = None
    """The spout ends after so many rows, of all tasks together. Default: never."""
    seed: int = 0
    """The same seed makes the same rows."""

    @model_validator(mode="after")
    def _check(self) -> GeneratorOptions:
        for name, field in self.fields.items():
            if isinstance(field, IntegerField | NumberField) and field.min > field.max:
                raise ValueError(f"fields.{name}: min {field.min} is above max {field.max}")
        return self


class GeneratorSpout(MessageSource):
    """Emits made-up rows at a rate. A row follows from the seed and its number alone.

    Task i of n emits the rows i, i + n, i + 2n and so on. When n changes, tasks may have come to
    different numbers: rows that some have not made yet, below those that others have, are `left`.
    """

    config_model = GeneratorOptions
    options: GeneratorOptions
    durable = ("made", "left", "failed")

    def __init__(self) -> None:
        super().__init__()
        self.made = 0
        self.left: list[range] = []

    @override
    @classmethod
    def redistribute(cls, kept: Sequence[Kept], tasks: int) -> Sequence[Kept]:
        before = len(kept)
        nexts = [one.fields.get("made", 0) * before + i for i, one in enumerate(kept)]
        highest = max(one.fields.get("made", 0) for one in kept) * before
        made = -(-highest // tasks)
        left = [rows for one in kept for rows in one.fields.get("left", ())]
        left += [range(first, made * tasks, before) for first in nexts]
        failed = [msg_id for one in kept for msg_id in one.fields.get("failed", ())]
        dealt = []
        for task in range(tasks):
            fields = {
                "made": made,
                "left": [mine for rows in left if (mine := rows[task::tasks])],
                "failed": dict.fromkeys(failed[task::tasks]),
            }
            ids = [m for one in kept for m in one.failed if m % tasks == task]
            dealt.append(Kept(fields, {}, ids))
        return dealt

    @override
    def outputs_for(self, options: Any) -> Outputs:
        times = [name for name, one in options.fields.items() if isinstance(one, TimeField)]
        return Stream(tuple(options.fields), types=dict.fromkeys(times, "timestamp"))

    @override
    def connect(self) -> None:
        self._index = self.context.task_index
        self._started: float | None = None
        self._sent = 0

    @override
    def emit_next(self) -> bool:
        if self.is_exhausted() or not self._is_due():
            return False
        first = min(self.left, key=lambda rows: rows[0], default=None)
        self.emit_again(self._next_row)
        self._sent += 1
        if first is None:
            self.made += 1
        else:
            self.left.remove(first)
            if rest := first[1:]:
                self.left.append(rest)
        return True

    @override
    def emit_again(self, msg_id: int) -> None:
        values = [
            value(field, msg_id, f"{self.options.seed}/{name}/{msg_id}")
            for name, field in self.options.fields.items()
        ]
        self.collector.emit(values, msg_id=msg_id)

    @property
    def _next_row(self) -> int:
        if self.left:
            return min(rows[0] for rows in self.left)
        return self.made * self.tasks + self._index

    @property
    @override
    def knows_its_end(self) -> bool:
        return self.options.count is not None

    @override
    def is_exhausted(self) -> bool:
        count = self.options.count
        is_over = count is not None and self._next_row >= count
        return is_over and not self.failed

    def _is_due(self) -> bool:
        if self.options.rate is None:
            return True
        now, rate = self.clock(), self.options.rate / self.tasks
        if self._started is None:
            self._started = now
        due = (now - self._started) * rate
        if due - self._sent > rate:  # more than a second behind: that is not made up for
            self._started, self._sent, due = now, 0, 0.0
        return due >= self._sent


def value(field: AnyField, number: int, random_by: str) -> Any:
    """The value of a field in a row.

    Args:
        field: Its options.
        number: Of the row.
        random_by: The same text makes the same value.
    """
    if isinstance(field, SequenceField):
        return field.start + number
    if isinstance(field, TextField):
        return "".join(string.ascii_lowercase[b % 26] for b in _digest(random_by, field.length))
    drawn = int.from_bytes(_digest(random_by, 8), "big")
    if isinstance(field, IntegerField):
        return field.min + drawn % (field.max - field.min + 1)
    if isinstance(field, NumberField):
        return field.min + (field.max - field.min) * (drawn >> 11) / (1 << 53)
    if isinstance(field, TimeField):
        late = drawn % (min(milliseconds(field.jitter), AGES) + 1)
        gone = milliseconds(field.step) * number % AGES
        return field.start + timedelta(milliseconds=gone - late)
    return field.values[drawn % len(field.values)]


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=size).digest()
