"""Reads the key and the event time of a tuple, and checks the inputs of this room's bolts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeGuard, cast

from fulmen.api.components import BasicBolt, FailedException
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.keys import NAN_CURE, NEVER_NAN, NOT_EQUAL_TO_ITSELF, has_nan
from fulmen.api.signals import Counter, Gauge
from fulmen.api.times.event_time import (
    BOUNDS,
    MUST_BE,
    NO_TIMES,
    RETRACTION,
    TOO_LATE,
    TimeReader,
)
from fulmen.api.tuples import Tuple
from fulmen.errors import PASSED_ON, BeyondDatesError, EventTimeError, FulmenError, repr_of
from fulmen.expressions.parsing import shown
from fulmen.expressions.selection import selected, steps_of
from fulmen.topology.problems import did_you_mean
from fulmen.windows.functions.aggregations import Aggregation
from fulmen.windows.functions.wanted import wanted
from fulmen.windows.options import FIXED
from fulmen.windows.spans import Span, Spans, datetime_of

LATE = TOO_LATE
"""The stream of what comes too late."""
WINDOW_END, WINDOW_LAST = FIXED[1], "window_last"
"""The field with the end of a window; and what says that its last millisecond is wanted."""
PLAIN = {str, int, float, bool, bytes, Decimal, datetime, date, type(None)}
ALIKE = {str, int, bool, bytes, date}
"""Types whose equal values are the same."""
FEW = 20
"""So few datetimes are read faster one by one."""
MAY_HAVE_NO_HASH = {Decimal, datetime}
WITH_NAN = {float, Decimal}
TIMES = {"time", "left.time", "right.time", "timestampField"}
"""The options that name a field with the event time."""
_COMPUTED = re.compile(r"[()<>=*+/]|\s(is|in|then|and|or)\s")
_COMPUTE = "Give what is computed a name in `select` of the input, and write that name here"
NO_NUMBERS = NO_TIMES | {"string", "timestamp"}
"""Types of fields that never hold a number."""
KEYS = {"key", "left.key", "right.key", "id"}
"""The options that name fields of a key."""


class NoEdgesError(FailedException):
    """No datetime can be its time, or an edge of its window: retries don't help."""

    def __init__(self) -> None:
        super().__init__("its time, or an edge of its window, is before the year 1 or after 9999")


def late_counter(context: TopologyContext) -> Counter:
    """The counter of tuples that come too late; the same for all classes.

    The page and `fulmen top` know it by its name.
    """
    return context.counter("late", "Tuples that came too late.")


def open_windows_gauge(context: TopologyContext) -> Gauge:
    """The gauge of windows that are kept. The page knows it by its name."""
    return context.gauge(
        "open_windows",
        "Windows that are kept. Of sessions, by count and of WindowedBolt: keys that have some.",
    )


def missing_fields(needed: Mapping[str, str], stream: Stream) -> Iterator[str | Warning]:
    """Check that an input has the fields that options name.

    Args:
        needed: Field -> the option that names it.
        stream: The input.
    """
    for field, where in needed.items():
        if field not in stream.fields:
            there = ", ".join(stream.fields)
            cure = f". {_COMPUTE}" if _COMPUTED.search(field) else ""
            yield f"{where}: its input has no field {field!r}. It has: {there}{cure}"
        elif where in TIMES and (kind := stream.types.get(field)) in NO_TIMES:
            yield f"{where}: {field!r} is a {kind}, {MUST_BE}"
        elif where in TIMES and stream.goes_by_clock and field not in FIXED:
            yield UserWarning(
                f"{where}: what emits {field!r} goes by the clock, and so does event time behind"
                f" it: what is before the time of day is late. Write by: clock, or {WINDOW_LAST} of"
                " windows"
            )
        elif where in KEYS and stream.types.get(field) == "json":
            yield UserWarning(
                f"{where}: {field!r} may be any JSON: a tuple fails where it is a list or a"
                " mapping, which is not hashable"
            )


