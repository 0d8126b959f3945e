"""The configuration of windowed bolts."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from fulmen.api.times.event_time import DURATION, milliseconds
from fulmen.connectors.options import Duration, Options
from fulmen.errors import repr_of
from fulmen.windows.options import MOST_WINDOWS, Name, TimedOptions
from fulmen.windows.windowed.queues import Extent, WindowRule


def _amount(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    if isinstance(value, str) and re.match(DURATION, value) and milliseconds(value) > 0:
        return value
    raise ValueError(
        f"it is {repr_of(value)[:80]}, but must be a number of tuples from 1 on, or a duration"
        " above 0 such as 10m"
    )


Amount = Annotated[int | str, BeforeValidator(_amount)]
"""A number of tuples, or a duration."""


class LengthAndSlide(Options):
    """A window of a windowed bolt."""

    length: Amount
    """How much is in a window: a number of tuples, or a duration."""
    slide: Amount = 1
    """How often there is one: after so many tuples, or so often. Equal to `length`: tumbling."""

    @property
    def described(self) -> str:
        """The window in words that are the same if it is."""
        parts = zip(("length", "slide"), map(_extent, (self.length, self.slide)), strict=True)
        units = "tuples", "ms"
        return ", ".join(f"{n} {e.amount} {units[e.is_duration]}" for n, e in parts)

    @model_validator(mode="after")
    def _fits(self) -> LengthAndSlide:
        length, slide = _extent(self.length), _extent(self.slide)
        count = length.amount // slide.amount
        if length.is_duration and slide.is_duration and count > MOST_WINDOWS:
            raise ValueError(
                f"each tuple would be in {count:,} windows of {self.length}, one every"
                f" {self.slide}; {MOST_WINDOWS:,} are possible. Raise slide"
            )
        return self

    def rule(self, has_times: bool) -> WindowRule:
        """The rule of these windows."""
        return WindowRule(_extent(self.length), _extent(self.slide), has_times)


def _extent(amount: int | str) -> Extent:
    return (
        Extent(amount)
        if isinstance(amount, int)
        else Extent(milliseconds(amount), is_duration=True)
    )


class WindowedOptions(TimedOptions):
    """The `config` of a `WindowedBolt`. Derive from it for options of your own."""

    window: LengthAndSlide | None = None
    """As `with_window`."""
    timestamp_field: Name | None = None
    """The field with the event time. Without it, windows are by arrival."""
    lag: Duration | None = None
    """A tuple may be so much older than the watermark, and windows wait for it so much longer."""
    late_tuple_stream: Name | None = None
    """The stream of what is late, as `late_tuple`. Without it, that is counted and logged."""
    key: tuple[Name, ...] = ()
    """The fields whose values have windows of their own. The input must be grouped by them. None:
    a task has one window for all."""

    def kept_as(self) -> dict[str, str]:
        """The options that must not change while windows are open: option -> value."""
        window = self.window.described if self.window is not None else "nothing"
        time = self.timestamp_field or "nothing (by arrival)"
        return {"window": window, "timestampField": time, "key": ", ".join(self.key) or "nothing"}
