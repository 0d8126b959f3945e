"""Why a message was slow, as what OpenTelemetry's collector has got of a run tells it.

Each message comes with a trace, as Kafka's messages do in their headers, and takes a second more
than it has to, each for another reason: docs/traces.md says how to find out which.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from support.servers.kafka_server import folder_of_servers
from support.servers.ports import free_port

VERSION = "0.161.0"
START_SECONDS, END_SECONDS = 20, 20


@dataclass
class Collector:
    """One that runs.

    Attributes:
        url: What `OTEL_EXPORTER_OTLP_ENDPOINT` has to be.
    """

    url: str
    _file: object
    _log: object
    _process: subprocess.Popen

    def ended(self):
        """End it, as a service manager does: (attributes of the resource, its spans) of each."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(END_SECONDS) == 0, self._log.read_text()
        requests = map(json.loads, self._file.read_text().splitlines())
        parts = chain.from_iterable(request["resourceSpans"] for request in requests)
        return [
            (
                attributes(part["resource"]),
                [span for scope in part["scopeSpans"] for span in scope["spans"]],
            )
            for part in parts
        ]


@contextmanager
def running_collector(folder):
    """A collector that keeps its files in a folder."""
    binary = folder_of_servers() / f"otlp-receiver-{VERSION}"
    if not binary.is_file():
        pytest.skip("no collector of traces was tried: `scripts/test-servers` builds it")
    address, spans, log = f"127.0.0.1:{free_port()}", folder / "spans.json", folder / "receiver.log"
    with log.open("wb") as output:
        process = subprocess.Popen([binary, address, spans], stdout=output, stderr=output)
    try:
        url = f"http://{address}"
        wait_until_it_answers(url, process, log)
        yield Collector(url, spans, log, process)
    finally:
        process.kill()
        process.wait()


def wait_until_it_answers(url, process, log):
    """Return when it listens."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urlopen(url, timeout=1).close()
        except HTTPError as refused:  # an answer: it has no page
            refused.close()
            return
        except OSError:
            time.sleep(0.02)
    pytest.fail(f"the collector does not answer at {url}. It said:\n{log.read_text()}")


def attributes(of):
    """The attributes of a span, an event or a resource: name -> value."""
    values = {one["key"]: one["value"] for one in of.get("attributes", [])}
    return {
        name: int(value["intValue"]) if "intValue" in value else next(iter(value.values()))
        for name, value in values.items()
    }


KIND_CONSUMER, ERROR, NOT_YET = 5, 2, "not yet"
FULMEN = Path(sys.executable).with_name("fulmen")
TOPOLOGY = """
apiVersion: fulmen.dev/v1alpha1
kind: Topology
metadata: {name: orders}
spec:
  code: {folder: .}
  spouts: [{name: source, class: parts.Source}]
  bolts:
    - {name: parse, class: parts.Parse, inputs: [{from: source, grouping: {type: shuffle}}]}
    - {name: store, class: parts.Store, inputs: [{from: parse, grouping: {type: shuffle}}]}
    - {name: audit, class: parts.Audit,
       inputs: [{from: parse, stream: audits, grouping: {type: shuffle}}]}
