"""Exactly-once sinks that are renamed, or grow, and whose checkpoint then goes back."""

import pytest

from fulmen import TopologyBuilder
from fulmen.checkpoint import CommitLog, new_tag
from fulmen.checkpoint.savepoints.pins import PINS, Pin, pins_section
from fulmen.engine.driver.edits.restoring import go_back
from fulmen.engine.keyed.hashing.value_hash import list_hash
from fulmen.errors import TopologyFailed
from fulmen.testing import CollectBolt, ListSpout, run
from support.parts import sink_parts
from support.parts.sink_parts import Memory, MemorySink
from support.runs.engine_runs import new_store

RENAMED = {"renames": {"sink": "rows"}}


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    monkeypatch.setattr(sink_parts, "MEMORY", Memory())
    return sink_parts.MEMORY


@pytest.fixture
def store():
    return new_store()


def write(store, rows, name="sink", tasks=1, **spec):
    """Go on to so many rows; without a name there is no sink."""
    builder = TopologyBuilder("t", **spec)
    values = range(rows) if isinstance(rows, int) else rows
    builder.set_spout("source", ListSpout(values))
    builder.set_bolt("collect", CollectBolt).shuffle_grouping("source")
    if name:
        sink = builder.set_bolt(name, MemorySink, tasks).fields_grouping("source", ["value"])
        sink.set_config({"guarantee": "exactly-once"})
    topology = builder.build().with_each(lambda one: {"num_tasks": one.tasks})
    run(topology, checkpoint=store, end_of_input=False)


def pin(store):
    log = CommitLog(store, "t", "a person")
    log.claim()
    sections = {PINS: pins_section({"early": Pin(log.manifest.number + 1, 5.0)})}
    log.commit(log.draft(tag=new_tag(), clock=0.0, transient={}, sections=sections, full=True))


def back(store):
    log = CommitLog(store, "t", "a person")
    log.claim()
    go_back(log, store, "early", 9.0)


@pytest.mark.parametrize("early", ["sink", ""])
@pytest.mark.parametrize("last", [("sink", {}), ("rows", RENAMED)])
def test_a_sink_that_was_renamed_stops_under_either_name(store, memory, early, last):
    write(store, 3, early)
    pin(store)
    write(store, 6)
    write(store, 9, "rows", **RENAMED)
    back(store)
    before = [*memory.rows]
    name, spec = last
    with pytest.raises(TopologyFailed, match="the checkpoint is older than the store"):
        write(store, 9, name, **spec)
    assert memory.rows == before


def test_no_task_of_a_sink_that_had_more_of_them_writes_twice(store, memory):
    write(store, 3, tasks=2)
    pin(store)
    write(store, 30, tasks=4)
    assert len(memory.marks) == 4
    back(store)
    before = sorted(memory.rows)
    with pytest.raises(TopologyFailed, match="the checkpoint is older than the store"):
        write(store, 30, tasks=4)
    assert sorted(memory.rows) == before


def test_the_tasks_that_are_left_do_not_write_what_others_wrote(store, memory):
    last = [n for n in range(100) if list_hash([n]) < 0]  # of the last two of four tasks
    write(store, 8, tasks=2)
    pin(store)
    marks = dict(memory.marks)
    write(store, [*range(8), *last], tasks=4)
    assert marks.items() < memory.marks.items()  # the first two have written nothing since
    back(store)
    before = sorted(memory.rows)
    with pytest.raises(TopologyFailed, match="the checkpoint is older than the store"):
        write(store, [*range(8), *last], tasks=2)
    assert sorted(memory.rows) == before
