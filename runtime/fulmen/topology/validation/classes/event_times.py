"""Mistakes in what components declare of event times."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from fulmen import api
from fulmen.api.times.event_time import MUST_BE, NO_TIMES, milliseconds
from fulmen.topology.configuration.options import CheckedOptions
from fulmen.topology.problems import Problem, Severity, did_you_mean
from fulmen.topology.reading.partial_document import ComponentPart
from fulmen.topology.validation.classes.inputs import answer

_NUMBERS = re.compile("u?int|float|double|decimal")
_FIELD = "Add it, such as field: at. For several streams: streams: {orders: at, visits: began}."


def event_times(parts: Sequence[ComponentPart]) -> Iterator[Problem]:
    """Mistakes that show without classes: no field, time zones that don't exist, and others."""
    is_transactional = any(part.kind == "transactional spout" for part in parts)
    for part in parts:
        declared = part.model.event_time if part.model is not None else None
        if declared is None:
            continue
        path = f"{part.path}.eventTime"
        if is_transactional:
            message = f"{part.label}: there is no event time in a transactional topology"
            yield Problem(path, message, "Remove it.")
        if declared.field is None and not declared.streams:
            message = f"{part.label}: eventTime names no field with the time"
            yield Problem(f"{path}.field", message, _FIELD)
        elif declared.streams:
            for other in sorted({"field", "stream"} & declared.model_fields_set):
                message = f"{part.label}: eventTime has {other} and streams"
                yield Problem(f"{path}.streams", message, "Give only one of them.")
        yield from time_zone(f"{path}.timezone", f"{part.label}: ", declared.timezone)
        if declared.idle_timeout is not None and not milliseconds(declared.idle_timeout):
            message = f"{part.label}: an idleTimeout of 0 would make every part idle at once"
            yield Problem(f"{path}.idleTimeout", message, "Write one such as 30s, or remove it.")
        if declared.advance and declared.idle_timeout is None:
            message = f"{part.label}: advance needs an idleTimeout, as nothing is ever idle without"
            yield Problem(f"{path}.advance", message, "Give an idleTimeout such as 30s.")


def time_zone(path: str, label: str, name: str) -> Iterator[Problem]:
    """A time zone that does not exist. `label`: the beginning of the message."""
    if not _is_zone(name):
        near = did_you_mean(name, sorted(available_timezones()))
        cure = near or "Write one of the IANA database, such as Europe/Berlin."
        yield Problem(path, f"{label}there is no time zone {name!r}", cure)


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (OSError, ValueError):  # none of that name, and names that lead out of the database
        return False
    except KeyError:
        return False
    return True


def timed_stream(part: ComponentPart, streams: Mapping[str, api.Stream]) -> Iterator[Problem]:
    """Streams and fields with the time that the class does not declare."""
    declared = part.model.event_time if part.model is not None else None
    if declared is None:
        return
    path = f"{part.path}.eventTime"
    own = [name for name in streams if not name.startswith("__")]
    for stream, field in declared.timed.items():
        of_many = f"{path}.streams.{stream}" if declared.streams else ""
        if stream not in own:
            message = f"{part.label}: eventTime is of stream {stream!r}, but it declares {own}"
            yield Problem(of_many or f"{path}.stream", message, did_you_mean(stream, own))
        elif field not in (fields := streams[stream].fields):
            message = (
                f"{part.label}: eventTime is field {field!r}, but stream"
                f" {stream!r} declares {list(fields)}"
            )
            yield Problem(of_many or f"{path}.field", message, did_you_mean(field, fields))
        elif (kind := streams[stream].types.get(field)) in NO_TIMES:
            message = f"{part.label}: eventTime is field {field!r}, a {kind}, {MUST_BE}"
            yield Problem(of_many or f"{path}.field", message)
        elif declared.unit is None and _NUMBERS.match(kind or ""):
            message = (
                f"{part.label}: eventTime is field {field!r}, of type {kind} without a unit, which"
                " is guessed for each number from its size"
            )
            cure = "Say it, such as unit: ms. From 1973 on the guess is right."
            yield Problem(f"{path}.unit", message, cure, "warning")


def without_watermark(
    parts: Sequence[ComponentPart],
    checks: Mapping[str, tuple[Any, CheckedOptions]],
    by_clock: Collection[str],
    severity: Severity,
) -> Iterator[Problem]:
    """Components that go by event time, though nothing in front of them declares any.

    Args:
        parts: All components.
        checks: Component -> an instance that can be asked, and its options as far as known.
        by_clock: Those whose watermark is the time of day.
        severity: The severity of results that are kept back until the topology is drained.
    """
    by_name = {part.name: part for part in parts if part.name}
    for part in parts:
        known, sources = checks.get(part.name or ""), _untimed_sources(part, by_name, by_clock)
        if known is None or not sources:
            continue
        instance, checked = known
        told = partial(_stands_still, part, instance, sources, severity)
        options, guesses = checked.options, checked.guesses
        yield from told(options) if guesses is None else guesses.lasting(told, options, ())


def _stands_still(
    part: ComponentPart,
    instance: Any,
    sources: Sequence[str],
    severity: Severity,
    options: Any,
) -> list[Problem]:
    path = f"{part.path}.inputs"
    what, failure = answer(instance, "needs_event_time", options)
    if failure:
        return [Problem(path, f"{part.label}: {failure}")]
    if what is None:
        return []
    message = (
        f"{part.label}: {what} while the topology runs, as nothing that it descends from declares"
        " eventTime"
    )
    names = " and ".join(map(repr, sources))
    cure = f"Declare it of {names}, such as eventTime: {{field: at, lag: 10s}}."
    return [Problem(path, message, cure, "warning" if isinstance(what, Warning) else severity)]


def _untimed_sources(
    part: ComponentPart, by_name: Mapping[str, ComponentPart], by_clock: Collection[str]
) -> list[str]:
    """The spouts that a bolt descends from; none if there may be event time, or isn't known."""
    sources: list[str] = []
    seen, todo = {part.name}, [part]
    while todo:
        for item in todo.pop().inputs:
            source = by_name.get(item.source or "")
            if source is None or source.model is None or source.wrong & {"eventTime", "inputs"}:
                return []
            if source.model.event_time is not None or source.kind == "transactional spout":
                return []
            if source.name in by_clock:
                return []
            if source.name not in seen:
                seen.add(source.name)
                todo.append(source)
                if source.kind == "spout":
                    sources.append(source.name or "")
    return sources
