"""State that moves: other numbers of tasks, savepoints in a bucket, a copy, and going back.

One topology, with its state on disk, from its first start to counts that are right.
"""

import json
import os
from functools import cache

import pytest
import yaml
from click.testing import CliRunner

from fulmen.cli.main import main
from support.cluster.kube import Kube, condition, eventually, is_ready
from support.cluster.numbered import (
    FILE,
    NAME,
    SINGLE_POD,
    START_SECONDS,
    at_rest,
    driver,
    driver_name,
    expected,
    fulmen,
    goes_on,
    manifest,
)
from support.servers.s3 import BUCKET

SENTENCES, RATE = 2_000, 10
"""Of each of two tasks, and in a second: they last for all but the last step."""
COPY = "copy"
"""The checkpoint of the copy."""

pytestmark = pytest.mark.timeout(900)


@cache
def document():
    """The topology, with its code: of this moment, and that of a mended version."""
    text = manifest(FILE, "spec.workers=1", "spec.slots=1", SINGLE_POD[0], SINGLE_POD[2])
    made = yaml.safe_load(text)
    spec = made["spec"]
    spec["spouts"][0]["config"] = {"count": SENTENCES, "rate": RATE}
    split, count = spec["bolts"]
    split["class"], count["class"] = "kept.Split", "kept.Count"
    count |= {"numTasks": 2, "config": {"step": 1}, "keyedState": {"backend": "disk"}}
    total = {**count, "name": "total", "class": "kept.Total", "numTasks": 1, "parallelism": 1}
    del total["keyedState"], total["config"]
    spec["bolts"].append(total)
    spec |= {
        "keyedState": {"diskLimit": "64Mi"},
        "savepoints": {"every": "1h", "keep": 5},
        "maxReplays": 1,
    }
    return made


def apply(kube, s3, change=lambda spec: None, checkpoint=NAME):
    """Apply it with its checkpoint in the bucket."""
    made = json.loads(json.dumps(document()))
    spec = made["spec"]
    spec["checkpoint"] = {"uri": s3.uri(checkpoint)}
    spec["env"] = [{"name": name, "value": value} for name, value in s3.environment().items()]
    change(spec)
    kube.apply(made)


def mended(spec):
    """A version that can split each sentence."""
    code = spec["code"]["files"]
    code["kept.py"] = code["kept.py"].replace('["w5", "w5"]', '["nothing"]')


def wait_ready(kube, is_wanted=lambda found: True):
    return kube.wait(
        "topology", NAME, lambda t: is_ready(t) and is_wanted(t), START_SECONDS, "Ready, as wanted"
    )


def command(s3, *words):
    """What a command about a checkpoint in the bucket prints. In this process: see `manifest`."""
    done = CliRunner().invoke(main, [*words], env={**os.environ, **s3.environment()})
    assert done.exit_code == 0, done.output
    return done.stdout


def counts(s3, component="count", checkpoint=NAME):
    """What is counted in the newest commit: each word by one task alone."""
    found = json.loads(command(s3, "state", "get", s3.uri(checkpoint), component, "-o", "json"))
    assert len({entry["key"] for entry in found}) == len(found)
    return {entry["key"]: entry["value"] for entry in found}


def savepoints(s3):
    """What each savepoint was made for."""
    found = json.loads(command(s3, "savepoint", "list", s3.uri(NAME), "-o", "json"))
    return {entry["name"]: entry["why"] for entry in found}


def tasks(found):
    return {row["name"]: row["tasks"] for row in found["status"]["components"]}


def letters(kube):
    """The dead letters that the running driver has."""
    return json.loads(fulmen(kube, "dead-letters", "list", "--topology", NAME, "--json"))["letters"]


@pytest.fixture(scope="module")
def topology(operator, kube, s3):
    apply(kube, s3)
    wait_ready(kube)
    return kube


@pytest.fixture
def elsewhere(operator):
    """Another namespace."""
    whole = Kube("test-savepoints-copy")
    whole.delete_namespace()
    whole.make_namespace()
    yield whole
    whole.delete_namespace("--wait=false")


def test_state_is_on_a_disk_with_a_limit(topology):
    pod = driver(topology)
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert volumes["fulmen-state"]["emptyDir"] == {"sizeLimit": "64Mi"}
    kept = ("find", "/var/fulmen/state", "-name", "CURRENT")
    eventually(lambda: topology.exec(pod["metadata"]["name"], *kept), bool, 60, "state on disk")


