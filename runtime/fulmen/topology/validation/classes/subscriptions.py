"""Streams and fields that inputs name, but the classes don't declare."""

from collections.abc import Iterator, Mapping, Sequence

from fulmen import api
from fulmen.topology.code.sinks import unlike_inputs
from fulmen.topology.problems import Problem, did_you_mean
from fulmen.topology.reading.partial_document import ComponentPart, InputPart
from fulmen.topology.validation.classes.input_steps import mistaken_steps

Streams = Mapping[str, api.Stream]


def inputs_of_sink(part: ComponentPart, streams: Mapping[str, Streams]) -> Iterator[Problem]:
    """Inputs of a sink whose fields differ. `streams`: those of all components."""
    inputs = {
        f"{item.source}:{item.stream}": streams[item.source][item.stream]
        for item in part.inputs
        if item.source is not None
        and item.stream is not None
        and item.stream in streams.get(item.source, {})
    }
    for message in unlike_inputs(inputs):
        yield Problem(f"{part.path}.inputs", f"{part.label}: {message}")


def without_classes(parts: Sequence[ComponentPart]) -> Iterator[Problem]:
    """Mistakes in the fields of groupings that show without classes."""
    for part in parts:
        for item in part.inputs:
            yield from mistaken_steps(item, None)
            yield from needed_fields(item, None)


def mistaken_subscription(item: InputPart, name: str, streams: Streams) -> Iterator[Problem]:
    """Mistakes in an input's stream and grouping. `streams`: those of its component."""
    stream, grouping = streams.get(name), item.grouping
    if stream is None:
        if streams:
            message = f"there is no stream {name!r}: {item.source!r} declares {list(streams)}"
            cure = did_you_mean(name, streams)
        else:
            message = f"{item.source!r} declares no stream"
            cure = 'Give its class the attribute outputs, such as outputs = ["word"].'
        yield Problem(f"{item.path}.stream", f"{item.label}: {message}", cure)
        yield from needed_fields(item, None)
        return
    if grouping is None:
        return
    yield from needed_fields(item, stream)
    if grouping.type == "direct" and not stream.direct:
        message = f"{item.label}: direct grouping on stream {name!r}, which is not declared direct"
        cure = "Use another grouping, or declare it with fulmen.Stream(fields, direct=True)."
        yield Problem(f"{item.path}.grouping.type", message, cure)
    if grouping.type != "direct" and stream.direct:
        message = f"{item.label}: {grouping.type} grouping on stream {name!r}, which is direct"
        cure = "Use type: direct, or declare the stream without direct."
        yield Problem(f"{item.path}.grouping.type", message, cure)
    if grouping.type in ("fields", "partial-key"):
        for index, wanted in enumerate(grouping.fields):
            if wanted not in stream.fields:
                message = (
                    f"{item.label}: {grouping.type} grouping on {wanted!r}, "
                    f"but stream {name!r} declares {list(stream.fields)}"
                )
                cure = did_you_mean(wanted, stream.fields)
                yield Problem(f"{item.path}.grouping.fields[{index}]", message, cure)


def needed_fields(item: InputPart, stream: api.Stream | None) -> Iterator[Problem]:
    """A grouping by fields that names none. `stream`: what the input gets, if it is known."""
    grouping = item.grouping
    if grouping is None or grouping.type not in ("fields", "partial-key"):
        return
    if not grouping.fields and "fields" not in item.wrong:
        message = f"{item.label}: {grouping.type} grouping needs the fields to group by"
        cure = "Add fields: [word]." if stream is None else f"Add fields, of {list(stream.fields)}."
        yield Problem(f"{item.path}.grouping.fields", message, cure)
