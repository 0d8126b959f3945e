"""What a change of each field does, and that the digest of the input agrees with it."""

from copy import deepcopy

import pytest

from fulmen.kube.container.preparation import runs_unlike
from fulmen.plan import is_placed_like
from fulmen.topology.reading.documents import to_document
from fulmen.topology.reading.field_problems import parse
from fulmen.topology.resource.changes import (
    EFFECTS,
    MEANINGS,
    Effect,
    input_hash,
    spec_changes,
    strongest,
)
from fulmen.topology.validation.check import with_checkpoint_tasks
from support.cli.documents import ABSENT, word_count
from support.docs.pages import ROOT
from support.docs.scripts import script

CRD, CRD_DOCS = script("crd"), script("crd_docs")
SPEC = CRD.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


TRANSACTIONAL = {
    "spec.spouts": [],
    "spec.transactional": [{"name": "sentences", "class": "support.transactions.words.Rows"}],
}


def topology(changes=None, of=""):
    """Word count with some changes; a transactional one if `of`, a field, is of those only."""
    base = TRANSACTIONAL if of.startswith("spec.transactional") else {}
    return parse(word_count({**deepcopy(base), **(changes or {})}))


def hash_of(changes=None, code="", of=""):
    return input_hash(topology(changes, of), code)


@pytest.mark.parametrize("place", ["spec.driver.resources", "spec.worker.podTemplate.spec"])
def test_another_way_to_write_an_amount_changes_nothing(place):
    def asking(cpu, memory):
        resources = {"limits": {"cpu": cpu, "memory": memory}}
        if "podTemplate" not in place:
            return hash_of({place: resources})
        return hash_of({place: {"containers": [{"name": "own", "resources": resources}]}})

    assert asking("10m", "1Gi") == asking("0.01", "1024Mi") == asking("1e-2", "1073741824")
    assert len({asking("10m", "1Gi"), asking("11m", "1Gi"), asking("10m", "1G")}) == 3


def test_every_field_of_the_spec_has_an_effect():
    assert sorted(place for place, _ in CRD_DOCS.leaves(SPEC, "")) == sorted(EFFECTS)


EVENT_TIME = {
    "field": "at",
    "stream": "other",
    "streams": {"other": "at"},
    "lag": "1s",
    "idleTimeout": "1m",
    "advance": True,
    "maxAhead": "1d",
    "unit": "ms",
    "timezone": "Asia/Tokyo",
}
AUTOSCALE = {
    "minWorkers": 2,
    "maxWorkers": 3,
    "targetCapacity": 0.5,
    "maxLag": "1m",
    "upAfter": "2m",
    "downAfter": "1h",
    "schedule": [
        {
            "days": ["Mon"],
            "start": "07:00",
            "end": "08:00",
            "timezone": "Asia/Tokyo",
            "minWorkers": 3,
        }
    ],
}
CHANGES = [
    ("spec.workers", 3),
    ("spec.autoscale", AUTOSCALE),
    ("spec.slots", 2),
    ("spec.deployment", "single-pod"),
    ("spec.ackers", 1),
    ("spec.messageTimeoutSeconds", 60),
    ("spec.maxSpoutPending", 5),
    ("spec.maxReplays", 3),
    ("spec.onError", "crash"),
    ("spec.batchTargetMillis", 9),
    ("spec.batchIntervalMillis", 9),
    ("spec.batchTimeoutSeconds", 9),
    ("spec.savepoints.every", "2h"),
    ("spec.savepoints.keep", 7),
    ("spec.restoreFrom.savepoint", "before-deploy"),
    ("spec.keyedState.backend", "disk"),
    ("spec.keyedState.diskLimit", "20Gi"),
    ("spec.state", "Inactive"),
    ("spec.config", {"a": 1}),
    *(
        (f"spec.{component}.{field}", value)
        for component in ("spouts.0", "transactional.0", "bolts.0")
        for field, value in (
            ("name", "other"),
            ("class", "m.Other"),
            ("parallelism", 3),
            ("numTasks", 4),
            ("config", {"a": 1}),
            ("tickSeconds", 1),
            ("eventTime", EVENT_TIME),
            ("instance", "gA=="),
        )
    ),
    ("spec.env", [{"name": "A", "value": "1"}]),
    ("spec.env", [{"name": "A", "valueFrom": {"fieldRef": {}}}]),
    ("spec.bolts.0.blocking", True),
    ("spec.bolts.0.committer", True),
    ("spec.bolts.0.keyedState", {"backend": "disk"}),
    ("spec.bolts.0.trackResults", False),
    ("spec.bolts.1.inputs.0.from", "sentences"),
    ("spec.bolts.1.inputs.0.stream", "other"),
    ("spec.bolts.1.inputs.0.where", "n > 1"),
    ("spec.bolts.1.inputs.0.select", {"n": "n + 1"}),
    ("spec.bolts.1.inputs.0.through", {"class": "m.Function", "fields": ["n"]}),
    ("spec.bolts.1.inputs.0.grouping.type", "all"),
    ("spec.bolts.1.inputs.0.grouping.fields", ["other"]),
    ("spec.bolts.1.inputs.0.grouping.class", "m.Grouping"),
    ("spec.bolts.1.inputs.0.grouping.config", {"a": 1}),
    ("spec.checkpoint.uri", "s3://a/b"),
    ("spec.checkpoint.persistentVolumeClaim", "mine"),
    ("spec.checkpoint.takeOver", "blue/shop"),
    ("spec.checkpoint.deletionPolicy", "Delete"),
    ("spec.savepoints", {"every": "1h", "keep": 3}),
    ("spec.restoreFrom", {"savepoint": "before"}),
    ("spec.renames", {"old": "count"}),
    ("spec.stateClasses", {"m.Old": "m.New"}),
    ("spec.forgetRemovedAfter", "30d"),
    *(
        (f"spec.{pod}.{field}", value)
        for pod in ("driver", "worker")
        for field, value in (
            ("image", "mine:1"),
            ("imagePullPolicy", "Always"),
            ("imagePullSecrets", [{"name": "a"}]),
            ("resources.limits", {"memory": "2Gi"}),
            ("resources.requests", {"cpu": "1"}),
            ("env", [{"name": "A", "value": "1"}]),
            ("env", [{"name": "A", "valueFrom": {"fieldRef": {}}}]),
            ("serviceAccountName", "mine"),
            ("podTemplate", {"spec": {"nodeSelector": {"a": "b"}}}),
        )
    ),
    ("spec.spark.conf", {"spark.a": "b"}),
    ("spec.deadLetters.keep", 7),
    ("spec.deadLetters.maxBytes", 70_000),
    ("spec.tap.allowed", True),
    ("spec.tap.mask", ["card"]),
    ("spec.restartNonce", 1),
    ("spec.startTimeoutSeconds", 9),
    ("spec.preflight", "Open"),
    ("spec.networkPolicy", "Restrict"),
    ("spec.service.ports", [8080]),
    ("spec.service.from", [{"podSelector": {"matchLabels": {"a": "b"}}}]),
    ("spec.service.from", [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]),
    ("spec.service.from", [{"ipBlock": {"cidr": "10.0.0.0/8"}}]),
    ("spec.service.state", {"port": 8088, "token": {"name": "a", "key": "b"}}),
]


