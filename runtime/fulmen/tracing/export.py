"""Hands the spans of traced trees to OpenTelemetry's SDK, which sends them in a thread of its own.

A batch never waits for a collector. If that is away, or too slow, spans are lost, and the SDK says
so.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterable

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from typing_extensions import override

from fulmen.engine.batches.done import Done
from fulmen.engine.driver.observer import Moments
from fulmen.engine.protocol.sampling import Sampling, TraceContext
from fulmen.errors import error_text
from fulmen.secrets import masked
from fulmen.tracing.following import Followed, Following, TracedBatch
from fulmen.tracing.settings import TraceSettings
from fulmen.tracing.spans import Span, spans_of

CLOSE_SECONDS = 5.0
"""How long the end of a topology waits for the last spans to be sent."""
_TOLD_AGAIN_SECONDS = 60.0
_NANOSECONDS = 1e9


class OtlpTracer:
    """Follows traced trees, and has their spans exported. The driver's thread calls it."""

    def __init__(
        self,
        settings: TraceSettings,
        topology: str,
        note: Callable[[str], None],
        exporter: SpanExporter | None = None,
    ) -> None:
        """Make the SDK's objects. The exporter is by default as the environment says."""
        self.sampling = Sampling(settings.ratio, secrets.randbits(64), settings.follows_parents)
        self._following = Following()
        self._ids = _GivenIds()
        self._complaints = _Complaints(note)
        self._complaints.listen()
        try:
            self._provider = self._provider_of(settings, topology, exporter)
        except BaseException:
            self._complaints.end()
            raise
        finally:
            self._complaints.made()
        self._tracer = self._provider.get_tracer("fulmen")

    def _provider_of(
        self, settings: TraceSettings, topology: str, exporter: SpanExporter | None
    ) -> TracerProvider:
        about = {"fulmen.topology": topology}
        if settings.service is not None:
            about[SERVICE_NAME] = settings.service
        provider = TracerProvider(
            sampler=ALWAYS_ON,  # what is to be sampled is decided
            resource=Resource.create(about),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        return provider

    def batch(self, done: Done, moments: Moments) -> None:
        """A batch counted."""
        batch = TracedBatch(done.header.number, moments, done.commits)
        self._export(self._following.batch(batch, done.summaries))
        self._complaints.tell(moments.committed)

    def attempt_failed(self, number: int, reason: str, at: float) -> None:
        """Note a failed attempt of a batch."""
        self._following.attempt_failed(number, reason, at)

    def close(self) -> None:
        """Export what is left, and wait some seconds until it is sent."""
        self._export(self._following.give_up(len(self._following)))
        closing = threading.Thread(
            target=self._provider.shutdown, name="fulmen-traces", daemon=True
        )
        closing.start()
        closing.join(CLOSE_SECONDS)
        self._complaints.end()

    def _export(self, trees: Iterable[Followed]) -> None:
        for tree in trees:
            for span in spans_of(tree, self.sampling):
                self.send(span)

    def send(self, span: Span) -> None:
        """Hand a span to the SDK, which sends it a few seconds later, with others."""
        self._ids.context = span.context
        made = self._tracer.start_span(
            span.name,
            context=_context_below(span),
            kind=SpanKind.CONSUMER if span.is_message else SpanKind.INTERNAL,
            attributes=span.attributes,
            start_time=_nanoseconds(span.began),
        )
        for event in span.events:
            about = {"fulmen.reason": event.reason}
            made.add_event(event.name, about, timestamp=_nanoseconds(event.at))
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error))
        made.end(_nanoseconds(span.ended))


class _GivenIds(IdGenerator):
    """The ids that spans have already. The SDK asks for those of one span at a time."""

    context = TraceContext(0, 0)

    @override
    def generate_trace_id(self) -> int:
        return self.context.trace_id

    @override
    def generate_span_id(self) -> int:
        return self.context.span_id


def _context_below(span: Span) -> Context:
    if span.parent is None:
        return Context()
    above = SpanContext(
        span.parent.trace_id,
        span.parent.span_id,
        is_remote=span.is_message,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return set_span_in_context(NonRecordingSpan(above), Context())


def _nanoseconds(seconds: float) -> int:
    return round(seconds * _NANOSECONDS)


class _Complaints(logging.Handler):
    """Keeps what the SDK complains of, as its threads do, until the driver's thread tells it."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._note = note
        self._at_first: list[str] | None = []
        self._last: str | None = None
        self._told = float("-inf")

    def listen(self) -> None:
        """Keep them from now on, and from other logs: the SDK may have one every few seconds."""
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self)
        logger.propagate = False

    def made(self) -> None:
        """Tell all about the settings: the SDK's objects are made."""
        texts, self._at_first = self._at_first or [], None
        for text in dict.fromkeys(texts):
            self._note(f"traces: {text}")

    def end(self) -> None:
        """Tell the last one, and keep no more."""
        logger = logging.getLogger("opentelemetry")
        logger.removeHandler(self)
        logger.propagate = True
        self.tell(float("inf"))

    @override
    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text} ({error_text(record.exc_info[1])})"
        if self._at_first is not None:
            self._at_first.append(masked(text))
        else:
            self._last = masked(text)

    def tell(self, at: float) -> None:
        """Tell the last one, if none was told for a minute."""
        if self._last is not None and at - self._told >= _TOLD_AGAIN_SECONDS:
            text, self._last, self._told = self._last, None, at
            self._note(f"traces: {text}")
