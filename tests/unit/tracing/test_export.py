"""Topologies that run here, and the spans that OpenTelemetry's own exporter in memory gets."""

import pickle
import time
from collections import Counter

import pytest
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from fulmen import FailedException, Sink, secrets
from fulmen.engine.acking.root_ids import traced_root
from fulmen.engine.driver.driver import Driver, Silent, Stop
from fulmen.engine.protocol.figures.trace_notes import LONGEST_REASON, TraceNotes
from fulmen.engine.protocol.sampling import TraceContext
from fulmen.engine.state.messages.failed_messages import FailedMessages
from fulmen.engine.tasks.bolts.traced_tuples import note_late
from fulmen.engine.tasks.parts.traced_roots import Came, TracedMessages
from fulmen.engine.worker.in_process import Crash, InProcessJobs
from fulmen.engine.worker.worker import Worker
from fulmen.testing import ListSpout
from fulmen.topology.builder import TopologyBuilder
from fulmen.topology.validation.check import check
from fulmen.tracing.export import OtlpTracer
from fulmen.tracing.settings import TraceSettings
from support.parts.hooks import HookBasicBolt, HookBolt, HookSpout, hooks
from support.runs.engine_runs import new_store

ALL = TraceSettings(1.0, True, "words")


class Apart(Worker):
    """Has the topology to itself, as in a process of its own."""

    def run_stage(self, placed, *rest):
        own = self.__dict__.setdefault("own", {})
        if placed.run not in own:
            own[placed.run] = pickle.loads(pickle.dumps(placed))
        return super().run_stage(own[placed.run], *rest)


class Processes(InProcessJobs):
    def _worker(self):
        return Apart({self._placed.checkpoint: self.store})


def words_topology(words, split=lambda *_: None, count=lambda *_: None, **spec):
    builder = TopologyBuilder(**spec)
    builder.set_spout("words", ListSpout(words))

    def forward(bolt, tup, collector):
        split(bolt, tup, collector)
        collector.emit([tup.values[0]])

    bolt = builder.set_bolt("split", HookBasicBolt).set_config(hooks(execute=forward))
    bolt.shuffle_grouping("words")
    bolt = builder.set_bolt("count", HookBasicBolt).set_config(hooks(execute=count))
    bolt.fields_grouping("split", ["x"])
    return builder


def traced(builder, settings=ALL, fault=None, notes=None):
    """The finished spans of a topology that ran to its end."""
    store, exporter = new_store(), InMemorySpanExporter()
    runnable = check(builder.build()).runnable()
    notes = [] if notes is None else notes
    tracer = OtlpTracer(settings, "words", notes.append, exporter)
    jobs = Processes(fault, store=store)
    running = Driver(runnable, jobs, store.uri, Silent(), store, tracer=tracer).start()
    try:
        running.run(Stop(when_drained=True))
    finally:
        running.close()
        tracer.close()
    return exporter.get_finished_spans()


def below(spans, span):
    return [s for s in spans if s.parent is not None and s.parent.span_id == span.context.span_id]


def messages(spans):
    return [span for span in spans if span.kind is SpanKind.CONSUMER]


def by_time(spans):
    return sorted(spans, key=lambda span: span.start_time)


def seconds(span):
    return (span.end_time - span.start_time) / 1e9


def test_each_message_is_a_trace_with_its_bolts():
    spans = traced(words_topology(["a", "b", "c"], workers=2))
    assert Counter(span.name for span in spans if span.name not in ("wait",)) == {
        "words": 3, "batch": 3, "split": 3, "count": 3, "commit": 3
    }  # fmt: skip
    assert len({span.context.trace_id for span in messages(spans)}) == 3
    assert len({span.context.span_id for span in spans}) == len(spans)
    for message in messages(spans):
        assert (message.parent, message.status.status_code) == (None, StatusCode.UNSET)
        assert message.attributes["fulmen.outcome"] == "acked"
        (batch,) = (span for span in below(spans, message) if span.name == "batch")
        parts = {span.name: span for span in below(spans, batch)}
        assert parts.keys() == {"split", "count", "commit"}
        assert {span.context.trace_id for span in parts.values()} == {message.context.trace_id}
        assert message.start_time <= parts["split"].start_time
        assert parts["split"].end_time <= parts["count"].start_time
        assert parts["count"].end_time <= parts["commit"].start_time
        assert parts["commit"].end_time == message.end_time
    assert spans[0].resource.attributes["service.name"] == "words"


