"""`fulmen activate`, `deactivate` and `kill`."""

import json
import time
from types import SimpleNamespace

import pytest

from fulmen.cli.commands.cluster import lifecycle
from fulmen.cli.commands.cluster.lifecycle import epitaph
from support.cli.fake_kubectl import not_found, topology

RESOURCE = "topologies.fulmen.dev/word-count"
PATH = "/apis/fulmen.dev/v1alpha1/namespaces/blue/topologies/word-count"
ANOTHER = (
    "topology 'word-count' was deleted meanwhile. Another one of that name was made since: it is"
    " left as it is.\n"
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(lifecycle, "_LOOK_SECONDS", 0.01)


@pytest.mark.parametrize(("command", "state"), [("activate", "Active"), ("deactivate", "Inactive")])
def test_the_state_is_asked_for(fulmen, kubectl, command, state):
    kubectl.answer(topology(state="Suspended"))
    result = fulmen(command, "word-count")
    assert result.output == (
        f"topology 'word-count': asked for {state}; it is Suspended now. `fulmen top word-count` or"
        " `kubectl get topo word-count` shows the progress.\n"
    )
    (asked,) = kubectl.asked
    assert json.loads(asked[asked.index("-p") + 1]) == {"spec": {"state": state}}


def test_a_topology_that_no_operator_has_seen_yet(fulmen, kubectl):
    kubectl.answer({key: value for key, value in topology().items() if key != "status"})
    assert "it is Pending now" in fulmen("activate", "word-count").output


def test_kill_waits_until_it_is_suspended(fulmen, kubectl):
    kubectl.answer(
        topology(generation=2, observed=1),
        topology(state="Draining", generation=2),
        topology(state="Suspended", generation=2),
        {},
    )
    result = fulmen("kill", "word-count")
    assert result.output.splitlines() == [
        "topology 'word-count': asked to suspend, waiting for at most 30 s.",
        "topology 'word-count' is deleted. Its pending trees had ended. Its checkpoint stays: a"
        " topology made again with that checkpoint continues.",
    ]
    assert [asked[:3] for asked in kubectl.asked] == [
        ["patch", RESOURCE, "--type=merge"],
        ["get", RESOURCE, "-o"],
        ["get", RESOURCE, "-o"],
        ["delete", "--raw", PATH],
    ]
    (options,) = kubectl.given
    assert options["preconditions"] == {"uid": "u-1"}


def test_an_older_suspension_is_not_taken_for_the_new_one(fulmen, kubectl):
    old = topology(state="Suspended", generation=2, observed=1)
    kubectl.answer(old, topology(state="Suspended", generation=2), {})
    assert fulmen("kill", "word-count").exit_code == 0
    assert len(kubectl.asked) == 3


def test_kill_waits_no_longer_than_it_may(fulmen, kubectl):
    kubectl.answer(topology(messageTimeoutSeconds=120), {})
    result = fulmen("kill", "word-count", "-w", "0")
    assert result.output.splitlines()[1] == (
        "topology 'word-count' is deleted, although it was not suspended, but Active, after 0 s."
        " A driver that still runs has 120 s more for its pending trees; a tree that has not ended"
        " by then stays pending in its checkpoint. Its checkpoint stays: a topology made again with"
        " that checkpoint continues."
    )
    assert [asked[0] for asked in kubectl.asked] == ["patch", "delete"]


def test_nothing_is_deleted_if_the_wait_fails(fulmen, kubectl):
    kubectl.answer(topology(), "Unable to connect to the server: EOF")
    result = fulmen("kill", "word-count")
    assert result.exit_code == 1
    assert result.stderr == (
        "topology 'word-count' is not deleted, but asked to suspend: `fulmen activate word-count`"
        " lets it continue.\n"
        "Error: the cluster does not answer: Unable to connect to the server: EOF.\n"
    )
    assert [asked[0] for asked in kubectl.asked] == ["patch", "get"]


def test_nothing_is_deleted_after_an_interrupt(fulmen, kubectl, monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    clock = SimpleNamespace(sleep=interrupted, monotonic=time.monotonic)
    monkeypatch.setattr(lifecycle, "time", clock)  # threads of others sleep on
    kubectl.answer(topology())
    result = fulmen("kill", "word-count")
    assert result.exit_code == 130
    assert "is not deleted, but asked to suspend" in result.stderr
    assert [asked[0] for asked in kubectl.asked] == ["patch"]


def test_a_topology_that_somebody_else_deletes_meanwhile(fulmen, kubectl):
    kubectl.answer(topology(), not_found(), {"items": []})
    assert fulmen("kill", "word-count").exit_code == 2


def test_another_one_of_that_name_is_not_waited_for(fulmen, kubectl):
    kubectl.answer(topology(), topology(state="Suspended", uid="u-2"))
    result = fulmen("kill", "word-count")
    assert (result.exit_code, result.stderr.splitlines(True)[-1]) == (2, f"Error: {ANOTHER}")
    assert [asked[0] for asked in kubectl.asked] == ["patch", "get"]


def test_another_one_of_that_name_is_not_deleted(fulmen, kubectl):
    kubectl.answer(
        topology(),
        "Error from server (Conflict): Operation cannot be fulfilled on topologies.fulmen.dev"
        ' "word-count": Precondition failed: UID in precondition: u-1, UID in object meta: u-2',
    )
    result = fulmen("kill", "word-count", "-w", "0")
    assert (result.exit_code, result.stderr) == (2, f"Error: {ANOTHER}")


@pytest.mark.parametrize(
    ("checkpoint", "is_kept"),
    [
        (None, True),
        ({"deletionPolicy": "Retain"}, True),
        ({"deletionPolicy": "Delete"}, False),
        ({"deletionPolicy": "Delete", "uri": "s3://bucket/word-count"}, True),
        ({"deletionPolicy": "Delete", "persistentVolumeClaim": "mine"}, True),
    ],
)
def test_what_becomes_of_the_checkpoint_is_told(checkpoint, is_kept):
    before = topology(checkpoint=checkpoint)
    late = epitaph(before, topology(state="Draining"), 5)
    in_time = epitaph(before, topology(state="Suspended"), 5)
    assert ("stays pending in its checkpoint" in late) == is_kept
    assert ("is lost with its checkpoint" in late) != is_kept
    assert ("Its checkpoint stays" in in_time) == is_kept
    assert ("Its checkpoint is deleted, too." in in_time) != is_kept


def test_nothing_is_said_about_trees_of_a_topology_that_did_not_run():
    before = topology(state="Failed")
    assert "trees" not in epitaph(before, topology(state="Suspended"), 5)
