"""Each message about transactional topologies, whole."""

import pytest

from fulmen import BasicBolt, BatchBolt, Committer, TransactionalTopologyBuilder
from fulmen.errors import ValidationFailed
from fulmen.topology.reading.documents import to_document
from fulmen.topology.validation.check import check
from support.parts.components import Count, Sink, Split
from support.transactions.sources import Rows
from support.transactions.words import BatchCount, UpdateGlobalCount, global_count

WORDS = "support.transactions.words"
COMPONENTS = "support.parts.components"


class Basic(BasicBolt):
    outputs = ("tx", "row")

    def execute(self, tup, collector):
        pass


class Timed(Basic):
    state_ttl = "1d"

    def on_timer(self, key, at, collector):
        pass


class AtTheEnd(Basic):
    def end_batch(self, collector):
        pass


class LastTurn(Basic):
    def drain(self, collector):
        pass


class Async(Basic):
    async def execute(self, tup, collector):
        pass


class AsyncBatch(BatchCount):
    async def finish_batch(self):
        pass


class Keeps(Basic):
    def prepare(self, conf, context):
        self.rows = []

    def execute(self, tup, collector):
        self.state[tup["row"]] = 1
        self.rows.append(tup["row"])


class WithoutAttempt(Basic):
    def outputs_for(self, options):
        return {"default": ("row", "count"), "empty": ()}


class MarkedBasicBolt(BasicBolt, Committer):
    outputs = ()

    def execute(self, tup, collector):
        pass


def document(**changes):
    """A global count, with other values at some paths of its spec."""
    made = to_document(global_count({}, [[1]], 1).build())
    for path, value in changes.items():
        *way, last = (int(step) if step.isdigit() else step for step in path.split("__"))
        place = made["spec"]
        for step in way:
            place = place[step]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return made


def texts(made):
    return [str(problem) for problem in check(made).problems]


def bolt(cls, **fields):
    inputs = [{"from": "spout", "grouping": {"type": "shuffle"}}]
    return {"name": "x", "class": cls, "inputs": inputs, **fields}


