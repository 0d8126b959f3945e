"""Code and pods that are no good replace nothing that runs, or give way. All words are counted.

Who replaces what is the operator's to decide, however many pods there are: it is one here.
"""

import pytest

from support.cluster.kube import condition
from support.cluster.numbered import (
    FILE,
    NAME,
    SINGLE_POD,
    all_counted,
    apply,
    driver_name,
    expected,
    goes_on,
    hurry,
    patch,
    wait_for_state,
)

SENTENCES, RATE = 10_000, 25
"""Of each of two tasks, and in a second: they last for all but the last step."""
CODE = FILE.with_suffix(".py").read_text()
RAISES = CODE.replace(
    "    def execute",
    "    def prepare(self, *_):\n        raise RuntimeError('not today')\n\n    def execute",
)
"""It passes all checks that open nothing."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def topology(operator, kube):
    apply(kube, SENTENCES, RATE, *SINGLE_POD)
    return kube


def inline(text):
    """A change of the code to that text."""
    elsewhere = dict.fromkeys(("configMap", "configMaps", "sha256"))
    return {**elsewhere, "files": {FILE.with_suffix(".py").name: text}}


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        pytest.param(
            {"driver": {"podTemplate": {"spec": {"nonsense": 1}}}},
            "PodRefused",
            'unknown field "spec.nonsense"',
            id="pod-refused",
        ),
        pytest.param(
            {"driver": {"env": [{"name": "PYTHONHOME", "value": "/nowhere"}]}},
            "PreflightFailed",
            "no Python frame",
            id="preflight-failed",
        ),
        pytest.param(
            {"code": inline("import time\ntime.sleep(900)"), "startTimeoutSeconds": 5},
            "PreflightTimeout",
            "has not ended (after 5 s)",
            id="preflight-timeout",
        ),
    ],
)
def test_what_would_not_run_is_refused_and_the_last_good_one_runs_on(
    topology, change, reason, words
):
    pod = driver_name(topology)
    code = topology.get("topology", NAME)["spec"]["code"]
    patch(topology, **change)
    refused = topology.wait(
        "topology",
        NAME,
        lambda found: condition(found, "SpecAccepted").get("reason") == reason,
        180,
        reason,
    )
    assert condition(refused, "SpecAccepted")["status"] == "False"
    assert words in condition(refused, "SpecAccepted")["message"]
    goes_on(topology, topology.report(pod)["batch"])
    assert driver_name(topology) == pod
    as_before = {
        "driver": {"podTemplate": None, "env": None},
        "startTimeoutSeconds": None,
        "code": {"files": None, **code},
    }
    patch(topology, **as_before)
    wait_for_state(topology, "Active")


def test_code_that_fails_when_it_runs_gives_way_to_the_last_that_worked(topology):
    good = topology.get("topology", NAME)["spec"]["code"]
    last = topology.report(driver_name(topology))["batch"]
    patch(topology, code=inline(RAISES))
    found = topology.wait(
        "topology",
        NAME,
        lambda found: condition(found, "SpecAccepted").get("reason") == "RolledBack",
        300,
        "rolled back",
    )
    assert "not today" in condition(found, "SpecAccepted")["message"]
    goes_on(topology, last)
    topology.wait(
        "topology", NAME, lambda found: condition(found, "Ready")["status"] == "True", 180, "Ready"
    )
    patch(topology, code={"files": None, **good})
    wait_for_state(topology, "Active")


def test_every_word_is_counted_exactly_once(topology):
    hurry(topology)
    assert all_counted(topology, SENTENCES, 300) == expected(SENTENCES)
