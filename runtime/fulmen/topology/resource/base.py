"""The base of all models of the resource: spelling, strictness, types of both YAML and JSON.

Strict, because the API server is: `workers: "3"` must not pass here and be refused there.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Any, NoReturn

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from fulmen.topology.problems import key_mistake, shown
from fulmen.topology.resource.quantity import amount
from fulmen.visible import is_text

OWN = "fulmen"
"""The type of errors that bring their own words along, to follow the name of the field."""
MAX_DEPTH = 40
"""The depth of free-form values: a value that contains itself (YAML anchors) ends here."""


def spelling(attribute: str) -> str:
    """The spelling of a field in YAML: `num_tasks` is `numTasks`, `class_` is `class`."""
    return to_camel(attribute.rstrip("_"))


class Model(BaseModel):
    """Base of the resource's parts. Immutable; unknown fields are mistakes, not ignored."""

    model_config = ConfigDict(
        alias_generator=spelling,
        extra="forbid",
        frozen=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
        validate_by_alias=True,
        validate_by_name=True,  # for Python; documents are read with by_name=False
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        """Take `config:` with nothing behind it for an absent field, as the API server does."""
        if isinstance(data, Mapping):
            return {key: value for key, value in data.items() if value is not None}
        return data


def fits_64_bits(number: int) -> bool:
    """Whether the API server keeps a whole number as it is; it rounds larger ones."""
    return -(2**63) <= number < 2**63


def _json(value: Any, path: str, depth: int) -> Any:
    """A copy of `value` made of JSON's types only."""
    if depth > MAX_DEPTH:
        _refuse(path, f"values nested deeper than {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool | int | float | str):
        _check_scalar(value, path)
        return value
    if isinstance(value, list | tuple):
        return [_json(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    if not isinstance(value, Mapping):
        _refuse(path, f"a value of the type {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            refuse(f"{key_mistake(key)}. Write it in quotes", path)
        if not is_text(key):
            _refuse(path, f"the key {shown(key)}, with half a character (a surrogate)")
    return {key: _json(item, f"{path}.{key}", depth + 1) for key, item in value.items()}


def _check_scalar(value: bool | int | float | str | None, path: str) -> None:
    match value:
        case int() if not fits_64_bits(value):
            refuse("contains a whole number beyond 64 bits: write it as text, in quotes", path)
        case float() if not isfinite(value):
            _refuse(path, f"the number {value}")
        case str() if not is_text(value):
            _refuse(path, "text with half a character (a surrogate)")


def _refuse(path: str, what: str) -> NoReturn:
    wanted = "text, numbers, true, false, lists or mappings with text as keys"
    refuse(f"contains {what}, but must be {wanted}", path)


def refuse(statement: str, path: str = "") -> NoReturn:
    """Make pydantic report a value.

    Args:
        statement: What is wrong: follows the field's name.
        path: The place in the value, such as `.files[2]`.
    """
    raise PydanticCustomError(OWN, "refused", {"statement": statement, "path": path})


def _quantity(value: Any) -> Any:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    text = str(value) if is_whole else value
    if not isinstance(text, str) or amount(text) is None:
        wanted = 'a quantity: a whole number, or text such as "500m" or "2Gi"'
        refuse(f"is {shown(value)}, but must be {wanted}")
    return text


NAME = r"^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$"
"""Names of components: they are part of metrics' labels, of checkpoint keys and of file names."""
DNS_NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
CLASS_PATH = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$"
IMPORT_PATH = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"

Name = Annotated[str, Field(pattern=NAME, max_length=63)]
DnsName = Annotated[str, Field(pattern=DNS_NAME, max_length=40)]
ObjectName = Annotated[str, Field(min_length=1, max_length=253)]
"""The name of another Kubernetes object."""
ClassPath = Annotated[str, Field(pattern=CLASS_PATH, max_length=253)]
FieldName = Annotated[str, Field(min_length=1, max_length=253)]
"""The name of a stream, or of a field of one."""
ImportPath = Annotated[str, Field(pattern=IMPORT_PATH, max_length=253)]
Count = Annotated[int, Field(strict=True, ge=1, le=100_000)]
Seconds = Annotated[int, Field(strict=True, ge=1, le=7 * 24 * 3600)]
Text = Annotated[str, Field(max_length=4096)]
Json = Annotated[Any, AfterValidator(lambda value: _json(value, "", 0))]
JsonMap = Annotated[dict[str, Any], AfterValidator(lambda value: _json(value, "", 0))]
Quantity = Annotated[
    str,
    BeforeValidator(_quantity),
    Field(max_length=64),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
]
