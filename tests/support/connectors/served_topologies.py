"""A topology in a thread of the test's process, whose spouts are called over HTTP."""

import http.client
import json
import threading
import time
from contextlib import contextmanager

from fulmen import TopologyBuilder
from fulmen.engine.driver.driver import Driver, Stop
from fulmen.engine.driver.observer import Silent
from fulmen.engine.worker.in_process import InProcessJobs
from fulmen.topology.validation.check import check
from support.servers.ports import is_open
from support.stores.checkpoint import memory_store


class Served:
    """One life of a topology.

    Attributes:
        running: The driver's side of it.
        store: Its checkpoint.
        stop: Says when it is to end.
    """

    def __init__(self, builder, store, fault=None):
        self.store, self.stop = store, Stop()
        self.notes = []
        topology = builder.build() if isinstance(builder, TopologyBuilder) else builder
        jobs = InProcessJobs(fault, store)
        self.running = Driver(
            check(topology, None).runnable(None), jobs, store.uri, observer=self, store=store
        ).start()
        self._thread = threading.Thread(target=self._run, name="served")
        self._thread.start()

    def _run(self):
        try:
            self.running.run(self.stop)
        finally:
            self.running.close()

    def __getattr__(self, name):  # what an observer is told else
        return getattr(Silent(), name)

    def note(self, text):
        self.notes.append(text)

    def wait_until_it_listens(self, port):
        while not is_open(port):
            assert self._thread.is_alive()
            time.sleep(0.01)

    def end(self, drain=False):
        """Have it end: at once, or when all is processed."""
        self.stop.drain = drain
        if not drain:
            self.stop.now = True
        self.running._pinned.woken.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


@contextmanager
def served(builder, store=None, fault=None):
    """Run a topology until the block ends."""
    life = Served(builder, store or memory_store(), fault)
    try:
        yield life
    finally:
        life.end()


class Client:
    """One connection to a server on this machine."""

    def __init__(self, port, timeout=30):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def send(self, body, path="/", method="POST", **headers):
        """Send a request. Returns status, what the JSON says, and the headers."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, text, found = self.send_raw(data, path, method, **headers)
        return status, json.loads(text) if text else None, found

    def send_raw(self, data, path="/", method="POST", **headers):
        """Send a request. Returns status, the bytes of the answer, and the headers."""
        with self.begin(data, path, method, **headers) as response:
            return response.status, response.read(), response.headers

    def begin(self, data, path="/", method="POST", **headers):
        """Send a request. Returns the response, whose content may come later."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, data, named)
        return self.connection.getresponse()

    def close(self):
        self.connection.close()
