"""Sinks: one write for a batch, two guarantees, and what becomes of rows that are refused."""

import random
import shutil
from collections import Counter

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.api import StoreMismatch
from fulmen.checkpoint import Store
from fulmen.engine.driver.edits.decisions import accept_store
from fulmen.engine.worker.in_process import Crash
from fulmen.errors import TopologyFailed, ValidationFailed
from fulmen.testing import CollectBolt, ListSpout, run
from support.parts import sink_parts
from support.parts.sink_parts import (
    AtLeastOnceSink,
    Memory,
    MemorySink,
    PartsSink,
    Unrepeatable,
    emitted,
)
from support.runs.engine_runs import A_PERSON

BOTH = pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
SINKS = pytest.mark.parametrize("sink", [MemorySink, PartsSink])


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    monkeypatch.setattr(sink_parts, "MEMORY", Memory())
    return sink_parts.MEMORY


def topology(source, guarantee, workers=1, tasks=1, sink=MemorySink, **spec):
    b = TopologyBuilder("t", workers=workers, **spec)
    b.set_spout("source", source, tasks)
    b.set_bolt("sink", sink, tasks).shuffle_grouping("source").set_config({"guarantee": guarantee})
    b.set_bolt("errors", CollectBolt).shuffle_grouping("sink", "errors")
    return b


@BOTH
def test_all_rows_of_a_batch_are_written_in_one_call_for_each_task(memory, guarantee):
    values = [[f"v{i}"] for i in range(40)]
    result = run(topology(ListSpout(values), guarantee, tasks=2, workers=2), workers=2)
    assert sorted(memory.rows) == sorted(value for (value,) in values)
    assert result.trees["acked"] == 40
    batches = result.batches
    assert len(memory.writes) <= 2 * batches
    assert max(memory.sizes) > 1


@BOTH
def test_a_sink_that_takes_parts_writes_rows_as_they_come_if_it_is_at_least_once(memory, guarantee):
    b = TopologyBuilder("t")
    for name in "ab":
        b.set_spout(name, ListSpout([[f"{name}{i}"] for i in range(10)]))
    sink = b.set_bolt("sink", PartsSink).set_config({"guarantee": guarantee})
    sink.shuffle_grouping("a").shuffle_grouping("b")
    result = run(b)
    assert sorted(memory.rows) == sorted(f"{k}{i}" for k in "ab" for i in range(10))
    assert result.trees["acked"] == 20
    assert max(memory.by_batch.values()) == (2 if guarantee == "at-least-once" else 1)


@SINKS
@BOTH
def test_a_row_that_can_never_be_written_fails_and_the_others_are_written(memory, guarantee, sink):
    source = ListSpout([["a"], ["unwritable"], ["b"]], replays=False)
    result = run(topology(source, guarantee, sink=sink), at_most=100)
    assert sorted(memory.rows) == ["a", "b"]
    assert [reason for _, reason in result.failed("source")] == ["it can't be written down"]
    assert result.trees["acked"] == 2


@SINKS
def test_at_least_once_fails_rows_that_the_store_refuses(memory, sink):
    source = ListSpout([["a"], ["bad"], ["b"]], replays=False)
    result = run(topology(source, "at-least-once", sink=sink))
    assert sorted(memory.rows) == ["a", "b"]
    assert [reason for _, reason in result.failed("source")] == ["it is bad"]
    assert not result.collected("errors")


def test_exactly_once_emits_rows_that_the_store_refuses_on_errors(memory):
    memory.lost = 1  # so the rows are found written when they are written again
    source = ListSpout([["a"], ["bad"], ["b"]], replays=False)
    result = run(topology(source, "exactly-once"))
    assert sorted(memory.rows) == ["a", "b"]
    assert not result.failed("source")
    assert [tuple(row) for row in result.collected("errors")] == [(["bad"], "it is bad")]
    assert memory.repeated == 1
    told = " ".join(error.message for error in result.errors)
    assert "1 of 3 rows were refused after they were committed" in told


