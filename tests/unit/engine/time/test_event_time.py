"""The watermark in topologies that run: what bolts see, and what goes to the late stream."""

import time
from datetime import UTC, datetime
from typing import ClassVar

import pytest

from fulmen import BasicBolt, Spout, Stream, TopologyBuilder
from fulmen.errors import TopologyFailed
from fulmen.testing import ABORT, EOF, PAUSE, CollectBolt, ListSpout, ManualClock, Message, run


class Watching(BasicBolt):
    """Keeps the watermark that it saw with each tuple."""

    transient: ClassVar = ("context",)

    def prepare(self, conf, context):
        self.context = context

    def execute(self, tup, collector):
        seen = self.state.get("seen", ())
        self.state["seen"] = (*seen, (tup["at"], self.context.batch.watermark))


def topology(items, spout=ListSpout, tasks=1, **event_time):
    builder = TopologyBuilder()
    declarer = builder.set_spout("source", spout(items, fields=["at"]), tasks)
    declarer.set_event_time("at", **{"unit": "ms", **event_time})
    builder.set_bolt("watch", Watching).shuffle_grouping("source")
    builder.set_bolt("late", CollectBolt).shuffle_grouping("source", "__late")
    return builder


def seen(result):
    return result.state("watch")["seen"]


def test_a_batch_sees_the_watermark_of_the_batch_before_it_closed():
    items = [10, PAUSE, 30, 20, PAUSE, 25, PAUSE, 40]
    result = run(topology(items, lag="5ms"))
    # what 10 came to is told with 30, and closed when that batch is committed
    assert seen(result) == ((10, None), (30, None), (20, None), (25, 5), (40, 25))


def test_the_watermark_survives_crashes_and_restarts():
    items = [10, PAUSE, 30, ABORT, PAUSE, 20, EOF, 40]
    first = run(topology(items))
    second = run(topology(items), checkpoint=first)
    assert seen(second)[:3] == ((10, None), (30, None), (20, 10))
    assert seen(second)[3] == (40, 30)


def test_the_task_that_is_furthest_behind_holds_the_watermark():
    items = [100, 1, PAUSE, PAUSE, 200, 2, PAUSE, PAUSE, 300, 3, PAUSE, PAUSE, 400, 4]
    result = run(topology(items, tasks=2))
    assert 1 <= max(at for _, at in seen(result) if at is not None) <= 4


class Parted(ListSpout):
    """Its messages are of parts."""

    def part_of(self, msg_id):
        return msg_id[0]


def test_the_part_of_a_source_that_is_furthest_behind_holds_the_watermark():
    parts = [("fast", 100), ("slow", 1), PAUSE, ("fast", 200), PAUSE, ("slow", 2), PAUSE]
    items = [
        item if item is PAUSE else Message([item[1]], msg_id=item)
        for item in [*parts, ("fast", 300), PAUSE, ("fast", 400)]
    ]
    assert seen(run(topology(items, spout=Parted)))[-1] == (400, 2)


class Lists(Spout):
    """Emits lists of (part, time); a message without a part is not tracked. [] ends a turn."""

    outputs: ClassVar = ["at"]
    transient: ClassVar = ("collector",)

    def __init__(self, lists, fields):
        self.lists, self.next = lists, 0

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.is_exhausted() or not (messages := self.lists[self.next]):
            self.next += 1
            return False
        self.next += 1
        ids = [one if one[0] else None for one in messages]
        self.collector.emit_many([[at] for _, at in messages], msg_ids=ids)
        return True

    def is_exhausted(self):
        return self.next >= len(self.lists)


class OneByOne(Lists):
    def part_of(self, msg_id):
        return msg_id[0]


class Together(Lists):
    def parts_of(self, msg_ids):
        parts = {part for part, _ in msg_ids}
        return parts.pop() if len(parts) == 1 else [part for part, _ in msg_ids]


@pytest.mark.parametrize("first", [[], [("", 1), ("fast", 7)], [("", 1)]])
def test_parts_are_the_same_one_by_one_and_together(first):
    items = [first, [], [("fast", 100), ("slow", 1)], [("fast", 150), ("fast", 120)], []]
    items += [[("", 6), ("slow", 2)], [], [("fast", 300)], [], [("fast", 400)]]
    one_by_one, together = (seen(run(topology(items, spout))) for spout in (OneByOne, Together))
    assert together == one_by_one
    assert together[-1] == (400, 2)


class Forgetful(ListSpout):
    """It names one part of two messages."""

    def parts_of(self, msg_ids):
        return ["a"] if len(msg_ids) == 2 else "a"


def test_a_part_is_named_for_each_message():
    items = [Message([at], msg_id=at) for at in (1, 2)]
    with pytest.raises(TopologyFailed, match=r"parts_of.*names 1 parts for 2"):
        run(topology(items, spout=Forgetful))


class Partitioned(Parted):
    """It knows that there is something in a part before it has read any of it."""

    parts_end = False

    def unread_parts(self):
        return ["slow"]


