"""Validation as a whole: everything at once, warnings, checkpoints, where the code is."""

import pickle
import sys

import pytest

from fulmen.errors import CodeError, ValidationFailed
from fulmen.topology.problems import Problem
from fulmen.topology.reading.field_problems import parse
from fulmen.topology.validation.check import check, with_checkpoint_tasks
from support.cli.documents import ABSENT, word_count

BROKEN = {
    "apiVersion": "fulmen.dev/v2",
    "metadata.name": "Word_Count",
    "spec.wrokers": 1,
    "spec.ackers": -1,
    "spec.spouts.0.class": "support.parts.components.Count",
    "spec.spouts.1": {"name": "sentences", "class": "support.parts.components.Sentences"},
    "spec.bolts.0.parallelism": "two",
    "spec.bolts.1.class": ABSENT,
    "spec.bolts.1.inputs.0.grouping.fields": ["wrod"],
    "spec.bolts.1.inputs.1": {"from": "spilt", "grouping": "shuffle"},
    "spec.bolts.2": {"name": "sink", "class": "support.parts.components.Sink"},
}

ALL_OF_IT = """\
12 problems:
  1. apiVersion: apiVersion is 'fulmen.dev/v2', but must be fulmen.dev/v1alpha1. Did you mean \
'fulmen.dev/v1alpha1'?
  2. metadata.name: name is 'Word_Count', but must consist of small letters, digits and '-', begin \
with a letter and not end with '-'.
  3. spec.ackers: ackers is -1, but must be at least 0.
  4. spec.wrokers: there is no field 'wrokers'. Did you mean 'workers'?
  5. spec.spouts[0].class: spout 'sentences': support.parts.components.Count is a bolt, but is \
listed under spouts. Move it to bolts.
  6. spec.spouts[1].name: spout 'sentences': the name is taken by spec.spouts[0], a spout. Choose \
another: spouts and bolts share one namespace.
  7. spec.bolts[0].parallelism: bolt 'split': parallelism is 'two', but must be a whole number.
  8. spec.bolts[1].class: bolt 'count': 'class' is missing. Add the Python class, such as class: \
wordcount.SplitSentence.
  9. spec.bolts[1].inputs[1].grouping: bolt 'count', input from 'spilt': grouping is 'shuffle', \
but must be a mapping. Write grouping: {type: shuffle}.
  10. spec.bolts[1].inputs[1].from: bolt 'count', input from 'spilt': there is no component \
'spilt'. Did you mean 'split'?
  11. spec.bolts[1].inputs[0].grouping.fields[0]: bolt 'count', input from 'split': fields \
grouping on 'wrod', but stream 'default' declares ['word']. Did you mean 'word'?
  12. spec.bolts[2].inputs: bolt 'sink': it has no inputs, so it would never receive a tuple. Add \
one, such as inputs: [{from: sentences, grouping: {type: shuffle}}]."""


def test_a_valid_topology_has_no_problems():
    assert check(word_count()).problems == ()


def test_all_mistakes_are_told_at_once():
    with pytest.raises(ValidationFailed) as caught:
        check(word_count(BROKEN)).topology()
    assert str(caught.value) == ALL_OF_IT


def test_a_mistake_in_a_module_is_told_once():
    document = word_count(
        {
            "spec.code": {"files": {"broken.py": "1 / 0"}},
            "spec.bolts.0.class": "broken.Split",
            "spec.bolts.1.class": "broken.Count",
        }
    )
    assert [str(problem) for problem in check(document).problems] == [
        "spec.bolts[0].class: bolt 'split': module 'broken' can't be imported: "
        "ZeroDivisionError: division by zero (broken.py, line 1)."
    ]


def test_one_problem_is_one():
    error = ValidationFailed([Problem("spec", "it is empty", "Fill it.")])
    assert str(error) == "spec: it is empty. Fill it."


@pytest.mark.parametrize(
    "error",
    [
        ValidationFailed([Problem("spec", "it is empty", "Fill it.")]),
        CodeError("there is no module", "Write one."),
    ],
)
def test_errors_survive_pickling(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.args) == (type(error), str(error), error.args)


# ---- what is no mistake -------------------------------------------------------------------------


def test_a_status_is_ignored():
    assert check({**word_count(), "status": {"phase": "Running"}}).problems == ()


def test_null_is_absent():
    changes = {"spec.config": None, "spec.ackers": None, "spec.bolts.0.numTasks": None}
    assert check(word_count(changes)).problems == ()


@pytest.mark.parametrize("grouping", ["shuffle", "all", "global", "none", "local-or-shuffle"])
def test_dead_letters_of_any_spout_can_be_subscribed_to(grouping):
    dead = {"from": "sentences", "stream": "__dead_letters", "grouping": {"type": grouping}}
    assert check(word_count({"spec.bolts.1.inputs.1": dead})).problems == ()


