"""The configuration of joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator
from typing_extensions import override

from fulmen.api.times.event_time import RETRACTION, milliseconds
from fulmen.connectors.options import Duration, Options
from fulmen.errors import EventTimeError
from fulmen.windows.options import (
    FIXED,
    CalendarWindow,
    Name,
    Positive,
    Session,
    SlidingWindow,
    TimedOptions,
    Tumbling,
    described,
    longest,
)


def signed_milliseconds(duration: str) -> int:
    """Read a duration that may be negative, in milliseconds.

    Raises:
        ValueError: It is not a duration.
    """
    length = milliseconds(duration.removeprefix("-"))
    return -length if duration.startswith("-") else length


def _signed(duration: str) -> str:
    signed_milliseconds(duration)
    return duration


SignedDuration = Annotated[str, Field(max_length=20), AfterValidator(_signed)]


class Side(Options):
    """One of the two streams."""

    from_: Annotated[Name, Field(alias="from")]
    """The component that it is from."""
    stream: Name = "default"
    """Its stream."""
    key: tuple[Name, ...] = ()
    """The fields that must equal those of the other side. Default: `key` of the join."""
    time: Name | None = None
    """The field with the event time. Default: that of `eventTime` of the component."""
    fields: tuple[Name, ...] | dict[Name, Name]
    """What is emitted of it: names of fields, or the name of each output and the field that it is.
    Without a match, these are None, but for the key of the join."""

    @property
    def outputs(self) -> Mapping[str, str]:
        """The name of each output, and which field it is."""
        if isinstance(self.fields, Mapping):
            return self.fields
        return {name: name for name in self.fields}


class JoinOptions(TimedOptions):
    """The `config` that all joins share."""

    left: Side
    """One stream."""
    right: Side
    """The other one."""
    key: tuple[Name, ...] = ()
    """The fields that must be equal. Both inputs must be grouped by them. An output that has the
    name of one of them, and is that part of the key, is the key of either side."""
    where: Annotated[str, Field(min_length=1)] | None = None
    """A condition of a pair beside the key, such as `amount <= most`: an expression of the outputs
    of both sides. A pair for which it is not true is none."""

    @property
    def sides(self) -> tuple[Side, Side]:
        """Left and right."""
        return self.left, self.right

    def key_of(self, side: Side) -> tuple[str, ...]:
        """The fields of the key of a side."""
        return side.key or self.key

    @property
    def outer(self) -> tuple[bool, bool]:
        """Whether rows of the left, and of the right side are emitted without a match."""
        return self.kind in ("left", "full", "anti"), self.kind in ("right", "full")

    @property
    def kind(self) -> str:
        """The type of the join."""
        return getattr(self, "type", "inner")

    @property
    def takes_late(self) -> str:
        """How far below the watermark a tuple may be."""
        return "0"

    @property
    def goes_by_clock(self) -> bool:
        """Whether the time of a tuple is the time of day when it comes."""
        return False

    @property
    def emits_right(self) -> bool:
        """Whether fields of the right side are emitted, and not only there for `where`."""
        return self.kind not in ("semi", "anti")

    @property
    def names(self) -> Sequence[str]:
        """The names of the fields that are emitted of both sides."""
        return (*self.left.outputs, *(self.right.outputs if self.emits_right else ()))

    def no_key(self) -> dict[str, str]:
        """Outputs that do not tell rows apart, and why."""
        found: dict[str, str] = {}
        if not self.emits_right:
            return found
        for side, is_alone in zip(self.sides, reversed(self.outer), strict=True):
            of_key = {place for place, _ in self.of_key(side)}
            if is_alone:
                reason = f"it is None where {side.from_!r} has no match"
                found |= {n: reason for i, n in enumerate(side.outputs) if i not in of_key}
        return found

    def parts(self) -> Sequence[frozenset[str]]:
        """Of each field of the key: the outputs that have it."""
        sides = self.sides if self.emits_right else self.sides[:1]
        return [
            frozenset(
                name
                for side in sides
                for name, source in side.outputs.items()
                if source == self.key_of(side)[place]
            )
            for place in range(len(self.key_of(self.left)))
        ]

    def of_key(self, side: Side) -> Sequence[tuple[int, int]]:
        """Outputs of a side that are the key of either side, as that of `USING` in SQL.

        Returns:
            Of each: which output of the side it is, and which part of the key.
        """
        parts = list(zip(self.key, self.key_of(side), strict=bool(self.key)))
        outputs = enumerate(side.outputs.items())
        return [(place, parts.index(output)) for place, output in outputs if output in parts]

    def more_outputs(self) -> Sequence[str]:
        """The names of outputs besides the fields of both sides."""
        return ()

    def kept_as(self) -> dict[str, str]:
        """The options that must not change while rows are kept: option -> value."""
        found = {}
        for name, side in zip(("left", "right"), self.sides, strict=True):
            found[f"{name}.key"] = ", ".join(self.key_of(side))
            found[f"{name}.fields"] = ", ".join(side.outputs.values())
        return found

    @model_validator(mode="after")
    def _is_whole(self) -> JoinOptions:
        wrong = list(self._wrong())
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    def _wrong(self) -> list[str]:
        found = []
        left, right = (self.key_of(side) for side in self.sides)
        if not left or not right:
            found.append("key is missing: name the fields that must be equal")
        elif len(left) != len(right):
            found.append(f"the keys differ in length: {list(left)} and {list(right)}")
        elif self.key and len(self.key) != len(left):
            found.append(f"the keys differ in length: {list(self.key)} and {list(left)}")
        if (self.left.from_, self.left.stream) == (self.right.from_, self.right.stream):
            found.append(
                f"left and right are both stream {self.left.stream!r} of {self.left.from_!r}: a"
                " stream can't be joined with itself. Have a bolt emit it on two streams"
            )
        names = [*self.left.outputs, *self.right.outputs, *self.more_outputs()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            found.append(
                f"several output fields are called {', '.join(twice)}: name them anew, as in"
                f" fields: {{left_{twice[0]}: {twice[0]}}}"
            )
        return found


class LateOptions(JoinOptions):
    """Options of joins by event time."""

    allowed_lateness: Duration = "0"
    """So much older than the watermark a tuple may be. It is joined with what is there, and what
    may match it is kept for so much longer. What has no match is emitted so much later."""

    @property
    @override
    def takes_late(self) -> str:
        return self.allowed_lateness

    @property
    def delay(self) -> int:
        """How long after the time of a side a row may be emitted, in milliseconds."""
        return 0


class OuterJoinOptions(JoinOptions):
    """Options of joins that treat both sides alike."""

    type: Literal["inner", "left", "right", "full"] = "inner"
    """Which side is emitted without a match as well: none, the left one, the right one, or both."""


class TimedJoinOptions(LateOptions):
    """Options of joins whose rows may be matched for some time only."""

    type: Literal["inner", "left", "right", "full", "semi", "anti"] = "inner"
    """Which side is emitted without a match as well: none, the left one, the right one, or both.
    `semi` and `anti`: left rows alone, each once, if there is a match, or if there is none."""
    by: Literal["time", "clock"] = "time"
    """`clock`: the time of a tuple is the time of day when it comes. Then nothing is late, and no
    event time is needed."""

    @property
    @override
    def goes_by_clock(self) -> bool:
        return self.by == "clock"

    @property
    def reads_times(self) -> bool:
        """Whether times are read from tuples."""
        return not self.goes_by_clock

    @override
    def kept_as(self) -> dict[str, str]:
        return {**super().kept_as(), "by": self.by}

    def _wrong(self) -> list[str]:
        found = super()._wrong()
        times = {"left.time": self.left.time, "right.time": self.right.time}
        if not self.reads_times:
            times["unit"] = self.unit
        named = [name for name, value in times.items() if value is not None]
        if self.goes_by_clock and named:
            found.append(
                f"by: clock goes by when tuples come, and has no {named[0]}. Leave one out"
            )
        if self.goes_by_clock and milliseconds(self.allowed_lateness):
            found.append(
                "by: clock has no allowedLateness: nothing is late by the clock. Leave it out"
            )
        return found


class WindowJoinOptions(TimedJoinOptions):
    """The `config` of a `WindowJoin`."""

    window: Annotated[
        Tumbling | SlidingWindow | Session | CalendarWindow, Field(discriminator="type")
    ]

    @override
    def more_outputs(self) -> Sequence[str]:
        return FIXED

    @override
    def kept_as(self) -> dict[str, str]:
        return {**super().kept_as(), "window": described(self.window)}

    @property
    @override
    def delay(self) -> int:
        return longest(self.window)

    def _wrong(self) -> list[str]:
        found = super()._wrong()
        if isinstance(self.window, Session) and milliseconds(self.allowed_lateness):
            found.append(
                "allowedLateness is not for sessions: a late row may make one of two that were"
                " emitted. Raise the lag of eventTime, or lead the streams late_left and late_right"
                " on"
            )
        return found


class IntervalJoinOptions(TimedJoinOptions):
    """The `config` of an `IntervalJoin`."""

    lower: SignedDuration = "0"
    """How much later than the left time the right time is at least. Negative: earlier."""
    upper: SignedDuration
    """How much later than the left time the right time is at most."""
    until: Annotated[str, Field(min_length=1)] | None = None
    """The latest right time that matches a left row, if `upper` allows it: an expression of the
    outputs of the left side, such as `expires`. The row is forgotten then. Null: `upper` alone."""

    @property
    @override
    def reads_times(self) -> bool:
        return super().reads_times or self.until is not None

    @override
    def kept_as(self) -> dict[str, str]:
        bounds = {
            name: f"{signed_milliseconds(duration)} ms"
            for name, duration in (("lower", self.lower), ("upper", self.upper))
        }
        is_told = self.type != "inner"  # which rows have had a match is kept
        where = {"where": self.where or "nothing"} if is_told else {}
        bounds["until"] = self.until or "nothing"
        return {**super().kept_as(), **bounds, "type": self.type, **where}

    @property
    @override
    def delay(self) -> int:
        return max(signed_milliseconds(self.upper), -signed_milliseconds(self.lower), 0)

    def _wrong(self) -> list[str]:
        found = super()._wrong()
        if signed_milliseconds(self.lower) > signed_milliseconds(self.upper):
            found.append(f"lower is {self.lower}, but must not be above upper, {self.upper}")
        return found


class WithTableOptions(JoinOptions):
    """Options of joins with a table: the right side."""

    type: Literal["inner", "left", "semi", "anti"] = "inner"
    """`left`: what finds no row of the table is emitted as well. `semi` and `anti`: left rows
    alone, if they find one, or none."""


class TableSide(Side):
    """One of the two tables."""

    id: tuple[Name, ...] = ()
    """The fields that tell the rows of one key apart, if a key may have several rows, as a foreign
    key has. Of each, the newest row counts. Default: a key has one row."""


class TableJoinOptions(OuterJoinOptions):
    """The `config` of a `TableJoin`."""

    left: TableSide
    right: TableSide

    @override
    def no_key(self) -> dict[str, str]:
        found = super().no_key()
        for name, side in (("left", self.left), ("right", self.right)):
            known = {*self.key_of(side), *side.id}
            reason = (
                f"of each value of {', '.join(self.key_of(side))} the join keeps one row of"
                f" {side.from_!r} alone. If there are several, as of a foreign key, name what tells"
                f" them apart: {name}.id"
            )
            rest = {out: reason for out, field in side.outputs.items() if field not in known}
            found = rest | found
        return found

    def _wrong(self) -> list[str]:
        found = super()._wrong()
        if self.where is not None:
            found.append(
                "where is not for a TableJoin, in which a pair may become another one: write it as"
                " `where` of the input behind the join, if no row has to be taken back"
            )
        for name, side in (("left", self.left), ("right", self.right)):
            if missing := [field for field in side.id if field not in side.outputs.values()]:
                found.append(
                    f"{name}.id: {missing[0]!r} is not among {name}.fields. Add it there: without"
                    " it, nobody could tell the rows apart"
                )
        return found

    @override
    def kept_as(self) -> dict[str, str]:
        sides = {"left.id": self.left.id, "right.id": self.right.id}
        ids = {name: ", ".join(fields) or "nothing" for name, fields in sides.items()}
        return {**super().kept_as(), **ids, "type": self.type}


class RegularJoinOptions(JoinOptions):
    """The `config` of a `RegularJoin`."""

    type: Literal["inner", "left", "right", "full", "semi", "anti"] = "inner"
    """Which side is emitted without a match as well: none, the left one, the right one, or both.
    `semi` and `anti`: left rows alone, each once, if there is a match, or if there is none."""
    forget_after: Positive | None = None
    """Rows whose event times are further apart are no pair, and a row that is so far below the
    watermark is late. A row is forgotten when the watermark is twice as far past its time. Default:
    rows are kept until they are taken back."""

    @property
    @override
    def takes_late(self) -> str:
        return self.forget_after or "0"

    @override
    def more_outputs(self) -> Sequence[str]:
        return (RETRACTION,)

    @override
    def kept_as(self) -> dict[str, str]:
        kept = {"forgetAfter": self.forget_after or "nothing", "type": self.type}
        return {**super().kept_as(), **kept, "where": self.where or "nothing"}

    def _wrong(self) -> list[str]:
        found = super()._wrong()
        for name, side in zip(("left", "right"), self.sides, strict=True):
            if RETRACTION in side.outputs.values():
                found.append(
                    f"{name}.fields: {RETRACTION!r} says whether a row takes back another one, and"
                    " is emitted anyway. Leave it out"
                )
            if side.time is not None and self.forget_after is None:
                found.append(
                    f"{name}.time is for forgetAfter alone: without it, rows are kept for good"
                )
        return found


class TemporalJoinOptions(WithTableOptions, LateOptions):
    """The `config` of a `TemporalJoin`."""

    @model_validator(mode="before")
    @classmethod
    def _has_no_clock(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("by") == "clock":
            raise ValueError(
                "by: clock is not for a TemporalJoin. A LookupJoin finds the row that is there when"
                " a tuple comes"
            )
        return given

    forget_after: Positive | None = None
    """A key of which no right row has come for so long is forgotten. Default: the last row of each
    key is kept for good."""
    forget_by: Literal["event", "clock"] = "event"
    """`event`: a right row is valid for `forgetAfter` after its time, and forgotten when no left
    tuple can ask for it any more. `clock`: it is forgotten when the key has had no row for so long
    of the clock, which stands still while the topology does not run."""


class LookupJoinOptions(WithTableOptions):
    """The `config` of a `LookupJoin`."""

    wait_for: str | int | None = None
    """Left tuples are held until the watermark of what the join receives has come to this time, so
    that the table is there: text in ISO 8601, or a number in `unit`. Default: none is held."""
    hold_at_most: Annotated[int, Field(ge=1)] = 100_000
    """How many left tuples a task holds. More of them fail, and come again later."""

    @property
    def waits_until(self) -> int | None:
        """`wait_for` in milliseconds since 1970."""
        return None if self.wait_for is None else self.reader().read(self.wait_for)

    def _wrong(self) -> list[str]:
        found = super()._wrong()
        try:
            _ = self.waits_until
        except EventTimeError as error:
            found.append(f"waitFor: {error}")
        return found
