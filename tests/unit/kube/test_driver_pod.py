"""A driver's pod before it starts anything."""

import pytest

from fulmen.kube.contract.endings import ExitCode
from fulmen.kube.contract.revisions import Revision
from fulmen.kube.driver.api import ApiError
from fulmen.kube.driver.pod import DriverPod
from fulmen.kube.driver.pod_settings import Surroundings

WHERE = Surroundings("blue", "shop", "uid-1", 1, "shop-driver-1", "10.0.0.7")


class GoesOn(Exception):
    """It would read its own pod next."""


class FakeApi:
    """What the API server says of the topology, and no more."""

    def __init__(self, answer):
        self._answer = answer

    def topology(self, name):
        if isinstance(self._answer, Exception):
            raise self._answer
        return {"metadata": {"name": name, **self._answer}}

    def pod(self, name):
        raise GoesOn


def driver_of(answer):
    return DriverPod(WHERE, FakeApi(answer), None, Revision.model_construct(generation=1), None)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"uid": "uid-2"}, id="restored-from-a-backup"),
        pytest.param(ApiError("GET", 404, "not found"), id="not-yet-restored"),
        pytest.param({"uid": "uid-1", "deletionTimestamp": "2026-01-01T00:00:00Z"}, id="deleted"),
    ],
)
def test_a_driver_of_another_topology_of_that_name_leaves_the_checkpoint_alone(answer):
    code, ended = driver_of(answer).run()
    assert (code, ended.reason) == (ExitCode.FENCED, "Fenced")
    assert "(uid uid-1)" in ended.message


@pytest.mark.parametrize("answer", [{"uid": "uid-1"}, ApiError("GET", 0, "no route")])
def test_a_driver_starts_for_its_own_topology_and_while_nobody_knows_better(answer):
    with pytest.raises(GoesOn):
        driver_of(answer).run()
