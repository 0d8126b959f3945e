"""fulmen.testing: what authors use in their own tests."""

import re

import pytest

from fulmen import (
    FailedException,
    ServiceUnavailable,
    TopologyBuilder,
    TransactionalSpout,
    TransactionalTopologyBuilder,
)
from fulmen.engine.worker.in_process import Crash
from fulmen.errors import ValidationFailed
from fulmen.testing import (
    ABORT,
    EOF,
    PAUSE,
    CollectBolt,
    ListSpout,
    ManualClock,
    Message,
    NotDrained,
    run,
)
from support.docs.pages import write_files
from support.parts.hooks import HookBasicBolt, HookBolt, HookSpout, hooks


def topology(items, *, tasks=1, fields=("value",), bolt=None, **options):
    """A ListSpout and a CollectBolt, with a bolt between them if that is wanted."""
    builder = TopologyBuilder(message_timeout_seconds=3)
    builder.set_spout("source", ListSpout(items, fields, **options), tasks)
    source = "source"
    if bolt is not None:
        builder.set_bolt("bolt", HookBasicBolt).set_config(hooks(execute=bolt)).shuffle_grouping(
            "source"
        )
        source = "bolt"
    builder.set_bolt("sink", CollectBolt).shuffle_grouping(source)
    return builder


def pass_on(bolt, tup, collector):
    collector.emit([tup[0]])


# ---- what went in, what came out -------------------------------------------------------------


def test_items_are_values_or_lists_of_them():
    assert run(topology([1, [2], (3,), None])).collected("sink") == [[1], [2], (3,), [None]]
    result = run(topology([["a", 1]], fields=["word", "n"]))
    assert result.collected("sink") == [["a", 1]]


def test_items_are_divided_among_the_tasks():
    result = run(topology(list(range(7)), tasks=3))
    assert sorted(x for [x] in result.collected("sink")) == list(range(7))
    assert result.acked("source") == [0, 3, 6, 1, 4, 2, 5]  # task by task


def test_untracked_items_are_never_acked():
    assert run(topology([1, 2], tracked=False)).acked("source") == []
    result = run(topology([Message([1], tracked=False), 2]))
    assert result.acked("source") == [1]


def test_other_streams_and_message_ids():
    builder = TopologyBuilder()
    items = [Message([1, 2], "pairs", msg_id="p"), Message([3])]
    builder.set_spout("source", ListSpout(items, streams={"default": ["x"], "pairs": ["a", "b"]}))
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("source", "pairs")
    result = run(builder)
    assert result.collected("sink") == [[1, 2]]
    assert set(result.acked("source")) == {"p", 1}


def fail_twice(bolt, tup, collector):
    if tup[0] == "bad" and bolt.state.get("fails", 0) < 2:
        bolt.state["fails"] = bolt.state.get("fails", 0) + 1
        raise FailedException("not yet")
    collector.emit([tup[0]])


def test_what_fails_is_emitted_again_unless_told_not_to():
    result = run(topology(["bad", "good"], bolt=fail_twice))
    assert result.failed("source") == [(0, "not yet")] * 2
    assert sorted(result.acked("source")) == [0, 1]
    result = run(topology(["bad", "good"], bolt=fail_twice, replays=False))
    assert (result.failed("source"), result.acked("source")) == ([(0, "not yet")], [1])


def test_what_components_emitted():
    result = run(topology([1, 2], bolt=pass_on), emits=True, workers=2)
    assert result.emitted("source") == [[1], [2]]
    assert result.emitted("bolt", "default") == [[1], [2]]
    assert result.emitted("bolt", "pair") == []
    with pytest.raises(ValueError, match=r"call run\(\.\.\., emits=True\)"):
        run(topology([1])).emitted("source")


def count(bolt, tup, collector):
    bolt.state[tup[0]] = bolt.state.get(tup[0], 0) + 1
    bolt.latest = tup[0]


def test_state_and_fields_as_committed():
    result = run(topology(["a", "b", "a"], bolt=count))
    assert result.state("bolt") == result.state("bolt", task=0) == {"a": 2, "b": 1}
    assert result.fields("bolt") == {"latest": "a"}
    assert result.fields("sink") == {}
    assert (result.batches, result.notes, result.errors) == (result.report["batches"], [], [])


# ---- markers ---------------------------------------------------------------------------------


def test_what_is_not_there_is_named():
    result = run(topology(["a", "b"], bolt=count))
    for wanted, message in [
        (("bolt", 1), "'bolt' has 1 tasks, from 0, and no task 1"),
        (("blot", None), "there is no component 'blot': there are ['__acker', 'bolt', 'sink', "),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            result.state(*wanted)


def test_a_key_of_several_tasks_has_no_one_value():
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout(["a", "b"]))
    bolt = builder.set_bolt("bolt", HookBasicBolt, 2).set_config(
        hooks(execute=lambda bolt, tup, collector: bolt.state.update(seen=tup[0]))
    )
    bolt.shuffle_grouping("source")
    result = run(builder)
    assert sorted(result.state("bolt", task)["seen"] for task in (0, 1)) == ["a", "b"]
    with pytest.raises(
        ValueError, match="several tasks of 'bolt' have the key 'seen': give `task`"
    ):
        result.state("bolt")


