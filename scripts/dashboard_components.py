"""The dashboard's panels about components and workers."""

from collections.abc import Iterator
from typing import Any

from dashboard_panels import CAPACITY, EACH, columns, lines, mean, per_minute

from fulmen.engine.protocol.figures.statistics import FIGURES, FigureKind


def component_counts() -> Iterator[Any]:
    """Storm's statistics of each component."""
    yield columns(
        "Components",
        "Each component now; errors are those of the time that is shown. Capacity near 100 %: "
        "give the component more parallelism, or make `execute` faster.",
        "component",
        {
            "executors": "sum by (component) (fulmen_executors{OF})",
            "tasks": "sum by (component) (fulmen_tasks{OF})",
            "capacity": "max by (component) (fulmen_capacity_ratio{OF})",
            "executed/s": "sum by (component) (rate(fulmen_executed_total{OF}[R]))",
            "emitted/s": "sum by (component) (rate(fulmen_emitted_total{OF}[R]))",
            "execute latency": mean("fulmen_execute_latency_seconds", "component"),
            "errors": "sum by (component) (increase(fulmen_errors_total{OF}[$__range]))",
        },
        {
            "capacity": {
                "unit": "percentunit",
                "thresholds": CAPACITY.build(),
                "custom.cellOptions": {"type": "color-text"},
            },
            "execute latency": {"unit": "s"},
            "errors": {"decimals": 0},
        },
    )
    yield lines(
        "Executed",
        "Calls of `execute` per second, ticks included.",
        "cps",
        {EACH: "sum by (component) (rate(fulmen_executed_total{OF}[R]))"},
    )
    yield lines(
        "Emitted",
        "Calls of `emit` per second, on all streams.",
        "cps",
        {EACH: "sum by (component) (rate(fulmen_emitted_total{OF}[R]))"},
    )
    yield lines(
        "Transferred",
        "Copies of tuples sent to tasks, per second: one for each task with an all grouping, none "
        "if nobody subscribes.",
        "cps",
        {EACH: "sum by (component) (rate(fulmen_transferred_total{OF}[R]))"},
    )


def component_troubles() -> Iterator[Any]:
    """Which component is too slow, and which one fails."""
    yield lines(
        "Capacity",
        "Share of the last 10 minutes that the component's busiest executor was in `execute`. Near "
        "100 % it can't do more: raise its parallelism and, if workers have no time left, workers; "
        "if it waits for something outside, `blocking: true`.",
        "percentunit",
        {EACH: "max by (component) (fulmen_capacity_ratio{OF})"},
        limit=CAPACITY,
    )
    yield lines(
        "Execute latency, mean",
        "Time in `execute` for one tuple.",
        "s",
        {EACH: mean("fulmen_execute_latency_seconds", "component")},
    )
    yield lines(
        "Process latency, mean",
        "From the start of `execute` to the ack of that tuple. Much more than the execute latency: "
        "the bolt keeps tuples and acks them later.",
        "s",
        {EACH: mean("fulmen_process_latency_seconds", "component")},
    )
    yield lines(
        "Acked by bolts",
        "Inputs that bolts acked, per second. Less than executed for long: a bolt forgets to ack, "
        "and trees time out.",
        "cps",
        {EACH: 'sum by (component) (rate(fulmen_acked_total{OF, source_component!=""}[R]))'},
        width=12,
    )
    yield lines(
        "Failed, by reason",
        "Of bolts: inputs that they failed, per second. Of spouts: trees. See Errors, and the "
        "driver's log for what was raised.",
        "cps",
        {
            "{{component}} {{reason}}": "sum by (component, reason) "
            '(rate(fulmen_failed_total{OF, component!="__acker"}[R]))'
        },
        width=12,
    )


def others(shown: str) -> Iterator[Any]:
    """A panel for each figure that is declared, and that no other panel shows.

    Args:
        shown: All queries of the others.
    """
    for figure in FIGURES:
        name = f"fulmen_{figure.metric}"
        if not figure.help or figure.kind is FigureKind.TIMES or name in shown:
            continue
        is_sum = figure.kind is FigureKind.SUM
        label = "component" if figure.is_of_components else figure.label
        by, legend = (f" by ({label})", f"{{{{{label}}}}}") if label else ("", figure.heading)
        query = f"rate({name}_total{{OF}}[R])" if is_sum else f"{name}{{OF}}"
        unit = "cps" if is_sum else "short"
        yield lines(figure.heading.capitalize(), figure.help, unit, {legend: f"sum{by} ({query})"})


