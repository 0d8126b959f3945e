"""A real Redis for tests, on a free port, in a folder that is removed afterwards.

It can be killed and started again, and writes each change to its disk before it answers. Where the
binary is absent, tests that use it are skipped and say so (in CI that is a failure).
"""

import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from support.runs.spark_runs import wait_until
from support.servers.ports import free_port, is_open

PASSWORD = "s3cret/word"


class RedisServer:
    """One that can be killed and started again. Its data stay.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, folder, settings=()):
        self.port, self._settings = free_port(), settings
        self._folder, self._process = folder, None

    @property
    def url(self):
        """How everybody connects."""
        return self.url_of("default", PASSWORD)

    def url_of(self, user, password):
        """How somebody connects."""
        return f"redis://{user}:{password.replace('/', '%2F')}@127.0.0.1:{self.port}/0"

    @property
    def runs(self):
        """Whether its process is alive."""
        return self._process.poll() is None

    def client(self):
        """For a test's own commands."""
        return redis.Redis(port=self.port, password=PASSWORD, decode_responses=True)

    def start(self):
        """Start it, and wait until it answers."""
        settings = ("--bind", "127.0.0.1", "--requirepass", PASSWORD, "--save", "")
        settings += ("--appendonly", "yes", "--appendfsync", "always")
        if "--cluster-enabled" in self._settings:  # by default a port that may not exist
            settings += ("--cluster-port", str(free_port()))
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *(binary(), "--port", str(self.port), "--dir", str(self._folder)),
                    *(*settings, *self._settings),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._answers, "Redis's start")

    def commands(self):
        """All that was written, from its log, which `kill` does not harm."""
        logs = self._folder.glob("appendonlydir/*.incr.aof")
        for log in sorted(logs, key=lambda path: int(path.name.split(".")[-3])):
            yield from parsed(log)

    def _answers(self):
        assert self._process.poll() is None, (self._folder / "log").read_text()
        if not is_open(self.port):
            return False
        with self.client() as client:
            try:
                return client.ping()
            except redis.ConnectionError:  # or it is still loading
                return False

    def kill(self):
        """End it as `kill -9` does."""
        self._process.kill()
        self._process.wait()

    def end(self):
        """Kill it if it runs."""
        if self._process is not None and self.runs:
            self.kill()


def parsed(log):
    """The commands in an append-only file of Redis, up to one that is not whole."""
    data, position = log.read_bytes(), 0
    while (end := data.find(b"\r\n", position)) > 0 and data[position : position + 1] == b"*":
        count, position = int(data[position + 1 : end]), end + 2
        parts = []
        for _ in range(count):
            end = data.find(b"\r\n", position)
            if end < 0:
                return
            first, size = end + 2, int(data[position + 1 : end])
            parts.append(data[first : first + size])
            position = first + size + 2
        if position > len(data):
            return
        yield parts


def binary():
    """The path of `redis-server`."""
    path = shutil.which("redis-server")
    if path is None:
        pytest.skip(
            "Redis was not tried: there is no redis-server (Debian: apt-get install"
            " --no-install-recommends redis-server)"
        )
    return path


@contextmanager
def running_redis(*settings):
    """One that is empty, with these more settings."""
    binary()
    with tempfile.TemporaryDirectory(prefix="fulmen-redis-") as name:
        server = RedisServer(Path(name), settings)
        try:
            server.start()
            yield server
        finally:
            server.end()
