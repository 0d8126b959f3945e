"""Changes to a document from the command line: `--set spec.bolts[count].parallelism=2`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from fulmen.errors import ValidationFailed
from fulmen.topology.problems import Problem, did_you_mean, shown, there_are
from fulmen.topology.reading.documents import NOT_YAML, parse_yaml
from fulmen.topology.reading.field_problems import alias_of, model_in
from fulmen.topology.resource.spec import Metadata, Topology, TopologySpec

_PART = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]+)\]")


@dataclass(frozen=True)
class _Place:
    """A container in the document, and its type in the model.

    Attributes:
        path: The path as the user wrote it.
        container: A mapping or list of the document.
        annotation: The container's type; Any where everything is allowed, None for a single value.
    """

    path: str
    container: Any
    annotation: Any


def set_values(document: Any, assignments: Iterable[str]) -> Any:
    """Copy the document with some values changed.

    Args:
        document: A document read from YAML.
        assignments: `path=value`. An entry of a list is `[name]` or `[number]`. The value is YAML;
            nothing means the field's default.

    Raises:
        ValidationFailed: A path leads nowhere, or a value is not YAML. All such mistakes are named.
    """
    changed = _unshared(document)
    problems: list[Problem] = []
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        try:
            if not equals or not path.strip():
                message = f"{assignment!r} is not an assignment"
                raise _refused("", message, "Write path=value, such as spec.workers=3.")
            _assign(changed, path.strip(), _value(path, value))
        except ValidationFailed as error:
            problems += [p for p in error.problems if isinstance(p, Problem)]
    if problems:
        raise ValidationFailed(problems)
    return changed


def _unshared(value: Any, around: tuple[int, ...] = ()) -> Any:
    """A copy in which nothing is there twice, as YAML's anchors make it."""
    if id(value) in around:  # it contains itself, which is refused later
        return value
    around = (*around, id(value))
    if isinstance(value, dict):
        return {key: _unshared(inner, around) for key, inner in value.items()}
    if isinstance(value, list):
        return [_unshared(inner, around) for inner in value]
    return value


def _refused(path: str, message: str, cure: str = "") -> ValidationFailed:
    return ValidationFailed([Problem(path, message, cure)])


def _value(path: str, text: str) -> Any:
    if text.strip() in ("", "~", "null", "Null", "NULL"):
        return None
    try:
        return parse_yaml(text)
    except ValidationFailed as error:
        (problem,) = (p for p in error.problems if isinstance(p, Problem))
        if problem.message.startswith(NOT_YAML) or not problem.path:
            raise _refused(
                path, f"the value {shown(text)} is not YAML", "Write it in quotes."
            ) from None
        raise _refused(path, f"the value {shown(text)}: {problem.message}", problem.cure) from None


def _assign(document: Any, path: str, value: Any) -> None:
    parts = _parts(path)
    place = _Place("", document, Topology)
    while len(parts) > 1:
        if get_origin(place.annotation) is dict and get_args(place.annotation)[1] is not Any:
            parts = [
                ".".join(parts)
            ]  # a map of text has no levels: spec.spark.conf.spark.local.dir
            break
        place, parts = _step_into(place, parts[0]), parts[1:]
    key, _ = _resolve(place, parts[0])
    place.container[key] = value


def _parts(path: str) -> list[str]:
    parts, end = [], 0
    for match in _PART.finditer(path):
        if match.start() != end:
            break
        parts.append(match[1] or match[2])
        end = match.end()
    if end != len(path):
        raise _refused(path, "the path can't be read", "Write it as in spec.bolts[count].config.a.")
    return parts


def _step_into(place: _Place, part: str) -> _Place:
    key, annotation = _resolve(place, part)
    path = _join(place, part)
    there = place.container.get(key) if isinstance(place.container, dict) else place.container[key]
    missing = there is None and isinstance(place.container, dict)
    if get_origin(annotation) is tuple and (missing or there == []):
        cure = f"Write the whole list: {path}=[{{…}}]."
        raise _refused(path, f"{part!r} is an empty list, with nothing to change in it", cure)
    if missing and annotation is not None:
        place.container[key] = {}
    inner = None if missing and annotation is None else place.container[key]
    if not isinstance(inner, dict | list):
        raise _refused(path, f"{part!r} is a single value, with nothing below it")
    return _Place(path, inner, annotation)


def _resolve(place: _Place, part: str) -> tuple[Any, Any]:
    """The key or index that `part` means in a container, and the type of what is there."""
    if isinstance(place.container, list):
        return _index(place, part), next(iter(get_args(place.annotation)), Any)
    if not isinstance(place.container, dict):
        raise _refused(_join(place, part), "the document is not a mapping")
    model = model_in(place.annotation)
    if model is None:
        return part, Any
    for attribute, field in model.model_fields.items():
        if alias_of(model, attribute) == part:
            return part, _inner(field.annotation)
    if model is Metadata:
        return part, Any
    names = [alias_of(model, attribute) for attribute in model.model_fields]
    cure = did_you_mean(part, names) or there_are(names)
    if model is Topology and part in (alias_of(TopologySpec, a) for a in TopologySpec.model_fields):
        cure = f"Did you mean 'spec.{part}'?"
    raise _refused(_join(place, part), f"there is no field {part!r}", cure)


def _index(place: _Place, part: str) -> int:
    entries = place.container
    if part.isdecimal():
        if int(part) < len(entries):
            return int(part)
        message = f"there is no entry {part}, but {len(entries)}, counted from 0"
        raise _refused(_join(place, part), message)
    names = [e.get("name", e.get("from")) if isinstance(e, Mapping) else None for e in entries]
    if part in names:
        return names.index(part)
    known = [name for name in names if isinstance(name, str)]
    cure = did_you_mean(part, known) or there_are(known)
    raise _refused(_join(place, part), f"there is no {part!r} in {place.path}", cure)


def _inner(annotation: Any) -> Any:
    """The type of a container behind `Annotated` and `| None`; None if it is a single value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (tuple, dict):
        return annotation
    return next((a for a in map(_inner, get_args(annotation)) if a is not None), None)


def _join(place: _Place, part: str) -> str:
    if isinstance(place.container, list):
        return f"{place.path}[{part}]"
    return f"{place.path}.{part}" if place.path else part
