"""Says in our words what an author's model (`config_model`) has against a `config`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import AliasChoices, BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from fulmen.api.times.event_time import DURATION
from fulmen.secrets import masked, without_passwords
from fulmen.topology.configuration.placeholders import Place
from fulmen.topology.problems import Problem, did_you_mean, meant_by, shown, there_are
from fulmen.topology.reading.field_problems import PATTERNS, STATEMENTS, Statement, path_of

_UNKNOWN = object()
_BUT = ", but must be "
_NOT_SHOWN = "a secret that is not shown"


@dataclass
class _Found:
    """A place in a `config` and its owner in the model.

    Attributes:
        place: The place in the file; pydantic's also has the kinds of unions in between.
        value: The value at the place.
        owners: The models that may have the last part of the place as a field.
        field: The field in one of them.
    """

    place: Place
    value: Any
    owners: list[type[BaseModel]]
    field: FieldInfo | None


def option_problems(
    model: type[BaseModel],
    error: ValidationError,
    config: Mapping[str, Any],
    path: str,
    label: str,
) -> Iterator[tuple[Place, Problem]]:
    """Each mistake once, with its place in the `config`.

    Args:
        model: The author's.
        error: Pydantic's error.
        config: The `config` in the file: its values are shown.
        path: The path of the `config` in the document.
        label: The component's name in messages: `bolt 'count': `, or nothing.
    """
    told: dict[tuple[Place, str], Statement] = {}
    not_meant: set[Place] = set()
    for details in error.errors(include_url=False):
        kind = details["type"]
        found = _find(model, details["loc"], config, is_missing=kind == "missing")
        message, cure = _statement(model, kind, found, details)
        place = found.place
        if kind.endswith("_type"):
            not_meant.add(place)
        if kind.startswith("union_tag") and "ctx" in details:
            place = (*place, details["ctx"]["discriminator"].strip("'"))
        subject, but, wanted = message.partition(_BUT)
        before = told.get((place, subject))
        if before is None or not but:
            told[place, subject] = message, cure
        elif wanted not in before[0].split(_BUT)[1].split(" or "):  # another kind of a union
            told[place, subject] = f"{before[0]} or {wanted}", ""
    for (place, _), (message, cure) in told.items():
        if place in not_meant and any(_is_within(other, place) for other, _ in told):
            continue  # another kind of a union was meant, and has a mistake further in
        text = masked(without_passwords(f"{label}{message}"))
        yield place, Problem(within(path, place), text, masked(without_passwords(cure)))


def as_meant(
    config: Mapping[str, Any], wrong: Sequence[tuple[Place, Problem]]
) -> tuple[dict[str, Any], list[Problem]]:
    """The `config` with each misspelt option and value as it is meant; and which those are.

    Args:
        config: The `config` in the file.
        wrong: What `option_problems` says of it.
    """
    corrected, misspelt = deepcopy(dict(config)), []
    for place, problem in wrong:
        word, owner = meant_by(problem.cure), corrected
        if word is None:
            continue
        for part in place[:-1]:
            owner = owner[part]  # type: ignore[index]
        if _no_option(place) not in problem.message:
            owner[place[-1]] = word  # type: ignore[index]
        elif word in owner:
            continue
        else:
            owner[word] = owner.pop(place[-1])  # type: ignore[arg-type]
        misspelt.append(problem)
    return corrected, misspelt


def _no_option(place: Place) -> str:
    return f"there is no option {str(place[-1])!r}"


def _is_within(place: Place, outer: Place) -> bool:
    return len(place) > len(outer) and place[: len(outer)] == outer


def place_of(model: type[BaseModel], details: Any, config: Any) -> Place:
    """The place of one of pydantic's mistakes, as the file has it."""
    return _find(model, details["loc"], config, is_missing=details["type"] == "missing").place


def within(path: str, place: Place) -> str:
    """The path of a place in a `config` that has this path."""
    inner = path_of(place)
    return f"{path}.{inner}" if inner and not inner.startswith("[") else f"{path}{inner}"


def _find(model: type[BaseModel], loc: Place, config: Any, *, is_missing: bool) -> _Found:
    place: list[int | str] = []
    owners, models, here, field = [model], [model], config, None
    for part in loc:
        fields = list(_fields_named(models, part))
        if isinstance(part, int) and isinstance(here, list | tuple) and part < len(here):
            here = here[part]
        elif isinstance(here, Mapping) and (part in here or fields):
            owners, field = models, fields[0] if fields else None
            models = [m for one in fields for m in _models_in(one.annotation)] or models
            here = here.get(part, _UNKNOWN)
        elif is_missing and part == loc[-1]:
            here = _UNKNOWN
        else:  # which kind of a union it is about, or the name of a validator
            models = _of_kind(models, part) or models
            continue
        place.append(part)
    return _Found(tuple(place), here, owners, field)


def _fields_named(models: Sequence[type[BaseModel]], name: object) -> Iterator[FieldInfo]:
    for model in models:
        for attribute, field in model.model_fields.items():
            if name in (attribute, *_spellings(field)):
                yield field


def _spellings(field: FieldInfo) -> list[str]:
    given = [field.validation_alias, field.alias]
    choices = [
        c for one in given for c in (one.choices if isinstance(one, AliasChoices) else [one])
    ]
    return [choice for choice in dict.fromkeys(choices) if isinstance(choice, str)]


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]


def _models_of(field: FieldInfo | None) -> list[type[BaseModel]]:
    return [] if field is None else _models_in(field.annotation)


def _tags(model: type[BaseModel], name: str) -> tuple[Any, ...]:
    """The values of the field that tells which kind of a union a model is."""
    return next((get_args(f.annotation) for f in _fields_named([model], name)), ())