def test_numbers_of_tasks_change_while_it_runs_or_stay_and_the_reason_is_told(topology, s3):
    before = driver_name(topology)
    eventually(lambda: counts(s3), lambda found: len(found) > 11, 60, "all words")
    apply(topology, s3, lambda spec: spec["bolts"][1].update(numTasks=3))
    wait_ready(topology, lambda found: tasks(found)["count"] == 3)
    assert driver_name(topology) == before

    def two_totals(spec):
        spec["bolts"][1]["numTasks"] = 3
        spec["bolts"][2]["numTasks"] = 2

    apply(topology, s3, two_totals)
    refused = topology.wait(
        "topology",
        NAME,
        lambda found: condition(found, "Stalled").get("reason") == "CheckpointMismatch",
        120,
        "refused",
    )
    message = condition(refused, "Stalled")["message"]
    assert "component 'total' can't have 2 instead of 1 tasks: self.state has the key" in message
    assert condition(refused, "Ready")["status"] == "True"
    assert tasks(refused)["total"] == 1
    topology.delete("pod", before, "--grace-period=0", "--force")
    goes_on(topology, 1, workers=1, but=before)  # the next driver has nobody to refuse it to


def test_savepoints_are_asked_for_in_the_bucket_and_shown_by_the_operator(topology, s3):
    broken = s3.folder / BUCKET / NAME / "savepoints" / "asked" / "broken"
    broken.parent.mkdir(parents=True, exist_ok=True)
    broken.write_text("{")
    eventually(lambda: letters(topology), bool, 60, "a dead letter")
    command(s3, "savepoint", "create", s3.uri(NAME), "mine", "--why", "as it should be")
    shown = topology.wait(
        "topology",
        NAME,
        lambda found: found["status"]["savepoints"]["newest"] == "mine",
        60,
        "the savepoint",
    )["status"]["savepoints"]
    assert shown["why"] == "as it should be"
    assert "as it should be" in savepoints(s3).values()
    assert "'savepoints/asked/broken' in the checkpoint asks for no savepoint" in shown["trouble"]
    eventually(
        lambda: {event["reason"] for event in topology.events(NAME)},
        {"SavepointMade", "SavepointFailed"}.issubset,
        30,
        "events of both",
    )
    broken.unlink()


def test_other_code_after_a_savepoint_of_its_own_and_a_copy_elsewhere(topology, elsewhere, s3):
    """Somebody counts in steps of two meanwhile."""
    apply(topology, s3, lambda spec: spec["bolts"][1].update(numTasks=3, config={"step": 2}))
    wait_ready(topology, lambda found: condition(found, "Stalled")["status"] == "False")
    goes_on(topology, 1, workers=1)

    def as_copy(spec):
        spec |= {"state": "Inactive", "restoreFrom": {"savepoint": f"{s3.uri(NAME)}#mine"}}
        spec["bolts"][1]["numTasks"] = 3

    apply(elsewhere, s3, as_copy, COPY)

    def better(spec):
        mended(spec)
        spec["bolts"][1]["numTasks"] = 3

    apply(topology, s3, better)
    before = driver_name(topology)
    wait_ready(topology, lambda found: found["status"]["driverPod"] != before)
    goes_on(topology, 1, workers=1, but=before)
    assert "before a change of the code" in savepoints(s3).values()
    wait_ready(elsewhere, lambda found: found["status"]["state"] == "Inactive")
    copied = counts(s3, checkpoint=COPY)
    assert sum(copied.values()) == 3 * copied["all"] > 0
    assert counts(s3, "total", COPY) == {"total": sum(copied.values())}


def test_going_back_while_it_runs_and_what_was_given_up_is_sent_again(topology, s3):
    before = driver_name(topology)
    command(s3, "savepoint", "restore", s3.uri(NAME), "mine")
    goes_on(topology, 1, workers=1, but=before)
    assert "before going back to 'mine'" in savepoints(s3).values()
    author = ("--because", "they are right")
    fulmen(topology, "dead-letters", "replay", "--topology", NAME, "--all", *author)
    eventually(lambda: letters(topology), lambda found: not found, 60, "sent again")

    def faster(spec):
        mended(spec)
        spec["bolts"][1]["numTasks"] = 3
        spec["spouts"][0]["config"]["rate"] = 4_000

    apply(topology, s3, faster)
    wanted = expected(SENTENCES)

    def look():
        at_rest(topology, 180)
        return counts(s3)

    found = eventually(look, lambda found: found["all"] >= wanted["all"], 180, "all counted")
    assert found == wanted
    assert counts(s3, "total") == {"total": sum(wanted.values())}