@SINKS
@BOTH
def test_an_exception_of_encode_fails_the_batchs_rows(memory, guarantee, sink):
    result = run(topology(ListSpout([["raises"]], replays=False), guarantee, sink=sink))
    ((_, reason),) = result.failed("source")
    assert "a mistake of the author's" in reason
    assert "encode" in str(result.errors[0])
    result = run(topology(ListSpout([["fails all"]], replays=False), guarantee, sink=sink))
    assert [reason for _, reason in result.failed("source")] == ["all of them"]
    assert not result.errors
    assert not memory.rows


@SINKS
@BOTH
def test_a_store_that_is_away_is_waited_for_and_nothing_times_out(memory, guarantee, sink):
    memory.away = 12
    source = ListSpout([[f"v{i}"] for i in range(10)])
    result = run(topology(source, guarantee, sink=sink, message_timeout_seconds=1))
    assert sorted(memory.rows) == sorted(f"v{i}" for i in range(10))
    assert not result.failed("source")
    assert any("the memory is away: somebody else needs it" in note for note in result.notes)


def test_an_answer_that_is_lost_repeats_rows_only_under_at_least_once(memory):
    memory.lost = 1
    result = run(topology(Unrepeatable(), "exactly-once"))
    assert Counter(memory.rows) == emitted(result)
    memory.rows.clear()
    memory.lost = 1
    result = run(topology(Unrepeatable(), "at-least-once"))
    written = Counter(memory.rows)
    assert not emitted(result) - written  # nothing is lost
    assert written - emitted(result)


class Killer:
    """Ends workers at random moments of their parts of batches."""

    def __init__(self, seed, most=15):
        self.rng, self.most, self.kills = random.Random(seed), most, 0

    def __call__(self, stage, worker, moment):
        if self.kills < self.most and self.rng.random() < 0.06:
            self.kills += 1
            raise Crash


@pytest.mark.slow
@pytest.mark.matrix(share=1 / 8)
@pytest.mark.parametrize("seed", range(16))
def test_exactly_once_is_exactly_once_whatever_is_lost_of_a_source_that_never_repeats(memory, seed):
    rng, killer = random.Random(seed), Killer(seed)
    workers, tasks = rng.randint(1, 3), rng.randint(1, 3)
    built = topology(Unrepeatable(rounds=80), "exactly-once", workers, tasks)
    result = None
    for end in (20, 40, None):  # drivers follow each other, with what may be unwritten
        memory.away, memory.lost = rng.randint(0, 2), rng.randint(0, 2)
        result = run(built, checkpoint=result, fault=killer, batches=end)
    assert killer.kills > 2
    assert Counter(memory.rows) == emitted(result, tasks)
    assert len(memory.rows) > 30


@pytest.mark.slow
@pytest.mark.matrix(share=1 / 8)
@pytest.mark.parametrize("seed", range(10))
def test_at_least_once_loses_nothing_whatever_is_lost(memory, seed):
    rng, killer = random.Random(seed), Killer(seed)
    workers, tasks = rng.randint(1, 3), rng.randint(1, 3)
    sink = rng.choice((MemorySink, PartsSink))
    built = topology(Unrepeatable(rounds=150), "at-least-once", workers, tasks, sink)
    memory.away, memory.lost = rng.randint(0, 2), rng.randint(0, 2)
    result = run(built, fault=killer)
    assert killer.kills > 2
    assert not emitted(result, tasks) - Counter(memory.rows)


def test_rows_that_are_committed_are_written_first_after_a_restart(memory):
    built = topology(Unrepeatable(rounds=200), "exactly-once")
    stopped = run(built, until=lambda result: result.trees["acked"] > 0)
    written = list(memory.rows)
    assert emitted(stopped) - Counter(written)
    result = run(built, checkpoint=stopped)
    assert Counter(memory.rows) == emitted(result)
    assert [mark.number for mark in memory.writes] == sorted(mark.number for mark in memory.writes)


