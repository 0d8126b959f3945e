"""The operator killed or stopped between any two API calls: another one finishes the work."""

import asyncio
from contextlib import suppress
from functools import cache

import pytest

from fulmen.kube.contract.endings import Ended, Mistake
from fulmen_operator.cluster.api import CallFailed
from fulmen_operator.cluster.fence import FencedServer
from fulmen_operator.controller.loop import Memory
from fulmen_operator.model import is_gated
from support.operator.fake_cluster import FakeCluster, Killed
from support.operator.operated import CODE, OTHER_CODE, put_parts

BAD = 2, Ended(reason="InvalidSpec", message="1 problem", errors=(Mistake(reason="bad"),))


@cache
def settled():
    cluster = FakeCluster(CODE)
    cluster.settle()
    return cluster


def running():
    return settled().copy()


def apply():
    return FakeCluster(CODE)


def evict():
    cluster = running()
    cluster.end("word-count-driver-1", 137, reason="Evicted")
    return cluster


def delete_driver():
    cluster = running()
    cluster.remove("Pod", "word-count-driver-1")
    return cluster


def suspend():
    cluster = running()
    cluster.change({**CODE, "spec.state": "Suspended"})
    return cluster


def resume():
    cluster = suspend()
    cluster.settle()
    cluster.change(CODE)
    return cluster


def new_code():
    cluster = running()
    cluster.change(OTHER_CODE)
    return cluster


def code_in_parts():
    cluster = running()
    cluster.change(put_parts(cluster, ["a-1", "a-2"], b"on", b"e"))
    return cluster


def bad_code():
    cluster = running()
    cluster.verdict = BAD
    cluster.change(OTHER_CODE)
    return cluster


def more_workers():
    cluster = running()
    cluster.change({**CODE, "spec.workers": 3, "spec.networkPolicy": "Restrict"})
    return cluster


SCENARIOS = [
    apply, evict, delete_driver, suspend, resume, new_code, code_in_parts, bad_code, more_workers,
]  # fmt: skip


def watched(cluster):
    """Have what must hold at any time checked after each write; returns the mistakes."""
    mistakes, made = [], set()

    def look(method, path):
        for pod in cluster.pods("driver"):
            if is_gated(pod):
                continue  # it can't run, and is made anew if its operator dies now
            attempt = int(pod["metadata"]["labels"]["fulmen.dev/attempt"])
            if attempt > cluster.status["attempt"]:
                mistakes.append(f"driver {attempt} was made before its number was raised")
            made.add((attempt, pod["metadata"]["uid"]))
        numbers = [attempt for attempt, _ in made]
        if len(numbers) != len(set(numbers)):
            mistakes.append(f"two drivers of one number: {sorted(made)}")

    cluster.api.on_write = look
    return mistakes


def outcome(cluster):
    """What has to be the same in the end, whether the operator was killed or not."""
    kinds = ("Pod", "ConfigMap", "Secret", "Role", "RoleBinding", "ServiceAccount")
    names = {kind: cluster.names(kind) for kind in (*kinds, "NetworkPolicy")}
    conditions = {c["type"]: (c["status"], c["reason"]) for c in cluster.status["conditions"]}
    restarts = cluster.status["restarts"]["count"]
    return names, conditions, cluster.status["state"], cluster.status["attempt"], restarts


def interrupted(begun):
    """Every state that an operator may leave behind when it is killed, from here to the end.

    Killed while it reads, it leaves what it did after its last write: each state comes once.
    """
    seen = set()
    master, before = begun.copy(), ""
    while master.state() != before:
        before = master.state()
        start = master.copy()
        master.reconcile()
        for number in range(len(master.api.calls)):
            cluster = start.copy()
            mistakes = watched(cluster)
            cluster.api.stop_after = number
            with pytest.raises(Killed):
                cluster.reconcile()
            cluster.api.stop_after = None
            if cluster.state() not in seen:
                seen.add(cluster.state())
                yield f"killed before {master.api.calls[number]}", cluster, mistakes
        master.api.calls.clear()
        master.tick()


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_another_operator_finishes_what_one_has_begun(scenario):
    begun = scenario()
    whole = begun.copy()
    whole.settle()
    for when, cluster, mistakes in interrupted(begun):
        cluster.forget()
        cluster.settle()
        assert outcome(cluster) == outcome(whole), when
        assert mistakes == [], when


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_two_operators_at_once_are_harmless(scenario):
    whole = scenario()
    whole.settle()
    cluster = scenario()
    mistakes = watched(cluster)
    first, second = Memory(), Memory()
    for _ in range(12):
        cluster.reconcile(first)
        cluster.reconcile(second)
        cluster.tick()
    assert outcome(cluster) == outcome(whole)
    assert mistakes == []


class Stopped:
    """The API server, for an operator whose process is stopped once a call is on its way.

    Args:
        api: The API server.
        number: How many calls arrive before that one.
        meanwhile: Happens before that one arrives.
    """

    def __init__(self, api, number, meanwhile):
        self._api, self._number, self._meanwhile = api, number, meanwhile
        self.left = 7.0

    def now(self):
        return self._api.now()

    async def call(self, *args, **options):
        if self._number == 0:
            self.left = 0.0
            await asyncio.to_thread(self._meanwhile)  # it runs loops of its own
        self._number -= 1
        return await self._api.call(*args, **options)


def stopped(begun):
    """Every state after an operator was stopped in a write, and woke when another one had led.

    That write arrives late. Stopped while it reads, it writes nothing more, as if it were killed.
    """
    master, before = begun.copy(), ""
    while master.state() != before:
        before = master.state()
        start = master.copy()
        master.reconcile()
        for number, (method, path) in enumerate(master.api.calls):
            if method == "GET" or path.endswith("/events"):
                continue
            cluster = start.copy()
            mistakes = watched(cluster)
            api = Stopped(cluster.api, number, lambda cluster=cluster: takes_over(cluster))
            with suppress(CallFailed):
                cluster.reconcile(Memory(), FencedServer(api, lambda api=api: api.left))
            yield f"stopped in {method} {path}", cluster, mistakes
        master.api.calls.clear()
        master.tick()


def takes_over(cluster):
    cluster.forget()
    cluster.settle()
    cluster.api.calls.clear()


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_one_that_wakes_when_another_has_led_disturbs_nothing(scenario):
    begun = scenario()
    whole = begun.copy()
    whole.settle()
    for when, cluster, mistakes in stopped(begun):
        late = [call for call in cluster.api.calls if call[0] != "GET"]
        assert len(late) == 1, when
        cluster.settle()
        assert outcome(cluster) == outcome(whole), when
        assert mistakes == [], when
