"""Which drivers may start, in a namespace whose other drivers start, wait, run or have ended."""

from datetime import UTC, datetime, timedelta

import pytest

from fulmen_operator.controller.starts import Starts, group_of
from fulmen_operator.model import Key, text_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
READY = {"type": "Ready", "status": "True"}
NO_ROOM = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
NO_IMAGE = {"name": "driver", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
ENDED = {"name": "driver", "state": {"terminated": {"exitCode": 1}}}


def driver(name, status=None, node="n-1", since=NOW):
    labels = {"fulmen.dev/topology": name, "app.kubernetes.io/component": "driver"}
    meta = {"name": f"{name}-driver-1", "labels": labels, "creationTimestamp": text_of(since)}
    return {"metadata": meta, "spec": {"nodeName": node}, "status": status or {"phase": "Running"}}


class Namespaces:
    """Topologies that ask, and their drivers by topology."""

    def __init__(self):
        self.seconds = 0
        self.drivers = {}
        self._starts = Starts(lambda: self.seconds)

    def ask(self, name, namespace="blue", group=1):
        """Seconds to wait; of one that may start, the driver is there then."""
        pods = [pod for (where, _), pod in self.drivers.items() if where == namespace]
        now = NOW + timedelta(seconds=self.seconds)
        wait = self._starts.seconds_to_wait(Key(namespace, name), pods, 4, group, now)
        if wait is None:
            self.drivers[namespace, name] = driver(name, since=now)
        return wait

    def may_start(self, *names, **how):
        """Those of them that may, each of which asks once."""
        return [name for name in names if self.ask(name, **how) is None]


@pytest.fixture
def namespaces():
    return Namespaces()


NAMES = [f"t{number:02}" for number in range(20)]


def test_of_many_four_start_at_once_and_the_others_follow_in_their_order(namespaces):
    started = []
    for round_ in range(5):
        namespaces.seconds = 20 * round_
        asking = [name for name in NAMES if name not in started]
        last = namespaces.may_start(*(asking if round_ == 0 else reversed(asking)))
        last += namespaces.may_start(*(name for name in asking if name not in last))
        started += sorted(last)
        for name in last:
            namespaces.drivers["blue", name] = driver(name, {"conditions": [READY]})
    assert started == NAMES


def test_another_namespace_holds_up_none(namespaces):
    namespaces.may_start(*NAMES, namespace="red")
    assert namespaces.may_start(*NAMES[:5], namespace="blue") == NAMES[:4]


def test_each_node_that_the_namespace_has_pods_on_has_room_for_four(namespaces):
    namespaces.drivers["blue", "runs"] = driver("runs", {"conditions": [READY]}, node="n-2")
    assert namespaces.may_start(*NAMES) == NAMES[:8]


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"phase": "Pending", "conditions": [NO_ROOM]}, id="no-node"),
        pytest.param({"phase": "Pending", "containerStatuses": [NO_IMAGE]}, id="no-image"),
        pytest.param({"phase": "Failed", "containerStatuses": [ENDED]}, id="ended"),
    ],
)
def test_what_takes_no_processor_holds_up_none(namespaces, status):
    for name in NAMES[:4]:
        namespaces.drivers["blue", name] = driver(name, status)
    assert namespaces.may_start(*NAMES[4:]) == NAMES[4:8]


def test_a_driver_whose_volumes_are_not_mounted_yet_starts_as_its_node_may_be_slow(namespaces):
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": text_of(NOW)}
    sandbox = {"type": "PodReadyToStartContainers", "status": "False"}
    namespaces.seconds = 60
    for name in NAMES[:4]:
        status = {"phase": "Pending", "conditions": [placed, sandbox]}
        namespaces.drivers["blue", name] = driver(name, status)
    assert namespaces.may_start(NAMES[4]) == []


def test_drivers_that_never_come_up_hold_up_others_for_five_minutes(namespaces):
    assert namespaces.may_start(*NAMES[:5]) == NAMES[:4]
    namespaces.seconds = 299
    assert namespaces.may_start(NAMES[4]) == []
    namespaces.seconds = 301
    assert namespaces.may_start(NAMES[4]) == [NAMES[4]]


def test_those_that_have_failed_come_last_and_those_that_ask_no_more_are_forgotten(namespaces):
    namespaces.may_start(*NAMES[:4])
    assert namespaces.may_start("fails", group=2) == []
    assert namespaces.may_start("gives-up", "comes-later") == []
    namespaces.drivers["blue", NAMES[0]] = driver(NAMES[0], {"conditions": [READY]})
    namespaces.seconds = 15
    assert namespaces.may_start("fails", group=2) == []
    assert namespaces.may_start("comes-later") == []
    for name in NAMES[1:4]:
        namespaces.drivers["blue", name] = driver(name, since=NOW + timedelta(seconds=300))
    namespaces.seconds = 370
    assert namespaces.may_start("fails", group=2) == []
    assert namespaces.may_start("comes-later") == ["comes-later"]


def test_a_pod_that_no_watch_has_told_of_yet_counts(namespaces):
    assert namespaces.may_start(*NAMES[:4]) == NAMES[:4]
    namespaces.drivers.clear()
    assert namespaces.ask(NAMES[4]) == 2
    namespaces.seconds = 11
    assert namespaces.ask(NAMES[4]) is None


def test_those_that_ran_before_come_before_new_ones(namespaces):
    namespaces.may_start(*NAMES[:4])
    assert namespaces.may_start("new") == []
    assert namespaces.may_start("lost", group=0) == []
    namespaces.drivers["blue", NAMES[0]] = driver(NAMES[0], {"conditions": [READY]})
    namespaces.seconds = 15
    assert namespaces.may_start("new") == []
    assert namespaces.may_start("lost", group=0) == ["lost"]


@pytest.mark.parametrize(
    ("status", "group"),
    [
        ({}, 1),
        ({"lastBatch": 7, "restarts": {"count": 3, "failures": 0}}, 0),
        ({"lastBatch": 7, "restarts": {"count": 3, "failures": 1}}, 2),
    ],
)
def test_who_comes_first(status, group):
    assert group_of({"status": status}) == group
