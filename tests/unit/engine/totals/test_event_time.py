"""Why a window or a timer does not fire, in a sentence."""

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.engine.protocol.figures.statistics import AHEAD, UNTIMED, UNUSABLE
from fulmen.engine.protocol.summary import PendingTimers
from fulmen.engine.time.watermarks import SourcePart, SourceTime, Watermarks
from fulmen.engine.totals.event_time import ComponentTime, HeldBy, said, times_of
from fulmen.testing import ListSpout
from support.runs.engine_runs import make_driver

MINUTE = 60_000
NOON = 1_714_564_800_000  # 2024-05-01 12:00:00 UTC
DUE = NOON + 10 * MINUTE
IT = "'counts' has something due at 2024-05-01 12:10:00 UTC: "
MARK = "the watermark is 2024-05-01 12:00:00 UTC"
UNKNOWN = "the watermark is not known yet"
NEEDS = "a time of 2024-05-01 12:10:10 UTC or later"
SET = "; set eventTime.idleTimeout, so that what is silent holds up nothing"
LATE_STREAM = " (3 tuples had no usable one: see its stream '__late')"


def held(part="part 3", newest=NOON, seconds=2.0, **more):
    return HeldBy("orders", part, newest, seconds, lag=10_000, **more)


def unknown(**more):
    return held(newest=None, **more)


@pytest.mark.parametrize(
    ("time", "why", "is_stuck"),
    [
        pytest.param({"due": None}, None, False, id="nothing-is-due"),
        pytest.param(
            {"held_by": None, "watermark": None},
            "there is no watermark, as nothing that it descends from declares eventTime; declare it"
            " of the source",
            True,
            id="no-event-time",
        ),
        pytest.param({"watermark": DUE}, "it fires in the next batch", False, id="due"),
        pytest.param(
            {"held_by": None, "has_ended": True},
            "its sources are exhausted, and it fires when the topology is drained",
            False,
            id="exhausted",
        ),
        pytest.param(
            {"held_by": HeldBy("orders", is_clock=True)},
            f"{MARK}, and goes on with the clock",
            False,
            id="the-clock",
        ),
        pytest.param(
            {"held_by": held()},
            f"{MARK}, and it needs a tuple of 'orders' with {NEEDS}",
            False,
            id="one-part",
        ),
        pytest.param(
            {"held_by": held(others=4)},
            f"{MARK}, and it needs a tuple of part 3 of 'orders' with {NEEDS}",
            False,
            id="several-parts",
        ),
        pytest.param(
            {"held_by": held(seconds=300)},
            f"{MARK}, held by 'orders', which has had no tuple for 5 min; it needs one with"
            f" {NEEDS}",
            True,
            id="nothing-comes-any-more",
        ),
        pytest.param(
            {"held_by": held(seconds=300, others=4)},
            f"{MARK}, held by part 3 of 'orders', which has had no tuple for 5 min{SET}",
            True,
            id="a-silent-part",
        ),
        pytest.param(
            {"held_by": held(seconds=30, others=4, idle_timeout="1m")},
            f"{MARK}, held by part 3 of 'orders', which has had no tuple for 30 s; it is left out"
            " after its idleTimeout, 1m",
            False,
            id="a-silent-part-with-a-timeout",
        ),
        pytest.param(
            {"held_by": held(part=None, idle_timeout="1m")},
            f"{MARK}, and all parts of 'orders' are idle; it needs a tuple of it with {NEEDS}",
            False,
            id="all-are-idle",
        ),
        pytest.param(
            {"held_by": held(part=None, idle_timeout="1m", advances=True)},
            f"{MARK}, and goes on with the clock, as all parts of 'orders' are idle",
            False,
            id="all-are-idle-and-time-goes-on",
        ),
        pytest.param(
            {"held_by": held(part=None), "watermark": None},
            f"{UNKNOWN}, as no tuple of 'orders' has had a time yet",
            False,
            id="nothing-has-come",
        ),
        pytest.param(
            {"held_by": unknown(seconds=7300, untimed=3), "watermark": None},
            f"{UNKNOWN}, as no tuple of 'orders' has had a time yet{LATE_STREAM}",
            True,
            id="no-tuple-has-a-time",
        ),
        pytest.param(
            {"held_by": unknown(part="task 1", others=1), "watermark": None},
            f"{UNKNOWN}, as no tuple of task 1 of 'orders' has had a time yet{SET}",
            False,
            id="a-task-without-anything",
        ),
        pytest.param(
            {"held_by": held(part="part /b.log", is_unread=True, seconds=999, others=1)},
            f"{MARK}, as part /b.log of 'orders' is not read to its end yet",
            False,
            id="a-file-that-is-read",
        ),
    ],
)
def test_why_it_does_not_fire_is_said(time, why, is_stuck):
    found = ComponentTime(**{"component": "counts", "watermark": NOON, "due": DUE, **time})
    assert found.why == (why and IT + why)
    assert found.is_stuck is is_stuck


