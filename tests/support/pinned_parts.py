"""Spouts that the driver hosts, and a bolt that counts what arrives."""

import threading

from fulmen import BasicBolt, Spout


class Heard:
    """What spouts were told, by all instances of a test."""

    def __init__(self):
        self.acked, self.failed, self.threads = [], [], set()
        self.gate = threading.Event()
        self.waiting = threading.Event()
        self.closed = threading.Event()


HEARD = Heard()


class Numbers(Spout):
    """Emits 0, 1, 2 … up to the config's `limit`; emits again what failed."""

    outputs = ("number",)
    pinned = True

    def __init__(self):
        self.position, self.again = 0, []

    def open(self, conf, context, collector):
        self.collector, self.limit = collector, conf["limit"]

    def next_tuple(self):
        HEARD.threads.add(threading.current_thread().name)
        if self.again:
            number = self.again.pop()
        elif self.position < self.limit:
            number, self.position = self.position, self.position + 1
        else:
            return False
        self.collector.emit([number], msg_id=self.msg_id(number))
        return True

    def msg_id(self, number):
        return number

    def ack(self, msg_id):
        HEARD.threads.add(threading.current_thread().name)
        HEARD.acked.append(msg_id)

    def fail(self, msg_id, reason):
        HEARD.failed.append((msg_id, reason))
        if reason != "crashed worker":
            self.again.append(msg_id)

    def is_exhausted(self):
        return self.position == self.limit and not self.again


class Gated(Numbers):
    """Waits for a message once its first ones are emitted, as a source with a connection does."""

    def next_tuple(self):
        if self.position == self.limit:
            HEARD.waiting.set()
            HEARD.gate.wait()
        return super().next_tuple()

    def close(self):
        HEARD.closed.set()


class Untracked(Numbers):
    def msg_id(self, number):
        return None


class Seen(BasicBolt):
    """Keeps each number with how often it came; one of them may crash the worker."""

    def execute(self, tup, collector):
        number = tup["number"]
        self.state[number] = self.state.get(number, 0) + 1
