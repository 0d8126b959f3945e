"""Checks a `podTemplate` by Kubernetes' own description: finds all mistakes at once.

`scripts/pod_schema.py` writes the description, of one version. A cluster may be newer: so an
unknown field is a mistake only if it is nearly spelled as a known one. The API server knows all
others: the operator asks it before it makes a pod.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pydantic_core import PydanticCustomError

from fulmen.topology.problems import MOST_TOLD, Problem, Severity, did_you_mean, shown, there_are
from fulmen.topology.resource.base import OWN
from fulmen.topology.resource.quantity import amount

ROOT: Final = "PodTemplateSpec"
PARTS: Final = ("metadata", "spec")
OF_ALL: Final = ("apiVersion", "kind")
"""Other fields that an object of Kubernetes may have, to no effect here."""
TYPO: Final = 0.85
"""The likeness from which a name counts as a misspelling: two characters of twelve differ."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_PLAIN: Final[Mapping[str, Callable[[Any], bool]]] = {
    "text": lambda value: isinstance(value, str),
    "whole number": _is_whole,
    "number": _is_number,
    "true or false": lambda value: isinstance(value, bool),
    "number or text": lambda value: _is_whole(value) or isinstance(value, str),
    "quantity": lambda value: (
        _is_number(value) or (isinstance(value, str) and amount(value) is not None)
    ),
}


def shaped(template: dict[str, Any]) -> dict[str, Any]:
    """The template, if pods can be made of it; else pydantic reports all mistakes at once."""
    found = list(islice(_in_parts(template), MOST_TOLD + 1))
    errors = [mistake for mistake in found if mistake.severity == "error"]
    if len(found) > MOST_TOLD:  # and no more were looked for
        errors = [replace(mistake, severity="error") for mistake in found]
    if errors:
        raise PydanticCustomError(OWN, "refused", {"problems": errors})
    return template


def mistakes(template: Mapping[str, Any]) -> Iterator[Problem]:
    """Find mistakes in a template, with paths such as `.spec.containers[0].name`.

    A field that a newer Kubernetes may have is a warning.
    """
    for field in sorted(set(template) - {*PARTS, *OF_ALL}):
        message = f"{field!r} is no part of a pod template, which has metadata and spec"
        yield Problem("", message, f"Write it below spec: {{spec: {{{field}: …}}}}.")
    yield from _in_parts(template)


def _in_parts(template: Mapping[str, Any]) -> Iterator[Problem]:
    own = {field: value for field, value in template.items() if field in PARTS}
    yield from _mistakes(own, ROOT, "", "podTemplate")


@cache
def _description() -> dict[str, Any]:
    text = Path(__file__).with_name("pod_schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def kinds() -> dict[str, dict[str, str]]:
    """The fields of each kind of object: `[T]` is a list, `{T}` a mapping, `!` is required."""
    found: dict[str, dict[str, str]] = _description()["kinds"]
    return found


def _mistakes(value: Any, kind: str, path: str, field: str) -> Iterator[Problem]:
    """Mistakes in a value. The stack depends on the description's depth, not on the value's."""
    if kind.startswith("[") and isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _mistakes(entry, kind[1:-1], f"{path}[{number}]", f"{field}[{number}]")
    elif kind.startswith("{") and isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _mistakes(entry, kind[1:-1], f"{path}[{key}]", repr(key))
    elif kind in kinds() and isinstance(value, Mapping):
        yield from _fields(value, kinds()[kind], path, field)
    else:
        yield from _wrong(value, kind, path, field)


def _fields(
    value: Mapping[str, Any], types: Mapping[str, str], path: str, owner: str
) -> Iterator[Problem]:
    for name, kind in types.items():
        field = name.rstrip("!")
        if value.get(field) is not None:
            yield from _mistakes(value[field], kind, f"{path}.{field}", field)
        elif name.endswith("!"):
            yield Problem(path, f"{owner} has no {field!r}, which Kubernetes needs")
    names = {name.rstrip("!") for name in types}
    for field in value:
        if field not in names:
            message = f"Kubernetes {_description()['version']} has no field {field!r} in {owner}"
            typo = did_you_mean(field, names, TYPO)
            severity: Severity = "error" if typo else "warning"
            yield Problem(f"{path}.{field}", message, typo or there_are(sorted(names)), severity)


def _wrong(value: Any, kind: str, path: str, field: str) -> Iterator[Problem]:
    """The mistake that a value is not the list, mapping, word or plain type that is wanted."""
    cure = ""
    if "|" in kind:
        choices = kind.split("|")
        if value in choices:
            return
        wanted, cure = f"one of {', '.join(filter(None, choices))}", did_you_mean(value, choices)
    elif kind in _PLAIN:
        if _PLAIN[kind](value):
            return
        wanted = kind if kind in ("text", "true or false") else f"a {kind}"
        if kind == "text" and isinstance(value, bool | int | float):
            cure = "Write it in quotes."
    else:
        wanted = "a list" if kind.startswith("[") else "a mapping"
    yield Problem(path, f"{field} is {shown(value)}, but must be {wanted}", cure)