SPOUT = {"name": "other", "class": f"{COMPONENTS}.Sentences"}
TWO_KINDS = "Remove spouts, or transactional: those of the two kinds can't be mixed."
PROBLEMS = {
    "a spout beside it": (
        {"spouts": [SPOUT]},
        ["spec.spouts: a transactional topology has transactional sources alone, and spouts are"
         " others. " + TWO_KINDS],
    ),
    "no source": (
        {"transactional": None},
        ["spec.spouts: 'spouts' is missing. Add at least one spout: without a source nothing"
         " happens.",
         "spec.bolts[0].inputs[0].from: bolt 'partial-count', input from 'spout': there is no"
         " component 'spout'. There are: sum.",
         "spec.bolts[0].class: bolt 'partial-count': support.transactions.words.BatchCount is a"
         " BatchBolt, which only a transactional topology has. Give the source"
         " under spec.transactional, not under spouts.",
         "spec.bolts[1].class: bolt 'sum': support.transactions.words.UpdateGlobalCount is a"
         " BatchBolt, which only a transactional topology has. Give the source"
         " under spec.transactional, not under spouts."],
    ),
    "ackers": (
        {"ackers": 2},
        ["spec.ackers: a transactional topology has no ackers: what counts is the transaction."
         " Remove it."],
    ),
    "ticks of a bolt": (
        {"bolts__0__tickSeconds": 3},
        ["spec.bolts[0].tickSeconds: bolt 'partial-count': there are no ticks in a transactional"
         " topology. Remove it."],
    ),
    "ticks of the spout": (
        {"transactional__0__tickSeconds": 3},
        ["spec.transactional[0].tickSeconds: transactional spout 'spout': there are no ticks in a"
         " transactional topology. Remove it."],
    ),
    "a Bolt": (
        {"bolts__0": bolt(f"{COMPONENTS}.Count"), "bolts__1__inputs__0__from": "x"},
        ["spec.bolts[0].class: bolt 'x': support.parts.components.Count is a bolt that a"
         " transactional topology can't have. Derive it from fulmen.BatchBolt or fulmen.BasicBolt:"
         " there are no acks to make."],
    ),
    "an ArrowBolt": (
        {"bolts__0": bolt(f"{COMPONENTS}.Sink"), "bolts__1__inputs__0__from": "x"},
        ["spec.bolts[0].class: bolt 'x': support.parts.components.Sink is a bolt that a"
         " transactional topology can't have. Derive it from fulmen.BatchBolt or fulmen.BasicBolt:"
         " there are no acks to make."],
    ),
    "a spout as a bolt": (
        {"bolts__0__class": f"{COMPONENTS}.Sentences"},
        ["spec.bolts[0].class: bolt 'partial-count': support.parts.components.Sentences is a"
         " spout, but is listed under bolts. Move it to spouts."],
    ),
    "a spout as the source": (
        {"transactional": [{"name": "spout", "class": f"{COMPONENTS}.Sentences"}]},
        ["spec.transactional[0].class: transactional spout 'spout':"
         " support.parts.components.Sentences is a spout, but"
         " is listed under transactional. Move it to spouts."],
    ),
    "a sink that can't be exact": (
        {"bolts__0": bolt("fulmen.connectors.console.StdoutSink"),
         "bolts__1__inputs__0__from": "spout"},
        ["spec.bolts[0].config.guarantee: bolt 'x': StdoutSink writes a transaction again that"
         " comes again. Say so with guarantee: at-least-once, or take a sink that can keep"
         " exactly-once."],
    ),
    "a bolt behind a sink": (
        {"bolts__0": bolt("fulmen.connectors.files.FileSink", parallelism=2,  # of any grouping
                          config={"path": "x", "format": {"type": "json"}}),
         "bolts__1__inputs__0": {"from": "x", "stream": "errors", "grouping": {"type": "global"}}},
        ["spec.bolts[1].inputs: bolt 'sum': what sink 'x' refuses belongs to a transaction that is"
         " committed, and can only go to a sink that has no other inputs. Give the stream a sink of"
         " its own, such as a SqliteSink or a FileSink."],
    ),
    "a sink that has a column of the attempt": (
        {"bolts__0": bolt("fulmen.connectors.sqlite.SqliteSink",
                          config={"path": "x", "table": "t", "columns": {"tx": "tx"}}),
         "bolts__1__inputs__0__from": "spout"},
        ["spec.bolts[0].inputs[0]: bolt 'x', input from 'spout': columns has the field 'tx', but"
         " there is only ['row']. Name fields that are received."],
    ),
    "a committer that is a BasicBolt": (
        {"bolts__0": bolt(f"{WORDS}.Split", committer=True), "bolts__1__inputs__0__from": "x"},
        ["spec.bolts[0].committer: bolt 'x': only a BatchBolt can be a committer. Derive it from"
         " fulmen.BatchBolt."],
    ),
    "its dead letters": (
        {"bolts__0__inputs__0__stream": "__dead_letters"},
        ["spec.bolts[0].inputs[0].stream: bolt 'partial-count', input from 'spout': there is no"
         " stream '__dead_letters': 'spout' declares ['default']."],
    ),
    "timers": (
        {"bolts__0": bolt(f"{__name__}.Timed"), "bolts__1__inputs__0__from": "x"},
        [f"spec.bolts[0].class: bolt 'x': {__name__}.Timed has on_timer, which is not called: a"
         " timer comes when no transaction is there that it could emit for. Derive it from"
         " fulmen.BatchBolt, and emit in finish_batch.",
         f"spec.bolts[0].class: bolt 'x': {__name__}.Timed.state_ttl does nothing in a"
         " transactional topology. Remove it, and delete keys of self.state by what transactions"
         " bring."],
    ),
    "the end of a batch": (
        {"bolts__0": bolt(f"{__name__}.AtTheEnd"), "bolts__1__inputs__0__from": "x"},
        [f"spec.bolts[0].class: bolt 'x': {__name__}.AtTheEnd has end_batch, which is not called:"
         " a batch may have tuples of several transactions, or of none. Derive it from"
         " fulmen.BatchBolt, and emit in finish_batch."],
    ),
    "a last turn": (
        {"bolts__0": bolt(f"{__name__}.LastTurn"), "bolts__1__inputs__0__from": "x"},
        [f"spec.bolts[0].class: bolt 'x': {__name__}.LastTurn has drain, which is not called:"
         " there is no last turn, whose results would belong to no transaction. Derive it from"
         " fulmen.BatchBolt, and emit in finish_batch."],
    ),
    "an async BasicBolt": (
        {"bolts__0": bolt(f"{__name__}.Async"), "bolts__1__inputs__0__from": "x"},
        [f"spec.bolts[0].class: bolt 'x': {__name__}.Async.execute is async, which a transactional"
         " topology can't run. Write def execute without it; blocking: true on the bolt has its"
         " executors wait beside each other."],
    ),
    "an async BatchBolt": (
        {"bolts__0": bolt(f"{__name__}.AsyncBatch"), "bolts__1__inputs__0__from": "x"},
        [f"spec.bolts[0].class: bolt 'x': {__name__}.AsyncBatch.finish_batch is async, so a call"
         " of it would run nothing. Write def finish_batch(self) without it."],
    ),
    "windows of event time": (
        {"bolts__0": bolt("fulmen.windows.Deduplicate", config={
            "id": ["row"], "fields": ["tx", "row"], "horizon": "1d"}),
         "bolts__1__inputs__0__from": "x"},
        ["spec.bolts[0].class: bolt 'x': fulmen.windows.Deduplicate has on_timer, which is not"
         " called: a timer comes when no transaction is there that it could emit for. Use"
         " fulmen.windows.TransactionDeduplicate."],
    ),
    "state side by side": (
        {"maxSpoutPending": 2, "bolts__0": bolt(f"{__name__}.Keeps"),
         "bolts__1__inputs__0__from": "x"},
        [f"spec.bolts[0].class: bolt 'x': {__name__}.Keeps changes self.state, what later"
         " transactions see, but with maxSpoutPending: 2 several are active side by side, and what"
         " one has changed may still fail. Write maxSpoutPending: 1.",
         f"spec.bolts[0].class: bolt 'x': {__name__}.Keeps changes self.rows, what later"
         " transactions see, but with maxSpoutPending: 2 several are active side by side, and what"
         " one has changed may still fail. Write maxSpoutPending: 1, or name 'rows' in transient if"
         " no result needs it."],
    ),
    "outputs without the attempt": (
        {"bolts__0": bolt(f"{__name__}.WithoutAttempt"), "bolts__1__inputs__0__from": "x"},
        [f"spec.bolts[0].class: bolt 'x': stream {name!r} {what}, but the first value of each"
         f" tuple must be the attempt of its transaction. Declare {fields}, and emit the attempt"
         " first."
         for name, what, fields in (
             ("default", "begins with 'row'", ["tx", "row", "count"]),
             ("empty", "has no fields", ["tx"]))],
    ),
    "keys in several tasks of a committer": (
        {"bolts__1__parallelism": 3, "bolts__1__inputs__0__grouping": {"type": "shuffle"}},
        ["spec.bolts[1].inputs[0].grouping: bolt 'sum', input from 'partial-count':"
         " shuffle grouping in front of a committer with 3 tasks: if it writes by key, equal keys"
         " must come to one task. Write grouping: {type: fields, fields: [...]}, with what keys"
         " are made of."],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_each_mistake_has_one_message_that_names_its_place(changes, expected):
    assert texts(document(**changes)) == expected


def test_a_transactional_topology_without_mistakes_has_no_message():
    assert texts(document()) == []


def word_count(**changes):
    inputs = [{"from": "lines", "grouping": {"type": "shuffle"}}]
    made = {"name": "count", "class": f"{COMPONENTS}.Count", "inputs": inputs} | changes
    return {
        "apiVersion": "fulmen.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "words"},
        "spec": {
            "spouts": [{"name": "lines", "class": f"{COMPONENTS}.Sentences"}],
            "bolts": [made],
        },
    }


def test_a_committer_without_transactions():
    assert texts(word_count(committer=True)) == [
        "spec.bolts[0].committer: bolt 'count': a committer commits transactions, and there are"
        " none here. Remove it, or give the source as transactional instead of under spouts.",
        "spec.bolts[0].committer: bolt 'count': only a BatchBolt can be a committer. Derive it from"
        " fulmen.BatchBolt.",
    ]


def test_a_batch_bolt_without_transactions():
    assert texts(word_count(**{"class": f"{WORDS}.BatchCount"})) == [
        "spec.bolts[0].class: bolt 'count': support.transactions.words.BatchCount is a BatchBolt,"
        " which only a transactional topology has. Give the source under spec.transactional,"
        " not under spouts."
    ]


def test_a_transactional_source_under_spouts():
    made = word_count()
    made["spec"]["spouts"][0]["class"] = f"{WORDS}.Rows"
    assert texts(made) == [
        "spec.spouts[0].class: spout 'lines': support.transactions.words.Rows is a transactional"
        " spout, but is listed under spouts. Move it to transactional."
    ]


# ---- the builder --------------------------------------------------------------------------------


def test_a_builder_may_have_several_sources():
    builder = TransactionalTopologyBuilder("x", "spout", Rows([[1]]), 2)
    builder.set_spout("lines", Rows([[2]])).set_num_tasks(3)
    topology = builder.build()
    assert [(one.name, one.tasks) for one in topology.spec.transactional] == [
        ("spout", 2),
        ("lines", 3),
    ]
    with pytest.raises(ValidationFailed) as raised:
        builder.set_spout("spout", Rows([[1]]))
    assert "transactional spout 'spout': the name is taken" in str(raised.value)


@pytest.mark.parametrize("cls", [Count, Sink, Split])
def test_a_builder_makes_committers_of_batch_bolts_only(cls):
    builder = TransactionalTopologyBuilder("x", "spout", Rows([[1]]))
    builder.set_committer_bolt("count", cls).shuffle_grouping("spout")
    with pytest.raises(ValidationFailed) as raised:
        check(builder.build()).topology()
    assert "fulmen.BatchBolt" in str(raised.value)


def test_a_name_is_not_given_to_source_and_bolt():
    builder = TransactionalTopologyBuilder("x", "spout", Rows([[1]]))
    with pytest.raises(ValidationFailed, match="the name is taken"):
        builder.set_bolt("spout", BatchCount)


@pytest.mark.parametrize("how", ["marker", "method", "both"])
def test_committers_are_those_with_the_marker_or_named_so(how):
    builder = TransactionalTopologyBuilder("x", "spout", Rows([[1]]))
    cls = BatchCount if how == "method" else UpdateGlobalCount
    name = builder.set_bolt if how == "marker" else builder.set_committer_bolt
    name("last", cls).global_grouping("first")
    builder.set_bolt("first", BatchCount).shuffle_grouping("spout")
    runnable = check(builder.build()).runnable()
    assert {b.name: b.committer for b in runnable.topology.spec.bolts} == {
        "first": False,
        "last": True,
    }
    assert runnable.topology.spec.commit_phase == {"last"}


class Sub(BatchBolt, Committer):
    def execute(self, tup):
        pass

    def finish_batch(self):
        pass


def test_a_marked_basic_bolt_is_refused():
    builder = TransactionalTopologyBuilder("x", "spout", Rows([[1]]))
    builder.set_bolt("marked", MarkedBasicBolt).shuffle_grouping("spout")
    builder.set_bolt("right", Sub).shuffle_grouping("spout")
    with pytest.raises(ValidationFailed) as raised:
        check(builder.build()).topology()
    assert str(raised.value).count("only a BatchBolt can be a committer") == 1
