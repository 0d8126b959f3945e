"""Asks components about their inputs, as far as their options are known."""

from collections.abc import Iterator, Mapping
from typing import Any

from fulmen import api
from fulmen.errors import PASSED_ON, error_text
from fulmen.topology.configuration.options import CheckedOptions
from fulmen.topology.problems import Problem, Severity
from fulmen.topology.reading.partial_document import ComponentPart
from fulmen.topology.resource.spec import BoltSpec

TOGETHER = ("global", "direct", "custom")
"""Groupings that may, as far as is known, send equal values to one task."""


def checked_inputs(
    part: ComponentPart,
    instance: Any,
    checked: CheckedOptions,
    streams: Mapping[str, Mapping[str, api.Stream]],
    of_all: api.Stream | None,
) -> Iterator[Problem]:
    """A component's own checks of the streams that it subscribes to.

    If its options have variables, only mistakes that remain whatever their values are.

    Args:
        part: The component.
        instance: Its instance.
        checked: Its options as far as known.
        streams: The streams of all components, as far as they are known.
        of_all: The stream that it gets instead of any of them.
    """
    known: dict[tuple[str, str], api.Stream] = {}
    for item in part.inputs:
        place = (item.source or "", item.stream or "")
        if (stream := streams.get(place[0], {}).get(place[1])) is not None:
            known[place] = of_all or stream
    fields = dict.fromkeys(name for stream in known.values() for name in stream.fields)

    def told(options: Any) -> list[Problem]:
        return list(_problems(part, instance, options, known))

    options, guesses = checked.options, checked.guesses
    yield from told(options) if guesses is None else guesses.lasting(told, options, fields)


def _problems(
    part: ComponentPart,
    instance: Any,
    options: Any,
    known: Mapping[tuple[str, str], api.Stream],
) -> Iterator[Problem]:
    for item in part.inputs:
        if (stream := known.get((item.source or "", item.stream or ""))) is not None:
            for message, severity in _told("check_input", instance, options, stream):
                yield Problem(item.path, f"{item.label}: {message}", severity=severity)
    yield from _apart(part, instance, options)
    if len(known) == len(part.inputs):
        path = f"{part.path}.inputs"
        for message, severity in _told("check_inputs", instance, options, known):
            yield Problem(path, f"{part.label}: {message}", severity=severity)


def _apart(part: ComponentPart, instance: Any, options: Any) -> Iterator[Problem]:
    """Inputs whose equal keys come to several tasks, where that makes results wrong."""
    groupings = [item.grouping for item in part.inputs if item.grouping is not None]
    if not isinstance(part.model, BoltSpec) or part.model.tasks == 1:
        return
    if not isinstance(instance, api.Component) or any(g.type == "all" for g in groupings):
        return  # what comes to all tasks is there for whatever comes to one of them
    is_of_all, failure = answer(instance, "is_of_all_rows", options)
    if failure:
        yield Problem(part.path, f"{part.label}: {failure}")
    for item in part.inputs:
        if item.grouping is None or item.grouping.type in TOGETHER:
            continue
        source = item.source or "", item.stream or ""
        key, failure = answer(instance, "grouping_key", options, source)
        if failure:
            yield Problem(item.path, f"{item.label}: {failure}")
            continue
        is_by_key = item.grouping.type == "fields" and set(item.grouping.fields) <= {*key}
        if is_of_all:
            message = (
                f"{item.label}: {item.grouping.type} grouping, so that each of its"
                f" {part.model.tasks} tasks has results of its own tuples, but they should be of"
                " all of them"
            )
            cure = "Write grouping: {type: global}, or a key."
            yield Problem(f"{item.path}.grouping", message, cure, "warning")
        elif key and not is_by_key:
            how = f"{item.grouping.type} grouping"
            message = f"{item.label}: {how}, but equal values of its key must come to one task"
            cure = f"Write grouping: {{type: fields, fields: [{', '.join(key)}]}}."
            yield Problem(f"{item.path}.grouping", message, cure, "warning")


def _told(name: str, instance: Any, options: Any, found: Any) -> list[tuple[str, Severity]]:
    """The mistakes and warnings of a component's check."""
    try:
        told = list(getattr(instance, name)(options, found))
        return [(str(one), "warning" if isinstance(one, Warning) else "error") for one in told]
    except PASSED_ON:
        raise
    except BaseException as error:  # noqa: BLE001 (an author's method may raise anything)
        return [(f"{name} raised {error_text(error)}", "error")]


def answer(instance: Any, method: str, *given: Any) -> tuple[Any, str]:
    """The result of a component's method, and its failure; "": there was none."""
    try:
        return getattr(instance, method)(*given), ""
    except PASSED_ON:
        raise
    except BaseException as error:  # noqa: BLE001 (an author's method may raise anything)
        return None, f"{method} raised {error_text(error)}"
