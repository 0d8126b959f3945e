"""The resource's definition: as the models say, structural, bounded, described, small."""

import json
from itertools import chain

import yaml

from fulmen.topology.resource.status import TopologyStatus
from support.docs.scripts import script

CRD, CRD_DOCS = script("crd"), script("crd_docs")
VERSION = CRD.definition()["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]


def schemas(schema, place=""):
    """Every schema in a schema, with its place."""
    yield place, schema
    for name, field in schema.get("properties", {}).items():
        yield from schemas(field, f"{place}.{name}")
    if "items" in schema:
        yield from schemas(schema["items"], f"{place}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from schemas(schema["additionalProperties"], f"{place}.*")


ALL = list(chain.from_iterable(schemas(SCHEMA["properties"][p], p) for p in ("spec", "status")))


def test_the_files_are_as_the_models_say():
    for path, text in CRD.texts().items():
        assert path.read_text(encoding="utf-8") == text, "run scripts/crd.py"


def test_the_page_is_as_the_models_say():
    text = CRD_DOCS.PAGE.read_text(encoding="utf-8")
    assert CRD_DOCS.with_tables(text) == text, "run scripts/crd_docs.py"


def test_it_is_small_enough_for_a_plain_apply():
    assert len(json.dumps(CRD.definition())) < 128 * 1024


def mistakes_of(place, schema):
    """What is wrong with a part of the schema."""
    for word in sorted({"$ref", "anyOf", "oneOf", "nullable", "title", "const"} & schema.keys()):
        yield f"it has {word}"
    if not place.endswith(("[]", ".*")) and not schema["description"].endswith("."):
        yield "its description is no sentence"
    match schema.get("type"):
        case "array":
            bounded = "maxItems" in schema
            bounded &= schema["x-kubernetes-list-type"] in ("map", "atomic")
        case "string":
            bounded = {"maxLength", "enum"} & schema.keys()
        case "object":
            free = schema.get("x-kubernetes-preserve-unknown-fields")
            bounded = free or "properties" in schema or "maxProperties" in schema
        case None:
            bounded = schema["x-kubernetes-int-or-string"] is True
        case "integer" | "number":
            bounded = {"minimum", "maximum"} <= schema.keys()
        case kind:
            bounded = kind == "boolean"
    if not bounded:
        yield "it is not bounded"
    for key in schema.get("x-kubernetes-list-map-keys", ()):
        if key not in schema["items"]["required"]:
            yield f"the key {key} is not required"
    rules = json.dumps(schema.get("items", {}).get("x-kubernetes-validations", []))
    if "oldSelf" in rules and schema["x-kubernetes-list-type"] != "map":
        yield "its rules ask for what was of entries that can't be told apart"


def test_every_part_is_structural_bounded_and_described():
    mistakes = {place: found for place, part in ALL if (found := list(mistakes_of(place, part)))}
    assert mistakes == {}


WRONG = {
    "$ref": {"type": "boolean", "$ref": "#/a"},
    "sentence": {"type": "boolean", "description": "no end"},
    "a list without an end": {"type": "array", "x-kubernetes-list-type": "map"},
    "a list of no type": {"type": "array", "maxItems": 1, "x-kubernetes-list-type": "set"},
    "a long text": {"type": "string"},
    "an object of anything": {"type": "object"},
    "anything": {"x-kubernetes-int-or-string": False},
    "a large number": {"type": "integer", "minimum": 1},
    "null": {"type": "null"},
    "a key that may be missing": {
        "type": "boolean",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"required": []},
    },
    "a rule about what was": {
        "type": "array",
        "maxItems": 1,
        "x-kubernetes-list-type": "atomic",
        "items": {"x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
    },
}


def test_each_mistake_is_found():
    found = {
        name: list(mistakes_of("spec.a", {"description": "A sentence.", **part}))
        for name, part in WRONG.items()
    }
    assert {name: len(mistakes) for name, mistakes in found.items()} == dict.fromkeys(WRONG, 1)


def test_every_rule_and_key_has_its_place():
    module = script("crd_schema")
    known = {place for place, _ in ALL} | {""}
    assert set(module.RULES) <= known
    assert set(module.LIST_KEYS) <= known


def test_columns_scale_and_names():
    names = CRD.definition()["spec"]["names"]
    assert (names["shortNames"], names["categories"]) == (["topo"], ["fulmen"])
    columns = [c["name"] for c in VERSION["additionalPrinterColumns"] if not c.get("priority")]
    assert columns == [
        "State", "Ready", "Workers", "Executors", "Tasks", "Ackers", "Restarts", "Age",
    ]  # fmt: skip
    fields = {f.alias for f in TopologyStatus.model_fields.values()}
    for column in VERSION["additionalPrinterColumns"]:
        first, *rest = column["jsonPath"].lstrip(".").split(".")
        assert first != "status" or rest[0].split("[")[0] in fields
    assert VERSION["subresources"]["scale"]["specReplicasPath"] == ".spec.workers"


def test_the_chart_keeps_the_definition_when_it_goes():
    text = CRD.CHART_FILE.read_text(encoding="utf-8")
    body = "\n".join(line for line in text.splitlines() if not line.startswith("{{"))
    kept = yaml.safe_load(body)["metadata"]["annotations"]
    assert kept == {"helm.sh/resource-policy": "keep"}
    assert "{{" not in body


def test_the_api_server_fills_in_nothing_but_the_number_that_it_scales_by():
    """An operator that is older than the definition would find fields that it does not know."""
    served = yaml.safe_load(CRD.FILE.read_text(encoding="utf-8"))["spec"]["versions"][0]["schema"]
    spec = served["openAPIV3Schema"]["properties"]["spec"]
    assert [p for p, schema in schemas(spec) if "default" in schema] == [".workers"]
