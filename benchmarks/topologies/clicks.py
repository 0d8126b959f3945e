"""The components of the benchmarks of windows: clicks of many users, by event time."""

from itertools import accumulate
from random import Random

import numpy as np
import pyarrow as pa

from fulmen import ArrowSpout, BasicBolt, Spout

EVENTS_PER_MS = 100
"""Clicks a millisecond of event time: a million in a window of 10 s."""
DRAWN = 1 << 17
ARROW_CLICKS = 10_000
"""So many of them at once, where they come as Arrow."""


def users(keys, exponent):
    """Users at random: each as often as another, or the n-th one as 1 / n**exponent says."""
    random = Random(7)
    weights = list(accumulate(n**-exponent for n in range(1, keys + 1)))
    drawn = random.choices(range(keys), cum_weights=weights, k=max(DRAWN, 4 * keys))
    return [f"user-{one}" for one in drawn]


class Clicks(Spout):
    """A click after the other, as fast as they are taken."""

    outputs = ("user", "at")

    def __init__(self):
        self.position = 0

    transient = ("users",)

    def open(self, conf, context, collector):
        """Draw the users."""
        self.collector = collector
        self.users = users(conf["keys"], conf.get("exponent", 0.0))

    def next_tuple(self):
        """One click."""
        k = self.position
        self.position = k + 1
        self.collector.emit([self.users[k % len(self.users)], k // EVENTS_PER_MS], msg_id=k)


class ArrowClicks(ArrowSpout):
    """The same clicks, as record batches."""

    outputs = ("user", "at")

    def __init__(self):
        self.position = 0

    transient = ("users",)

    def open(self, conf, context, collector):
        """Draw the users."""
        self.collector = collector
        self.users = pa.array(users(conf["keys"], conf.get("exponent", 0.0)))

    def next_tuple(self):
        """Some thousand clicks."""
        ids = np.arange(self.position, self.position + ARROW_CLICKS)
        self.position += ARROW_CLICKS
        some = self.users.take(pa.array(ids % len(self.users)))
        batch = pa.record_batch({"user": some, "at": ids // EVENTS_PER_MS})
        self.collector.emit(batch, msg_ids=ids)


class Count(BasicBolt):
    """Counts clicks by user, without windows."""

    def execute(self, tup, collector):
        """Count one click."""
        user = tup.values[0]
        self.state[user] = self.state.get(user, 0) + 1


class Nowhere(BasicBolt):
    """Takes what windows emit."""

    def execute(self, tup, collector):
        """Do nothing."""


class EachUser(Clicks):
    """A click of each user in turn."""

    def open(self, conf, context, collector):
        """Name the users."""
        self.collector = collector
        self.users = [f"user-{n}" for n in range(conf["keys"])]


class Timed(BasicBolt):
    """Sets a timer for each user, a day ahead."""

    def prepare(self, conf, context):
        """Keep the timers."""
        self.timers = context.timers

    def execute(self, tup, collector):
        """Set one."""
        self.timers.set(tup["user"], tup["at"] + 86_400_000)

    def on_timer(self, key, at, collector):
        """Nothing is due while this is measured."""
