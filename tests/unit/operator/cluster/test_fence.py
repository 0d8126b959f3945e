"""Who does not lead changes nothing."""

import asyncio

import pytest

from fulmen_operator.cluster.api import CallFailed, Form
from fulmen_operator.cluster.fence import FencedServer
from support.operator import virtual_time


class Server:
    """Answers after some seconds."""

    def __init__(self, seconds=0.0):
        self.seconds, self.asked, self.answered = seconds, [], []

    async def call(self, method, path, body=None, query=None, form=None):
        self.asked.append((method, path, body, query, form))
        await asyncio.sleep(self.seconds)
        self.answered.append(method)
        return {"kind": "Pod"}


def test_a_leader_does_all():
    server = Server()
    fenced = FencedServer(server, lambda: 1.0)
    sent = ("PATCH", "/pods/a", {"a": 1}, {"b": "2"})
    assert virtual_time.run(fenced.call(*sent, Form.MERGE)) == {"kind": "Pod"}
    assert server.asked == [(*sent, Form.MERGE)]


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_another_writes_nothing(method):
    server = Server()
    with pytest.raises(CallFailed, match=f"{method} /pods: this operator does not lead any more"):
        virtual_time.run(FencedServer(server, lambda: 0.0).call(method, "/pods"))
    assert server.asked == []


def test_another_may_read():
    assert virtual_time.run(FencedServer(Server(), lambda: 0.0).call("GET", "/pods"))


def test_what_takes_longer_than_the_lease_is_not_waited_for():
    server = Server(seconds=9.0)
    with pytest.raises(CallFailed, match="not answered while this operator led") as failed:
        virtual_time.run(FencedServer(server, lambda: 7.0).call("POST", "/pods"))
    assert (failed.value.status, server.answered) == (0, [])


def test_without_a_lease_nothing_ends():
    assert virtual_time.run(
        FencedServer(Server(seconds=1e6), lambda: float("inf")).call("POST", "/pods")
    )