def test_a_topology_by_its_file(tmp_path, monkeypatch):
    (tmp_path / "first").mkdir()
    write_files("README.md", tmp_path / "first", only={"topology.yaml", "wordcount.py"})
    monkeypatch.chdir(tmp_path)
    result = run("first/topology.yaml")
    assert result.state("count")["collector"] == 7
    again = run(tmp_path / "first" / "topology.yaml", checkpoint=result)
    assert again.state("count") == result.state("count")


def test_items_that_are_too_many_for_a_resource():
    with pytest.raises(ValidationFailed, match="read or make large ones in open or prepare"):
        run(topology(["a long line"] * 1000 + [str(n) for n in range(100_000)]))


def test_pause_ends_a_batch():
    result = run(topology([1, 2, PAUSE, 3]), batches=1)
    assert result.collected("sink") == [[1], [2]]
    result = run(topology([1, 2, PAUSE, 3]), batches=2)
    assert result.collected("sink") == [[1], [2], [3]]


def test_abort_loses_all_workers_once():
    result = run(topology([1, ABORT, 2, ABORT, 3], bolt=count), workers=2)
    assert result.state("bolt") == {1: 1, 2: 1, 3: 1}
    assert result.notes == [
        "batch 3 is run again: ABORT at item 1",
        "batch 3 is run again: ABORT at item 3",
    ]


def test_eof_ends_a_run_and_the_next_goes_on_after_it():
    builder = topology([1, EOF, 2, PAUSE, EOF, 3])
    result = run(builder)
    seen = [result.collected("sink")]
    for _ in range(2):
        result = run(builder, checkpoint=result.checkpoint)
        seen.append(result.collected("sink"))
    assert seen == [[[1]], [[1], [2]], [[1], [2], [3]]]
    assert result.acked("source") == [0, 2, 5]


# ---- until -----------------------------------------------------------------------------------


def endless(spout):
    spout.__dict__.setdefault("n", 0)
    spout.n += 1
    spout.collector.emit([spout.n], msg_id=spout.n)


def endless_topology():
    builder = TopologyBuilder()
    builder.set_spout("source", HookSpout).set_config(hooks(next_tuple=endless))
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("source")
    return builder


def test_a_run_goes_on_until_a_condition_holds():
    result = run(endless_topology(), until=lambda r: r.trees["acked"] > 1000)
    assert result.trees["acked"] > 1000
    assert result.fields("source")["n"] >= 1000


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_a_run_of_so_many_batches(batches):
    result = run(endless_topology(), batches=batches)
    assert result.batches == batches


def test_a_topology_that_never_ends():
    with pytest.raises(NotDrained) as failure:
        run(endless_topology(), at_most=5)
    assert str(failure.value) == (
        f"the topology has not come to its end after 5 batches; {failure.value.pending} trees are"
        " pending. A spout ends when is_exhausted() is true, or after 20 batches without an emit."
        " For a spout that never ends, give `batches` or `until`."
    )


class OneFieldOfTransactions(TransactionalSpout):
    outputs = ("tx", "one", "two")

    class Coordinator(TransactionalSpout.Coordinator):
        def is_ready(self):
            return True

        def initialize_transaction(self, txid, previous_metadata):
            return txid

    class Emitter(TransactionalSpout.Emitter):
        def emit_batch(self, attempt, metadata, collector):
            collector.emit([attempt, "a"])

    def get_coordinator(self, conf, context):
        return self.Coordinator()

    def get_emitter(self, conf, context):
        return self.Emitter()


def interrupted(spout):
    """Emits two rows. In between its source is away, and is asked only now and then."""
    spout.calls = getattr(spout, "calls", 0) + 1
    if spout.calls in (1, 120):
        spout.collector.emit([spout.calls])
    elif spout.calls in (3, 60, 100):
        raise ServiceUnavailable("the source", "it is being repaired")
    return False


def test_a_source_that_was_away_has_not_come_to_its_end():
    builder = TopologyBuilder()
    builder.set_spout("source", HookSpout).set_config(hooks(next_tuple=interrupted))
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("source")
    result = run(builder, emits=True, batch_seconds=0.3)
    assert result.emitted("source") == [[1], [120]]
    assert result.batches < 200  # it ends all the same, when nothing comes for long


class Late(HookSpout):
    """It knows its end, and nothing comes for long."""

    calls = 0
    knows_its_end = True

    def next_tuple(self):
        self.calls += 1
        if self.calls == 60:
            self.collector.emit([self.calls])
        return False

    def is_exhausted(self):
        return self.calls >= 90


