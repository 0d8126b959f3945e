"""What the summaries of a batch say of event time."""

from fulmen.engine.batches.watermarks import rule_of, watermarks_after
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.time.event_times import WHOLE_TASK
from fulmen.engine.time.watermarks import WatermarkRule, Watermarks
from fulmen.topology.resource.spec.event_time import EventTime
from support.runs.coordinators import placed

PLACED = placed(is_timed=True)
FIRST, SECOND = PLACED.plan.tasks("source")


def after(*said):
    summaries = [Summary(0, worker, **one) for worker, one in enumerate(said)]
    return watermarks_after(Watermarks(), PLACED, summaries, {}, 100.0)


def test_of_each_task_the_newest_time_counts():
    times = {(FIRST, WHOLE_TASK): 9}, {(FIRST, WHOLE_TASK): 5, (SECOND, WHOLE_TASK): 7}
    assert after(*({"event_times": one} for one in times)).passed == {"count": 7}


def test_a_task_that_is_exhausted_in_the_batch_does_not_hold_the_watermark():
    said = {"event_times": {(FIRST, WHOLE_TASK): 9}}
    assert after(said).passed == {}
    now = after({**said, "exhausted": {SECOND: True}})
    assert (now.passed, now.ended) == ({"count": 9}, frozenset())
    assert after({**said, "exhausted": {FIRST: True, SECOND: True}}).ended == {"source"}


def test_a_part_that_is_not_read_to_its_end_holds_the_watermark():
    said = {"event_times": {(FIRST, "a"): 9}}
    now = after({**said, "unread": {FIRST: ["b"], SECOND: []}})
    assert (now.passed, now.sources["source"].held_by) == ({}, "part b")
    assert after({**said, "unread": {FIRST: [], SECOND: []}}).passed == {"count": 9}


def test_a_rule_is_made_of_what_a_component_declares():
    declared = EventTime(field="at", lag="3s", idle_timeout="2s", advance=True)
    assert rule_of(declared) == WatermarkRule(3000, 2.0, True)
    assert rule_of(EventTime(field="at")) == WatermarkRule(0, None, False)
