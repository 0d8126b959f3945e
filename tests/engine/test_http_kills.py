"""A driver that serves HTTP is killed again and again: each request is a row, and one."""

import http.client
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from support.connectors.served_topologies import Client
from support.lives import http_life
from support.servers.ports import free_port
from support.suite.seeds import generator, several

CLIENTS, KILLS, PER_KILL = 4, 3, 10
PATIENCE_SECONDS = 100


class Senders:
    """Clients that send one request after another, each with a key until it is answered.

    Attributes:
        answered: The ids of requests that got 200.
    """

    def __init__(self, port):
        self._port, self._more = port, threading.Condition()
        self._is_over = self._gives_up = False
        self._pause = threading.Event()
        self.answered, self.wrong = set(), []
        self._threads = [threading.Thread(target=self._send, args=(n,)) for n in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _send(self, client):
        number = 0
        while not self._is_over:
            number += 1
            self._send_until_it_is_taken(1000 * client + number)

    def _send_until_it_is_taken(self, one):
        while not self._gives_up:
            with closing(Client(self._port)) as client:
                try:
                    status, said, _ = client.send({"id": one}, Idempotency_Key=f"k{one}")
                except (OSError, http.client.HTTPException):
                    self._pause.wait(0.05)
                    continue
            if status == 200:
                break
            if status != 503:
                self.wrong.append((one, status, said))
                break
        with self._more:
            self.answered.add(one)
            self._more.notify()

    def wait_for(self, count):
        with self._more:
            assert self._more.wait_for(lambda: len(self.answered) >= count, PATIENCE_SECONDS)

    def end(self):
        self._is_over = True
        for thread in self._threads:
            thread.join()


@contextmanager
def life(port, folder):
    command = [sys.executable, http_life.__file__, str(port), str(folder)]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.thorough
@pytest.mark.matrix(share=1 / 4, name="requests under kills, and very many", cell="rows")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", several(1))
def test_what_was_answered_is_there_once_whatever_is_killed(tmp_path, seed):
    port = free_port()
    senders = Senders(port)
    try:
        with generator(seed) as rng:
            for _ in range(KILLS):
                wanted = len(senders.answered) + rng.randrange(1, PER_KILL)
                with life(port, tmp_path):
                    senders.wait_for(wanted)
        with life(port, tmp_path) as process:
            senders.wait_for(len(senders.answered) + 1)
            senders.end()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    finally:
        senders._gives_up = True
        senders.end()
    assert senders.wrong == []
    with closing(sqlite3.connect(Path(tmp_path, "rows.db"))) as rows:
        assert sorted(one for (one,) in rows.execute("SELECT id FROM rows")) == sorted(
            senders.answered
        )