def fields_of(path):
    place = ".".join("[]" if part.isdecimal() else part for part in path.split(".")[1:])
    place = place.replace(".[]", "[]")
    below = (f"{place}.", f"{place}[]")
    return {name for name in EFFECTS if name == place or name.startswith(below)}


def effect_of(path):
    return {EFFECTS[name] for name in fields_of(path)}


def test_each_field_is_changed_but_code_which_is_a_digest():
    changed = set().union(*(fields_of(path) for path, _ in CHANGES))
    assert {name for name in EFFECTS.keys() - changed if not name.startswith("code.")} == set()


@pytest.mark.parametrize(("path", "value"), CHANGES, ids=[path for path, _ in CHANGES])
def test_the_digest_changes_exactly_if_the_driver_has_to_be_replaced(path, value):
    (effect,) = effect_of(path)
    changed = hash_of({path: value}, of=path) != hash_of(of=path)
    assert changed == (effect is Effect.REPLACE)


@pytest.mark.parametrize(("path", "value"), CHANGES, ids=[path for path, _ in CHANGES])
def test_what_replaces_no_driver_is_taken_over_by_it_or_the_operators(path, value):
    (effect,) = effect_of(path)
    if effect is not Effect.REPLACE:
        changed = runs_unlike(topology({path: value}, path), topology(of=path))
        assert changed != (path in OPERATORS)


def test_numbers_of_tasks_that_are_written_down_later_are_no_change():
    given = topology()
    assert any(c.num_tasks is None for c in given.spec.components)
    assert not runs_unlike(with_checkpoint_tasks(given, {}), given)


@pytest.mark.parametrize(("path", "value"), CHANGES, ids=[path for path, _ in CHANGES])
def test_executors_are_placed_anew_if_spouts_stop_for_a_change(path, value):
    (effect,) = effect_of(path)
    if effect in (Effect.LIVE, Effect.REBALANCE):
        alike = is_placed_like(topology({path: value}, path), topology(of=path))
        assert alike == (effect is Effect.LIVE)


OPERATORS = {
    "spec.state",
    "spec.autoscale",
    "spec.checkpoint.deletionPolicy",
    "spec.startTimeoutSeconds",
    "spec.preflight",
    "spec.networkPolicy",
    "spec.service.ports",
    "spec.service.from",
    "spec.tap.allowed",  # the driver's, which need not go on as another topology for it
    "spec.tap.mask",
}


def test_components_and_code_replace():
    bolt = {"name": "b", "class": "m.B", "inputs": [{"from": "split", "grouping": {"type": "all"}}]}
    hashes = {
        hash_of(),
        hash_of({"spec.bolts.2": bolt}),
        hash_of({"spec.bolts.1": ABSENT}),
        hash_of(code="abc"),
    }
    assert len(hashes) == 4


