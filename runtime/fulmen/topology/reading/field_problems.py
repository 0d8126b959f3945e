"""Checks each field of a document by itself, and says in our words what pydantic found.

All mistakes are told at once, so what is right must be usable while something else is wrong:
`repair` makes a model of the fields that are right.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from operator import getitem
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from fulmen.api.times.event_time import DURATION
from fulmen.errors import ValidationFailed
from fulmen.topology.problems import Problem, did_you_mean, key_mistake, shown, there_are
from fulmen.topology.reading.flux import flux_problems, is_flux
from fulmen.topology.resource import base
from fulmen.topology.resource.spec import API_VERSION, KIND, GroupingType, Topology
from fulmen.topology.resource.spec.autoscale import CLOCK_TIME
from fulmen.topology.resource.spec.pods import ARCHIVE_URI, SHA256

Kind = Literal["spout", "transactional spout", "bolt"]
SECTIONS: Mapping[str, Kind] = {
    "spouts": "spout",
    "transactional": "transactional spout",
    "bolts": "bolt",
}
"""The lists of components in a spec, and what is in them."""

M = TypeVar("M", bound=BaseModel)
Loc = tuple[int | str, ...]
Statement = tuple[str, str]
"""(mistake, cure)."""

PATTERNS = {
    base.NAME: "letters, digits, '-', '_' and '.', and begin and end with a letter, digit or '_'",
    base.DNS_NAME: "small letters, digits and '-', begin with a letter and not end with '-'",
    base.CLASS_PATH: "a module and a class, such as 'wordcount.SplitSentence'",
    base.ENV_NAME: "letters, digits and '_', and not begin with a digit",
    DURATION: "a number of at most 9 digits and ms, s, m, h or d, such as 10s",
    SHA256: "the 64 digits that `sha256sum FILE` prints",
    ARCHIVE_URI: "a file in a kind of store, such as s3://bucket/code-1.tar.gz",
    CLOCK_TIME: "a time of day, such as 07:30",
}
"""The allowed texts of each pattern."""
OF_CHARACTERS = (base.NAME, base.DNS_NAME, base.ENV_NAME)
"""Patterns whose description lists the characters of a text."""
EXAMPLES = {
    "name": "Add one, such as name: word-count.",
    "class": "Add the Python class, such as class: wordcount.SplitSentence.",
    "maxWorkers": "Add the largest number of workers, such as maxWorkers: 4.",
    "minWorkers": "Add the least number of workers in these hours, such as minWorkers: 2.",
    "start": "Add the time at which the hours begin, such as start: 07:30.",
    "end": "Add the time at which the hours end, such as end: 18:00.",
    "from": "Add the component to receive from, such as from: sentences.",
    "grouping": "Add one, such as grouping: {type: shuffle}.",
    "type": f"Add one of {', '.join(get_args(GroupingType))}.",
    "cidr": "Add a block of addresses, such as cidr: 10.0.0.0/8.",
    "token": "Add the key of a Secret that has it, such as token: {name: state, key: token}.",
    "key": "Add the key in the Secret, such as key: token.",
    "metadata": "Add metadata: {name: word-count}.",
    "spec": "Add it, with the spouts and bolts.",
}

SHORT = {"code": "folder", "checkpoint": "uri"}
"""Mappings for which people write the text of this field of theirs."""


def parse(document: object) -> Topology:
    """The topology that a document describes, as far as its fields can be judged one by one.

    Raises:
        ValidationFailed: Fields are missing, unknown, of the wrong type or out of bounds.
    """
    topology, problems = read_fields(document)
    if topology is None or problems:
        raise ValidationFailed(problems)
    return topology


def shape_problems(document: object) -> list[Problem]:
    """Every field that is missing, unknown, of the wrong type or out of bounds."""
    return read_fields(document)[1]


def read_fields(document: object) -> tuple[Topology | None, list[Problem]]:
    """The topology, unless one of its fields is wrong, and its `shape_problems`."""
    if not isinstance(document, Mapping):
        wanted = f"a mapping with apiVersion: {API_VERSION}, kind: {KIND}, metadata and spec"
        return None, [Problem("", f"the document is {shown(document)}, but must be {wanted}")]
    if is_flux(document):
        return None, flux_problems(document)
    topology: Topology | None = None
    problems = []
    if (kind := document.get("kind")) != KIND:
        what = "'kind' is missing" if kind is None else f"kind is {shown(kind)}, but must be {KIND}"
        problems.append(Problem("kind", what, f"A topology begins with kind: {KIND}."))
        if not is_topology(document):
            return None, problems
        document = {**document, "kind": KIND}
    if document.get("apiVersion") is None:
        cure = f"Add apiVersion: {API_VERSION}."
        problems.append(Problem("apiVersion", "'apiVersion' is missing", cure))
    try:
        topology = Topology.model_validate(without_status(document), by_alias=True, by_name=False)
    except ValidationError as error:
        problems += translate(error, document)
    return topology, problems


def is_topology(document: object) -> bool:
    """Whether a document is meant to be a topology: only then are its other mistakes told."""
    if not isinstance(document, Mapping):
        return False
    kind = document.get("kind")
    is_ours = document.get("apiVersion") == API_VERSION or ("spec" in document and kind is None)
    return kind == KIND or is_ours


def without_status(document: object) -> object:
    """The document without what the operator wrote, as in the output of `kubectl get -o yaml`."""
    if isinstance(document, Mapping):
        return {key: value for key, value in document.items() if key != "status"}
    return document


def without_unknown(document: Any) -> Any:
    """The document without unknown fields: a newer version may have written them."""
    try:
        Topology.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        document = deepcopy(document)
        for details in error.errors(include_url=False):
            if details["type"] == "extra_forbidden":
                *path, name = details["loc"]
                del reduce(getitem, path, document)[name]
    return document


def repair(model: type[M], raw: Mapping[Any, Any]) -> tuple[M | None, frozenset[str]]:
    """A model of what is right in `raw`, and the names of the fields that are wrong in it.

    Wrong fields have their default. None if a field that has no default is wrong or missing.
    """
    rest = {key: value for key, value in raw.items() if isinstance(key, str)}
    wrong: set[str] = set()
    while True:
        try:
            return model.model_validate(rest, by_alias=True, by_name=False), frozenset(wrong)
        except ValidationError as error:
            fields = {details["loc"][0] for details in error.errors() if details["loc"]}
            wrong |= {str(field) for field in fields}
            if not fields & rest.keys():
                return None, frozenset(wrong)
            rest = {key: value for key, value in rest.items() if key not in fields}


def translate(error: ValidationError, document: Mapping[Any, Any]) -> Iterator[Problem]:
    """Pydantic's errors in our words."""
    for details in error.errors(include_url=False):
        kind, loc, value = details["type"], details["loc"], details["input"]
        context = details.get("ctx", {})
        if "problems" in context:
            yield from (replace(p, path=path_of(loc) + p.path) for p in context["problems"])
            continue
        if kind == "too_short" and value:
            continue  # an entry was wrong, which has a message of its own
        label = who(document, loc)
        if kind == "invalid_key" or loc[-1] == "[key]":
            loc = loc[:-1] if kind == "invalid_key" else loc[:-2]
            statement = f"{_field(loc)} {key_mistake(value)}", "Write it in quotes."
        elif kind == "extra_forbidden":
            statement = _unknown(loc)
        else:
            statement = STATEMENTS.get(kind, _not_allowed)(_field(loc), value, context)
        path = path_of(loc) + context.get("path", "")
        yield Problem(path, f"{label}{statement[0]}", statement[1])