def test_dead_letters_have_fields_to_group_by():
    grouping = {"type": "fields", "fields": ["msg_id", "reason"]}
    dead = {"from": "sentences", "stream": "__dead_letters", "grouping": grouping}
    assert check(word_count({"spec.bolts.1.inputs.1": dead})).problems == ()


def test_direct_grouping_on_a_direct_stream():
    changes = {
        "spec.bolts.1.inputs.1": {
            "from": "split", "stream": "to-task", "grouping": {"type": "direct"}
        }
    }  # fmt: skip
    assert check(word_count(changes)).problems == ()


def test_custom_grouping():
    grouping = {"type": "custom", "class": "support.parts.components.ByWeight", "config": {"a": 1}}
    assert check(word_count({"spec.bolts.0.inputs.0.grouping": grouping})).problems == ()


# ---- numbers of tasks ---------------------------------------------------------------------------


def test_executors_beyond_the_tasks_are_a_warning():
    checked = check(word_count({"spec.bolts.0.numTasks": 1, "spec.bolts.0.parallelism": 2}))
    assert checked.warnings == [
        Problem(
            "spec.bolts[0].parallelism",
            "bolt 'split': parallelism is 2, but there is only 1 task: it runs with 1 executor",
            severity="warning",
        )
    ]
    assert checked.topology().component("split").executors == 1


def test_parallelism_beyond_the_tasks_in_the_checkpoint_is_capped():
    problems = [
        *check(word_count({"spec.bolts.0.parallelism": 5}), checkpoint_tasks={"split": 2}).problems
    ]
    assert [(p.severity, str(p)) for p in problems] == [
        (
            "warning",
            "spec.bolts[0].parallelism: bolt 'split': parallelism is 5, but there are only "
            "2 tasks: it runs with 2 executors. The tasks are those of its checkpoint. For more of "
            "them write numTasks: 5.",
        )
    ]


def test_numbers_of_tasks_come_from_the_checkpoint():
    topology = parse(word_count({"spec.bolts.0.parallelism": 5}))
    fixed = with_checkpoint_tasks(topology, {"split": 2, "count": 8})
    assert {c.name: (c.executors, c.num_tasks) for c in fixed.spec.components} == {
        "sentences": (1, 1),
        "split": (2, 2),
        "count": (2, 4),
    }


# ---- where the code is --------------------------------------------------------------------------

MODULE = "from support.parts.components import Count as Base\n\nclass Count(Base):\n    pass\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "counting.py").write_text(MODULE)
    return tmp_path


def test_code_in_a_folder_beside_the_file(folder):
    changes = {"spec.code": {"folder": "code"}, "spec.bolts.1.class": "counting.Count"}
    assert check(word_count(changes), base=folder).problems == ()


def test_code_in_a_folder_that_is_given(folder):
    changes = {"spec.code": {"configMap": "code"}, "spec.bolts.1.class": "counting.Count"}
    assert check(word_count(changes), folder / "code").problems == ()


def test_code_in_a_config_map_is_not_checked():
    changes = {"spec.code": {"configMap": "code"}, "spec.bolts.1.class": "counting.Count"}
    assert [(p.severity, str(p)) for p in check(word_count(changes)).problems] == [
        (
            "warning",
            "spec.code.configMap: the classes are in ConfigMap 'code' of a cluster, which was"
            " not read, so they were not checked. Name a folder with a copy of its files:"
            " --code-folder.",
        )
    ]


def test_the_authors_code_need_not_run():
    changes = {
        "spec.code": {"files": {"broken.py": "1 / 0"}},
        "spec.bolts.1.class": "broken.Count",
        "spec.bolts.1.inputs.0.from": "spilt",
        "spec.bolts.1.inputs.0.grouping.fields": [],
    }
    assert [p.path for p in check(word_count(changes), import_classes=False).problems] == [
        "spec.bolts[1].inputs[0].from",
        "spec.bolts[1].inputs[0].grouping.fields",
    ]


def test_nothing_is_left_behind(folder):
    path = list(sys.path)
    changes = {"spec.code": {"folder": "code"}, "spec.bolts.1.class": "counting.Count"}
    assert check(word_count(changes), base=folder).problems == ()
    assert (sys.path, "counting" in sys.modules) == (path, False)


def test_a_topology_is_checked_like_its_document():
    changes = {"spec.bolts.1.inputs.0.grouping.fields": ["wrod"]}
    document = word_count(changes)
    assert [*check(parse(document)).problems] == [*check(document).problems] != []


def test_streams_and_pinned_spouts_are_found_out():
    checked = check(word_count({"spec.spouts.0.class": "support.parts.components.PinnedSentences"}))
    assert checked.pinned == ("sentences",)
    assert {name: list(streams) for name, streams in checked.streams.items()} == {
        "sentences": ["default", "__dead_letters"],
        "split": ["default", "errors", "to-task"],
        "count": ["default"],
    }