def two_lives(built, memory, folder):
    """Two drivers, one after another. Gives the checkpoint and the store after each."""
    first, second = folder / "first", folder / "second"
    run(built, checkpoint=f"file://{first}?fsync=false", batches=20)
    store = list(memory.rows), dict(memory.marks)
    shutil.copytree(first, second)
    run(built, checkpoint=f"file://{second}?fsync=false", batches=20)
    return (f"file://{first}", f"file://{second}"), (store, (list(memory.rows), dict(memory.marks)))


def refused(built, checkpoint, memory):
    """The error of a run that writes nothing."""
    before = list(memory.rows)
    with pytest.raises(TopologyFailed) as e:
        run(built, checkpoint=checkpoint)
    assert memory.rows == before
    return str(e.value)


def test_a_checkpoint_that_was_set_back_is_told_and_nothing_is_written(memory, tmp_path):
    built = topology(Unrepeatable(rounds=400), "exactly-once")
    (before, _), _ = two_lives(built, memory, tmp_path)
    said = refused(built, before, memory)
    assert "the checkpoint is older than the store" in said
    assert "fulmen state accept-store CHECKPOINT sink --because TEXT" in said


@pytest.mark.parametrize("is_empty", [False, True], ids=["older", "empty"])
def test_a_store_that_was_set_back_is_told_and_nothing_is_written(memory, tmp_path, is_empty):
    built = topology(Unrepeatable(rounds=400), "exactly-once")
    (_, after), stores = two_lives(built, memory, tmp_path)
    memory.rows, memory.marks = ([], {}) if is_empty else stores[0]
    said = refused(built, after, memory)
    assert "the store is older than the checkpoint" in said
    assert ("has no commit" in said) == is_empty
    before = list(memory.rows)
    accept_store(Store.open(after), "sink", 0, A_PERSON)
    result = run(built, checkpoint=after)
    missing = Counter(emitted(result)) - Counter(memory.rows)
    written = Counter(stores[1][0]) - Counter(before)
    assert missing == written  # what was lost with the store, and no more


def test_a_sink_that_is_new_to_an_old_checkpoint_begins_with_an_empty_store(memory):
    built = topology(Unrepeatable(rounds=80), "exactly-once")
    before = run(built, batches=20)
    built.set_bolt("other", MemorySink).shuffle_grouping("source").set_config(
        {"guarantee": "exactly-once"}
    )
    run(built, checkpoint=before)
    assert len(memory.marks) == 2


def test_two_topologies_with_the_same_names_have_marks_of_their_own(memory):
    for _ in range(2):  # with a checkpoint of its own each
        run(topology(Unrepeatable(), "exactly-once"))
    assert len(memory.marks) == 2
    assert not memory.repeated


def test_a_guarantee_that_a_class_can_not_keep_is_refused():
    with pytest.raises(ValidationFailed) as e:
        run(topology(ListSpout([]), "exactly-once", sink=AtLeastOnceSink))
    (problem,) = [p for p in e.value.problems if "guarantee" in p.path]
    assert problem.path == "spec.bolts[0].config.guarantee"
    assert "AtLeastOnceSink can keep: at-least-once" in problem.message


class Other(BasicBolt):
    outputs = ("value", "other")

    def execute(self, tup, collector):
        collector.emit([tup[0], 1])


def test_inputs_of_a_sink_that_are_not_alike_are_refused():
    b = TopologyBuilder("t")
    b.set_spout("source", ListSpout([["a"]]))
    b.set_bolt("other", Other).shuffle_grouping("source")
    b.set_bolt("sink", MemorySink).shuffle_grouping("source").shuffle_grouping("other")
    with pytest.raises(ValidationFailed, match="same fields from all inputs"):
        run(b)


def test_only_the_mark_before_lets_rows_be_written():
    from fulmen import Mark
    from fulmen.api.marks import Point

    mark = Mark("sink", 5, "tag", "t/sink/0", Point(3, "before"))
    assert not mark.is_written(3, "before")
    assert mark.is_written(5, "tag")
    for number, tag in ((5, "other"), (6, "tag"), (3, "other"), (2, "before"), (None, None)):
        with pytest.raises(StoreMismatch):
            mark.is_written(number, tag)