def _of_kind(models: Sequence[type[BaseModel]], kind: object) -> list[type[BaseModel]]:
    """The models that a tag of a union is about, or that have such a name."""
    return [
        model
        for model in models
        if kind == model.__name__
        or any(kind in get_args(field.annotation) for field in model.model_fields.values())
    ]


def _statement(model: type[BaseModel], kind: str, found: _Found, details: Any) -> Statement:
    name = _name_of(found.place)
    context = details.get("ctx", {})
    value = details["input"] if found.value is _UNKNOWN else found.value
    if kind == "extra_forbidden":
        known = [_first_spelling(m, a) for m in found.owners for a in m.model_fields]
        cure = (
            _elsewhere(model, found.place)
            or did_you_mean(found.place[-1], known)
            or there_are(known)
        )
        return _no_option(found.place), cure
    if kind == "missing":
        return f"{name!r} is missing", _told(found.field)
    if kind == "union_tag_not_found" and isinstance(value, Mapping):
        tag = context["discriminator"].strip("'")
        kinds = [str(one) for model in _models_of(found.field) for one in _tags(model, tag)]
        return f"{tag!r} is missing", f"Write one of {', '.join(kinds)}." if kinds else ""
    statement = (_OWN.get(kind) or STATEMENTS.get(kind) or _as_pydantic(details["msg"]))(
        name, value, context
    )
    if found.field is not None and _is_secret(found.field.annotation):
        return statement[0].replace(f" {shown(value)}", f" {_NOT_SHOWN}"), ""
    return statement


def _elsewhere(model: type[BaseModel], place: Place) -> str:
    """The place of a misplaced option: the config itself, or one of its options."""
    name = place[-1]
    if len(place) > 1:
        is_outer = any(True for _ in _fields_named([model], name))
        return f"Write it beside {str(place[0])!r}, not within it." if is_outer else ""
    inner = {
        _first_spelling(model, attribute)
        for attribute, field in model.model_fields.items()
        if any(True for _ in _fields_named(_models_in(field.annotation), name))
    }
    return f"It is an option of {' and of '.join(sorted(inner))}." if inner else ""


def _name_of(place: Place) -> str:
    if place and isinstance(place[-1], int):
        return path_of(place[-2:])
    return str(place[-1]) if place else ""


def _first_spelling(model: type[BaseModel], attribute: str) -> str:
    return next(iter(_spellings(model.model_fields[attribute])), attribute)


def _told(field: FieldInfo | None) -> str:
    """The first sentence of an option's docstring."""
    text = " ".join((field.description or "").split()) if field is not None else ""
    first, dot, _ = text.partition(". ")
    return (first + dot).strip()


def _is_secret(annotation: object) -> bool:
    return annotation in (SecretStr, SecretBytes) or any(map(_is_secret, get_args(annotation)))


def _must_be(wanted: str) -> Callable[[str, Any, Mapping[str, Any]], Statement]:
    def statement(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
        return f"{field} is {shown(value)}, but must be {wanted.format(**context)}", ""

    return statement


def _own(field: str, value: Any, context: Mapping[str, Any]) -> Statement:  # noqa: ARG001
    said = str(context["error"]).rstrip(".")
    return f"{field}: {said}" if field else said, ""


def _kind_of_union(field: str, value: Any, context: Mapping[str, Any]) -> Statement:  # noqa: ARG001
    choices = [choice.strip("'") for choice in context["expected_tags"].split(", ")]
    name = context["discriminator"].strip("'")
    message = f"{name} is {shown(context['tag'])}, but must be one of {', '.join(choices)}"
    return message, did_you_mean(context["tag"], choices)


def _pattern(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
    pattern = context["pattern"]
    wanted = PATTERNS[pattern] if pattern == DURATION else f"text that matches {pattern}"
    return f"{field} is {shown(value)}, but must be {wanted}", ""


def _count(least: str) -> Callable[[str, Any, Mapping[str, Any]], Statement]:
    def statement(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
        unit = "characters" if isinstance(value, str | bytes) else "entries"
        return f"{field} has {len(value)} {unit}, but must have at {least.format(**context)}", ""

    return statement


def _as_pydantic(text: str) -> Callable[[str, Any, Mapping[str, Any]], Statement]:
    said = f"{text[:1].lower()}{text[1:]}".rstrip(".")

    def statement(field: str, value: Any, context: Mapping[str, Any]) -> Statement:  # noqa: ARG001
        return f"{field} is {shown(value)}: {said}", ""

    return statement


_OWN: dict[str, Callable[[str, Any, Mapping[str, Any]], Statement]] = {
    "assertion_error": _own,
    "bool_parsing": _must_be("true or false"),
    "enum": STATEMENTS["literal_error"],
    "float_parsing": _must_be("a number"),
    "int_parsing": STATEMENTS["int_type"],
    "less_than": _must_be("less than {lt:g}"),
    "dataclass_type": STATEMENTS["model_type"],
    "list_type": STATEMENTS["tuple_type"],
    "model_attributes_type": STATEMENTS["model_type"],
    "set_type": STATEMENTS["tuple_type"],
    "string_pattern_mismatch": _pattern,
    "string_too_long": _count("most {max_length}"),
    "string_too_short": _count("least {min_length}"),
    "too_long": _count("most {max_length}"),
    "too_short": _count("least {min_length}"),
    "union_tag_invalid": _kind_of_union,
    "union_tag_not_found": STATEMENTS["model_type"],
    "value_error": _own,
}
"""Mistakes that the resource itself does not have, or has in other words."""
