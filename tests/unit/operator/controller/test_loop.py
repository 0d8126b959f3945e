"""The loop: what failures, conflicts and deletions do to the queue."""

import asyncio

import pytest
from prometheus_client import REGISTRY

from fulmen.kube.contract.reports import DriverPhase, Report
from fulmen_operator import metrics
from fulmen_operator.controller.loop import Memory, work
from fulmen_operator.controller.queue import LIGHT_SECONDS, REST, Queue
from fulmen_operator.model import DecisionRefusal, Key
from support.operator.cpu import burn
from support.operator.fake_cluster import KEY, FakeCluster


class Clock:
    """Seconds that a test moves."""

    now = 0.0

    def __call__(self):
        return self.now


def worked(cluster, rounds=1, memory=None):
    """Let a worker take what is due, so many times; returns the queue and its clock."""
    clock = Clock()
    queue = Queue(clock, lambda: 0.0, str)
    access = cluster.access()

    async def run():
        task = asyncio.ensure_future(work(queue, access, cluster.settings, memory or Memory()))
        for _ in range(rounds):
            queue.add(KEY)
            while queue._due.get(KEY, 0) <= clock.now:
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    return queue, clock


def readiness():
    """What Prometheus is told of the topology."""
    labels = {"topology_namespace": KEY.namespace, "topology": KEY.name}
    return REGISTRY.get_sample_value("fulmen_operator_topology_ready", labels)


def due_in(queue, clock):
    return queue._due[KEY] - clock.now


def test_what_was_done_comes_again_in_time():
    cluster = FakeCluster()
    assert due_in(*worked(cluster)) == 300  # when its start takes too long
    cluster.settle()
    assert due_in(*worked(cluster)) == 600


def test_what_is_as_it_should_be_costs_no_call():
    cluster = FakeCluster({"spec.networkPolicy": "Restrict"})
    cluster.settle()
    before = len(cluster.api.calls)
    worked(cluster)
    assert cluster.api.calls[before:] == []


def test_a_status_in_which_only_the_batch_is_new_is_written_once_a_minute(monkeypatch):
    now = Clock()
    monkeypatch.setattr("fulmen_operator.controller.loop.monotonic", now)
    cluster = FakeCluster()
    cluster.settle()
    driver, written = cluster.pod("word-count-driver-1"), []
    said = Report.from_json(driver["metadata"]["annotations"]["fulmen.dev/report"])
    for second in range(0, 200, 20):
        now.now = float(second)
        cluster.say(driver, said.model_copy(update={"batch": 100 + second}))
        cluster.api.calls.clear()
        again_in = cluster.reconcile()
        written += [cluster.status["lastBatch"]] if cluster.api.calls else []
        assert again_in is None or again_in <= 60
    assert written == [160, 220, 280]
    cluster.say(driver, said.model_copy(update={"batch": 400, "phase": DriverPhase.REBALANCING}))
    cluster.reconcile()
    assert (cluster.status["lastBatch"], cluster.status["state"]) == (400, "Rebalancing")


def test_a_topology_that_is_gone_is_forgotten():
    cluster = FakeCluster()
    worked(cluster)
    assert readiness() == 0
    cluster.remove("Topology", KEY.name)
    clock = Clock()
    queue = Queue(clock, lambda: 0.0, str)
    access = cluster.access()
    memory = Memory(refusals={KEY: DecisionRefusal("Refused", "no")}, trials={KEY: ("a", "", 0.0)})

    async def run():
        queue.add(KEY)
        task = asyncio.ensure_future(work(queue, access, cluster.settings, memory))
        while len(queue):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert readiness() is None
    assert (memory.refusals, memory.trials) == ({}, {})


def test_others_have_their_turn_between_topologies_that_cost_no_call():
    cluster, clock = FakeCluster(), Clock()
    queue = Queue(clock, lambda: 0.0, str)
    for number in range(20):
        queue.add(Key(KEY.namespace, f"gone-{number}"))

    async def turns():
        task = asyncio.ensure_future(work(queue, cluster.access(), cluster.settings, Memory()))
        had = 0
        while len(queue):
            had += 1
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return had

    assert asyncio.run(turns()) >= 20


