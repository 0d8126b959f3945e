"""Storm's reach: how many people follow those who have tweeted a URL."""

from fulmen import BasicBolt
from fulmen.connectors.http import CallBolt

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