@pytest.mark.parametrize("slow", ["split", "count"])
def test_the_span_of_the_bolt_that_took_the_time_shows_it(slow):
    pause = {slow: lambda *_: time.sleep(0.05)}
    spans = traced(words_topology(["a"], **pause))
    (message,) = messages(spans)
    took = {span.name: seconds(span) for span in spans}
    assert took.pop(slow) >= 0.05
    assert took.pop("words") >= 0.05
    assert took.pop("batch") >= 0.05
    assert max(took["split" if slow == "count" else "count"], took["commit"]) < seconds(message)


def test_a_bolt_that_keeps_a_message_has_it_wait_from_batch_to_batch():
    def next_tuple(spout):
        numbers = spout.__dict__.setdefault("numbers", [])
        if (number := spout.context.batch.number) not in numbers and len(numbers) < 3:
            numbers.append(number)
            spout.collector.emit([number], msg_id=number)

    def keep(bolt, tup):
        kept = [*bolt.__dict__.pop("kept", []), tup]
        if len(kept) < 3:
            bolt.kept = kept
        else:
            for each in kept:
                bolt.collector.ack(each)

    builder = TopologyBuilder()
    config = hooks(next_tuple=next_tuple, is_exhausted=lambda spout: len(spout.numbers) == 3)
    builder.set_spout("words", HookSpout).set_config(config)
    bolt = builder.set_bolt("keep", HookBolt).set_config(hooks(execute=keep))
    bolt.shuffle_grouping("words")
    spans = traced(builder)
    parts = [Counter(span.name for span in below(spans, m)) for m in by_time(messages(spans))]
    assert parts == [{"batch": 2, "wait": 1}, {"batch": 2, "wait": 1}, {"batch": 1}]
    assert [m.attributes["fulmen.batches"] for m in by_time(messages(spans))] == [3, 2, 1]
    late = [s.attributes.get("fulmen.tuples.acked_late", 0) for s in spans if s.name == "keep"]
    assert sorted(late) == [0, 0, 0, 1, 1]


def test_a_message_that_fails_and_comes_again_is_one_trace():
    def once(bolt, tup, collector):
        bolt.__dict__.setdefault("seen", Counter())[tup.values[0]] += 1
        if bolt.seen[tup.values[0]] < 3:
            raise FailedException("not yet")

    spans = traced(words_topology(["a"], count=once))
    first, second, third = by_time(messages(spans))
    assert first.context.trace_id == second.context.trace_id == third.context.trace_id
    assert second.parent.span_id == first.context.span_id
    assert third.parent.span_id == second.context.span_id
    assert [m.status.status_code for m in (first, second, third)] == [
        StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET
    ]  # fmt: skip
    assert first.status.description == "not yet"
    assert [(e.name, e.attributes["fulmen.reason"]) for e in third.events] == [
        ("emitted again", "not yet")
    ]
    assert third.attributes["fulmen.failures"] == 2
    errors = Counter(s.name for s in spans if s.status.status_code is StatusCode.ERROR)
    assert errors == {"words": 2, "count": 2}