def test_a_source_that_knows_its_end_is_waited_for():
    builder = TopologyBuilder()
    builder.set_spout("source", Late).set_config(hooks())
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("source")
    result = run(builder, emits=True)
    assert result.emitted("source") == [[60]]
    assert 90 <= result.batches < 100


def raises_between(spout):
    """Emits two rows. In between its code raises for long, and then its iterator has ended."""
    spout.calls = getattr(spout, "calls", 0) + 1
    if spout.calls in (1, 60):
        spout.collector.emit([spout.calls])
    elif spout.calls < 60:
        raise ValueError("the answer is no JSON")
    else:
        next(iter([]))


def test_a_source_whose_code_raises_has_not_come_to_its_end():
    builder = TopologyBuilder()
    builder.set_spout("source", HookSpout).set_config(hooks(next_tuple=raises_between))
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("source")
    result = run(builder, emits=True, at_most=200)
    assert result.emitted("source") == [[1], [60]]
    assert "next_tuple: ValueError: the answer is no JSON" in {e.message for e in result.errors}


def test_where_nothing_but_failures_happens_the_run_ends_soon_and_says_why():
    builder = TransactionalTopologyBuilder("wrong", "spout", OneFieldOfTransactions)
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("spout")
    with pytest.raises(NotDrained) as failure:
        run(builder)
    assert failure.value.batches < 1000
    text = str(failure.value)
    assert "transaction 1 has failed" in text
    assert "on stream 'default', which has the fields ['tx', 'one', 'two']. Emit a list" in text


def test_an_error_ends_the_run():
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout([1]))
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("nowhere")
    with pytest.raises(ValidationFailed, match="no component 'nowhere'"):
        run(builder)


# ---- time, checkpoints, faults ---------------------------------------------------------------


def test_nothing_waits():
    clock = ManualClock(100.0)
    result = run(topology([1], bolt=lambda *args: None), clock=clock, batch_seconds=2.0)
    assert result.acked("source") == [0]
    assert clock() >= 100.0 + 2.0 * result.batches
    clock.advance(5)


def test_restoring_takes_the_time_that_the_clock_says_and_no_other():
    """A test's outcome would else depend on how fast its machine is."""
    clock = ManualClock()
    builder = TopologyBuilder(message_timeout_seconds=3)
    builder.set_spout("source", ListSpout([1]))
    functions = {
        "prepare": lambda bolt: clock.advance(100),
        "execute": lambda bolt, tup: None,  # neither acks nor fails
    }
    bolt = builder.set_bolt("bolt", HookBolt).set_config(hooks(**functions))
    bolt.shuffle_grouping("source")
    result = run(builder, clock=clock, batches=3)
    assert (result.trees["pending"], result.trees["timed_out"]) == (1, 0)


def test_a_checkpoint_by_its_uri(tmp_path):
    uri = f"file://{tmp_path}/checkpoint?fsync=false"
    builder = topology([1, EOF, 2])
    run(builder, checkpoint=uri)
    assert run(builder, checkpoint=uri).collected("sink") == [[1], [2]]


def test_a_checkpoint_keeps_its_number_of_tasks():
    first = run(topology([1, EOF, 2]))
    second = run(topology([1, EOF, 2], tasks=3), checkpoint=first.checkpoint)
    assert second.report["components"]["source"]["tasks"] == 1
    assert second.collected("sink") == [[1], [2]]


def test_each_run_has_a_checkpoint_of_its_own():
    builder = topology([1])
    run(builder)
    assert run(builder).collected("sink") == [[1]]


def test_other_numbers_of_workers_and_ackers():
    result = run(topology([1]), workers=3, ackers=2)
    assert result.report["components"]["__acker"]["tasks"] == 2
    assert "__acker" not in run(topology([1]), ackers=0).report["components"]


def test_faults():
    left = ["after"]

    def fault(stage, worker, moment):
        if moment in left:
            left.remove(moment)
            raise Crash("pulled the plug")

    result = run(topology([1, 2], bolt=count), fault=fault)
    assert result.notes == ["batch 3 is run again: worker 0 was lost in stage 0: pulled the plug"]
    assert result.state("bolt") == {1: 1, 2: 1}


def break_down(bolt):
    raise OSError("gone")


def test_errors_of_cleanup_are_there_once():
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout([1], tracked=False))
    bolt = builder.set_bolt("bolt", HookBolt).shuffle_grouping("source")
    bolt.set_config(hooks(cleanup=break_down))
    result = run(builder)
    assert [error.message for error in result.errors] == ["cleanup: OSError: gone"]


def test_the_report_has_the_seconds_of_the_clock():
    result = run(topology([1]), batch_seconds=2.0)
    assert result.report["seconds"] >= 2.0 * result.batches > 0


def test_a_model_is_as_good_as_a_builder():
    assert run(topology([1]).build()).acked("source") == [0]