def aggregated_fields(
    aggregates: Mapping[str, str],
    own: Mapping[str, type[Aggregation]],
    needed: dict[str, str],
    stream: Stream,
) -> Iterator[str | Warning]:
    """Check the fields of aggregates in an input.

    Args:
        aggregates: Name -> the aggregate, such as `sum(amount)`.
        own: More aggregations than the built-in ones.
        needed: Field -> the option that names it, for fields of other options.
        stream: The input.
    """
    for name, text in aggregates.items():
        found = wanted(text, own)
        for field in (found.field, found.by):
            if field is not None:
                needed.setdefault(field, f"aggregates.{name}")
        if found.condition is not None:
            for _, error in selected(steps_of(stream, found.condition, None), stream).mistakes:
                near = did_you_mean(error.wrong, error.among) if error.wrong else error.cure
                wrong = f"aggregates.{name}: where {shown(found.condition)}: {error}"
                yield f"{wrong}. {near}" if near else wrong
        kind = stream.types.get(found.field or "", "")
        if found.aggregation.numbers and kind in NO_NUMBERS:
            yield (
                f"aggregates.{name}: {found.field!r} is a {kind}, but must be a number. Declare it"
                f" as one where it is read, as in fields: {{{found.field}: float64}}"
            )
    yield from missing_fields(needed, stream)


def key_of(tup: Tuple, fields: Sequence[str | int]) -> tuple[Any, ...]:
    """The key of a tuple.

    Raises:
        FailedException: It is not hashable, or could never be found again.
    """
    key = tuple(tup[name] for name in fields)
    check_key(key)
    return key


def check_key(key: tuple[Any, ...], what: str = "key") -> None:
    """See that a key can be found again. `what`: what it is called.

    Raises:
        FailedException: It is not hashable, or could never be found again.
    """
    _check_hash(key, what)
    for value in key:
        if type(value) not in NEVER_NAN and has_nan(value):
            shown = repr_of(key)[:80]
            raise FailedException(f"its {what} is {shown}, which {NOT_EQUAL_TO_ITSELF}. {NAN_CURE}")


def _check_hash(key: tuple[Any, ...], what: str) -> None:
    try:
        hash(key)
    except TypeError:
        shown = repr_of(key)[:80]
        raise FailedException(f"its {what} is {shown}, which is not hashable") from None


def hashable_key(tup: Tuple, fields: Sequence[str | int]) -> tuple[Any, ...]:
    """The key of a tuple, where a key with NaN equals no other one, and is not kept.

    Raises:
        FailedException: The key is not hashable.
    """
    key = tuple(tup[name] for name in fields)
    _check_hash(key, "key")
    return key


def taken_back(inputs: Mapping[tuple[str, str], Stream]) -> Iterator[str]:
    """Refuse inputs whose rows may take back earlier ones: they would count as new rows."""
    for (source, name), stream in inputs.items():
        if RETRACTION in stream.fields:
            yield (
                f"stream {name!r} of {source!r} has the field {RETRACTION!r}, so its rows may take"
                " back earlier ones, which are taken for new ones here. A RegularJoin, a"
                " RunningAggregate and windows of event time know them; or leave them out: where:"
                " not is_retraction, and a select without that field"
            )


def is_retraction(mark: Any) -> bool:
    """Read the field `is_retraction` of a row.

    Raises:
        FailedException: It says neither.
    """
    if mark is True or mark is False:
        return bool(mark)
    raise FailedException(
        f"its field {RETRACTION!r} is {repr_of(mark)[:80]}, but must be true, if it takes back an"
        " earlier row, or false"
    )


