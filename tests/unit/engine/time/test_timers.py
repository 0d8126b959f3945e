"""Timers of bolts: when they are called, in which order, and that none is lost."""

import random
import tempfile
from pathlib import Path
from typing import ClassVar
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen import ArrowBolt, BasicBolt, Bolt, TopologyBuilder
from fulmen.api.times.timers import Timers
from fulmen.checkpoint import load
from fulmen.engine.batches.pace.next_timers import RARE, NextTimers
from fulmen.engine.driver.driver import Stop
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import PendingTimers, Summary
from fulmen.engine.state.entries import disk_queue
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.time import timers as timers_module
from fulmen.engine.time.timers import STALE_ENTRIES, TaskTimers
from fulmen.errors import EventTimeError
from fulmen.plan import task_key
from fulmen.testing import ABORT, EOF, PAUSE, ListSpout, ManualClock, run
from support.runs.engine_runs import Kept, make_driver
from support.stores.disk_states import DiskLife, MemoryLife

TIMER_KEYS = st.integers(0, 3) | st.tuples(st.just("of"), st.integers(0, 2))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), TIMER_KEYS, st.integers(-3, 20) | st.floats(-3, 20)),
        st.tuples(st.just("set"), TIMER_KEYS, st.integers(0, 20).map(float)),
        st.tuples(st.just("cancel"), TIMER_KEYS, st.none()),
        st.tuples(st.just("due"), st.integers(0, 20), st.floats(0, 20)),
        st.tuples(st.just("commit"), st.none(), st.none()),
        st.tuples(st.just("void"), st.none(), st.none()),
        st.tuples(st.just("restart"), st.booleans(), st.none()),
    ),
    max_size=30,
)


def due_of(model, watermark, clock):
    limits = {int: watermark, float: clock}
    return {key: at for key, at in model.items() if at <= limits[type(at)]}


def first_of(model):
    return tuple(
        min((at for at in model.values() if type(at) is kind), default=None)
        for kind in (int, float)
    )


@pytest.mark.parametrize(("life_of", "examples"), [(MemoryLife, 100), (DiskLife, 15)])
def test_timers_are_those_that_are_set_and_come_in_order(life_of, examples):
    @settings(max_examples=examples)
    @given(STEPS, st.sampled_from((1, 3, 10_000)))
    def lives(steps, at_hand):
        with (
            mock.patch.object(disk_queue, "_AT_HAND", at_hand),
            tempfile.TemporaryDirectory() as folder,
        ):
            life = life_of(Path(folder), Kept(), "timers")
            timers, model, committed = TaskTimers(life.state), {}, {}
            for what, a, b in steps:
                match what:
                    case "set":
                        timers.set(a, b)
                        model[a] = b
                    case "cancel":
                        timers.cancel(a)
                        model.pop(a, None)
                    case "due":
                        due = due_of(model, a, b)
                        assert timers.is_due(a, b) == bool(due)
                        taken = timers.take_due(a, b)
                        assert dict(taken) == due
                        for kind in (int, float):
                            times = [at for _, at in taken if type(at) is kind]
                            assert times == sorted(times)
                        model = {k: at for k, at in model.items() if k not in due}
                    case "commit":
                        life.commit()
                        committed = dict(model)
                    case "void":  # the batch comes to nothing
                        life.restart()
                        timers, model = TaskTimers(life.state), dict(committed)
                    case "restart":
                        life.commit()
                        life.restart(lost=a)
                        timers, committed = TaskTimers(life.state), dict(model)
                assert {k: timers.get(k) for k in model} == model
                assert len(timers) == len(model)
                assert timers.next == first_of(model)
            life.state.close()

    lives()


