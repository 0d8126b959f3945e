"""What kopf's handlers do: before the operator begins to watch, and while it does."""

import asyncio
from functools import partial
from urllib.error import HTTPError
from urllib.request import urlopen

import kopf
import pytest
from prometheus_client import REGISTRY

from fulmen_operator import handlers, metrics
from fulmen_operator.cluster.api import CallFailed
from fulmen_operator.controller.watching import PAGE, WATCHED
from fulmen_operator.handlers import must_be_served
from fulmen_operator.model import Key
from fulmen_operator.settings import Settings
from support.operator import virtual_time
from support.operator.fake_cluster import KEY, FakeCluster
from support.operator.fake_lease import NAME, NAMESPACE, Connection, LeaseServer


class Server:
    def __init__(self, status):
        self.status = status

    async def call(self, method, path):
        assert (method, path) == ("GET", "/apis/fulmen.dev/v1alpha1")
        if self.status >= 400 or self.status == 0:
            raise CallFailed(self.status, "no", path)
        return {}


def test_without_the_definition_it_ends_and_says_what_to_do():
    with pytest.raises(kopf.PermanentError, match="serves no topologies"):
        asyncio.run(must_be_served(Server(404)))


@pytest.mark.parametrize("status", [200, 500, 0])
def test_else_it_goes_on_whether_or_not_the_server_answers(status):
    asyncio.run(must_be_served(Server(status)))


def tell(running, kind, event, name, labels, version=1):
    """A watch tells of an object."""
    metadata = {
        "name": name,
        "namespace": "blue",
        "uid": "u",
        "labels": labels,
        "resourceVersion": str(version),
    }
    told = {"type": event, "object": {"metadata": metadata}}
    asyncio.run(handlers.changed(kind, event=told, memo=running))


@pytest.fixture
def running():
    return handlers.Running(Settings())


def test_events_put_a_topology_into_the_queue(running):
    tell(running, "Topology", "ADDED", "a", {})
    tell(running, "Pod", None, "b", {"fulmen.dev/topology": "word-count"})
    assert set(running.queue._due) == {Key("blue", "a"), Key("blue", "word-count")}


def test_what_is_known_already_wakes_nobody(running):
    tell(running, "Topology", "ADDED", "a", {}, version=2)
    running.queue._due.clear()
    tell(running, "Topology", "MODIFIED", "a", {}, version=2)
    tell(running, "Topology", "MODIFIED", "a", {}, version=1)
    tell(running, "Role", "DELETED", "b", {"fulmen.dev/topology": "a"})
    assert not running.queue._due
    tell(running, "Topology", "MODIFIED", "a", {}, version=3)
    assert set(running.queue._due) == {Key("blue", "a")}


def test_an_objects_end_is_news_once(running):
    label = {"fulmen.dev/topology": "a"}
    tell(running, "Role", "ADDED", "b", label)
    for due in (1, 0):
        running.queue._due.clear()
        tell(running, "Role", "DELETED", "b", label)
        assert len(running.queue._due) == due


def answer_of(port):
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def probed(running):
    ask = partial(handlers.asked, running, asyncio.get_running_loop())
    with metrics.healthy(0, ask) as port:
        return await asyncio.to_thread(answer_of, port)


def test_the_probe_fails_when_nothing_moves(running, monkeypatch):
    monkeypatch.setattr(running.queue, "stuck_for", lambda: 301.0)
    assert asyncio.run(probed(running)) == (200, "ok"), "one that stands by is well"
    running.serves = True
    assert asyncio.run(probed(running)) == (503, "nothing has moved for 301 s")


def test_the_probe_fails_when_the_loop_does_not_turn(running, monkeypatch):
    monkeypatch.setattr(handlers, "ANSWER_SECONDS", 0)
    loop = asyncio.new_event_loop()
    assert handlers.asked(running, loop) == "no answer for 0 s"
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


# ---- who leads


def value(metric, **labels):
    return REGISTRY.get_sample_value(f"fulmen_operator_{metric}", labels)


def of_topology():
    return value("topology_ready", topology_namespace=KEY.namespace, topology=KEY.name)


def test_without_a_lease_the_operator_serves_at_once_and_takes_what_it_tells_with_it(running):
    cluster = FakeCluster()
    running.settings = cluster.settings
    running.store = cluster.store()
    running.queue.add(KEY)

    async def run():
        metrics.forget()
        handlers.follow(running)
        task = asyncio.create_task(handlers.led(running, cluster.api))
        while of_topology() is None:
            await asyncio.sleep(0)
        assert (value("leader"), value("topologies")) == (1, 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (value("leader"), value("topologies"), of_topology()) == (0, 0, None)

    asyncio.run(run())


def test_with_a_lease_one_of_two_serves_and_the_other_one_afterwards(monkeypatch):
    server, served = LeaseServer(), []

    async def serve(api, store, queue, settings):
        served.append(store)
        await asyncio.Event().wait()

    async def run():
        monkeypatch.setattr(handlers, "boot_seconds", virtual_time.clock)
        both = [handlers.Running(Settings(lease=f"{NAMESPACE}/{NAME}")) for _ in range(2)]
        tasks = []
        for one in both:
            tasks.append(asyncio.create_task(handlers.led(one, Connection(server))))
            await asyncio.sleep(3)
        assert [one.serves for one in both] == [True, False]
        assert [one.left() > 0 for one in both] == [True, False]
        tasks[0].cancel()
        await asyncio.sleep(5)
        assert [one.serves for one in both] == [False, True]
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert served == [one.store for one in both]

    monkeypatch.setattr(handlers, "serve", serve)
    virtual_time.run(run())


def test_kopf_gets_no_handler_that_would_add_a_finalizer():
    registry = kopf.get_default_registry()
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()
    assert len(list(registry._watching.get_all_handlers())) == len(WATCHED)


def test_kopf_copies_nothing_of_what_a_watch_tells_and_reads_lists_in_small_pages():
    settings = kopf.OperatorSettings()
    handlers.configure(settings)
    history = settings.persistence.diffbase_storage
    assert (history.build(body={"spec": {"a": 1}}), history.fetch(body={})) == ({}, None)
    assert settings.watching.chunk_size == PAGE
