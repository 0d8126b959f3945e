"""Preflights whose pods the API server does not take, and images that can't be pulled."""

from contextlib import suppress

from fulmen.kube import contract
from fulmen_operator.cluster.api import CallFailed
from support.operator.operated import OTHER_CODE, summary, waiting

QUOTA = "pods is forbidden: exceeded quota: one, requested: pods=1, used: pods=3, limited: pods=3"
LIMIT = 300
BACK_OFF = 'Back-off pulling image "x": ErrImagePull: no such image'


def look(cluster):
    with suppress(CallFailed):
        cluster.reconcile()


def test_a_quota_that_refuses_a_preflight_is_told_in_the_servers_words_and_not_for_ever(cluster):
    change = {**OTHER_CODE, "spec.startTimeoutSeconds": LIMIT}
    cluster.api.refusals["/pods"] = (403, QUOTA)
    cluster.change(change)
    for _ in range(3):
        look(cluster)
    accepted = cluster.condition("SpecAccepted")
    assert (accepted["status"], accepted["reason"]) == ("Unknown", "Checking")
    assert QUOTA in accepted["message"]
    cluster.later(LIMIT + 1)
    cluster.forget()  # another operator counts from the same time
    for _ in range(2):
        look(cluster)
    accepted = cluster.condition("SpecAccepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "PreflightTimeout")
    assert QUOTA in accepted["message"]
    assert cluster.events().count("PreflightTimeout") == 1
    assert summary(cluster) == ("Active", "True", "Active")
    cluster.change({**change, "spec.env": [{"name": "A", "value": "b"}]})
    look(cluster)
    look(cluster)
    assert cluster.condition("SpecAccepted")["status"] == "Unknown"  # that is another try
    cluster.api.refusals.clear()
    cluster.settle(20)
    assert cluster.condition("SpecAccepted")["status"] == "True"
    assert cluster.status["attempt"] == 2


def test_an_image_that_can_not_be_pulled_is_told_once(cluster):
    cluster.remove("Pod", "word-count-driver-1")
    cluster.reconcile()
    told = len(cluster.events())
    said = set()
    for _ in range(5):
        for words in (("ErrImagePull", "no such image"), ("ImagePullBackOff", BACK_OFF)):
            cluster.set_status(cluster.pod("word-count-driver-2"), waiting(*words))
            cluster.reconcile()
            said.add(cluster.condition("Placed")["message"])
    assert len(said) == 1
    assert cluster.events()[told:].count("ImagePullBackOff") == 1
    assert "ErrImagePull" not in cluster.events()


def test_a_preflight_without_room_beside_the_claim_is_made_again_without_it(cluster):
    def claims():
        [pod] = cluster.pods(contract.PREFLIGHT)
        return [v for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v]

    cluster.change({**OTHER_CODE, "spec.startTimeoutSeconds": LIMIT})
    look(cluster)
    assert claims()
    words = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}
    [pod] = cluster.pods(contract.PREFLIGHT)
    cluster.set_status(pod, {"phase": "Pending", "conditions": [words]})
    cluster.later(LIMIT / 2 - 10)
    assert 0 < cluster.reconcile() <= 11
    assert claims()
    cluster.later(11)
    look(cluster)
    message = cluster.condition("SpecAccepted")["message"]
    assert message.endswith("it is tried without reading the checkpoint")
    look(cluster)
    assert claims() == []
    cluster.settle()
    assert cluster.status["attempt"] == 2
