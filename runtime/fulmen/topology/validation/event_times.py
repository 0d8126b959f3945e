"""Mistakes in what components declare of event times."""

from collections.abc import Iterator, Mapping, Sequence
from zoneinfo import ZoneInfo, available_timezones

from fulmen import api
from fulmen.api.event_time import milliseconds
from fulmen.topology.problems import Problem, did_you_mean
from fulmen.topology.reading.partial_document import ComponentPart


def event_times(parts: Sequence[ComponentPart]) -> Iterator[Problem]:
    """Time zones that don't exist, times that end at once, and topologies of transactions."""
    is_transactional = any(part.kind == "transactional spout" for part in parts)
    for part in parts:
        declared = part.model.event_time if part.model is not None else None
        if declared is None:
            continue
        path = f"{part.path}.eventTime"
        if is_transactional:
            message = f"{part.label}: there is no event time in a transactional topology"
            yield Problem(path, message, "Remove it.")
        yield from time_zone(f"{path}.timezone", f"{part.label}: ", declared.timezone)
        if declared.idle_timeout is not None and not milliseconds(declared.idle_timeout):
            message = f"{part.label}: an idleTimeout of 0 would make every part idle at once"
            yield Problem(f"{path}.idleTimeout", message, "Write one such as 30s, or remove it.")


def time_zone(path: str, label: str, name: str) -> Iterator[Problem]:
    """A time zone that there is not. `label`: what the message begins with."""
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
    """A stream or a field with the time that the class does not declare."""
    declared = part.model.event_time if part.model is not None else None
    if declared is None:
        return
    path = f"{part.path}.eventTime"
    own = [name for name in streams if not name.startswith("__")]
    if declared.stream not in own:
        message = f"{part.label}: eventTime is of stream {declared.stream!r}, but it declares {own}"
        yield Problem(f"{path}.stream", message, did_you_mean(declared.stream, own))
        return
    fields = streams[declared.stream].fields
    if declared.field not in fields:
        message = (
            f"{part.label}: eventTime is field {declared.field!r}, but stream"
            f" {declared.stream!r} declares {list(fields)}"
        )
        yield Problem(f"{path}.field", message, did_you_mean(declared.field, fields))
