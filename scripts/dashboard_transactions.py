"""The dashboard's panels about transactions; they are empty for other topologies."""

from collections.abc import Iterator
from typing import Any

from dashboard_panels import EACH, NONE_IS_GOOD, figure, limits, lines, quantile

OUTCOME = "{{outcome}}"
SECONDS = "fulmen_transaction_seconds"


def progress() -> Iterator[Any]:
    """How far transactions have come. Only transactional topologies have these figures."""
    yield figure(
        "Committed txid",
        "The last transaction that is committed; the one after it is the head. It does not rise "
        "although the source has messages: see Head failures.",
        "none",
        {"committed": "max(fulmen_transaction_committed_txid{OF})"},
        width=4,
    )
    yield figure(
        "Commits",
        "Transactions that were committed, per second: the throughput of a transactional topology.",
        "cps",
        {"committed": 'sum(rate(fulmen_transaction_attempts_total{OF, outcome="committed"}[R]))'},
        width=4,
    )
    yield figure(
        "Head failures",
        "Attempts of the first transaction that is not committed that have failed. Growing: it "
        "fails again and again, and none behind it can be committed. The topology's own page says "
        "why it fails; maxReplays gives it up.",
        "none",
        {"failures": "max(fulmen_transaction_head_failures{OF})"},
        width=4,
        colours=NONE_IS_GOOD,
    )
    yield figure(
        "Active transactions",
        "Attempts on their way, by phase: maxSpoutPending at most. `processed` wait for those "
        "before them to be committed.",
        "none",
        {"{{phase}}": "sum by (phase) (fulmen_transactions_active{OF})"},
        width=8,
        colours=limits("blue"),
    )
    yield figure(
        "Lag of the source",
        "Messages of the source that are in no transaction yet, if it knows. Growing: the topology "
        "can't follow; see how long transactions take, and Capacity.",
        "short",
        {EACH: "sum by (component) (fulmen_source_lag_messages{OF})"},
        width=4,
    )


def attempts() -> Iterator[Any]:
    """How attempts end, and what takes their time."""
    yield lines(
        "Attempts, by outcome",
        "Attempts that ended, per second. `failed`: a component failed it. `cascaded`: one before "
        "it failed. `lost`: its batch came to nothing. `given_up`: its transaction had failed "
        "more often than maxReplays allows, and none of its tuples was processed.",
        "cps",
        {OUTCOME: "sum by (outcome) (rate(fulmen_transaction_attempts_total{OF}[R]))"},
        width=12,
        is_stacked=True,
    )
    yield lines(
        "Transaction duration",
        "Of transactions that were committed. `processing`: until every bolt had its tuples. "
        "`processed`: waiting for its commit; long: those before it take long. `committing`: "
        "finish_batch of the committers. `complete`: all of these.",
        "s",
        {
            "{{phase}} p50": quantile(0.5, SECONDS, "phase"),
            "{{phase}} p99": quantile(0.99, SECONDS, "phase"),
        },
        width=12,
    )
