"""What `helm test` runs."""

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from fulmen.metrics.families.topology import TopologyCollector
from fulmen_operator import check_installation
from fulmen_operator.check_installation import Check, CheckFailed, acked_in
from fulmen_operator.cluster.api import KINDS, CallFailed
from support.runs.metered import run_metered

LABELS = {"app.kubernetes.io/name": "fulmen-test"}
NAME = {"name": "fulmen-test", "namespace": "tools", "labels": LABELS}
PATH = KINDS["Topology"].path("tools", "fulmen-test")
POD = KINDS["Pod"].path("tools", "fulmen-test-driver-1")


class Server:
    """An API server with one topology, which goes through these statuses."""

    def __init__(self, *statuses, labels=None):
        self.statuses, self.there, self.calls = list(statuses), labels is not None, []
        self.labels = labels

    async def call(self, method, path, body=None):
        self.calls.append((method, path))
        if path == POD:
            return {"status": {"podIP": "10.0.0.7"}}
        if method == "POST":
            self.there, self.labels = True, body["metadata"]["labels"]
        elif not self.there:
            raise CallFailed(404, "not found", path)
        elif method == "DELETE":
            self.there = False
        meta = {**NAME, "labels": {**self.labels, "other": "x"}}
        return {"metadata": meta, "status": self.statuses.pop(0) if method == "GET" else {}}


def status(**conditions):
    found = [
        {"type": kind, "status": value, "reason": f"R{kind}", "message": f"why {kind}"}
        for kind, value in conditions.items()
    ]
    return {"state": "Starting", "driverPod": "fulmen-test-driver-1", "conditions": found}


def run(server, *answers):
    """What was told. Each answer is the number of acked messages, or an error."""
    told, asked, left = [], [], list(answers)

    async def read(url):
        asked.append(url)
        answer = left.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return f'fulmen_acked_total{{component="numbers",source_stream=""}} {answer}\n'

    async def wait():
        assert len(server.calls) < 100

    check = Check(server, {"metadata": NAME}, read, told.append, wait)
    try:
        asyncio.run(check.run())
    finally:
        assert not server.there or ("DELETE", PATH) not in server.calls
        assert set(asked) <= {"http://10.0.0.7:9464/metrics"}
    return told


def test_it_ends_when_enough_is_acked():
    server = Server({}, status(Ready="False"), status(Ready="False"), status(Ready="True"))
    told = run(server, ConnectionRefusedError("refused"), 3, 3, 12)
    assert told == [
        "Pending: ",
        "Starting: why Ready",
        "the metrics of fulmen-test-driver-1 at 10.0.0.7 can't be read: refused",
        "messages that are acked: 3",
        "messages that are acked: 12",
    ]


def test_what_an_earlier_one_has_left_is_deleted_first():
    server = Server({}, status(Ready="True"), labels=LABELS)
    run(server, 10)
    assert [method for method, path in server.calls if path == PATH][:3] == ["GET", "DELETE", "GET"]
    assert not server.there


def test_a_topology_of_that_name_that_is_of_somebody_else_stays():
    server = Server({}, labels={"team": "blue"})
    with pytest.raises(CheckFailed, match="'fulmen-test' in namespace 'tools' that is none of"):
        run(server)
    assert {method for method, _ in server.calls} == {"GET"}


def test_a_topology_that_is_stalled_fails():
    with pytest.raises(CheckFailed, match="RStalled: why Stalled"):
        run(Server(status(Ready="False", Stalled="True")))


def test_acked_messages_are_those_of_spouts():
    totals = run_metered(["a b", "c"]).totals
    registry = CollectorRegistry(auto_describe=False)
    registry.register(TopologyCollector(lambda: totals))
    assert acked_in(generate_latest(registry).decode()) == 2


def test_a_topology_that_somebody_else_makes_meanwhile_stays():
    server = Server()
    call = server.call

    async def overtaken(method, path, body=None):
        if method == "POST":
            server.there, server.labels = True, {}
            raise CallFailed(409, "exists", path)
        return await call(method, path, body)

    server.call = overtaken
    with pytest.raises(CallFailed, match="exists"):
        run(server)
    assert server.there


def test_a_pod_that_is_told_to_end_deletes_its_topology(monkeypatch):
    server = Server()
    call = server.call

    async def evicted(method, path, body=None):
        answer = await call(method, path, body)
        if method == "POST":
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)
        return answer

    @asynccontextmanager
    async def api():
        yield server

    server.call = evicted
    monkeypatch.setattr(check_installation, "KubernetesApi", api)
    environ = {
        check_installation.TOPOLOGY_ENV: json.dumps({"metadata": NAME}),
        check_installation.TIMEOUT_ENV: "100",
    }
    said = asyncio.run(check_installation.check(environ))
    assert said == "this pod was told to end, such as by a drain"
    assert not server.there
