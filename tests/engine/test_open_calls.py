"""Ten thousand calls that are open at once."""

import json
import subprocess
import sys
from contextlib import closing

import pytest

from fulmen import TopologyBuilder
from fulmen.connectors.http import Return
from support.connectors import many_calls
from support.connectors.served_topologies import Client, served
from support.parts.calling_parts import GATE, Gated, Watched
from support.runs.spark_runs import wait_until
from support.servers.ports import free_port

COUNT = 10_000
CONFIG = {"maxConnections": COUNT + 10, "timeout": "300s"}


@pytest.mark.thorough
@pytest.mark.matrix(share=1 / 4, name="requests under kills, and very many", cell="many")
@pytest.mark.timeout(600)
def test_ten_thousand_calls_may_be_open_and_each_gets_its_answer():
    port = free_port()
    builder = TopologyBuilder(message_timeout_seconds=300)
    builder.set_spout("gated", Watched).set_config({"port": port, **CONFIG})
    builder.set_bolt("gate", Gated).shuffle_grouping("gated")
    builder.set_bolt("answers", Return).shuffle_grouping("gate")
    GATE.clear()
    with served(builder) as life:
        life.wait_until_it_listens(port)
        listener = Watched.lives[-1].listener
        command = [sys.executable, many_calls.__file__, f"http://127.0.0.1:{port}/gated"]
        try:
            with subprocess.Popen([*command, str(COUNT)], stdout=subprocess.PIPE) as clients:
                is_full = lambda: listener._waiting == COUNT or clients.poll() is not None  # noqa: E731
                wait_until(is_full, "ten thousand open calls", 300)
                with closing(Client(port)) as one_more:
                    status, said, headers = one_more.send(0, "/gated")
                GATE.set()
                answers = json.loads(clients.stdout.read())
        finally:
            GATE.set()
    assert answers == {"200 right": COUNT}
    assert (status, headers["Retry-After"]) == (429, "1")
    assert said["error"] == f"{COUNT} messages are not processed yet"