def test_a_part_that_has_something_to_read_holds_the_watermark_before_it_has_emitted():
    parts = [("fast", 100), PAUSE, ("fast", 200), PAUSE, ("slow", 250), PAUSE, PAUSE, ("fast", 300)]
    items = [item if item is PAUSE else Message([item[1]], msg_id=item) for item in parts]
    found = seen(run(topology(items, spout=Partitioned)))
    assert found == ((100, None), (200, None), (250, None), (300, 200))


class Waiting(ListSpout):
    """Never says that nothing will come."""

    def is_exhausted(self):
        return False


def test_a_silent_task_does_not_hold_the_watermark_after_its_idle_timeout():
    items = [100, 1, PAUSE, PAUSE, 200, PAUSE, PAUSE, PAUSE, 300, PAUSE, PAUSE, PAUSE]
    items += [400, PAUSE, PAUSE, PAUSE, 500]
    held = run(topology(items, spout=Waiting, tasks=2), batch_seconds=1.0, batches=12)
    free = run(
        topology(items, spout=Waiting, tasks=2, idle_timeout="2s"), batch_seconds=1.0, batches=12
    )
    assert max(at or 0 for _, at in seen(held)) <= 1
    assert max(at or 0 for _, at in seen(free)) >= 200


def test_event_time_goes_on_with_the_clock_while_all_is_idle_where_that_is_wanted():
    """From the newest tuple on, not from now: what is read may be of last year."""
    items = [1000, *[PAUSE] * 6, 9000]
    found = {}
    for advance in (False, True):
        builder = topology(items, lag="1s", idle_timeout="2s", advance=advance)
        found[advance] = seen(run(builder, batch_seconds=1.0))[-1]
    assert found[False] == (9000, 0)
    assert 3000 <= found[True][1] < 6000


def test_a_tuple_without_a_usable_time_goes_to_the_late_stream_and_its_tree_ends():
    far = int(time.time() * 1000) + 10 * 365 * 86_400_000
    items = [10, None, "soon", far, 20]
    result = run(topology(items))
    assert [at for at, _ in seen(result)] == [10, 20]
    assert [(stream, values) for stream, values, _ in result.collected("late")] == [
        ("default", [None]),
        ("default", ["soon"]),
        ("default", [far]),
    ]
    reasons = [reason for _, _, reason in result.collected("late")]
    assert reasons[0] == "it has no time"
    assert reasons[1].startswith("its time is 'soon', which is not ISO 8601")
    assert reasons[2] == f"its time is {far}, more than 1h ahead of the clock here"
    assert sorted(result.acked("source")) == [0, 1, 2, 3, 4]
    assert [e.message for e in result.errors] == [
        "a tuple is on the stream '__late' instead of its own, as it has no time. More of them are"
        " counted, and not told"
    ]


class Parser(BasicBolt):
    """Text to a time."""

    outputs: ClassVar = ["at"]

    def execute(self, tup, collector):
        collector.emit([datetime.fromtimestamp(int(tup["text"]), UTC)])


def test_a_bolt_declares_the_event_time_of_what_it_parses():
    builder = TopologyBuilder()
    builder.set_spout("lines", ListSpout(["5", PAUSE, "9", PAUSE, "7"], fields=["text"]))
    parser = builder.set_bolt("parse", Parser).shuffle_grouping("lines")
    parser.set_event_time("at", lag="1s")
    builder.set_bolt("watch", Watching).shuffle_grouping("parse")
    result = run(builder)
    assert [at for _, at in seen(result)] == [None, None, 4000]


def test_several_streams_of_a_component_have_times_in_fields_of_their_own():
    first, second = Stream(("at",)), Stream(("user", "time"))
    items = [Message([10], "a"), PAUSE, Message(["x", 30], "b"), PAUSE, Message([5], "a"), PAUSE]
    items += [Message(["x", "soon"], "b"), PAUSE, Message([40], "a")]
    builder = TopologyBuilder()
    source = builder.set_spout("source", ListSpout(items, streams={"a": first, "b": second}))
    source.set_event_time({"a": "at", "b": "time"}, unit="ms")
    builder.set_bolt("watch", Watching).shuffle_grouping("source", "a")
    builder.set_bolt("late", CollectBolt).shuffle_grouping("source", "__late")
    result = run(builder)
    assert seen(result) == ((10, None), (5, 10), (40, 30))
    assert [row[:2] for row in result.collected("late")] == [["b", ["x", "soon"]]]


def test_a_checkpoint_from_before_event_times_goes_on():
    items = [10, EOF, 20, PAUSE, 30, PAUSE, 40]
    plain = TopologyBuilder()
    plain.set_spout("source", ListSpout(items, fields=["at"]))
    plain.set_bolt("watch", Watching).shuffle_grouping("source")
    first = run(plain)
    timed = TopologyBuilder()
    timed.set_spout("source", ListSpout(items, fields=["at"])).set_event_time("at", unit="ms")
    timed.set_bolt("watch", Watching).shuffle_grouping("source")
    assert seen(run(timed, checkpoint=first))[-1] == (40, 20)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_restart_with_another_number_of_workers_keeps_the_watermark(workers):
    items = [10, PAUSE, 50, PAUSE, 20, EOF, 60]
    first = run(topology(items), workers=1)
    second = run(topology(items), workers=workers, checkpoint=first, clock=ManualClock(1e6))
    assert seen(second)[-1] == (60, 50)
