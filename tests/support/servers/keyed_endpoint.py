"""An endpoint of HTTP that honours idempotency keys: a process that can be killed.

    python keyed_endpoint.py PORT DATABASE

`POST /TABLE` adds a row, in one transaction with its key. A key that it has seen changes nothing,
and has the same answer. A row whose amount is too high is refused.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

from aiohttp import web

from support.parts.sinking_parts import REFUSED
from support.runs.spark_runs import wait_until
from support.servers.ports import free_port, is_open

HEADER = "Idempotency-Key"
START_SECONDS = 60


def application(path):
    """The endpoint, with all that it knows in a file."""
    database = sqlite3.connect(path)

    async def add(request):
        key, body = request.headers[HEADER], await request.read()
        with database:
            seen = database.execute("SELECT body FROM rows WHERE key = ?", [key]).fetchone()
            if seen is not None:
                same = seen[0] == body
                return web.Response(status=200 if same else 409)
            if json.loads(body).get("amount", 0) >= REFUSED:
                return web.Response(status=422, text="the amount is too high")
            database.execute(
                "INSERT INTO rows VALUES (?, ?, ?)", [key, request.match_info["table"], body]
            )
        return web.Response(status=201)

    made = web.Application()
    made.router.add_post("/{table}", add)
    return made


class KeyedEndpoint:
    """The process, which can be killed and started again. What it has answered stays.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, folder):
        self._at, self.port, self._process = str(folder / "endpoint.db"), free_port(), None
        with closing(sqlite3.connect(self._at)) as database, database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE rows (key PRIMARY KEY, name, body)")

    def rows(self, table):
        """The bodies of all rows of a table, in their order."""
        with closing(sqlite3.connect(self._at, timeout=60)) as database:
            statement = "SELECT body FROM rows WHERE name = ? ORDER BY rowid"
            return [body for (body,) in database.execute(statement, [table])]

    def start(self):
        """Start it, and wait until it answers."""
        path = os.pathsep.join(one for one in sys.path if one)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.servers.keyed_endpoint", str(self.port), self._at],
            env=os.environ | {"PYTHONPATH": path},
        )
        wait_until(lambda: is_open(self.port), "the endpoint", START_SECONDS)

    def kill(self):
        """Kill it."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@contextmanager
def running_endpoint(folder):
    """An endpoint that runs, and is killed at the end."""
    endpoint = KeyedEndpoint(folder)
    endpoint.start()
    try:
        yield endpoint
    finally:
        endpoint.kill()


if __name__ == "__main__":
    web.run_app(application(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), print=None)