@pytest.mark.parametrize("status", [0, 403, 500])
def test_what_failed_backs_off(status, caplog):
    cluster = FakeCluster()
    cluster.api.refusals["/serviceaccounts"] = (status, "no")
    queue, clock = worked(cluster)
    assert due_in(queue, clock) == 1
    assert "no" in caplog.text


@pytest.mark.parametrize("answer", [(409, "changed"), (404, "not found")])
def test_a_topology_that_was_changed_or_deleted_meanwhile_is_looked_at_again_at_once(
    answer, caplog
):
    cluster = FakeCluster()
    cluster.api.refusals["/status"] = answer
    assert due_in(*worked(cluster)) == pytest.approx(0.1)
    assert not caplog.text


def test_what_was_refused_and_is_accepted_now_is_looked_at_again_at_once(caplog):
    memory = Memory(refusals={KEY: DecisionRefusal("Refused", "no quota")})
    assert due_in(*worked(FakeCluster(), memory=memory)) == pytest.approx(0.1)
    assert memory.refusals == {}
    assert not caplog.text


def test_a_namespace_that_goes_is_let_go(caplog):
    cluster = FakeCluster()
    words = "unable to create new content in namespace blue because it is being terminated"
    cluster.api.refusals |= {"/secrets": (403, words), "/events": (403, words)}
    memory = Memory()
    assert due_in(*worked(cluster, memory=memory)) == 60
    assert not caplog.text
    assert memory.refusals == {}


def test_a_mistake_of_ours_about_one_topology_is_logged_and_not_the_end(caplog, monkeypatch):
    def broken(seen, settings):
        raise ZeroDivisionError

    monkeypatch.setattr("fulmen_operator.controller.loop.decide", broken)
    queue, clock = worked(FakeCluster())
    assert due_in(queue, clock) == 1
    assert "ZeroDivisionError" in caplog.text


def test_an_event_that_cant_be_told_stops_nothing(caplog):
    cluster = FakeCluster()
    cluster.api.refusals["/events"] = (403, "no events")
    worked(cluster)
    cluster.settle()
    assert cluster.status["state"] == "Active"
    assert "no events" in caplog.text


# ---- what the operator tells Prometheus


def test_how_many_workers_were_chosen_by_the_load_is_told_with_what_is_thought_of_it():
    def told():
        labels = {"topology_namespace": KEY.namespace, "topology": KEY.name}
        reasons = ("Changed", "Measuring", "WorkersMissing")
        name = "fulmen_operator_topology_workers"
        values = {r: REGISTRY.get_sample_value(name, {**labels, "reason": r}) for r in reasons}
        return {reason: value for reason, value in values.items() if value is not None}

    cluster = FakeCluster({"spec.workers": 2, "spec.autoscale": {"maxWorkers": 3}})
    worked(cluster)
    assert told() == {"Changed": 2}
    cluster.settle()
    worked(cluster)
    assert told() == {"Measuring": 2}
    metrics.forget()  # another operator leads now
    assert told() == {}
    worked(cluster)
    assert told() == {"Measuring": 2}
    cluster.change({"spec.workers": 2})
    cluster.settle()
    worked(cluster)
    assert told() == {}


def test_whether_topologies_are_ready_is_told():
    cluster = FakeCluster()
    worked(cluster)
    assert readiness() == 0
    cluster.settle()
    worked(cluster)
    assert readiness() == 1
    cluster.change({"spec.state": "Suspended"})
    cluster.settle()
    assert readiness() is None


def test_a_namespace_rests_whose_topology_took_long_to_look_at():
    cluster, clock = FakeCluster(), Clock()
    queue = Queue(clock, lambda: 0.0, lambda key: key.namespace)
    access = cluster.access()
    observe = access.observe

    async def slowly(key):
        burn(2 * LIGHT_SECONDS if key.namespace == "dear" else 0.0)
        return await observe(key)

    access.observe = slowly
    for namespace in ("light", "dear"):
        queue.add(Key(namespace, "gone"))
        queue.add(Key(namespace, "later"), delay=60)

    async def turns():
        task = asyncio.ensure_future(work(queue, access, cluster.settings, Memory()))
        while len(queue) > 2:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return queue._turns

    found = asyncio.run(turns())
    assert (found["light"], found["dear"] >= REST * LIGHT_SECONDS) == (0.0, True)
