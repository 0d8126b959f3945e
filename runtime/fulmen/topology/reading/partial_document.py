"""The parts of a document that can be understood in spite of mistakes: components and inputs.

Checks of several fields run on parts, so that one mistake does not hide the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fulmen.topology.reading.field_problems import (
    SECTIONS,
    Kind,
    component_label,
    input_label,
    repair,
)
from fulmen.topology.resource.spec import (
    BoltSpec,
    Grouping,
    SpoutSpec,
    Through,
    TopologySpec,
    TransactionalSpoutSpec,
)
from fulmen.topology.resource.spec.autoscale import Autoscale, ScheduledWorkers

MODELS: Mapping[Kind, type[SpoutSpec] | type[TransactionalSpoutSpec] | type[BoltSpec]] = {
    "spout": SpoutSpec,
    "transactional spout": TransactionalSpoutSpec,
    "bolt": BoltSpec,
}


@dataclass(frozen=True)
class InputPart:
    """One input of a bolt.

    Attributes:
        path: The path in the document.
        label: The name in messages: `bolt 'count', input from 'split'`.
        source: The value of `from`, if that is text.
        stream: Its stream, if that is text.
        grouping: Its grouping, if that can be understood; wrong fields have their default.
        wrong: Names of the fields of the grouping that are wrong by themselves.
        where: Its condition, if that is text.
        select: Its new fields, those whose expression is text; None: it has none.
        through: What makes its rows, if that can be understood.
    """

    path: str
    label: str
    source: str | None
    stream: str | None
    grouping: Grouping | None
    wrong: frozenset[str]
    where: str | None = None
    select: Mapping[str, str] | None = None
    through: Through | None = None


@dataclass(frozen=True)
class ComponentPart:
    """One spout or bolt.

    Attributes:
        path: The path in the document.
        kind: The kind by its place in the document.
        label: The name in messages: `bolt 'count'`.
        name: Its name, if that is text.
        model: Without its inputs; wrong fields have their default. None if the class is wrong.
        inputs: The inputs of a bolt.
        wrong: Names of the fields that are wrong by themselves.
    """

    path: str
    kind: Kind
    label: str
    name: str | None
    model: SpoutSpec | TransactionalSpoutSpec | BoltSpec | None
    inputs: tuple[InputPart, ...]
    wrong: frozenset[str]


def components_of(document: Any) -> list[ComponentPart]:
    """The components of a document, as far as they can be understood."""
    spec = _mapping(_mapping(document).get("spec"))
    parts = [
        _component(kind, f"spec.{section}[{i}]", i, raw)
        for section, kind in SECTIONS.items()
        for i, raw in enumerate(_list(spec.get(section)))
    ]
    return [part for part in parts if part is not None]


def rest_of(document: Any) -> tuple[TopologySpec, frozenset[str]]:
    """The spec without its components, and the names of the fields that are wrong in it.

    Those of autoscale begin with `autoscale.`.
    """
    raw = dict(_mapping(_mapping(document).get("spec")))
    for components in SECTIONS:
        raw.pop(components, None)
    spec, wrong = repair(TopologySpec, raw)
    assert spec is not None, "every other field has a default"
    if "autoscale" in wrong:  # what is right in it contradicts other fields as well
        scale, own = _scale(_mapping(raw["autoscale"]))
        spec = spec.model_copy(update={"autoscale": scale})
        wrong |= {f"autoscale.{name}" for name in own}
    return spec, wrong


def _scale(raw: Mapping[Any, Any]) -> tuple[Autoscale | None, frozenset[str]]:
    """The right fields of autoscale, and the names of the wrong ones; hours are read one by one.

    A wrong field without default gets a value that contradicts nothing.
    """
    own = {**raw, "schedule": ()}
    scale, wrong = repair(Autoscale, own)
    if scale is None:
        scale, others = repair(Autoscale, {**own, "maxWorkers": 1000})
        wrong |= others
    hours = tuple(_hours(_mapping(item)) for item in _list(raw.get("schedule")))
    return scale and scale.model_copy(update={"schedule": hours}), wrong


def _hours(raw: Mapping[Any, Any]) -> ScheduledWorkers:
    """The right fields of hours. A time alone contradicts nothing, so both are replaced."""
    found, wrong = repair(ScheduledWorkers, raw)
    if found is None:
        clock = {"start": "00:00", "end": "01:00"} if wrong & {"start", "end"} else {}
        fewest = {"minWorkers": 1} if "minWorkers" in wrong else {}
        found, _ = repair(ScheduledWorkers, {**raw, **clock, **fewest})
    assert found is not None, "every other field has a default"
    return found


def _component(kind: Kind, path: str, index: int, raw: Any) -> ComponentPart | None:
    if not isinstance(raw, Mapping):
        return None
    label = component_label(kind, index, raw)
    own = {key: value for key, value in raw.items() if key != "inputs"}
    cls = MODELS[kind]
    model, wrong = repair(cls, own)
    if model is None and "name" in wrong:
        model, others = repair(cls, {**own, "name": "placeholder"})
        wrong |= others
    inputs = raw.get("inputs")
    if inputs is not None and not isinstance(inputs, list | tuple):
        wrong |= {"inputs"}
    parts = tuple(_input(path, label, i, item) for i, item in enumerate(_list(inputs)))
    name = raw.get("name")
    return ComponentPart(
        path=path,
        kind=kind,
        label=label,
        name=name if isinstance(name, str) else None,
        model=model,
        inputs=parts if kind == "bolt" else (),
        wrong=wrong,
    )


def _input(path: str, label: str, index: int, raw: Any) -> InputPart:
    content = _mapping(raw)
    source, stream = content.get("from"), content.get("stream") or "default"
    grouping, wrong = repair(Grouping, _mapping(content.get("grouping")))
    through = content.get("through")
    return InputPart(
        path=f"{path}.inputs[{index}]",
        label=f"{label}, {input_label(index, raw)}",
        source=source if isinstance(source, str) else None,
        stream=stream if isinstance(stream, str) else None,
        grouping=grouping,
        wrong=wrong,
        where=where if isinstance(where := content.get("where"), str) else None,
        select=_texts(content.get("select")),
        through=repair(Through, _mapping(through))[0] if through is not None else None,
    )


def _texts(value: Any) -> Mapping[str, str] | None:
    if not isinstance(value, Mapping):
        return None
    texts = {k: v for k, v in value.items() if isinstance(k, str) and isinstance(v, str)}
    return texts or None


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
