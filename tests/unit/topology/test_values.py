"""`--set`: where paths lead, and what is said when they lead nowhere."""

import pytest

from fulmen.errors import ValidationFailed
from fulmen.topology.reading.assignments import set_values
from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.reading.field_problems import parse
from support.cli.documents import ABSENT, word_count


def value_at(document, *path):
    for part in path:
        document = document[part]
    return document


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("spec.workers=3", ["workers"], 3),
        ("spec.ackers = 0", ["ackers"], 0),
        ("spec.state=Inactive", ["state"], "Inactive"),
        ("spec.workers=", ["workers"], None),
        ("spec.workers=null", ["workers"], None),
        ("spec.workers= ~ ", ["workers"], None),
        ("spec.config.a='null'", ["config", "a"], "null"),
        ("spec.config.path=/x", ["config", "path"], "/x"),
        ("spec.config.a.b=a=b", ["config", "a", "b"], "a=b"),
        ("spec.config[a.b]='3'", ["config", "a.b"], "3"),
        ("spec.config.files=[a, b]", ["config", "files"], ["a", "b"]),
        ("spec.bolts[count].parallelism=2", ["bolts", 1, "parallelism"], 2),
        ("spec.bolts[1].parallelism=2", ["bolts", 1, "parallelism"], 2),
        ("spec.bolts[count].config.limit=1.5", ["bolts", 1, "config", "limit"], 1.5),
        ("spec.bolts[split].inputs[sentences].stream=x", ["bolts", 0, "inputs", 0, "stream"], "x"),
        (
            "spec.bolts[count].inputs[0].grouping.fields[0]=line",
            ["bolts", 1, "inputs", 0, "grouping", "fields", 0],
            "line",
        ),
        ("spec.spark.conf.spark.local.dir=/x", ["spark", "conf", "spark.local.dir"], "/x"),
        ("spec.code.files[a.py]=x", ["code", "files", "a.py"], "x"),
        (
            "spec.worker.resources.limits.nvidia.com/gpu=1",
            ["worker", "resources", "limits", "nvidia.com/gpu"],
            1,
        ),
        (
            "spec.worker.podTemplate.spec.nodeSelector.disk=ssd",
            ["worker", "podTemplate", "spec", "nodeSelector", "disk"],
            "ssd",
        ),
    ],
)
def test_values_are_set(assignment, path, value):
    assert value_at(set_values(word_count(), [assignment]), "spec", *path) == value


def test_metadata_is_free():
    changed = set_values(word_count(), ["metadata.labels.team=a", "metadata.name=other"])
    assert changed["metadata"] == {"name": "other", "labels": {"team": "a"}}


def test_the_document_itself_is_not_changed():
    document = word_count()
    set_values(document, ["spec.workers=3", "spec.config.a=1"])
    assert document == word_count()


def test_what_shares_an_anchor_is_changed_in_one_place():
    config = parse_yaml("a: &shared {limit: {of: 1}}\nb: *shared")
    document = word_count({"spec.bolts.0.config": config["a"], "spec.bolts.1.config": config["b"]})
    split, count = set_values(document, ["spec.bolts[count].config.limit.of=2"])["spec"]["bolts"]
    assert split["config"] == {"limit": {"of": 1}}
    assert count["config"] == {"limit": {"of": 2}}


@pytest.mark.parametrize("assignments", [[], ["spec.workers=3"]])
def test_what_contains_itself_several_times_is_refused_and_not_copied_for_ever(assignments):
    document = word_count({"spec.config": parse_yaml("a: &a {x: *a, y2: [*a, *a]}")["a"]})
    with pytest.raises(ValidationFailed, match="values nested deeper than"):
        parse(set_values(document, assignments))


@pytest.mark.parametrize("bolts", [ABSENT, None, []])
def test_an_empty_list_has_nothing_to_change(bolts):
    with pytest.raises(ValidationFailed) as caught:
        set_values(word_count({"spec.bolts": bolts}), ["spec.bolts[count].parallelism=2"])
    assert [str(problem) for problem in caught.value.problems] == [
        "spec.bolts: 'bolts' is an empty list, with nothing to change in it. Write the whole list: "
        "spec.bolts=[{…}]."
    ]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("spec.wrokers=3", "spec.wrokers: there is no field 'wrokers'. Did you mean 'workers'?"),
        ("workers=3", "workers: there is no field 'workers'. Did you mean 'spec.workers'?"),
        (
            "sepc.x=3",
            "sepc: there is no field 'sepc'. Did you mean 'spec'?",
        ),
        (
            "spec.code.zip=a",
            "spec.code.zip: there is no field 'zip'. There are: files, folder, "
             "configMap, configMaps, uri, sha256.",
        ),
        (
            "spec.bolts[cuont].parallelism=2",
            "spec.bolts[cuont]: there is no 'cuont' in spec.bolts. Did you mean 'count'?",
        ),
        (
            "spec.bolts[x].parallelism=2",
            "spec.bolts[x]: there is no 'x' in spec.bolts. There are: split, count.",
        ),
        (
            "spec.bolts[2].parallelism=2",
            "spec.bolts[2]: there is no entry 2, but 2, counted from 0.",
        ),
        (
            "spec.workers.x=1",
            "spec.workers: 'workers' is a single value, with nothing below it.",
        ),
        ("spec.ackers.x=1", "spec.ackers: 'ackers' is a single value, with nothing below it."),
        (
            "spec..x=1",
            "spec..x: the path can't be read. Write it as in spec.bolts[count].config.a.",
        ),
        ("spec.workers", "'spec.workers' is not an assignment. "
                         "Write path=value, such as spec.workers=3."),
        ("=3", "'=3' is not an assignment. Write path=value, such as spec.workers=3."),
        ("spec.config.a=[", "spec.config.a: the value '[' is not YAML. Write it in quotes."),
    ],
)  # fmt: skip
def test_paths_that_lead_nowhere(assignment, message):
    with pytest.raises(ValidationFailed) as caught:
        set_values(word_count(), [assignment])
    assert [str(problem) for problem in caught.value.problems] == [message]


def test_all_mistakes_are_named():
    with pytest.raises(ValidationFailed) as caught:
        set_values(word_count(), ["spec.a=1", "spec.workers=3", "spec.b=2"])
    assert [problem.path for problem in caught.value.problems] == ["spec.a", "spec.b"]


def test_a_document_that_is_no_mapping():
    with pytest.raises(ValidationFailed) as caught:
        set_values([], ["spec.workers=3"])
    assert len(caught.value.problems) == 1
