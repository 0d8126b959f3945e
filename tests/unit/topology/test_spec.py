"""The model itself: defaults, what follows from them, and what a CRD needs of it."""

import pydantic
import pytest

from fulmen.topology.reading.field_problems import parse
from fulmen.topology.resource.spec import BoltSpec, SpoutSpec, Topology
from support.cli.documents import word_count


def test_defaults():
    spec = parse(word_count({"spec.workers": None})).spec
    assert (spec.workers, spec.ackers, spec.acker_tasks) == (1, None, 1)
    assert (spec.message_timeout_seconds, spec.max_spout_pending) == (30, None)
    assert (spec.max_replays, spec.on_error, spec.state) == (None, "fail", "Active")
    assert (spec.batch_target_millis, spec.batch_timeout_seconds) == (250, 300)
    assert (spec.config, spec.code, spec.restart_nonce) == ({}, None, None)
    assert spec.checkpoint.deletion_policy == "Retain"


def test_defaults_of_a_component():
    bolt = BoltSpec(name="b", class_="m.B")
    assert (bolt.parallelism, bolt.num_tasks, bolt.tasks, bolt.executors) == (1, None, 1, 1)
    assert (bolt.config, bolt.tick_seconds, bolt.instance) == ({}, None, None)
    assert (bolt.blocking, bolt.inputs) == (False, ())


@pytest.mark.parametrize(
    ("parallelism", "num_tasks", "executors", "tasks"),
    [(3, None, 3, 3), (2, 4, 2, 4), (4, 2, 2, 2)],
)
def test_tasks_and_executors(parallelism, num_tasks, executors, tasks):
    spout = SpoutSpec(name="s", class_="m.S", parallelism=parallelism, num_tasks=num_tasks)
    assert (spout.executors, spout.tasks) == (executors, tasks)


@pytest.mark.parametrize(("ackers", "tasks"), [(None, 2), (0, 0), (5, 5)])
def test_ackers(ackers, tasks):
    assert parse(word_count({"spec.ackers": ackers})).spec.acker_tasks == tasks


def test_a_topology_does_not_change():
    topology = parse(word_count())
    with pytest.raises(pydantic.ValidationError):
        topology.spec.workers = 3


def test_components_by_name():
    topology = parse(word_count())
    assert topology.component("split").name == "split"
    with pytest.raises(KeyError, match="spilt"):
        topology.component("spilt")


def test_further_metadata_is_kept():
    topology = parse(word_count({"metadata.labels": {"team": "a"}}))
    assert topology.metadata.model_dump() == {"name": "word-count", "labels": {"team": "a"}}


SCHEMA = Topology.model_json_schema()


def schemas(schema, path):
    """Every schema in a schema, with where it is."""
    yield path, schema
    for key in ("anyOf", "items", "additionalProperties", "prefixItems"):
        below = schema.get(key)
        for inner in below if isinstance(below, list) else [below]:
            if isinstance(inner, dict):
                yield from schemas(inner, f"{path}/{key}")


FIELDS = [
    (f"{name}.{field}", schema)
    for name, model in [("Topology", SCHEMA), *SCHEMA["$defs"].items()]
    for field, schema in model["properties"].items()
]


@pytest.mark.parametrize(("name", "schema"), FIELDS, ids=[name for name, _ in FIELDS])
def test_every_field_is_described_and_bounded(name, schema):
    assert schema.get("description", "").endswith("."), "no docstring that is a sentence"
    for path, inner in schemas(schema, name):
        if inner.get("type") == "array":
            assert "maxItems" in inner, path
        bounded = {"maxLength", "enum", "const", "pattern"} & inner.keys()
        if inner.get("type") == "string":
            assert bounded or "files" in path or "limits" in path or "requests" in path, path
        if inner.get("type") == "object" and "properties" not in inner:
            free = name.split(".")[-1] in ("config", "podTemplate", "valueFrom")
            assert free or "maxProperties" in inner, path
