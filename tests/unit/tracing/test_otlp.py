"""What arrives at an endpoint of OTLP, read by OpenTelemetry's own classes of the protocol."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from fulmen.engine.protocol.sampling import TraceContext
from fulmen.tracing.following import Event
from fulmen.tracing.making import tracer_of
from fulmen.tracing.spans import Span


class Endpoint(HTTPServer):
    """Keeps the requests that it gets."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.requests = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers), body))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()
        self.wfile.write(ExportTraceServiceResponse().SerializeToString())

    def log_message(self, *args):
        pass


@pytest.fixture
def endpoint():
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_spans_arrive_as_the_standard_variables_say(endpoint, monkeypatch):
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=blue",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    notes = []
    tracer = tracer_of(environ, "orders", notes.append)
    message = TraceContext(0xABC, 0x11)
    parent = TraceContext(0xABC, 0x10)
    events = [Event(1.5, "emitted again", "no")]
    of_message = Span("source", message, parent, 1.0, 2.0, {}, events, "no", is_message=True)
    tracer.send([of_message, Span("batch", message.at(0x12), message, 1.25, 2.0, {"n": 7})])
    tracer.close()
    assert notes == []
    ((path, headers, body),) = endpoint.requests
    assert (path, headers["x-tenant"]) == ("/v1/traces", "blue")
    (of_resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    resource = {a.key: a.value.string_value for a in of_resource.resource.attributes}
    assert resource["service.name"] == resource["fulmen.topology"] == "orders"
    assert resource["deployment.environment.name"] == "test"
    first, second = of_resource.scope_spans[0].spans
    assert first.trace_id == (0xABC).to_bytes(16, "big")
    assert first.span_id == (0x11).to_bytes(8, "big")
    assert first.parent_span_id == (0x10).to_bytes(8, "big")
    assert (first.kind, second.kind) == (OtlpSpan.SPAN_KIND_CONSUMER, OtlpSpan.SPAN_KIND_INTERNAL)
    assert (first.status.code, first.status.message) == (Status.STATUS_CODE_ERROR, "no")
    assert (first.start_time_unix_nano, first.end_time_unix_nano) == (1_000_000_000, 2_000_000_000)
    assert [(e.name, e.time_unix_nano) for e in first.events] == [("emitted again", 1_500_000_000)]
    assert second.parent_span_id == first.span_id
    assert [(a.key, a.value.int_value) for a in second.attributes] == [("n", 7)]
