"""The outcome of a batch that ran to its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fulmen.api.tuples import TICK_COMPONENT, TICK_STREAM
from fulmen.engine.batches.transactions import Outcome
from fulmen.engine.protocol.deliveries import Deliveries, merged
from fulmen.engine.protocol.figures.statistics import EMITTED, EXECUTED
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.time.watermarks import Watermarks
from fulmen.engine.tuples.chunk import Ranges

TICKS = f"{TICK_COMPONENT}:{TICK_STREAM}"
"""How counts name the stream of ticks."""


@dataclass(frozen=True)
class LastBatch:
    """The state that the last batch that counted has left for the next one.

    Attributes:
        number: The last commit.
        base: The tag that tasks' state must carry: its state equals that of commit `number`. It is
            that of the commit, or of a later batch that had nothing to commit.
        deliveries: How trees ended, to be told to spout tasks.
        holds: Task -> why spouts are to emit nothing, of bolts that say so.
        watermarks: How far event time has come.
        has_looked: Whether sinks have what event time would bring if nothing more came.
        did_nothing: Nothing was emitted, executed, delivered or ended.
    """

    number: int
    base: str
    deliveries: Mapping[int, Deliveries] = field(default_factory=dict)
    holds: Mapping[int, str] = field(default_factory=dict)
    watermarks: Watermarks = field(default_factory=Watermarks)
    has_looked: bool = False
    did_nothing: bool = False

    @property
    def is_held(self) -> bool:
        """Whether bolts hold the spouts, and nothing happens."""
        return bool(self.holds and self.did_nothing)


@dataclass(frozen=True)
class Done:
    """The outcome of a successful batch.

    Attributes:
        header: Of the attempt.
        summaries: Of all its stages and workers.
        seconds: How long it took.
        skipped: Stages that did not run, as there was nothing for them.
        after: What it leaves for the next one.
        commits: Whether there is anything to write; if not, its tag becomes the base all the same.
        transactions: What it means for transactions; None: the topology has none.
        only_ticked: It would have done nothing without ticks that bolts have executed.
    """

    header: Header
    summaries: Sequence[Summary]
    seconds: float
    skipped: Sequence[int]
    after: LastBatch
    commits: bool
    transactions: Outcome | None = None
    only_ticked: bool = False


def deliveries_after(
    ended: Mapping[int, Deliveries], *owed: Mapping[int, Deliveries]
) -> dict[int, Deliveries]:
    """Add how trees ended to what could not be told to spouts yet."""
    deliveries = dict(ended)
    for of_some in owed:
        for origin, old in of_some.items():
            deliveries[origin] = old.plus(deliveries[origin]) if origin in deliveries else old
    return deliveries


def ended_trees(
    summaries: Sequence[Summary], known: Container[int], *, tells_causes: bool = False
) -> dict[int, Deliveries]:
    """How trees ended, by origin of their spout task.

    Args:
        summaries: Of all parts of a batch.
        known: Origins that have a task. Others are left out.
        tells_causes: Whether messages may be given up: then it is told where they failed.
    """
    acked: dict[int, list[Ranges]] = {}
    failed: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for summary in summaries:
        for origin, ranges in summary.acked.items():
            acked.setdefault(origin, []).append(ranges)
        for origin, sequence, reason in summary.failed:
            failed[origin].append((sequence, reason))
    none = np.empty((0, 2), np.int64)
    causes = _causes(summaries) if failed and tells_causes else {}
    return {
        origin: Deliveries(
            merged(np.concatenate(acked.get(origin, [none]))),
            tuple(failed.get(origin, ())),
            {why: causes[why] for _, why in failed.get(origin, ()) if why in causes},
        )
        for origin in acked.keys() | failed.keys()
        if origin in known
    }


def _causes(summaries: Sequence[Summary]) -> dict[str, tuple[str, str]]:
    """Which task failed tuples for a reason, and the traceback if there is one, by the reason."""
    causes: dict[str, tuple[str, str]] = {}
    for failure in (failure for summary in summaries for failure in summary.failures):
        causes[failure.example] = f"{failure.component!r}, task {failure.task}", ""
    for error in (error for summary in summaries for error in summary.errors):
        who = f"{error.component!r}, task {error.task}"
        if error.traceback:
            # as `TaskErrors.failure` words it, and as a ReportedFailedException says it itself
            causes[f"bolt {error.component!r}: {error.message}"] = who, error.traceback
            causes[error.message.partition(": ")[2]] = who, error.traceback
    return causes


def did_something(summaries: Sequence[Summary]) -> bool:
    """Whether any component emitted or executed a tuple, or says that it did something else."""
    return any(s.did_something for s in summaries) or any(
        n for s in summaries for (_, what, _), n in s.counts.items() if what in (EXECUTED, EMITTED)
    )


def only_ticked(summaries: Sequence[Summary]) -> bool:
    """Whether ticks are all that happened: they come whether or not there is any input."""
    keys = [key for s in summaries for key, n in s.counts.items() if n]
    happened = [of for _, what, of in keys if what in (EXECUTED, EMITTED)]
    is_told = any(s.did_something for s in summaries)
    return bool(happened) and not is_told and all(of == TICKS for of in happened)


def away_in(summaries: Sequence[Summary], tasks: Container[int]) -> bool:
    """Whether what one of these tasks connects to is away."""
    return any(e.service and e.task in tasks for s in summaries for e in s.errors)


def count(deliveries: Mapping[int, Deliveries]) -> int:
    """How many messages they are about."""
    return sum(len(d) for d in deliveries.values())