class Carrying(ListSpout):
    """Emits headers `traceparent`, as those that its messages came with."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        assert context.is_traced

    def traceparents(self, msg_ids):
        return {i: PARENTS[msg_id] for i, msg_id in enumerate(msg_ids) if PARENTS[msg_id]}


SAMPLED = "abcdef"  # words that come with a trace that is recorded; some go to other workers
WORDS = SAMPLED + "yz"
PARENTS = [TraceContext(70 + i, 5).traceparent for i in range(len(SAMPLED))]
PARENTS += [None, TraceContext(99, 5, False).traceparent]
WRITTEN = []


CONTEXT = TraceContext(70, 5)


class Writing(Sink):
    def encode(self, rows):
        return [(row[0], rows.traceparents.get(i)) for i, row in enumerate(rows)]

    def write(self, rows, mark):
        WRITTEN.extend(rows)


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_a_trace_that_a_message_came_with_goes_on_through_all_workers_to_the_sink(ratio):
    WRITTEN.clear()
    builder = TopologyBuilder(workers=3)
    builder.set_spout("words", Carrying(list(WORDS)))
    config = hooks(execute=lambda bolt, tup, collector: collector.emit([tup.values[0]]))
    bolt = builder.set_bolt("split", HookBasicBolt, 3).set_config(config)
    bolt.fields_grouping("words", ["value"])
    builder.set_bolt("write", Writing, 3).fields_grouping("split", ["x"])
    spans = traced(builder, TraceSettings(ratio, True, "words"))
    parents = {m.context.trace_id: m.parent and m.parent.span_id for m in messages(spans)}
    assert [parents.pop(70 + i) for i in range(len(SAMPLED))] == [5] * len(SAMPLED)
    assert list(parents.values()) == ([None] if ratio else [])
    written = {word: text and TraceContext.parsed(text) for word, text in WRITTEN}
    assert [written[word].trace_id - 70 for word in SAMPLED] == [*range(len(SAMPLED))]
    assert (written["y"] is not None, written["z"]) == (bool(ratio), None)
    sinks = {s.context.span_id for s in spans if s.name == "write"}
    assert sinks == {context.span_id for context in written.values() if context is not None}


def test_without_a_sampled_parent_nothing_is_traced_if_the_ratio_is_0():
    assert traced(words_topology(["a", "b"]), TraceSettings(0.0, True, "words")) == ()


def test_a_batch_begins_few_traces_however_many_messages_it_has():
    spans = traced(words_topology([str(n) for n in range(1000)]))
    assert len(messages(spans)) % 20 == 0
    assert 20 <= len(messages(spans)) < 1000


def test_an_attempt_that_came_to_nothing_is_in_no_trace():
    left = [1]

    def fault(stage, partition, moment):
        if moment == "after" and stage == 0 and left:
            left.pop()
            raise Crash("gone")

    spans = traced(words_topology(["a"], workers=2), fault=fault)
    assert len(messages(spans)) == 1
    assert Counter(span.name for span in spans)["split"] == 1


def test_what_the_exporter_complains_of_is_told_once_and_stops_nothing():
    class Broken(SpanExporter):
        def export(self, spans):
            raise OSError("no route to the collector")

        def shutdown(self):
            pass

    notes = []
    store = new_store()
    tracer = OtlpTracer(ALL, "words", notes.append, Broken())
    runnable = check(words_topology(["a"]).build()).runnable()
    jobs = InProcessJobs(store=store)
    running = Driver(runnable, jobs, store.uri, Silent(), store, tracer=tracer).start()
    running.step()
    tracer.close()
    running.close()
    assert notes == ["traces: Exception while exporting Span. (OSError: no route to the collector)"]


@pytest.fixture
def a_secret(monkeypatch):
    monkeypatch.setattr(secrets, "_known", secrets._Known())
    secrets.note("${PASSWORD}", "open-sesame", {"PASSWORD": "open-sesame"})


@pytest.mark.parametrize("is_late", [False, True])
def test_why_a_tuple_failed_is_told_without_secrets_and_not_at_length(is_late, a_secret):
    said = "open-sesame is wrong" + "!" * 1000
    notes = TraceNotes()
    if is_late:
        note_late(notes, "keep", [traced_root(1, 7)], 100.0, said)
    else:
        notes.executed("keep", [traced_root(1, 7)], 99.0, 100.0, 1, {traced_root(1, 7): said})
    (ran,) = notes.ran.values()
    assert ran.failed.startswith("${PASSWORD} is wrong!")
    assert len(ran.failed) == LONGEST_REASON


class Id:
    """Can't be compared any more once it was remembered."""

    def __init__(self):
        self.is_broken = False

    def __hash__(self):
        if self.is_broken:
            raise OSError("no hash today")
        return 7


def test_traces_that_are_no_headers_and_ids_that_can_not_be_compared_stop_nothing():
    class Failed(FailedMessages):
        def among(self, msg_ids):
            return [*range(len(msg_ids))]

    msg_id, failed = Id(), Failed()
    failed.tried = {msg_id: (1, "why")}
    msg_id.is_broken = True
    headers = {0: b"00", 1: None, 2: 7, -1: CONTEXT.traceparent, 9: CONTEXT.traceparent}
    headers |= {"x": CONTEXT.traceparent, 3: CONTEXT.traceparent}
    came = TracedMessages().came_with([msg_id] * 4, failed, headers)
    assert dict(came) == {3: Came(CONTEXT)}
