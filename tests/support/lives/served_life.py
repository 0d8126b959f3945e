"""The life of a source that serves HTTP, and its clients."""

from concurrent.futures import ThreadPoolExecutor

from support.connectors.served_topologies import Client
from support.lives.source_life import SourceLife


class ServedLife(SourceLife):
    """A source, and clients that wait for its answers."""

    def __init__(self, kind, max_spout_pending=None, **options):
        super().__init__(kind, {"port": 0, **options}, max_spout_pending=max_spout_pending)
        self.pool = ThreadPoolExecutor(8)
        self.clients = []

    @property
    def listener(self):
        return self.source.listener

    def begin(self):
        self.start()
        self.turn()
        return self

    def post(self, body, **named):
        """Send a request. Returns the future of its answer, once it waits for the spout."""
        return self._sent("send", body, named)

    def post_raw(self, body, **named):
        """As `post`; the answer has the bytes that came."""
        return self._sent("send_raw", body, named)

    def _sent(self, how, body, named):
        client = Client(self.listener.port, timeout=10)
        self.clients.append(client)
        queued = self.listener.queued
        answer = self.pool.submit(getattr(client, how), body, **named)
        while self.listener.queued == queued and not answer.done():
            pass
        return answer

    def open_call(self, body, **headers):
        """Send a call. Returns the future of the response, whose content may come later."""
        return self._sent("begin", body, {"path": "/source", **headers})

    def give(self, *results):
        """A commit has results of the only call that is open."""
        [name] = self.source._calls
        self.source.context.signals.give_returned([(name, one) for one in results])

    def lose(self):
        """Lose the process: nobody answers any more."""
        self.listener._server.close(0)

    def end(self):
        if self.source is not None:
            self.source.close()
        for client in self.clients:
            client.close()
        self.pool.shutdown()
