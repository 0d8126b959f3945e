"""The resource's definition: as the models say, structural, bounded, described, small."""

import json
from itertools import chain

import pytest
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
IDS = [place for place, _ in ALL]


def test_the_files_are_as_the_models_say():
    for path, text in CRD.texts().items():
        assert path.read_text(encoding="utf-8") == text, "run scripts/crd.py"


def test_the_page_is_as_the_models_say():
    text = CRD_DOCS.PAGE.read_text(encoding="utf-8")
    assert CRD_DOCS.with_tables(text) == text, "run scripts/crd_docs.py"


def test_it_is_small_enough_for_a_plain_apply():
    assert len(json.dumps(CRD.definition())) < 128 * 1024


@pytest.mark.parametrize(("place", "schema"), ALL, ids=IDS)
def test_every_part_is_structural_bounded_and_described(place, schema):
    assert not {"$ref", "anyOf", "oneOf", "nullable", "title", "const"} & schema.keys()
    if not place.endswith(("[]", ".*")):
        assert schema["description"].endswith("."), "no sentence"
    match schema.get("type"):
        case "array":
            assert "maxItems" in schema
            assert schema["x-kubernetes-list-type"] in ("map", "atomic")
        case "string":
            assert {"maxLength", "enum"} & schema.keys()
        case "object":
            free = schema.get("x-kubernetes-preserve-unknown-fields")
            assert free or "properties" in schema or "maxProperties" in schema
        case None:
            assert schema["x-kubernetes-int-or-string"] is True
        case "integer" | "number":
            assert {"minimum", "maximum"} <= schema.keys()
        case kind:
            assert kind == "boolean"


@pytest.mark.parametrize(("place", "schema"), ALL, ids=IDS)
def test_keys_of_lists_are_required(place, schema):
    for key in schema.get("x-kubernetes-list-map-keys", ()):
        assert key in schema["items"]["required"]


@pytest.mark.parametrize(("place", "schema"), ALL, ids=IDS)
def test_rules_ask_for_what_was_only_of_entries_that_can_be_told_apart(place, schema):
    rules = json.dumps(schema.get("items", {}).get("x-kubernetes-validations", []))
    assert "oldSelf" not in rules or schema["x-kubernetes-list-type"] == "map"


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
