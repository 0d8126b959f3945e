"""Mistakes in `where`, `select` and `through` of inputs, and the streams that bolts get by them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fulmen import api
from fulmen.api.input_function import InputFunction
from fulmen.expressions.mistakes import ExpressionError
from fulmen.expressions.parsing import shown
from fulmen.expressions.selection import ANY_FIELDS, selected, steps_of
from fulmen.topology.problems import Problem, did_you_mean, there_are
from fulmen.topology.reading.partial_document import ComponentPart, InputPart
from fulmen.topology.resource.received import received

Streams = Mapping[str, Mapping[str, api.Stream]]


def as_received(part: ComponentPart, streams: Streams, kept: int) -> Streams:
    """The streams of all components, those of a bolt's inputs with what its steps make of them.

    Args:
        part: The bolt.
        streams: What components declare, as far as it is known.
        kept: How many fields inputs keep in front of those that they select.
    """
    found = {name: dict(of_one) for name, of_one in streams.items()}
    for item in part.inputs:
        stream = streams.get(item.source or "", {}).get(item.stream or "")
        if stream is not None:
            steps = steps_of(stream, item.where, item.select, kept)
            got = received(stream, steps, item.through, kept)
            found[item.source or ""][item.stream or ""] = got
    return found


def mistaken_steps(item: InputPart, stream: api.Stream | None, kept: int = 0) -> Iterator[Problem]:
    """Mistakes in the steps of an input. `stream`: what it subscribes to; None: not known."""
    stream = ANY_FIELDS if stream is None else stream
    steps = steps_of(stream, item.where, item.select, kept)
    for name, error in selected(steps, stream).mistakes:
        place = f"select.{name}" if name else "where"
        text = (item.select or {}).get(name, "") if name else item.where
        message = f"{item.label}: {place.replace('.', ' ')} {shown(text or '')}: {error}"
        yield Problem(f"{item.path}.{place}", message, _cure(error))
    for name in stream.fields[:kept]:
        if name in (item.select or {}):
            message = f"{item.label}: select gives {name!r}, which each input keeps by itself"
            yield Problem(f"{item.path}.select.{name}", message, "Remove it.")


def mistaken_function(
    item: InputPart, function: InputFunction, stream: api.Stream | None, kept: int = 0
) -> Iterator[Problem]:
    """What the class of `through` finds wrong. `stream`: what the input subscribes to."""
    if stream is None:
        return
    got = selected(steps_of(stream, item.where, item.select, kept), stream).stream
    for message in function.check(replace(got, fields=got.fields[kept:])):
        yield Problem(f"{item.path}.through", f"{item.label}: {message}")


def _cure(error: ExpressionError) -> str:
    if not error.wrong:
        return error.cure
    near = did_you_mean(error.wrong, error.among)
    return near or (there_are(error.among) if error.among else "")
