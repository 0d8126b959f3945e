"""The configuration of windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from fulmen.api.times.event_time import RETRACTION, TimeReader, milliseconds
from fulmen.connectors.options import Duration, Options, Zone
from fulmen.windows.functions.wanted import is_filtered, wanted
from fulmen.windows.spans import Calendar, Cumulative, Sliding, Spans, Whole

_DURATIONS = ("size", "every", "gap", "offset")
MOST_WINDOWS = 100_000
"""The most windows that a tuple may be in: so many take a good part of a second."""


def _positive(value: str) -> str:
    if milliseconds(value) <= 0:
        raise ValueError("it must be above 0")
    return value


Positive = Annotated[Duration, AfterValidator(_positive)]


def several_times(names: Sequence[str]) -> str:
    """The names that occur more than once, for people; "": none does."""
    return ", ".join(sorted({name for name in names if names.count(name) > 1}))


class Tumbling(Options):
    """One window after the other."""

    type: Literal["tumbling"]
    size: Positive
    """How long a window is."""
    offset: Duration = "0"
    """So much later than at the full hour, day and so on a window begins."""

    def spans(self) -> Spans:
        """The windows of a time."""
        size = milliseconds(self.size)
        return Sliding(size, size, milliseconds(self.offset))


class SlidingWindow(Options):
    """Windows of one size that begin more often: each time is in several of them."""

    type: Literal["sliding"]
    size: Positive
    """How long a window is."""
    every: Positive
    """How often one begins."""
    offset: Duration = "0"
    """So much later than at the full hour, day and so on a window begins."""

    @model_validator(mode="after")
    def _fits(self) -> SlidingWindow:
        if milliseconds(self.every) > milliseconds(self.size):
            raise ValueError(
                f"every is {self.every}, but must not be above size, {self.size}: what is between"
                " two windows would be in none"
            )
        if (count := milliseconds(self.size) // milliseconds(self.every)) > MOST_WINDOWS:
            raise ValueError(
                f"each tuple would be in {count:,} windows of {self.size}, one every {self.every};"
                f" {MOST_WINDOWS:,} are possible. Raise every"
            )
        return self

    def spans(self) -> Spans:
        """The windows of a time."""
        return Sliding(milliseconds(self.size), milliseconds(self.every), milliseconds(self.offset))


class CumulativeWindow(Options):
    """Windows that begin together, of which one ends every so often, as "today until now"."""

    type: Literal["cumulative"]
    size: Positive
    """How long the longest of them is."""
    every: Positive
    """How often one ends."""
    offset: Duration = "0"
    """So much later than at the full hour, day and so on they begin."""

    @model_validator(mode="after")
    def _fits(self) -> CumulativeWindow:
        size, every = milliseconds(self.size), milliseconds(self.every)
        if size % every:
            raise ValueError(
                f"size is {self.size}, but must be a multiple of every, {self.every}: the last"
                " window would be shorter than the others"
            )
        if (count := size // every) > MOST_WINDOWS:
            raise ValueError(
                f"each tuple would be in up to {count:,} windows, one every {self.every} of"
                f" {self.size}; {MOST_WINDOWS:,} are possible. Raise every"
            )
        return self

    def spans(self) -> Spans:
        """The windows of a time."""
        size, every = milliseconds(self.size), milliseconds(self.every)
        return Cumulative(size, every, milliseconds(self.offset))


class Session(Options):
    """A window for each key, for as long as there is no gap: what is closer belongs together."""

    type: Literal["session"]
    gap: Positive
    """Without anything of the key for so long, the window ends."""


class CalendarWindow(Options):
    """Hours, days, weeks, months or years of a time zone."""

    type: Literal["calendar"]
    unit: Literal["hour", "day", "week", "month", "year"]
    """Weeks begin on Monday."""
    timezone: Zone = "UTC"
    """Whose calendar it is. A day has 23 or 25 hours when clocks are changed."""

    def spans(self) -> Spans:
        """The windows of a time."""
        return Calendar(self.unit, self.timezone)


class GlobalWindow(Options):
    """One window for each key, which ends with the input. With `emitEvery` it is emitted before."""

    type: Literal["global"]

    def spans(self) -> Spans:
        """The windows of a time."""
        return Whole()


class CountWindow(Options):
    """So many tuples of a key, in the order in which they come."""

    type: Literal["count"]
    size: Annotated[int, Field(ge=1)]
    """How many."""
    every: Annotated[int, Field(ge=1)] | None = None
    """After so many, the last `size` are emitted: `1` gives running means, and the last ones of
    each key. They may be fewer in the beginning. Default: as `size`, so each is in one window."""

    @model_validator(mode="after")
    def _fits(self) -> CountWindow:
        if self.every is not None and self.every > self.size:
            raise ValueError(
                f"every is {self.every}, but must not be above size, {self.size}: what is between"
                " two windows would be in none"
            )
        return self


Window = Annotated[
    Tumbling
    | SlidingWindow
    | CumulativeWindow
    | Session
    | CalendarWindow
    | CountWindow
    | GlobalWindow,
    Field(discriminator="type"),
]
Name = Annotated[str, Field(min_length=1, max_length=100)]


def described(window: Options) -> str:
    """A window in words that are the same if it is."""
    parts = window.model_dump()
    kind = parts.pop("type")
    words = [
        f"{name} {milliseconds(value)} ms"
        if name in _DURATIONS and kind != "count"
        else f"{name} {value}"
        for name, value in parts.items()
        if value is not None
    ]
    return f"{kind} ({', '.join(words)})" if words else kind


_DAYS = {"hour": 1, "day": 2, "week": 8, "month": 32, "year": 367}


def longest(window: Options) -> int:
    """The longest length of a window, in milliseconds; of a session: its gap."""
    if isinstance(window, CalendarWindow):
        return _DAYS[window.unit] * milliseconds("1d")
    return milliseconds(window.gap if isinstance(window, Session) else window.size)  # type: ignore[attr-defined]


class TimedOptions(Options):
    """Options of bolts that read event times."""

    unit: Literal["s", "ms", "us", "ns"] | None = None
    """Of a time that is a number; without it, its size tells."""
    timezone: Zone = "UTC"
    """Of a time that has none."""

    def reader(self) -> TimeReader:
        """Reads event times as the options say."""
        return TimeReader(self.unit, self.timezone)


def rejoined(aggregates: Any) -> Any:
    """Join aggregates that YAML has split at commas, as in `{p95: quantile(millis, 0.95)}`."""
    if not isinstance(aggregates, dict):
        return aggregates
    found: dict[Any, Any] = {}
    name: Any = None
    for key, value in aggregates.items():
        text = found.get(name)
        if value is None and isinstance(text, str) and "(" in text and ")" not in text:
            found[name] = f"{text}, {key}"
        else:
            name = key
            found[name] = value
    return found


def _understood(text: str, info: ValidationInfo) -> str:
    """Check an aggregate against the class that is configured; without a class, accept it."""
    if info.context is not None:
        of = info.context["class"]
        if wanted(text, of.own).condition is not None and not getattr(of, "takes_filters", False):
            raise ValueError(
                "a filter is for windows of Aggregate. Write the condition as where of the input"
            )
    return text


Aggregated = Annotated[str, AfterValidator(_understood)]
"""The text of one aggregate."""


class AggregateOptions(TimedOptions):
    """The `config` of an `Aggregate`."""

    time: Name | None = None
    """The field with the event time. Default: that of `eventTime` of the input's component. Windows
    by count and by the clock need none. `window_last`, of an input with a `window_end`: the last
    millisecond before that, which is in the windows that the whole window is in."""
    by: Literal["time", "clock"] = "time"
    """`clock`: a tuple is in the windows of the time of day when it comes, and they end by that.
    Then nothing is late, and no event time is needed."""
    key: tuple[Name, ...] = ()
    """The fields whose values have windows of their own. The input must be grouped by them. None:
    windows are of all rows, for which the input has the grouping `global`."""
    window: Window
    aggregates: Annotated[
        dict[Name, Aggregated],
        BeforeValidator(rejoined),
        Field(min_length=1),
    ]
    """The name of each result, and what it is: `count`, `sum(amount)`, `top(page, 10)`, `count
    filter (where amount > 100)`."""
    allowed_lateness: Duration = "0"
    """For so long after its end a window takes what is late. Each such tuple emits the window once
    more."""
    emit_every: Positive | None = None
    """Windows that are still open are emitted so often as well, if something has come."""
    emit: Literal["updates", "final"] = "updates"
    """`final`: each window is emitted once, so long after its end as `allowedLateness` says, when
    nothing can change it any more. `updates`: at its end, and again for what is late."""
    retract: bool = False
    """Before a window is emitted once more, its row is emitted again as it was, with the field
    `is_retraction`: so that sums can subtract it."""
    partial: Literal["auto"] | bool = "auto"
    """Whether tuples of the same key and window are aggregated in the worker that emits them before
    they leave it: then a frequent key is one row a batch. `auto`: where there are few keys, and the
    results are exactly the same. `true`: always; a sum of floats may differ in its last digits, and
    what sketches say within their error. Not for sessions and windows by count."""

    @model_validator(mode="after")
    def _is_whole(self) -> AggregateOptions:
        if wrong := list(self._wrong()):
            raise ValueError("; ".join(wrong))
        return self

    def _wrong(self) -> Iterator[str]:
        if self.window.type == "count" and (self.emit_every or self.lateness):
            yield "emitEvery and allowedLateness are not for windows by count"
        if self.by == "clock":
            yield from self._wrong_by_clock()
        if self.window.type == "global" and self.lateness:
            yield "allowedLateness is not for a global window: nothing is late for it"
        if self.emit == "final" and self.emit_every:
            yield "emit: final is not for emitEvery: a window is emitted once"
        if self.retract and not self.has_panes:
            yield (
                "retract is for windows that are emitted several times: with emitEvery or"
                " allowedLateness, and without emit: final"
            )
        if self.partial is True and self.window.type in ("session", "count"):
            yield (
                f"partial: true is not for windows of type {self.window.type}: which tuples are"
                " together there is known only when they are. Leave it out"
            )
        if self.partial is True and any(map(is_filtered, self.aggregates.values())):
            yield "partial: true is not for aggregates with a filter. Leave it out"
        names = [*self.key, *FIXED, *self.aggregates, *self.pane_fields]
        if twice := several_times(names):
            yield f"several output fields are called {twice}"

    def _wrong_by_clock(self) -> Iterator[str]:
        if self.window.type == "count":
            yield "by: clock is not for windows by count, which go by no time. Leave it out"
        for name, value in (("time", self.time), ("unit", self.unit)):
            if value is not None:
                yield f"by: clock goes by when tuples come, and has no {name}. Leave one out"
        if self.lateness:
            yield "by: clock has no allowedLateness: nothing is late by the clock. Leave it out"

    def kept_as(self) -> str:
        """The windows and aggregates, which must not change while windows are open."""
        aggregates = ", ".join(self.aggregates.values())
        window = described(self.window) + " of the clock" * self.goes_by_clock
        return f"{window} by {', '.join(self.key) or 'nothing'} of {aggregates}"

    @property
    def goes_by_clock(self) -> bool:
        """Whether the time of a tuple is the time of day when it comes."""
        return self.by == "clock"

    @property
    def has_panes(self) -> bool:
        """Whether a window may be emitted several times."""
        is_late = self.lateness > 0 and self.emit != "final"
        return self.emit_every is not None or is_late

    @property
    def lateness(self) -> int:
        """`allowed_lateness` in milliseconds."""
        return milliseconds(self.allowed_lateness)

    @property
    def pane_fields(self) -> Sequence[str]:
        """The fields of a pane besides its results, if a window may be emitted several times."""
        if not self.has_panes:
            return ()
        return (*PANE, RETRACTION) if self.retract else PANE


FIXED = ("window_start", "window_end")
PANE = ("pane", "pane_index")


class DeduplicateOptions(TimedOptions):
    """The `config` of a `Deduplicate`."""

    id: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The fields that are equal in duplicates. The input must be grouped by them."""
    fields: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The fields that are passed on."""
    horizon: Positive
    """What is closer than this is a duplicate. An id is forgotten afterwards."""
    time: Name | None = None
    """The field with the event time. Without it, `horizon` is of the clock, from when a tuple
    comes."""
    keep: Literal["first", "last"] = "first"
    """`first` is passed on at once; `last` when the watermark says that no later one can come."""
    allowed_lateness: Duration = "0"
    """For so much longer an id is remembered, so that what is late can be told from a duplicate."""

    @model_validator(mode="after")
    def _is_whole(self) -> DeduplicateOptions:
        if twice := several_times(self.fields):
            raise ValueError(f"fields has {twice} several times")
        if self.time is None and self.keep == "last":
            raise ValueError("keep: last needs time, the field with the event time")
        is_remembered = self.time is not None and self.keep == "first"
        if milliseconds(self.allowed_lateness) and not is_remembered:
            raise ValueError("allowedLateness is for keep: first with a field time")
        return self

    def kept_as(self) -> dict[str, str]:
        """The options that must not change while ids are remembered: option -> value."""
        clock = "the clock" if self.time is None else "event time"
        found = {"id": ", ".join(self.id), "horizon": f"of {clock}", "keep": self.keep}
        if self.time is not None:
            found["time"] = self.time
        if self.keep == "last":  # rows are kept
            found["fields"] = ", ".join(self.fields)
        return found
