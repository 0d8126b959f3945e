"""The container that answers questions about state."""

import pytest

from fulmen.kube import contract
from fulmen.metrics import TOKEN_ENV
from fulmen_operator.acceptance.judge import judge
from fulmen_operator.manifests.pods import driver_pod
from fulmen_operator.manifests.revisions import new_revision
from fulmen_operator.model import Observed
from fulmen_operator.settings import Settings
from support.cli.documents import word_count
from support.operator.fake_cluster import FakeCluster

TOKEN = {"name": "state", "key": "token"}
STATE = {"service": {"state": {"token": TOKEN}}}


def driver(**spec):
    changes = {f"spec.{name}": value for name, value in spec.items()}
    changes |= {"metadata.namespace": "blue", "metadata.uid": "u", "metadata.generation": 1}
    seen = Observed(word_count(changes), FakeCluster().now)
    revision = new_revision(seen, judge(seen, {}), None, Settings(image="fulmen:1"))
    return driver_pod(seen, revision, 1, "")


def test_there_is_none_unless_it_is_asked_for():
    assert "initContainers" not in driver()["spec"]
    assert "initContainers" not in driver(service={"ports": [8080]})["spec"]


def test_it_serves_the_checkpoint_to_who_shows_the_token_and_writes_nothing():
    [state] = driver(**STATE)["spec"]["initContainers"]
    command = state["command"]
    assert command[2:6] == ["fulmen", "state", "serve", contract.CHECKPOINT_URI]
    assert command[6] == "--may-be-empty"  # the driver has committed nothing when it begins
    assert command[7:11] == ["--host", f"$({contract.POD_IP_ENV})", "--port", "8088"]
    assert state["restartPolicy"] == "Always"  # beside the driver, and no longer than that
    token = {"name": TOKEN_ENV, "valueFrom": {"secretKeyRef": TOKEN}}
    assert token in state["env"]
    [checkpoint] = [m for m in state["volumeMounts"] if m["mountPath"] == "/checkpoint"]
    assert checkpoint["readOnly"] is True
    assert state["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("where", ["env", "driver"])
def test_no_other_token_takes_the_place_of_its_own(where):
    env = [{"name": TOKEN_ENV, "value": "of-the-page"}, {"name": "DSN", "value": "x"}]
    given = {"env": env} if where == "env" else {"driver": {"env": env}}
    [state] = driver(**STATE, **given)["spec"]["initContainers"]
    values = {one["name"]: one.get("value") for one in state["env"]}
    assert (values[TOKEN_ENV], values["DSN"]) == (None, "x")
    assert [one["name"] for one in state["env"]].count(TOKEN_ENV) == 1
