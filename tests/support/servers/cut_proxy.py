"""A proxy on loopback whose connections a test can cut, at once or after so many bytes."""

import socket
import threading
from contextlib import contextmanager, suppress


class CutProxy:
    """Passes bytes on to a server, both ways, until a test cuts the connections.

    Attributes:
        port: Where it listens.
        cuts: How many connections were cut so far.
    """

    def __init__(self, target_port, address="127.0.0.1"):
        self._target = address, target_port
        self._lock = threading.Lock()
        self._pairs = []
        self._left = None
        self._refuses = False
        self.cuts = 0
        self._listener = socket.create_server((address, 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Cut all connections now. New ones are passed on."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
            self.cuts += len(pairs)
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def cut_after(self, sent):
        """Cut all connections once clients have sent so many bytes more: in the middle of a write.

        Args:
            sent: Bytes. The last of them arrives at the server, the next does not.
        """
        with self._lock:
            self._left = sent

    @contextmanager
    def down(self):
        """While this lasts, there are no connections."""
        self._refuses = True
        self.cut()
        try:
            yield
        finally:
            self._refuses = False

    def close(self):
        """Cut everything, for good."""
        self._listener.close()
        self.cut()

    def _accept(self):
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                if self._refuses:
                    client.close()
                    continue
                try:
                    server = socket.create_connection(self._target)
                except OSError:  # the server is away
                    client.close()
                    continue
                with self._lock:
                    self._pairs.append((client, server))
                for way in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pass_on, args=way, daemon=True).start()

    def _pass_on(self, source, sink, counts):
        with source, suppress(OSError):
            while data := source.recv(1 << 16):
                allowed = self._allowed(len(data)) if counts else len(data)
                sink.sendall(data[:allowed])
                if allowed < len(data):
                    self.cut()
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def _allowed(self, size):
        """How many of so many bytes may pass before the cut."""
        with self._lock:
            if self._left is None or self._left >= size:
                if self._left is not None:
                    self._left -= size
                return size
            allowed, self._left = self._left, None
            return allowed


@contextmanager
def cut_proxy(target_port, address="127.0.0.1"):
    """One in front of a server on this machine."""
    proxy = CutProxy(target_port, address)
    try:
        yield proxy
    finally:
        proxy.close()
