"""Storm's reach: how many people follow those who have tweeted a URL."""

import threading

from fulmen import BasicBolt
from fulmen.connectors.http import CallBolt, CallSpout

TWEETERS = {"a.com": ["ann", "bob", "cyd"], "b.com": ["bob"]}
FOLLOWERS = {
    "ann": ["dan", "eve", "fay"],
    "bob": ["eve", "gus"],
    "cyd": ["dan", "hal", "ivy", "joe"],
}
REACH = {"a.com": 7, "b.com": 2}


class Tweeters(BasicBolt):
    outputs = ("call", "tweeter")

    def execute(self, tup, collector):
        if tup["url"] == "fails.com":
            raise ValueError("nobody knows it")
        for tweeter in TWEETERS.get(tup["url"], ()):
            collector.emit([tup["call"], tweeter])


class Followers(BasicBolt):
    outputs = ("call", "follower")

    def execute(self, tup, collector):
        for follower in FOLLOWERS[tup["tweeter"]]:
            collector.emit([tup["call"], follower])


class Distinct(CallBolt):
    outputs = ("call", "count")

    def finish(self, call, tuples):
        yield [len({tup["follower"] for tup in tuples})]


class Total(CallBolt):
    outputs = ("call", "reach")

    def finish(self, call, tuples):
        yield [sum(tup["count"] for tup in tuples)]


class Twice(BasicBolt):
    outputs = ("call", "n")

    def execute(self, tup, collector):
        for n in range(2):
            collector.emit([tup["call"], n])


class Asked(BasicBolt):
    """Returns what was asked, unless that is "fails"."""

    outputs = ("call", "value")

    def execute(self, tup, collector):
        if tup["value"] == "fails":
            raise ValueError("it fails")
        collector.emit([tup["call"], tup["value"]])


GATE = threading.Event()
FINISHED = []


class Gated(BasicBolt):
    """Passes calls on once the gate is open."""

    outputs = ("call", "value")

    def execute(self, tup, collector):
        GATE.wait()
        collector.emit([tup["call"], tup["value"]])


class Finishing(CallBolt):
    """Notes which calls it has finished."""

    outputs = ("call", "value")

    def finish(self, call, tuples):
        FINISHED.extend(tup["value"] for tup in tuples)
        yield [tup["value"] for tup in tuples]


class Watched(CallSpout):
    """A source of calls that tests look into."""

    lives = ()

    def connect(self):
        super().connect()
        Watched.lives = (*Watched.lives, self)