def plain_types(column: Sequence[Any]) -> AbstractSet[type] | None:
    """The types of values that can be sent, have hashes and never change; None: not all can.

    Decimal("sNaN") has no hash, nor has a datetime whose time zone raises.
    """
    types = set(map(type, column))
    if not types <= PLAIN:
        return None
    if not types.isdisjoint(MAY_HAVE_NO_HASH):
        try:
            hash(tuple(column))
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (an author's time zone may raise anything)
            return None
    return types


def are_plain(column: Sequence[Any]) -> bool:
    """Whether all values can be sent, and are equal to themselves, which NaN is not."""
    types = plain_types(column)
    if types is None:
        return False
    return types.isdisjoint(WITH_NAN) or all(value == value for value in column)


def are_alike(column: Sequence[Any]) -> bool:
    """Whether all values can be sent, and equal ones are the same, which 1 and True are not."""
    kinds = set(map(type, column)) - {type(None)}
    if kinds == {float}:
        return 0.0 not in column and are_plain(column)
    if kinds == {datetime}:
        return all(value is None or value.tzinfo is UTC for value in column)
    return len(kinds) <= 1 and kinds <= ALIKE


def time_of(tup: Tuple, field: str | int, reader: TimeReader) -> int:
    """The event time of a tuple.

    Raises:
        FailedException: It has none.
        NoEdgesError: No datetime can be it.
    """
    try:
        return reader.read(tup[field])
    except BeyondDatesError:
        raise NoEdgesError from None
    except EventTimeError as error:
        raise FailedException(str(error)) from None


class LastMoments(TimeReader):
    """Reads the ends of windows: the time of each is the last millisecond that it has.

    Attributes:
        ends: Reads the ends.
    """

    def __init__(self, ends: TimeReader) -> None:
        super().__init__()
        self.ends = ends

    def read(self, value: Any) -> int:
        """The last millisecond before the time that a value is."""
        return self.ends.read(value) - 1


NO_WINDOW_ENDS = "no window ends"
"""The wait of windows without a watermark."""


def time_field(
    name: str | None, reader: TimeReader, stream: Stream
) -> tuple[str | None, TimeReader]:
    """The field with the event time of an input, and its reader. None: it has none.

    Args:
        name: The option's value; None: `eventTime` of the input declares the field.
        reader: The reader by the other options.
        stream: The input.
    """
    if name is None and (declared := stream.time) is not None:
        return declared.field, TimeReader(declared.unit, declared.timezone)
    if name == WINDOW_LAST and name not in stream.fields:
        return WINDOW_END, LastMoments(reader)
    return name, reader


def times_of(values: Sequence[Any], reader: TimeReader) -> Sequence[int | None]:
    """The event times of many tuples; None: one has none."""
    if reader.are_times(values):
        return values
    if len(values) > FEW and type(values[0]) is datetime:
        from fulmen.api.times.arrow_times import datetime_times  # not to check a topology

        if (times := datetime_times(values)) is not None:
            found: list[int | None] = times.tolist()
            return found
    return [time_or_none(value, reader) for value in values]


def are_within_dates(times: Sequence[int | None]) -> TypeGuard[Sequence[int]]:
    """Whether all of these are times that a datetime can be."""
    if not times or None in times:
        return not times
    some = cast("Sequence[int]", times)
    return BOUNDS[0] <= min(some) and max(some) < BOUNDS[1]


def time_or_none(value: Any, reader: TimeReader) -> int | None:
    """The event time that a value is; None: it is none."""
    try:
        return reader.read(value)
    except EventTimeError:
        return None


def spans_of(spans: Spans, time: int) -> Sequence[Span]:
    """The windows of an event time.

    Raises:
        NoEdgesError: A window has an edge that no datetime can be.
    """
    try:
        found = spans.of(time)
        datetime_of(spans.edges(found[0])[0]), datetime_of(found[-1][1])
    except (OverflowError, ValueError):
        raise NoEdgesError from None
    return found


def check_edges(span: Span) -> None:
    """See that the edges of a window can be emitted.

    Raises:
        NoEdgesError: No datetime can be one of them.
    """
    try:
        datetime_of(span[0]), datetime_of(span[1])
    except OverflowError:
        raise NoEdgesError from None


def check_kept(what: str, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse a state that was kept with other options: results would be wrong.

    Args:
        what: What is in the state: `rows`.
        before: Option -> the value with which it was kept.
        now: Option -> its value.

    Raises:
        FulmenError: An option has another value.
    """
    others = [
        f"{option} {value}; now it is {now.get(option, 'missing')}"
        for option, value in before.items()
        if now.get(option) != value
    ]
    if others:
        raise FulmenError(
            f"the checkpoint has {what} that were kept with {', and '.join(others)}. Change it"
            f" back, or give the component another name, and it begins without {what}"
        )


def needless_ttl(bolt: BasicBolt) -> Iterator[str]:
    """Refuse a `state_ttl` that forgets windows before they end."""
    if bolt.state_ttl is not None:
        yield "state_ttl: what it keeps is forgotten by event time; remove state_ttl from the class"