def lag_and_waits() -> Iterator[Any]:
    """How far spouts are behind, and what holds them up."""
    yield lines(
        "Lag, messages",
        "Messages of its source that a spout has not emitted yet, if the spout says so. Growing: "
        "the topology can't follow; see Capacity, and whether workers have time left.",
        "short",
        {EACH: "sum by (component) (fulmen_spout_lag_messages{OF})"},
        width=6,
    )
    yield lines(
        "Lag, seconds",
        "Age of the oldest message that a spout has not emitted yet, if the spout says so.",
        "s",
        {EACH: "max by (component) (fulmen_spout_lag_seconds{OF})"},
        width=6,
    )
    yield lines(
        "Services away",
        "For how long a service has been away that a component needs. Nothing is lost; batches "
        "wait until the service answers.",
        "s",
        {
            "{{component}} {{service}}": "max by (component, service) "
            "(fulmen_service_away_seconds{OF})"
        },
        width=6,
    )
    yield lines(
        "Spouts held",
        "Tasks of a bolt that hold the spouts, because a buffer is full. For long: what the bolt "
        "writes to is too slow; the topology's own page says why.",
        "short",
        {EACH: "sum by (component) (fulmen_holding_tasks{OF})"},
        width=6,
    )
    yield lines(
        "Watermark, behind the clock",
        "How far the event time of what a component has dealt with is behind the clock. Growing "
        "with the time of day: no tuple comes, or a part of a source is silent; see idleTimeout.",
        "s",
        {EACH: "time() - max by (component) (fulmen_watermark_timestamp_seconds{OF})"},
        width=6,
    )
    yield lines(
        "Watermark, held by",
        "For how long the part that holds the watermark of a source has had no tuple. Growing: the "
        "part is silent; with idleTimeout it holds up nothing.",
        "s",
        {
            "{{component}} {{part}}": "max by (component, part) "
            "(fulmen_watermark_silent_seconds{OF})"
        },
        width=6,
    )
    yield lines(
        "Timers",
        "Timers that are set: one for each open window, or each key with sessions. Growing without "
        "end: the watermark stands.",
        "short",
        {EACH: "sum by (component) (fulmen_timers{OF})"},
        width=6,
    )
    yield lines(
        "Without a usable time",
        "Tuples that went to the stream `__late`, per minute: their event time can't be used, or "
        "is ahead of the clock.",
        "cpm",
        {"{{component}} {{reason}}": per_minute("fulmen_untimed_total", "component, reason")},
        width=6,
    )


def workers() -> Iterator[Any]:
    """How much each worker has to do, and where it is."""
    yield lines(
        "Workers at work",
        "Share of the time that each worker was at work, and how much of it it had no processor, "
        "though it was ready to run. Near 100 % at work in all of them: add workers, or give their "
        "nodes more processors if they are often without one. "
        "In one of them only: the topology's own page shows which executors it has, and whether "
        "one of their tasks gets more tuples than the others.",
        "percentunit",
        {
            "worker {{worker}}": "max by (worker) (fulmen_worker_busy_ratio{OF})",
            "worker {{worker}} without a processor": (
                "max by (worker) (fulmen_worker_run_delay_ratio{OF})"
            ),
        },
        width=12,
    )
    yield lines(
        "Number of workers",
        "That are asked for, by `workers` or by `autoscale`, and that are there. Going up and down "
        "again and again: `autoscale` has too short an `upAfter` or `downAfter`. `fulmen why` and "
        "the topology's own page say why the number is what it is.",
        "none",
        {
            "asked for": "max(fulmen_workers{OF})",
            "there": "max(fulmen_workers_present{OF})",
        },
        width=12,
    )
    yield lines(
        "Memory of workers",
        "Resident memory of each worker's process. Growing: look at what bolts keep in their "
        "fields and in `state`. At the limit of the pod, its workers are killed.",
        "bytes",
        {
            "worker {{worker}} on {{host}}": "fulmen_worker_memory_bytes{OF} "
            "* on (namespace, topology, worker) group_left (host) fulmen_worker_info{OF}"
        },
        width=12,
    )
