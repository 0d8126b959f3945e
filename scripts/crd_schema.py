"""From pydantic's JSON schema to one that Kubernetes takes: structural, and without references."""

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

LIST_KEYS = {
    "spec.spouts": "name",
    "spec.transactional": "name",
    "spec.bolts": "name",
    "spec.env": "name",
    "spec.driver.env": "name",
    "spec.worker.env": "name",
    "spec.driver.imagePullSecrets": "name",
    "spec.worker.imagePullSecrets": "name",
    "status.conditions": "type",
    "status.components": "name",
    "status.assignment": "worker",
}
"""Lists whose entries have names: they can be applied one by one. All others are replaced whole."""

FREE_FORM = ("config", "podTemplate", "valueFrom")

EVENT_TIME_RULES = [
    {
        "rule": "has(self.field) != (has(self.streams) && self.streams.size() > 0)",
        "message": "eventTime needs field, the field with the time, or streams: one of the two",
    }
]
COMPONENT_RULES = [
    {
        "rule": "!self.name.startsWith('__')",
        "message": "names that begin with '__' are reserved: choose another",
    },
]
RULES = {
    "": [
        {
            "rule": "self.metadata.name.size() <= 40 && "
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "message": "the name must have at most 40 small letters, digits and '-', begin with a "
            "letter and not end with '-': it begins the names of pods",
        }
    ],
    "spec.spouts[]": COMPONENT_RULES,
    "spec.transactional[]": COMPONENT_RULES,
    "spec": [
        {
            "rule": "(has(self.transactional) && self.transactional.size() > 0) != "
            "(has(self.spouts) && self.spouts.size() > 0)",
            "message": "a topology needs spouts, or transactional spouts: one of the two",
        }
    ],
    "spec.bolts[]": [
        *COMPONENT_RULES,
        {
            "rule": "has(self.inputs) && self.inputs.size() > 0",
            "message": "a bolt needs an input, such as {from: sentences, grouping: "
            "{type: shuffle}}",
        },
    ],
    "spec.bolts[].inputs[].grouping": [
        {
            "rule": "self.type == 'custom' ? has(self.class) : !has(self.class)",
            "message": "a custom grouping needs a class, and no other takes one",
        },
        {
            "rule": "!has(self.fields) || self.fields.size() == 0 || "
            "self.type in ['fields', 'partial-key']",
            "message": "only fields and partial-key groupings take fields",
        },
    ],
    "spec.code": [
        {
            "rule": "!has(self.folder)",
            "message": "a folder is on your machine: `fulmen manifest FILE | kubectl apply -f -` "
            "puts its files into a ConfigMap",
        },
        {
            "rule": "!(has(self.files) && has(self.configMap))",
            "message": "give files or configMap, not both",
        },
        {
            "rule": "!(has(self.uri) && (has(self.files) || has(self.configMap)))",
            "message": "give uri, or files, or configMap, only one of them",
        },
        {
            "rule": "!(has(self.configMaps) && (has(self.files) || has(self.configMap) || "
            "has(self.uri)))",
            "message": "give configMaps, or files, or configMap, or uri, only one of them",
        },
        {
            "rule": "(has(self.uri) || has(self.configMaps)) == has(self.sha256)",
            "message": "uri and sha256 belong together: `sha256sum FILE` prints the digest; so do "
            "configMaps and sha256",
        },
    ],
    "spec.checkpoint": [
        {
            "rule": "!(has(self.uri) && has(self.persistentVolumeClaim))",
            "message": "give uri or persistentVolumeClaim, not both",
        }
    ],
    "spec.autoscale": [
        {
            "rule": "!has(self.minWorkers) || self.minWorkers <= self.maxWorkers",
            "message": "minWorkers is at most maxWorkers",
        },
        {
            "rule": "!has(self.schedule) || self.schedule.all(hours, hours.minWorkers <= "
            "self.maxWorkers)",
            "message": "minWorkers of a schedule is at most maxWorkers",
        },
    ],
    "spec.driver.env[]": [
        {
            "rule": "!(has(self.value) && has(self.valueFrom))",
            "message": "give value or valueFrom, not both",
        }
    ],
}
for _of in ("spouts[]", "transactional[]", "bolts[]"):
    RULES[f"spec.{_of}.eventTime"] = EVENT_TIME_RULES
RULES["spec.env[]"] = RULES["spec.worker.env[]"] = RULES["spec.driver.env[]"]
"""What a schema alone can't say, in CEL, by the place in the document."""


def structural(model: type[BaseModel], place: str) -> Schema:
    """The schema of a model that is found at `place` in the resource, such as `spec`."""
    schema = model.model_json_schema(by_alias=True)
    return _convert(schema, place, schema.get("$defs", {}))


def rules(place: str) -> Schema:
    """The CEL rules of a place, as a part of its schema."""
    return {"x-kubernetes-validations": RULES[place]} if place in RULES else {}


def _convert(schema: Schema, place: str, models: dict[str, Schema]) -> Schema:
    described = {"description": _line(schema["description"])} if "description" in schema else {}
    if "$ref" in schema:
        return _convert(models[schema["$ref"].rsplit("/", 1)[1]], place, models) | described
    if "anyOf" in schema:
        choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
        if len(choices) == 1:
            return _convert(choices[0], place, models) | described
        return {"x-kubernetes-int-or-string": True, "maxLength": 64, **described}
    match schema["type"]:
        case "object":
            return _object(schema, place, models) | described
        case "array":
            return _list(schema, place, models) | described
        case _:
            return _scalar(schema) | described


def _object(schema: Schema, place: str, models: dict[str, Schema]) -> Schema:
    converted: Schema = {"type": "object", **rules(place)}
    if "properties" in schema:
        converted["properties"] = {
            name: _convert(field, f"{place}.{name}", models)
            for name, field in schema["properties"].items()
        }
        if schema.get("required"):
            converted["required"] = schema["required"]
    elif place.rsplit(".", 1)[-1] in FREE_FORM:
        converted["x-kubernetes-preserve-unknown-fields"] = True
    else:
        values = _convert(schema["additionalProperties"], f"{place}.*", models)
        converted |= {"additionalProperties": values, "maxProperties": schema["maxProperties"]}
    return converted


def _list(schema: Schema, place: str, models: dict[str, Schema]) -> Schema:
    converted: Schema = {"type": "array", "maxItems": schema["maxItems"]}
    if "minItems" in schema:
        converted["minItems"] = schema["minItems"]
    converted["items"] = _convert(schema["items"], f"{place}[]", models)
    if key := LIST_KEYS.get(place):
        return converted | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return converted | {"x-kubernetes-list-type": "atomic"}


def _scalar(schema: Schema) -> Schema:
    kept = ("type", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "default")
    converted = {key: schema[key] for key in kept if schema.get(key) is not None}
    if "const" in schema:
        converted |= {"enum": [schema["const"]]}
    if "exclusiveMinimum" in schema:  # OpenAPI 3.0's way of saying it
        converted |= {"minimum": schema["exclusiveMinimum"], "exclusiveMinimum": True}
    if converted["type"] == "integer":
        converted["format"] = "int64"
    if converted["type"] == "string" and not {"maxLength", "enum"} & converted.keys():
        converted["maxLength"] = 128 * 1024  # the text of a file: all of them together have no more
    return converted


def _line(text: str) -> str:
    """A docstring without its line breaks, and without Markdown's quotes for code."""
    return " ".join(text.split())
