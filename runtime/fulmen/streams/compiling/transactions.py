"""What is other in a pipeline whose sources have transactions, and what it can't have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fulmen.api import Stream, TransactionalSource
from fulmen.streams.bolts.folds import KeyedFold
from fulmen.streams.compiling.declared import wrong
from fulmen.streams.graph.nodes import ComponentNode, Graph
from fulmen.topology.code.sinks import without_attempt
from fulmen.windows import (
    Aggregate,
    Deduplicate,
    IntervalJoin,
    LookupJoin,
    PersistentAggregate,
    RegularJoin,
    RunningAggregate,
    TableJoin,
    TemporalJoin,
    TransactionAggregate,
    WindowJoin,
)

ATTEMPT = "tx"
"""The first field of what our bolts emit: functions don't see it."""
_JOIN = (
    "a row of a join may wait for one that comes in a later transaction, and its own is over then",
    "Join what sinks have written, or take sources without transactions.",
)
_KEPT = (
    "what is kept of a key would be in no store, and several transactions are active side by side",
    "Write persistent_aggregate, which keeps it in a store, exactly once.",
)
REFUSED: Mapping[type, tuple[str, str]] = {
    Aggregate: (
        "a window ends by the time of events, and no transaction is there that its result could"
        " belong to",
        "Write aggregate without a window, for each transaction, or persistent_aggregate; or"
        " process(fulmen.windows.TransactionAggregate, window=…), whose windows are ended by what"
        " transactions bring.",
    ),
    Deduplicate: (
        "an id is forgotten by the time of events, which transactions don't have",
        "Write process(fulmen.windows.TransactionDeduplicate, …), which counts transactions.",
    ),
    KeyedFold: _KEPT,
    **dict.fromkeys(
        (IntervalJoin, LookupJoin, RegularJoin, TableJoin, TemporalJoin, WindowJoin), _JOIN
    ),
}
"""Classes that calls stand for, and why transactions have none of them."""


def has_transactions(graph: Graph) -> bool:
    """Whether a source has transactions: then all must have them."""
    return any(_is_source(node) for node in graph.nodes)


def code_of(node: ComponentNode) -> Any:
    """The class of a component among transactions: aggregates are those of each transaction.

    Raises:
        ValidationFailed: There can be no such component.
    """
    if node.is_spout and not _is_source(node):
        raise wrong(
            "another source has transactions, and this one has none",
            "Take a transactional source here, too, or none at all.",
        )
    if "set_event_time" in node.says:
        raise wrong("there is no event time among transactions", "Remove event_time.")
    if node.cls in REFUSED:
        raise wrong(*REFUSED[node.cls])
    return TransactionAggregate if node.cls is RunningAggregate else node.code


def check_ordinary(node: ComponentNode) -> None:
    """Find what only transactions have.

    Raises:
        ValidationFailed: It is such a thing.
    """
    if node.cls is PersistentAggregate:
        raise wrong(
            "persistent_aggregate needs sources with transactions: without them, what comes again"
            " would count again",
            "Take a transactional source, or aggregate and an exactly-once sink.",
        )


def as_rows(node: ComponentNode, streams: Mapping[str, Stream]) -> dict[str, Stream]:
    """The streams of a component as functions see them: without the attempt, their first field."""
    if node.is_sink:  # which declares none
        return dict(streams)
    return {name: without_attempt(stream) for name, stream in streams.items()}


def _is_source(node: object) -> bool:
    return (
        isinstance(node, ComponentNode)
        and node.is_spout
        and issubclass(node.cls, TransactionalSource)
    )
