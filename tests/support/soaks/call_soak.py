"""Random kills of a topology that answers requests and calls: its worker processes, and its driver.

Clients never pause. What gets no answer, or 503, is sent again: requests with the same key. Each
answer must be right, and each request a row, and one.

    make soak SOAK_ARGS="--calls --kills 120"
"""

import http.client
import itertools
import json
import random
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path

import yaml

from support.connectors.served_topologies import Client
from support.docs.examples import commands
from support.lives.example_lives import ExampleLife
from support.lives.processes import DRIVER, PYTHON
from support.servers.ports import free_port

CLIENTS, BETWEEN, PATIENCE_SECONDS = 2, 3, 300


class Clients:
    """Some that call, and some whose requests become rows.

    Attributes:
        answers: How many each kind has got.
        wrong: Answers that are not right.
        sent: The ids of requests that got 200.
        give_up: Whether what has no answer yet is not sent again.
    """

    def __init__(self, port, call_port, right):
        self._right, self._is_over, self._more = right, False, threading.Condition()
        self.give_up = False
        self._ids = itertools.count()
        self.answers, self.wrong, self.sent = Counter(), [], []
        ways = [(port, self._request), (call_port, self._call)] * CLIENTS
        self._threads = [threading.Thread(target=self._run, args=way) for way in ways]
        for thread in self._threads:
            thread.start()

    def _run(self, port, ask):
        rng = random.Random(port)
        while not self._is_over:
            ask(port, rng)

    def _call(self, port, rng):
        question = rng.choice(sorted(self._right))
        self._ask("call", port, "/reach", json.loads(question), self._right[question])

    def _request(self, port, _rng):
        number = next(self._ids)
        headers = {"Idempotency_Key": f"k{number}"}
        if self._ask("request", port, "/", {"id": number}, {"messages": 1}, **headers):
            self.sent.append(number)

    def _ask(self, kind, port, path, body, right, **headers):
        """Send one until it is answered. Returns whether it was, and right."""
        answer = None
        while answer is None and not self.give_up:
            with closing(Client(port, PATIENCE_SECONDS)) as client:
                try:
                    answer = client.send(body, path, **headers)[:2]
                except (OSError, http.client.HTTPException):
                    time.sleep(0.05)  # as a client of a server that is away
            if answer is not None and answer[0] == 503:
                answer = None
        with self._more:
            if answer not in (None, (200, right)):
                self.wrong.append((kind, body, answer))
            self.answers[kind] += answer is not None
            self._more.notify_all()
        return answer == (200, right)

    def go_on(self):
        """Wait until each kind has some answers more."""
        wanted = {kind: self.answers[kind] + BETWEEN + CLIENTS for kind in ("call", "request")}
        with self._more:
            is_there = lambda: self.wrong or all(self.answers[k] >= n for k, n in wanted.items())  # noqa: E731
            assert self._more.wait_for(is_there, PATIENCE_SECONDS), self.answers
        assert self.wrong == []

    def end(self):
        """Wait for the answers to what was sent."""
        self._is_over = True
        for thread in self._threads:
            thread.join()


@contextmanager
def running(folder, workers):
    """The topology, and its clients."""
    port, call_port = free_port(), free_port()
    right = {line.split("'")[1]: int(out) for line, out in commands("reach") if " call " in line}
    life = ExampleLife("reach", folder, {}, [f"--workers={workers}"], seconds=PATIENCE_SECONDS)
    write(life.folder, port, call_port)
    with life.running():
        clients = Clients(port, call_port, right)
        try:
            yield life, clients
        finally:
            clients.give_up = True
            clients.end()


def write(folder, port, call_port):
    """Add requests that become rows to the example, and have it listen at these ports."""
    file = folder / "topology.yaml"
    document = yaml.safe_load(file.read_text())
    spec = document["spec"]
    spec["messageTimeoutSeconds"] = PATIENCE_SECONDS
    spec["spouts"][0]["config"] |= {"port": call_port, "timeout": f"{PATIENCE_SECONDS}s"}
    ids = {"type": "json", "fields": {"id": "int64"}, "required": ["id"]}
    config = {"port": port, "format": ids, "timeout": f"{PATIENCE_SECONDS}s"}
    source = "fulmen.connectors.http.HttpSpout"
    spec["spouts"].append({"name": "requests", "class": source, "config": config})
    table = {"path": str(folder / "rows.db"), "table": "rows", "create": {"id": "INTEGER"}}
    sink = {"name": "rows", "class": "fulmen.connectors.sqlite.SqliteSink"}
    inputs = [{"from": "requests", "grouping": {"type": "shuffle"}}]
    sink |= {"inputs": inputs, "config": {**table, "guarantee": "exactly-once"}}
    spec["bolts"].append(sink)
    file.write_text(yaml.safe_dump(document, sort_keys=False))


def soak(folder, seed, kills, workers=2):
    """Kill until so many processes were; then see what is there.

    Returns:
        Figures, for people.
    """
    rng, killed, began = random.Random(seed), Counter(), time.monotonic()
    with running(Path(folder), workers) as (life, clients):
        clients.go_on()
        while killed.total() < kills:
            kind = rng.choice([DRIVER, PYTHON])
            life.kill(kind, rng)
            killed[kind] += 1
            clients.go_on()
            if killed.total() % 10 == 0:
                print(f"after {dict(killed)}: {dict(clients.answers)}", flush=True)
        clients.end()
        life.end()
    assert clients.wrong == []
    with closing(sqlite3.connect(life.folder / "rows.db")) as db:
        rows = sorted(number for (number,) in db.execute("SELECT id FROM rows"))
    assert rows == sorted(clients.sent), "a request is not there, or twice"
    kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(killed.items()))
    answers = ", ".join(f"{n} of {kind}s" for kind, n in sorted(clients.answers.items()))
    return f"{kinds} killed; right answers: {answers}; {time.monotonic() - began:.0f} seconds"


def main(seed, kills):
    """Run it, and print what came of it."""
    print(f"seed {seed}, calls", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(f"seed {seed}: {soak(folder, seed, kills)}")
