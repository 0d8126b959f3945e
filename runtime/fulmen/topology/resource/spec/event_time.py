"""The event time of a component's tuples."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from fulmen.api.times.event_time import DURATION
from fulmen.topology.resource.base import FieldName, Model

Duration = Annotated[str, Field(pattern=DURATION, max_length=20)]


class EventTime(Model):
    """Which field of a stream says when something happened, and how far that may be out of order.

    Windows and timers of the bolts behind it go by the watermark that is made of these times. A
    tuple without a usable time goes to the component's stream `__late`, with the fields stream,
    values and reason.
    """

    field: FieldName | None = None
    """The field with the time: a datetime, a number since 1970, or text in ISO 8601. It is
    required, unless there is `streams`."""

    stream: FieldName = "default"
    """The component's stream that has the field."""

    streams: dict[FieldName, FieldName] = Field({}, max_length=64)
    """Of a component that has times on several streams, in place of `field` and `stream`: the name
    of each such stream, and its field with the time. The newest time of all of them counts."""

    lag: Duration = "0s"
    """How far a tuple's time may be behind the newest one, such as `10s` or `500ms`. The watermark
    is the newest time less this. Of several tasks, or several parts of a source, the one that is
    furthest behind counts."""

    idle_timeout: Duration | None = None
    """A task, or a part of a source, that has emitted nothing for so long does not hold the
    watermark. Default: it holds it however long it is silent."""

    advance: bool = False
    """Whether event time goes on with the clock while all parts are idle, so that the last windows
    end although nothing comes any more. It needs `idleTimeout`. What comes later with an older time
    is late. Default: the watermark stands."""

    max_ahead: Duration = "1h"
    """How far a time may be ahead of the clock here. A tuple that is further ahead has no usable
    time: one wrong clock must not close all windows."""

    unit: Literal["s", "ms", "us", "ns"] | None = None
    """The unit of times that are numbers. Default: seconds, milliseconds, microseconds or
    nanoseconds by the number's size. A number that may be of several units, one before 1973, is no
    usable time then."""

    timezone: Annotated[str, Field(min_length=1, max_length=64)] = "UTC"
    """The time zone of times that say none, such as `Europe/Berlin`."""

    @property
    def timed(self) -> Mapping[str, str]:
        """The streams that have times, each with its field."""
        if self.streams or self.field is None:
            return self.streams
        return {self.stream: self.field}