def path_of(loc: Sequence[int | str]) -> str:
    """A place in the document as it is written in messages: `spec.bolts[1].name`."""
    path = ""
    for part in loc:
        if isinstance(part, int) or not part.replace("-", "_").isidentifier():
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def who(document: Mapping[Any, Any], loc: Sequence[int | str]) -> str:
    """The component, and its input, that a place in the document belongs to: `bolt 'count': `."""
    match loc:
        case ("spec", ("spouts" | "transactional" | "bolts") as section, int(index), _, *_):
            raw = document["spec"][section][index]
            text = component_label(SECTIONS[section], index, raw)
            match loc[3:]:
                case ("inputs", int(number), _, *_):
                    text += f", {input_label(number, raw['inputs'][number])}"
                case _:
                    pass
            return f"{text}: "
        case _:
            return ""


def component_label(kind: str, index: int, raw: object) -> str:
    """The label of a component in messages: its name if it has one, else its number."""
    name = raw.get("name") if isinstance(raw, Mapping) else None
    return f"{kind} {name!r}" if isinstance(name, str) else f"{kind} number {index + 1}"


def input_label(index: int, raw: object) -> str:
    """The label of a bolt's input in messages."""
    source = raw.get("from") if isinstance(raw, Mapping) else None
    return f"input from {source!r}" if isinstance(source, str) else f"input number {index + 1}"


def _field(loc: Loc) -> str:
    """The last field of a place, with an index if it is an entry of a list: `fields[0]`."""
    if loc and isinstance(loc[-1], int):
        return path_of(loc[-2:])
    return str(loc[-1]) if loc else "the document"


def _unknown(loc: Loc) -> Statement:
    if loc[1:2] in (("spouts",), ("transactional",)) and loc[3:] == ("inputs",):
        return "a spout has no inputs", "List it under bolts if it receives tuples."
    names = fields_at(Topology, loc[:-1])
    cure = _further_out(loc) or did_you_mean(loc[-1], names)
    if not cure:
        is_of_component = len(loc) == 4 and loc[1] in SECTIONS
        cure = there_are(names) + " Options of its class are within 'config'." * is_of_component
    return f"there is no field {str(loc[-1])!r}", cure


