"""Calls while processes of the topology are killed: each is answered right, and once."""

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.connectors.served_topologies import Client
from support.docs.examples import commands
from support.lives.example_lives import ExampleLife
from support.lives.processes import PYTHON
from support.servers.ports import free_port, is_open
from support.suite.seeds import FIRST

CLIENTS, KILLS, BETWEEN = 4, 4, 10

pytestmark = pytest.mark.timeout(400)


class Callers:
    """Clients that call all the time.

    Attributes:
        answers: What was asked, with status and answer, in the order of the answers.
    """

    def __init__(self, port, questions):
        self._port, self._questions = port, questions
        self._more, self._is_over = threading.Condition(), False
        self.answers = []

    def call(self, rng):
        """Call one after another until it is over."""
        client = Client(self._port, timeout=120)
        while not self._is_over:
            question = rng.choice(self._questions)
            status, answer, _ = client.send(json.loads(question), "/reach")
            with self._more:
                self.answers.append((question, status, answer))
                self._more.notify()
        client.close()

    def wait_for_more(self, count):
        wanted = len(self.answers) + count
        with self._more:
            assert self._more.wait_for(lambda: len(self.answers) >= wanted, 200)

    def end(self):
        self._is_over = True


@pytest.mark.thorough
@pytest.mark.matrix(share=1 / 4, name="requests under kills, and very many")
@pytest.mark.parametrize("workers", [1, 2])
def test_each_call_is_answered_right_while_workers_are_killed(tmp_path, workers):
    rng, port = random.Random(FIRST), free_port()
    right = {line.split("'")[1]: int(out) for line, out in commands("reach") if " call " in line}
    options = [f"spec.spouts[reach].config.{name}" for name in (f"port={port}", "timeout=120s")]
    options = [word for one in options for word in ("--set", one)]
    options += ["--set", "spec.messageTimeoutSeconds=120"]
    life = ExampleLife("reach", tmp_path, {}, [*options, f"--workers={workers}"])
    callers = Callers(port, sorted(right))
    with life.running(), ThreadPoolExecutor(CLIENTS) as pool:
        life.wait_for(lambda: is_open(port), "an open port")
        calling = [pool.submit(callers.call, random.Random(n)) for n in range(CLIENTS)]
        try:
            for _ in range(KILLS):
                callers.wait_for_more(BETWEEN)
                life.kill(PYTHON, rng)
            callers.wait_for_more(BETWEEN)
        finally:
            callers.end()
        for one in calling:
            one.result()
        life.end()
    assert [one for one in callers.answers if one[1:] != (200, right[one[0]])] == []
    assert "run again" in life.output()