"""
CODE = '''
import time

from fulmen import BasicBolt, Bolt, FailedException, Spout

PAUSE = 1.0
TRACED = ["itself", "busy", "kept", "stage", "again"]
OTHERS = [f"other {number}" for number in range(100)]
BATCHES = [["itself"], ["busy", *OTHERS], ["kept"], ["free"], ["stage", "audited"], ["again"]]


class Source(Spout):
    """Emits what is due, a part in each batch, and what has failed at the end."""

    outputs = ["what"]

    def __init__(self):
        self.due = list(BATCHES)
        self.number = self.kept_at = None

    def open(self, conf, context, collector):
        self.context, self.collector = context, collector

    def next_tuple(self):
        now, number = time.monotonic(), self.context.batch.number
        is_early = self.due[:1] == [["free"]] and now < self.kept_at + PAUSE
        if not self.due or is_early or number == self.number:
            return
        self.number, self.kept_at = number, now
        for what in self.due.pop(0):
            self.collector.emit([what], msg_id=what)

    def traceparents(self, msg_ids):
        traced = {at: what for at, what in enumerate(msg_ids) if what in TRACED}
        return {
            at: f"00-{TRACED.index(what) + 1:032x}-{0xAA:016x}-01" for at, what in traced.items()
        }

    def fail(self, msg_id, reason):
        self.due.append([msg_id])

    def is_exhausted(self):
        return not self.due


class Parse(Bolt):
    outputs = {"default": ["what"], "audits": ["what"]}

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.kept = []

    def execute(self, tup):
        what = tup["what"]
        time.sleep(PAUSE if what == "itself" else PAUSE / 100 if what in OTHERS else 0)
        stream = "audits" if what == "audited" else "default"
        self.collector.emit([what], stream=stream, anchors=[tup])
        if what == "kept":
            self.kept.append(tup)
            return
        for each in (tup, *self.kept):
            self.collector.ack(each)
        self.kept.clear()


class Store(BasicBolt):
    def __init__(self):
        self.again = 0

    def execute(self, tup, collector):
        self.again += tup["what"] == "again"
        if self.again == 1 and tup["what"] == "again":
            raise FailedException("not yet")


class Audit(BasicBolt):
    def execute(self, tup, collector):
        time.sleep(PAUSE)
'''


@pytest.fixture(scope="module")
def spans(tmp_path_factory):
    """What the collector has got of the run: (attributes of the resource, span) of each."""
    folder = tmp_path_factory.mktemp("traces")
    (folder / "orders.yaml").write_text(TOPOLOGY)
    (folder / "parts.py").write_text(CODE)
    with running_collector(folder) as collector:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": "0",
        }
        subprocess.run(
            [FULMEN, "run", "orders.yaml", "--in-process", "--until-drained"],
            cwd=folder,
            env=os.environ | environment,
            check=True,
            timeout=50,
        )
        return [(of, span) for of, found in collector.ended() for span in found]


def trace(spans, number):
    """The spans of the message that came with this trace, as its bolts had them in turn."""
    found = [span for _, span in spans if int(span["traceId"], 16) == number]
    return sorted(found, key=lambda span: int(span["startTimeUnixNano"]))


def below(found, span):
    return [one for one in found if one.get("parentSpanId") == span["spanId"]]


def seconds(span):
    return (int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])) / 1e9


def why(found):
    """What the page says that one looks at, in its order, of the span that took longest."""
    batches = [span for span in found if span["name"] == "batch"]
    uncovered = max(seconds(b) - sum(map(seconds, below(found, b))) for b in batches)
    longest = max((s for s in found if s["name"] not in ("source", "batch")), key=seconds)
    if uncovered > seconds(longest):
        return "other components of its stage"
    if longest["name"] == "commit":
        return "the store"
    if longest["name"] == "wait":
        [keeper] = {s["name"] for s in found if attributes(s).get("fulmen.tuples.acked_late")}
        return f"{keeper} kept it"
    beside = attributes(longest).get("fulmen.tuples.beside", 0)
    return f"{longest['name']} was busy" if beside > 10 else f"{longest['name']} took long for it"


@pytest.mark.parametrize(
    ("number", "answer"),
    [
        pytest.param(1, "parse took long for it", id="itself"),
        pytest.param(2, "parse was busy", id="others"),
        pytest.param(3, "parse kept it", id="kept"),
        pytest.param(4, "other components of its stage", id="stage"),
    ],
)
def test_a_trace_tells_why_its_message_was_slow(spans, number, answer):
    assert why(trace(spans, number)) == answer


def test_a_message_that_failed_and_came_again_is_one_trace_below_the_one_it_came_with(spans):
    first, second = (span for span in trace(spans, 5) if span["name"] == "source")
    assert (int(first["parentSpanId"], 16), second["parentSpanId"]) == (0xAA, first["spanId"])
    assert (first["kind"], first["status"]) == (KIND_CONSUMER, {"code": ERROR, "message": NOT_YET})
    assert "code" not in second.get("status", {})
    [event] = second["events"]
    assert (event["name"], attributes(event)) == ("emitted again", {"fulmen.reason": NOT_YET})
    assert attributes(second)["fulmen.failures"] == 1


def test_nothing_else_is_traced_and_all_is_told_of_the_topology(spans):
    assert {int(span["traceId"], 16) for _, span in spans} == {1, 2, 3, 4, 5}
    for resource, _ in spans:
        assert resource["service.name"] == resource["fulmen.topology"] == "orders"
        assert resource["deployment.environment.name"] == "test"