@pytest.mark.parametrize("seed", range(2))
def test_timers_on_disk_keep_few_places_in_memory(seed, tmp_path, monkeypatch):
    """More timers than are at hand, moved to and fro across the end of those that are."""
    monkeypatch.setattr(disk_queue, "_AT_HAND", 4)
    rng, life, model = random.Random(seed), DiskLife(tmp_path, Kept(), "timers"), {}
    timers, most = TaskTimers(life.state), 0
    for clock in range(120):
        for _ in range(6):
            key, at = rng.randrange(60), float(clock + rng.randrange(100))
            timers.set(key, at)
            model[key] = at
            most = max(most, *map(len, timers._queue._heaps.values()))
        due = due_of(model, 0, clock)
        assert dict(timers.take_due(0, clock)) == due
        model = {key: at for key, at in model.items() if key not in due}
        assert timers.next == first_of(model)
        life.commit()
        if clock % 40 == 39:
            life.restart()
            timers = TaskTimers(life.state)
    assert most <= 2 * 4 + 1
    assert len(model) > 20
    life.state.close()


def test_no_more_than_some_timers_of_the_clock_are_due_in_a_batch(monkeypatch):
    monkeypatch.setattr(timers_module, "AT_ONCE", 3)
    timers = TaskTimers(KeyedState(name="timers"))
    for n in range(5):
        timers.set(n, float(n))
        timers.set(("of event time", n), n)
    assert len(timers.take_due(9, 9.0)) == 5 + 3
    assert not timers.is_due(9, 9.0)
    assert timers.take_due(9, 9.0) == []
    timers.begin_batch("next")
    assert timers.is_due(9, 9.0)
    assert timers.take_due(9, 9.0) == [[3, 3.0], [4, 4.0]]


@pytest.mark.parametrize("number", [1, 500])
def test_timers_that_are_moved_again_and_again_leave_little_behind(number):
    timers, entries = TaskTimers(KeyedState(name="timers")), []
    for at in range(10_000):
        timers.set(at % number, at)
        entries.append(len(timers._queue))
    assert max(entries) == number
    assert timers.next == (10_000 - number, None)
    for at in range(10_000, 0, -1):
        timers.set(at % number, at)
        entries.append(len(timers._queue))
    assert max(entries) == 2 * number + STALE_ENTRIES
    assert timers.next == (1, None)


def test_a_timer_is_moved_to_the_same_number_of_the_other_clock():
    timers = TaskTimers(KeyedState(name="timers"))
    for at, following in ((5, (5, None)), (5.0, (None, 5.0)), (5, (5, None))):
        for _ in range(2):
            timers.set("a", at)
        assert timers.next == following
        assert not timers.is_due(4, 4.9)
        assert timers.is_due(5, 4.9) is (type(at) is int)
        assert timers.is_due(None, 5.0) is (type(at) is float)
        assert len(timers._queue) == 1
    assert timers.take_due(None, 9.0) == []
    assert timers.take_due(5, 0.0) == [["a", 5]]
    assert timers.next == (None, None)


class Reminder(BasicBolt):
    """Sets a timer for each tuple, `key` for `due`, and emits what is called with the watermark."""

    transient: ClassVar = ("context",)
    outputs: ClassVar = ["key", "at", "watermark"]

    def prepare(self, conf, context):
        self.context = context

    def execute(self, tup, collector):
        if tup["due"] is None:
            self.context.timers.cancel(tup["key"])
        else:
            self.context.timers.set(tup["key"], tup["due"])

    def on_timer(self, key, at, collector):
        collector.emit([key, at, self.context.batch.watermark])
        if key == "again" and at < 40:
            self.context.timers.set(key, at + 10)


def fired(items, bolt=Reminder, runs=1, fields=("key", "due", "at"), **options):
    """What was emitted, over so many runs on one checkpoint."""
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout(items, fields=fields)).set_event_time("at", unit="ms")
    builder.set_bolt("remind", bolt).shuffle_grouping("source")
    found, checkpoint = [], None
    for _ in range(runs):
        checkpoint = run(builder, emits=True, checkpoint=checkpoint, **options)
        assert checkpoint.errors == []
        found += [tuple(values) for values in checkpoint.emitted("remind")]
    return found