def test_times_are_said_for_people():
    assert said(NOON + 5) == "2024-05-01 12:00:00.005 UTC"
    assert said(10**18) == "1,000,000,000,000,000,000 ms after 1970"


class Plain(BasicBolt):
    """Passes nothing on."""

    outputs = ("at",)

    def execute(self, tup, collector):
        """Nothing."""


SOURCES = {
    "fast": SourceTime(NOON, {"task 0": SourcePart(NOON, 5.0)}, "task 0"),
    "slow": SourceTime(5, {"task 0": SourcePart(5, 1.0), "task 1": SourcePart(9, 5.0)}, "task 0"),
}


def topology():
    builder = TopologyBuilder()
    for name, tasks in (("fast", 1), ("slow", 2)):
        spout = builder.set_spout(name, ListSpout([], fields=["at"]), tasks)
        spout.set_event_time("at", lag="1s", idle_timeout="1m")
    builder.set_spout("plain", ListSpout([], fields=["at"]))
    builder.set_bolt("pass", Plain).shuffle_grouping("slow")
    both = builder.set_bolt("both", Plain, 2)
    both.shuffle_grouping("fast").shuffle_grouping("pass").shuffle_grouping("plain")
    builder.set_bolt("parse", Plain).shuffle_grouping("plain").set_event_time("at")
    builder.set_bolt("behind", Plain).shuffle_grouping("parse")
    builder.set_bolt("timed", Plain).shuffle_grouping("plain")
    builder.set_bolt("rest", Plain).shuffle_grouping("plain")
    return make_driver(builder).unstarted_totals().placed


def test_a_bolt_waits_for_what_is_furthest_behind_of_all_that_it_descends_from():
    placed = topology()
    tasks = {name: placed.plan.tasks(name) for name in ("both", "timed")}
    timers = {
        tasks["both"][0]: PendingTimers(DUE, None, 3),
        tasks["both"][1]: PendingTimers(DUE + 1, 2.0, 4),
        tasks["timed"][0]: PendingTimers(7, None, 1),
    }
    counts = {("slow", UNTIMED, AHEAD): 2, ("slow", UNTIMED, UNUSABLE): 1}
    marks = Watermarks(SOURCES, {"both": 5, "pass": 5})
    found = times_of(placed, marks, timers, counts, clock=11.0)
    slow = HeldBy("slow", "task 0", 5, 10.0, others=1, lag=1000, idle_timeout="1m", untimed=3)
    assert found["both"] == ComponentTime("both", 5, slow, timers=7, due=DUE)
    assert found["pass"] == ComponentTime("pass", 5, slow)
    assert found["slow"] == ComponentTime("slow", 5, slow)
    assert found["fast"].held_by == HeldBy("fast", "task 0", NOON, 6.0, lag=1000, idle_timeout="1m")
    assert found["parse"] == ComponentTime("parse", None, HeldBy("parse"))
    assert found["behind"] == ComponentTime("behind", None, HeldBy("parse"))
    assert found["timed"] == ComponentTime("timed", None, None, timers=1, due=7)
    assert found.keys() == {"fast", "slow", "pass", "both", "parse", "behind", "timed"}


def test_what_has_ended_is_not_waited_for():
    placed = topology()
    some = times_of(placed, Watermarks(SOURCES, ended=frozenset({"slow"})), {}, {}, 11.0)
    assert some["both"].held_by.component == "fast"
    ended = Watermarks(SOURCES, ended=frozenset({"slow", "fast"}))
    none = times_of(placed, ended, {}, {}, 11.0)
    assert none["both"] == ComponentTime("both", None, None, has_ended=True)
