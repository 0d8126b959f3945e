"""Joins take many tuples at once, and that is as if each had come alone."""

from math import nan
from unittest import mock

import pytest
from hypothesis import settings

from fulmen import BasicBolt, TopologyBuilder
from fulmen.testing import PAUSE, CollectBolt, ListSpout, run
from fulmen.windows import (
    IntervalJoin,
    LookupJoin,
    RegularJoin,
    TableJoin,
    TemporalJoin,
    WindowJoin,
)
from fulmen.windows.joins.intervals import kept
from support.suite import seeds
from support.windows.joins import CONFIG, INTERVAL, LEFT, RIGHT, SESSIONS, WINDOW

WITH_ID = {**CONFIG, "right": {**RIGHT, "fields": {"b": "n", "by": "by"}, "id": ["by"]}}
UNTIMED = {"left": {**LEFT, "time": None}, "right": {**RIGHT, "time": None}, "key": ["who"]}
WAITING = {**CONFIG, "waitFor": "1970-01-01T00:00:00.020Z", "holdAtMost": 2}
CASES = [
    (WindowJoin, WINDOW, "inner left right full"),
    (WindowJoin, SESSIONS, "inner full"),
    (IntervalJoin, INTERVAL, "inner left right full"),
    (IntervalJoin, {**INTERVAL, "lower": "2ms", "upper": "4ms"}, "full"),
    (TemporalJoin, CONFIG, "inner left"),
    (LookupJoin, CONFIG, "inner left"),
    (LookupJoin, WAITING, "inner left"),
    (TableJoin, WITH_ID, "inner full"),
    (RegularJoin, UNTIMED, "inner left full semi"),
    (RegularJoin, {**CONFIG, "forgetAfter": "10ms"}, "inner full anti"),
]


class Split(BasicBolt):
    outputs = {"orders": ["who", "n", "at"], "payments": ["who", "n", "at", "by"]}  # noqa: RUF012

    def execute(self, tup, collector):
        side, who, n, at, _ = tup.values
        if side == "a":
            collector.emit([who, n, at], "orders")
        else:
            collector.emit([who, n, at, "y" if n else who], "payments")


class SplitChanges(BasicBolt):
    """Some of the payments are taken back, and of some nobody knows."""

    outputs = {"orders": ["who", "n", "at"], "payments": ["who", "n", "at", "is_retraction"]}  # noqa: RUF012

    def execute(self, tup, collector):
        side, who, n, at, now = tup.values
        if side == "a":
            collector.emit([who, n, at], "orders")
        else:
            collector.emit([who, n, at, {0: True, 1: None}.get(now % 7, False)], "payments")


class Singly:
    """What makes a join look at each tuple alone, as any class may that derives from one."""

    def execute(self, tup, collector):
        super().execute(tup, collector)


class SinglyInWindows(Singly, WindowJoin): ...


class SinglyInIntervals(Singly, IntervalJoin): ...


class SinglyByTime(Singly, TemporalJoin): ...


class SinglyLookedUp(Singly, LookupJoin): ...


class SinglyInTables(Singly, TableJoin): ...


class SinglyTakenBack(Singly, RegularJoin): ...


ALONE = (
    SinglyInWindows,
    SinglyInIntervals,
    SinglyByTime,
    SinglyLookedUp,
    SinglyInTables,
    SinglyTakenBack,
)
SINGLY = {cls.__bases__[1]: cls for cls in ALONE}


def any_events(rng):
    """With odd keys and times in some of them, and pauses between batches."""
    odd = rng.random() < 0.3
    keys = ["x", "x", "x", "y", *[1, True, None, nan, ("x", nan), ["no hash"]] * odd]
    events = []
    for _ in range(rng.randint(0, 30)):
        at = rng.choice((None, 10**18, 7.5)) if odd and rng.random() < 0.2 else rng.randint(-20, 40)
        event = rng.choice("aab"), rng.choice(keys), rng.randint(0, 3), at, rng.randint(-5, 40)
        events += [event, *[PAUSE] * (rng.random() < 0.1)]
    return events


def outcome(cls, config, events):
    """All that a join has emitted, on all of its streams together, and what has failed."""
    builder = TopologyBuilder(max_replays=0)
    spout = builder.set_spout("source", ListSpout(events, fields=["side", "who", "n", "at", "now"]))
    spout.set_event_time("now", unit="ms", lag="1ms")
    split = SplitChanges if issubclass(cls, RegularJoin) else Split
    builder.set_bolt("split", split).shuffle_grouping("source")
    join = builder.set_bolt("join", cls).set_config(config)
    for stream in ("orders", "payments"):
        join.global_grouping("split", stream)
    sink = builder.set_bolt("sink", CollectBolt)
    is_timed = cls().needs_times(cls.config_model.model_validate(config))
    late = ["late_left", "late_right"] if is_timed else []
    for stream in ("default", "late", *late):
        sink.shuffle_grouping("join", stream)
    result = run(builder)
    return str((result.collected("sink"), sorted(result.failed("source"), key=str)))


@pytest.mark.matrix(share=1 / 4)
@pytest.mark.parametrize(("cls", "config", "kinds"), CASES)
def test_many_tuples_at_once_are_as_each_alone(cls, config, kinds):
    """Whatever keys and times they have: what is late, what fails, and in which order it comes."""
    takes_late = "allowed_lateness" in cls.config_model.model_fields and config is not SESSIONS
    for seed in seeds.several(settings.default.max_examples // 2):
        with seeds.generator(seed) as rng:
            of_this = {**config, "type": rng.choice(kinds.split())}
            if takes_late:
                of_this["allowedLateness"] = rng.choice(("0", "3ms"))
            events, few = any_events(rng), rng.choice((1, kept.FEW))
            with mock.patch.object(kept, "FEW", few):
                at_once = outcome(cls, of_this, events)
            assert at_once == outcome(SINGLY[cls], of_this, events)