def _further_out(loc: Loc) -> str:
    """The place around this one that has a field of that name."""
    for end in range(len(loc) - 2, -1, -1):
        if loc[-1] in fields_at(Topology, loc[:end]):
            return f"It is a field of {path_of(loc[:end]) or 'the topology'}."
    return ""


def fields_at(model: type[BaseModel], loc: Sequence[int | str]) -> list[str]:
    """The names, as in YAML, of the fields that a place in the document may have."""
    for part in loc:
        if isinstance(part, str):
            field = next(
                field for name, field in model.model_fields.items() if alias_of(model, name) == part
            )
            inner = model_in(field.annotation)
            assert inner is not None, f"{part} of {model.__name__} has no fields"
            model = inner
    return [alias_of(model, name) for name in model.model_fields]


def alias_of(model: type[BaseModel], attribute: str) -> str:
    """The name of an attribute of a model in YAML."""
    return model.model_fields[attribute].alias or attribute


def model_in(annotation: object) -> type[BaseModel] | None:
    """The model that an annotation such as `tuple[Bolt, ...]` or `Code | None` is about, if any."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for m in map(model_in, get_args(annotation)) if m is not None), None)


def _whole(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
    cure = "Remove the quotes." if isinstance(value, str) and value.strip().isdecimal() else ""
    return f"{field} is {shown(value)}, but must be a whole number", cure


def _must_be(wanted: str) -> Callable[[str, Any, Mapping[str, Any]], Statement]:
    def statement(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
        return f"{field} is {shown(value)}, but must be {wanted.format(**context)}", ""

    return statement


def _text(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
    scalar = isinstance(value, bool | int | float)
    return f"{field} is {shown(value)}, but must be text", "Write it in quotes." if scalar else ""


def _list(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
    cure = f"Write {field}: [{value}]." if isinstance(value, str | int) else ""
    if isinstance(value, Mapping):
        cure = "Begin each entry with '-'."
    return f"{field} is {shown(value)}, but must be a list", cure


def _mapping(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
    cure = ""
    if field == "grouping" and value in get_args(GroupingType):
        cure = f"Write grouping: {{type: {value}}}."
    elif field == "worker" and isinstance(value, int):
        cure = "Did you mean 'workers'?"
    elif field in SHORT and isinstance(value, str):
        cure = f"Write {field}: {{{SHORT[field]}: {value}}}."
    elif field.startswith("inputs[") and isinstance(value, str):
        cure = f"Write {{from: {value}, grouping: {{type: shuffle}}}}."
    return f"{field} is {shown(value)}, but must be a mapping", cure


def _choice(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
    choices = [
        choice.strip("'") for choice in context["expected"].replace(" or ", ", ").split(", ")
    ]
    cure = did_you_mean(value, choices)
    wanted = choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
    return f"{field} is {shown(value)}, but must be {wanted}", cure


def _pattern(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
    pattern = context["pattern"]
    if pattern in PATTERNS:
        be = "consist of" if pattern in OF_CHARACTERS else "be"
        return f"{field} is {shown(value)}, but must {be} {PATTERNS[pattern]}", ""
    schemes = "s3://…, gs://…, az://… or file:///…"
    cure = f"Write file://{value}." if str(value).startswith("/") else ""
    return f"{field} is {shown(value)}, but must be a folder in a kind of store: {schemes}", cure


def _too_long(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
    unit = "characters" if isinstance(value, str) else "entries"
    cure = (
        "The object's fields are in the topology: read or make large ones in open or prepare."
        if field == "instance"
        else ""
    )
    return f"{field} has {len(value)} {unit}, but at most {context['max_length']} are allowed", cure


def _too_short(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
    return f"{field} is empty", EXAMPLES.get(field, "")


def _missing(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
    return f"{field!r} is missing", EXAMPLES[field]


def _own(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
    return f"{field} {context['statement']}", ""


def _not_allowed(field: str, value: Any, context: Mapping[str, Any]) -> Statement:
    return f"{field} is {shown(value)}, which is not allowed here", ""


STATEMENTS: dict[str, Callable[[str, Any, Mapping[str, Any]], Statement]] = {
    base.OWN: _own,
    "bool_type": _must_be("true or false"),
    "dict_type": _mapping,
    "finite_number": _must_be("a finite number"),
    "float_type": _must_be("a number"),
    "greater_than": _must_be("greater than {gt:g}"),
    "greater_than_equal": _must_be("at least {ge}"),
    "int_from_float": _whole,
    "int_type": _whole,
    "less_than_equal": _must_be("at most {le:g}"),
    "literal_error": _choice,
    "missing": _missing,
    "model_type": _mapping,
    "string_pattern_mismatch": _pattern,
    "string_too_long": _too_long,
    "string_too_short": _too_short,
    "string_type": _text,
    "too_long": _too_long,
    "too_short": _too_short,
    "tuple_type": _list,
}