@pytest.mark.parametrize("extra", [PAUSE, ABORT], ids=["pause", "crash"])
def test_timers_are_called_in_order_when_the_watermark_has_passed_them(extra):
    items = [("b", 20, 1), ("a", 10, 1), ("c", 30, 1), PAUSE, ("x", 99, 25), extra]
    items += [PAUSE, ("y", 98, 26), PAUSE, ("z", 97, 27)]
    found = fired(items)
    assert found[:2] == [("a", 10, 25), ("b", 20, 25)]
    # nothing more will come, so event time comes to its end
    assert [(key, at) for key, at, _ in found[2:]] == [("c", 30), ("z", 97), ("y", 98), ("x", 99)]


def test_a_timer_is_moved_and_cancelled():
    items = [("a", 10, 1), ("b", 10, 1), ("a", 60, 1), ("b", None, 1), PAUSE, ("n", 70, 50)]
    items += [PAUSE, ("n", 70, 50), PAUSE, ("n", 70, 51)]
    assert [(key, at) for key, at, _ in fired(items)] == [("a", 60), ("n", 70)]


def test_a_timer_sets_another_one_that_is_due():
    items = [("again", 10, 1), PAUSE, ("n", 90, 35), PAUSE, ("m", 91, 36)]
    assert [(key, at) for key, at, _ in fired(items)] == [
        ("again", 10),
        ("again", 20),
        ("again", 30),
        ("again", 40),
        ("n", 90),
        ("m", 91),
    ]


def test_timers_are_there_after_a_restart():
    items = [("a", 10, 1), ("b", 20, 1)]
    assert fired(items, batches=1) == []
    assert [key for key, _, _ in fired([*items, EOF], runs=1)] == ["a", "b"]
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout(items, fields=("key", "due", "at"))).set_event_time(
        "at", unit="ms"
    )
    builder.set_bolt("remind", Reminder).shuffle_grouping("source")
    first = run(builder, batches=1)
    second = run(builder, checkpoint=first, emits=True)
    assert [values[0] for values in second.emitted("remind")] == ["a", "b"]


class Later(BasicBolt):
    """Emits each value so many seconds later."""

    transient: ClassVar = ("context",)
    outputs: ClassVar = ["value", "clock"]

    def prepare(self, conf, context):
        self.context = context

    def execute(self, tup, collector):
        self.context.timers.set_after(tup[0], tup[0])

    def on_timer(self, key, at, collector):
        collector.emit([key, at])


class Endless(ListSpout):
    """Goes on for ever."""

    def is_exhausted(self):
        return False


def test_timers_stay_where_a_topology_is_drained_that_goes_on_later():
    builder = TopologyBuilder()
    source = ListSpout([("a", 10, 1)], fields=("key", "due", "at"))
    builder.set_spout("source", source).set_event_time("at", unit="ms")
    builder.set_bolt("remind", Reminder).shuffle_grouping("source")
    running = make_driver(builder).start()
    assert running.step()
    running.run(Stop(drain=True))
    assert running.coordinator.turns.drained
    key = task_key("remind", 0)
    journals = load(running.store, running.log.manifest, key)
    assert KeyedState.restore(journals, name="timers") == {"a": 10}


def test_a_timer_by_the_clock_is_called_although_nothing_comes():
    builder = TopologyBuilder()
    builder.set_spout("source", Endless([300.0, 100.0]))
    builder.set_bolt("later", Later).shuffle_grouping("source")
    clock = ManualClock()
    result = run(
        builder, emits=True, clock=clock, workers=2, until=lambda r: len(r.emitted("later")) == 2
    )
    assert clock.now < 301  # and not when its stage happened to run
    (first, at_first), (second, at_second) = result.emitted("later")
    assert (first, second) == (100.0, 300.0)
    assert 100.0 <= at_first < 100.5
    assert 300.0 <= at_second < 300.5


