"""A traced tree as spans. Pure.

The message is a span. Below it is one for each batch in which something became of it, and one for
each time between two of these. Below a batch are the components that executed its tuples, and the
commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from fulmen.engine.protocol.figures.trace_notes import Ran
from fulmen.engine.protocol.sampling import Sampling, TraceContext
from fulmen.tracing.following import Followed, TracedBatch, TreeEvent

BATCH, COMMIT, WAIT = "batch", "commit", "wait"


@dataclass(frozen=True)
class Span:
    """A span of OpenTelemetry; times are in seconds of time.time(). A root has no parent."""

    name: str
    context: TraceContext
    parent: TraceContext | None
    began: float
    ended: float
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    events: Sequence[TreeEvent] = ()
    error: str | None = None
    is_message: bool = False


def spans_of(tree: Followed, sampling: Sampling) -> Iterator[Span]:
    """All spans of a tree that has ended, or is followed no longer: the message's is first."""
    begun = tree.begun
    own = sampling.context_of(begun.root, begun.parent)
    events = list(tree.events)
    if begun.failures:
        events.insert(0, TreeEvent(begun.born, "emitted again", begun.reason))
    outcome = "acked" if tree.failed is None else "failed"
    yield Span(
        begun.component,
        own,
        begun.parent,
        begun.born,
        max(tree.at, begun.born),
        {
            "fulmen.component": begun.component,
            "fulmen.task": begun.task,
            "fulmen.stream": begun.stream,
            "fulmen.failures": begun.failures,
            "fulmen.batches": tree.batches,
            "fulmen.outcome": outcome if tree.is_ended else "unknown",
        },
        events,
        tree.failed,
        is_message=True,
    )
    for part in tree.parts:
        yield from _of_part(part, tree, own, sampling)
    for before, after in pairwise(tree.parts):
        began, ended = before.moments.committed, after.moments.began
        if ended > began:
            context = own.at(sampling.span_id(begun.root, WAIT, after.number))
            batches = max(0, after.number - before.number - 1)
            yield Span(WAIT, context, own, began, ended, {"fulmen.batches": batches})


def _of_part(
    part: TracedBatch, tree: Followed, message: TraceContext, sampling: Sampling
) -> Iterator[Span]:
    moments, number, root = part.moments, part.number, tree.begun.root
    own = message.at(sampling.span_id(root, BATCH, number))
    about = {"fulmen.batch": number}
    began = min(max(moments.began, tree.begun.born), moments.committed)
    yield Span(BATCH, own, message, began, moments.committed, about)
    for component, ran in part.ran.items():
        context = sampling.context_in(root, component, number, tree.begun.parent)
        ended = max(ran.began, ran.ended)
        error = ran.failed or None
        yield Span(component, context, own, ran.began, ended, _about(component, ran), error=error)
    if part.commits:
        context = own.at(sampling.span_id(root, COMMIT, number))
        yield Span(COMMIT, context, own, moments.ran, moments.committed, about)


def _about(component: str, ran: Ran) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "fulmen.component": component,
        "fulmen.tuples": ran.tuples,
        "fulmen.tuples.beside": ran.beside,
    }
    if ran.acked_late:
        found["fulmen.tuples.acked_late"] = ran.acked_late
    return found