def test_what_is_the_default_anyway_changes_nothing():
    same = {"spec.onError": "fail", "spec.config": {}, "spec.driver": {}, "spec.checkpoint": {}}
    assert hash_of(same) == hash_of()


def test_a_number_of_tasks_that_is_written_down_later_changes_nothing():
    assert hash_of({"spec.bolts.0.numTasks": 2}) == hash_of()


def test_the_digest_is_the_same_in_every_version():
    assert hash_of() == "1a4752b5efb1"


def changes_to(changes, of=""):
    """What `spec_changes` finds if the word count gets these changes."""
    before, after = (to_document(topology(made, of))["spec"] for made in (None, changes))
    return spec_changes(before, after)


@pytest.mark.parametrize(("path", "value"), CHANGES, ids=[path for path, _ in CHANGES])
def test_a_change_that_is_found_does_what_the_table_says(path, value):
    found = changes_to({path: value}, path)
    (effect,) = effect_of(path)
    assert strongest(found) is effect
    assert changes_to({}, path) == []


def test_components_and_code_that_are_found_to_differ_replace():
    bolt = {"name": "b", "class": "m.B", "inputs": [{"from": "split", "grouping": {"type": "all"}}]}
    (added,) = changes_to({"spec.bolts.2": bolt})
    assert (added.path, added.effect, added.before) == ("spec.bolts[b]", Effect.REPLACE, None)
    (removed,) = changes_to({"spec.bolts.1": ABSENT})
    assert (removed.path, removed.after) == ("spec.bolts[count]", None)
    (code,) = changes_to({"spec.code": {"configMap": "a"}})
    assert (code.path, code.effect) == ("spec.code.configMap", Effect.REPLACE)


def test_another_order_of_components_replaces_as_the_digest_says():
    bolts = word_count()["spec"]["bolts"]
    (found,) = changes_to({"spec.bolts": bolts[::-1]})
    assert (found.path, found.effect) == ("spec.bolts", Effect.REPLACE)
    assert (found.before, found.after) == (["split", "count"], ["count", "split"])
    assert hash_of({"spec.bolts": bolts[::-1]}) != hash_of()


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({}, {}, []),
        ({}, {"workers": 2}, [("spec.workers", "Rebalance", None, 2)]),
        (
            {"bolts": [{"name": "a", "parallelism": 2}, {"name": "b"}]},
            {"bolts": [{"name": "a"}, {"name": "b", "numTasks": 3, "tickSeconds": 1}]},
            [
                ("spec.bolts[a].parallelism", "Rebalance", 2, None),
                ("spec.bolts[b].numTasks", "Rebalance", None, 3),
                ("spec.bolts[b].tickSeconds", "Live", None, 1),
            ],
        ),
        (
            {"bolts": [{"name": "a", "inputs": [{"from": "s"}]}]},
            {"bolts": [{"name": "a", "inputs": [{"from": "t"}, {"from": "s"}]}]},
            [
                ("spec.bolts[a].inputs[0].from", "Replace", "s", "t"),
                ("spec.bolts[a].inputs[1]", "Replace", None, {"from": "s"}),
            ],
        ),
        (
            {"env": [{"name": "A", "value": "1"}], "config": {"a": {"b": 1}}},
            {"env": [{"name": "A", "value": "2"}], "config": {"a": {"b": 2}}},
            [
                ("spec.env[A].value", "Replace", "1", "2"),
                ("spec.config", "Live", {"a": {"b": 1}}, {"a": {"b": 2}}),
            ],
        ),
        ({}, {"env": [{"name": "A"}]}, [("spec.env[A]", "Replace", None, {"name": "A"})]),
        ({"new": {"x": 1}}, {"new": 3}, [("spec.new", "Replace", {"x": 1}, 3)]),
        ({"new": 1}, {"new": 3}, [("spec.new", "Replace", 1, 3)]),
        (  # two of one name, which no API server takes
            {"spouts": [{"name": "a"}, {"name": "a"}]},
            {"spouts": [{"name": "a"}]},
            [("spec.spouts[1]", "Replace", {"name": "a"}, None)],
        ),
    ],
)
def test_every_field_that_differs_is_found_with_its_place(before, after, found):
    changes = spec_changes(before, after)
    assert [(c.path, c.effect, c.before, c.after) for c in changes] == found


def test_the_strongest_change_decides():
    both = changes_to({"spec.workers": 3, "spec.config": {"a": 1}})
    assert strongest(both) is Effect.REBALANCE
    assert strongest([]) is None


def test_the_page_says_of_each_effect_what_the_command_says():
    page = (ROOT / "docs" / "crd.md").read_text(encoding="utf-8")
    section = page.partition("## What a change does\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if "| " in line][1:]
    assert rows == [[effect.value, text] for effect, text in MEANINGS.items()]