class PlainReminder(Bolt):
    """The same as a Bolt."""

    transient: ClassVar = ("context",)
    outputs: ClassVar = ["key", "at"]

    def prepare(self, conf, context, collector):
        self.context, self.collector = context, collector

    def execute(self, tup):
        self.context.timers.set(tup["key"], tup["due"])
        self.collector.ack(tup)

    def on_timer(self, key, at):
        self.collector.emit([key, at])


class ArrowReminder(ArrowBolt):
    """The same for Arrow."""

    transient: ClassVar = ("context",)
    outputs: ClassVar = ["key", "at"]

    def prepare(self, conf, context):
        self.context = context

    def execute(self, batch, collector):
        for row in batch.to_pylist():
            self.context.timers.set(row["key"], row["due"])

    def on_timer(self, key, at, collector):
        collector.emit(pa.record_batch({"key": [key], "at": [at]}), rows=[0])


@pytest.mark.parametrize("bolt", [PlainReminder, ArrowReminder])
def test_other_kinds_of_bolts_have_timers(bolt):
    assert fired([("b", 20, 1), ("a", 10, 1)], bolt) == [("a", 10), ("b", 20)]


class Deaf(BasicBolt):
    """Has no on_timer."""

    def prepare(self, conf, context):
        context.timers.set("a", 5)

    def execute(self, tup, collector):
        pass


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda timers: timers.set("a", 5), "timers are for bolts that have a method on_timer"),
        (lambda timers: timers.set("a", 5.0), r"timers.set\('a', 5.0\): the time must be a whole"),
        (lambda timers: timers.set_after("a", -1), r"timers.set_after\('a', -1\): the seconds"),
    ],
)
def test_a_timer_that_can_not_be_set_is_refused(call, says):
    with pytest.raises(EventTimeError, match=says):
        call(Timers())


def test_the_key_of_a_timer_must_be_one_that_can_be_found_again():
    timers = Timers()
    timers.keeper = TaskTimers(KeyedState(name="timers"))
    says = r"the key of a timer is \('a', nan\), which is not equal to itself"
    with pytest.raises(EventTimeError, match=says):
        timers.set(("a", float("nan")), 5)


def test_a_batch_in_which_a_timer_is_due_leaves_nothing_out():
    class Plan:
        def component_of(self, task):
            return {1: "a", 2: "b"}[task]

    def header(clock, **watermarks):
        marks = {name: (at, None) for name, at in watermarks.items()}
        return Header(1, "t", "b", clock, clock, 1, watermarks=marks)

    timers = NextTimers()
    of_tasks = {1: PendingTimers(10, None), 2: PendingTimers(None, 7.5)}
    timers.committed("run", [Summary(1, 0, timers=of_tasks)])
    assert not timers.is_due(header(7.0), Plan())
    assert not timers.is_due(header(7.0, a=9, b=50), Plan())
    assert timers.is_due(header(7.0, a=10), Plan())
    assert timers.is_due(header(7.5), Plan())
    assert list(timers.seconds_until(7.0, {})) == [0.5]
    assert list(timers.seconds_until(7.0, {1: 4, 2: 4})) == [0.006, 0.5]
    timers.committed("run", [Summary(0, 0)])  # a light batch
    assert timers.is_due(header(7.5), Plan())
    timers.committed("run", [Summary(1, 0)])
    assert not timers.is_due(header(7.5, a=10), Plan())


def test_a_timer_is_rarely_due_if_its_task_had_none_due_for_some_batches():
    class Plan:
        def component_of(self, task):
            return {1: "a", 2: "b"}[task]

    timers = NextTimers()
    of_tasks = {1: PendingTimers(10, None), 2: PendingTimers(None, 7.5)}
    timers.committed("run", [Summary(1, 0, timers=of_tasks)])

    def asked(watermark):
        return timers.is_rarely_due({"a": (watermark, None), "b": (99, None)}, Plan())

    assert [asked(9), asked(10), asked(10)] == [False, True, False]
    assert not any(asked(9) for _ in range(RARE - 1))
    assert not asked(10)
    assert not any(asked(9) for _ in range(RARE))
    assert asked(10)
