"""What kopf's handlers do: before the operator begins to watch, and while it does."""

import asyncio

import kopf
import pytest

from fulmen_operator import handlers
from fulmen_operator.cluster.api import CallFailed
from fulmen_operator.controller.watching import WATCHED
from fulmen_operator.handlers import must_be_served
from fulmen_operator.model import Key
from fulmen_operator.settings import Settings


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


def test_the_probe_fails_when_nothing_moves(running, monkeypatch):
    assert asyncio.run(handlers.is_moving(memo=running)) == 0
    monkeypatch.setattr(running.queue, "stuck_for", lambda: 301.0)
    with pytest.raises(kopf.PermanentError, match="301"):
        asyncio.run(handlers.is_moving(memo=running))


def test_kopf_gets_no_handler_that_would_add_a_finalizer():
    registry = kopf.get_default_registry()
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()
    assert len(list(registry._watching.get_all_handlers())) == len(WATCHED)
