"""What a batch that ran to its end amounts to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fulmen.engine.batches.transactions import Outcome
from fulmen.engine.protocol.deliveries import Deliveries
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.statistics import EMITTED, EXECUTED
from fulmen.engine.protocol.summary import Summary


@dataclass(frozen=True)
class Done:
    """What a successful batch amounts to.

    Attributes:
        header: Of the attempt.
        summaries: Of all its stages and workers.
        seconds: How long it took.
        deliveries: How trees ended, to be told to spout tasks in the next batch.
        skipped: Stages that did not run, as there was nothing for them.
        transactions: What it means for transactions; None: the topology has none.
        commits: Whether there is anything to write; if not, its tag becomes the base all the same.
        idle: Nothing was emitted, executed, delivered or ended.
        holds: Task -> why spouts are to emit nothing after it.
    """

    header: Header
    summaries: Sequence[Summary]
    seconds: float
    deliveries: Mapping[int, Deliveries]
    skipped: Sequence[int]
    commits: bool
    idle: bool
    transactions: Outcome | None = None
    holds: Mapping[int, str] = field(default_factory=dict)


def executed(summaries: Sequence[Summary]) -> bool:
    """Whether any component emitted or executed a tuple."""
    return any(
        n for s in summaries for (_, what, _), n in s.counts.items() if what in (EXECUTED, EMITTED)
    )


def count(deliveries: Mapping[int, Deliveries]) -> int:
    """How many messages they are about."""
    return sum(len(d) for d in deliveries.values())
