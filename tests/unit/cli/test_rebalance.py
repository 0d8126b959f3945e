"""`fulmen rebalance`."""

import json

import pytest

from fulmen.cli.commands.cluster.rebalance import WantedNumbers, make_rebalance
from fulmen.errors import ValidationFailed
from support.cli.fake_kubectl import topology

CHANGED = "The request is invalid: the server rejected our request due to an error in our request"


def test_all_changes_of_a_rebalance_are_one_patch():
    made = make_rebalance(topology(), WantedNumbers(3, 1, ["count=4", "sentences=1"]))
    assert made.patch == [
        {"op": "add", "path": "/spec/workers", "value": 3},
        {"op": "test", "path": "/spec/bolts/1/name", "value": "count"},
        {"op": "add", "path": "/spec/bolts/1/parallelism", "value": 4},
        {"op": "test", "path": "/spec/spouts/0/name", "value": "sentences"},
        {"op": "add", "path": "/spec/spouts/0/parallelism", "value": 1},
        {"op": "add", "path": "/spec/ackers", "value": 1},
    ]
    assert made.changes == [
        "workers 3 (was 2)",
        "executors of 'count' 4 (was 2)",
        "executors of 'sentences' 1 (as before)",
        "ackers 1 (was as many as workers)",
    ]
    assert made.warnings == []


def test_acking_can_be_turned_off():
    made = make_rebalance(topology(ackers=2), WantedNumbers(ackers=0))
    assert made.patch == [{"op": "add", "path": "/spec/ackers", "value": 0}]
    assert made.changes == ["ackers 0 (was 2)"]


def test_a_transactional_spout_has_executors_and_no_ackers():
    source = {"name": "rows", "class": "a.Rows", "parallelism": 2}
    transactional = topology(spouts=[], transactional=[source])
    made = make_rebalance(transactional, WantedNumbers(executors=["rows=3", "count=1"]))
    assert made.patch == [
        {"op": "test", "path": "/spec/transactional/0/name", "value": "rows"},
        {"op": "add", "path": "/spec/transactional/0/parallelism", "value": 3},
        {"op": "test", "path": "/spec/bolts/1/name", "value": "count"},
        {"op": "add", "path": "/spec/bolts/1/parallelism", "value": 1},
    ]
    with pytest.raises(ValidationFailed) as raised:
        make_rebalance(transactional, WantedNumbers(ackers=1, executors=["x=1"]))
    assert [str(problem) for problem in raised.value.problems] == [
        "-e x=1: there is no component 'x'. There are: rows, split, count.",
        "-a: a transactional topology has no ackers.",
    ]
    assert make_rebalance(transactional, WantedNumbers(ackers=0)).changes


@pytest.mark.parametrize("status", [None, {"components": []}], ids=["observed", "new"])
def test_more_executors_than_tasks_are_told(status):
    made = make_rebalance(topology(status=status), WantedNumbers(executors=["split=3"]))
    assert made.warnings == [
        "component 'split' has 2 tasks: so there will be 2 executors, not 3. For more, give it more"
        " tasks as well: -t split=3"
    ]


def test_tasks_and_executors_change_at_once():
    made = make_rebalance(topology(), WantedNumbers(executors=["split=4"], tasks=["split=4"]))
    assert made.patch == [
        {"op": "test", "path": "/spec/bolts/0/name", "value": "split"},
        {"op": "add", "path": "/spec/bolts/0/parallelism", "value": 4},
        {"op": "test", "path": "/spec/bolts/0/name", "value": "split"},
        {"op": "add", "path": "/spec/bolts/0/numTasks", "value": 4},
    ]
    assert made.warnings == []
    assert made.changes[1].startswith("tasks of 'split' 4 (was ")


def test_all_mistakes_are_told_at_once():
    pairs = ["cuont=2", "split", "split=", "split=two", "split=0", "split=1", "split=2", "x=-1"]
    with pytest.raises(ValidationFailed) as raised:
        make_rebalance(topology(), WantedNumbers(0, -1, pairs))
    assert [str(problem) for problem in raised.value.problems] == [
        "-n: the number of workers is 0, but must be at least 1.",
        "-e cuont=2: there is no component 'cuont'. Did you mean 'count'?",
        "-e split: not a component and a number. Such as -e count=4.",
        "-e split=: not a component and a number. Such as -e count=4.",
        "-e split=two: not a component and a number. Such as -e count=4.",
        "-e split=0: the number of executors is 0, but must be at least 1.",
        "-e split=1: component 'split' was given before.",
        "-e split=2: component 'split' was given before.",
        "-e x=-1: the number of executors is -1, but must be at least 1.",
        "-e x=-1: there is no component 'x'. There are: sentences, split, count.",
        "-a: the number of ackers is -1, but must be at least 0.",
    ]


def patches(kubectl):
    """What was patched, in order."""
    found = [asked for asked in kubectl.asked if asked[0] == "patch"]
    assert all(asked[2] == "--type=json" for asked in found)
    return [json.loads(asked[asked.index("-p") + 1]) for asked in found]


def test_the_command(fulmen, kubectl):
    kubectl.answer(topology(), topology())
    result = fulmen("rebalance", "word-count", "-n", "3", "-e", "split=3", "-e", "count=3")
    assert result.stderr.startswith("warning: component 'split' has 2 tasks")
    assert result.stdout == (
        "topology 'word-count': asked for workers 3 (was 2), executors of 'split' 3 (was 2),"
        " executors of 'count' 3 (was 2); it is Active now. `fulmen top word-count` or"
        " `kubectl get topo word-count` shows the progress.\n"
    )
    wanted = WantedNumbers(3, None, ["split=3", "count=3"])
    assert patches(kubectl) == [make_rebalance(topology(), wanted).patch]


def test_nothing_is_patched_after_a_mistake(fulmen, kubectl):
    kubectl.answer(topology())
    result = fulmen("rebalance", "word-count", "-n", "3", "-e", "cuont=3")
    assert (result.exit_code, result.stdout) == (2, "")
    assert patches(kubectl) == []


def test_a_change_in_between_is_noticed(fulmen, kubectl):
    moved = topology(bolts=[{"name": "count", "parallelism": 2}])
    kubectl.answer(topology(), CHANGED, moved, moved)
    assert fulmen("rebalance", "word-count", "-e", "count=3").exit_code == 0
    assert [patch[0]["path"] for patch in patches(kubectl)] == [
        "/spec/bolts/1/name",
        "/spec/bolts/0/name",
    ]


def test_a_component_that_is_gone_in_between_is_told(fulmen, kubectl):
    kubectl.answer(topology(), CHANGED, topology(bolts=[]))
    result = fulmen("rebalance", "word-count", "-e", "count=3")
    assert result.exit_code == 2
    assert "there is no component 'count'" in result.stderr
    assert len(patches(kubectl)) == 1


def test_what_the_server_refuses_is_not_tried_again(fulmen, kubectl):
    invalid = 'The Topology "word-count" is invalid: spec.workers: Invalid value: 2000'
    kubectl.answer(topology(), invalid, topology())
    result = fulmen("rebalance", "word-count", "-n", "2000")
    assert (result.exit_code, result.stderr) == (1, f"Error: kubectl: {invalid}.\n")
    assert len(patches(kubectl)) == 1


def test_rebalance_without_options(fulmen):
    result = fulmen("rebalance", "word-count")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: nothing was asked for. Give -n, -e, -t or -a.\n",
    )
