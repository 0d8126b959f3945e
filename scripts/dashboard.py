"""Writes the dashboard for Grafana into the chart, with Grafana's own library for that.

It is not kept in the repository: make dashboard
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard, DatasourceVariable, Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    ValueMap,
    ValueMappingResult,
)

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from dashboard_components import (  # noqa: E402  (a script finds its neighbours so)
    component_counts,
    component_troubles,
    lag_and_waits,
    others,
    workers,
)
from dashboard_panels import (  # noqa: E402
    EACH,
    GOOD,
    NONE_IS_GOOD,
    TREES,
    WARNING,
    choice,
    figure,
    limits,
    lines,
    per_minute,
    quantile,
)
from dashboard_transactions import attempts, progress  # noqa: E402

FILE = ROOT / "charts" / "fulmen" / "dashboards" / "topology.json"
UID = "fulmen-topology"

STATES = ValueMap(
    {
        "1": ValueMappingResult("active", GOOD),
        "0": ValueMappingResult("not active", WARNING),
    }
)


def state() -> Iterator[Any]:
    """Whether it runs, and on how much."""
    yield figure(
        "State",
        "Active: spouts may emit. Not active: it is suspended, drains, or has not run a batch yet. "
        "Nothing at all: no driver is scraped; see `kubectl get topologies`.",
        "none",
        {"state": "max(fulmen_active{OF})"},
        width=3,
        is_history=False,
        looks={"state": {"mappings": [STATES]}},
    )
    yield figure(
        "Driver up for",
        "Since the driver started; counters start anew with it. Short again and again: see the "
        "topology's events and the end of the last driver's log.",
        "s",
        {"up": "max(fulmen_uptime_seconds{OF})"},
        width=3,
        is_history=False,
    )
    yield figure(
        "Workers",
        "That are asked for, there, and missing; the rest does their work meanwhile. Missing for "
        "minutes: see why their pods are not ready.",
        "none",
        {
            "asked for": "max(fulmen_workers{OF})",
            "there": "max(fulmen_workers_present{OF})",
            "missing": "max(fulmen_workers{OF}) - max(fulmen_workers_present{OF})",
        },
        width=5,
        is_history=False,
        looks={"missing": {"thresholds": NONE_IS_GOOD.build()}},
    )


def trees() -> Iterator[Any]:
    """How the spouts' messages fare."""
    yield figure(
        "Trees acked",
        "Messages of spouts that every bolt was done with, per second: the topology's throughput.",
        "cps",
        {"acked": f"sum(rate(fulmen_acked_total{{{TREES}}}[R]))"},
        width=3,
        colours=limits(GOOD),
    )
    yield figure(
        "Trees failed",
        "Per second, by reason. `failed`: a bolt raised or failed a tuple, see Errors. `timeout`: "
        "something is never acked, or takes longer than messageTimeoutSeconds. `crashed worker`: "
        "a tuple ended its worker again and again, and was dropped.",
        "cps",
        {"{{reason}}": f"sum by (reason) (rate(fulmen_failed_total{{{TREES}}}[R]))"},
        width=4,
        colours=NONE_IS_GOOD,
    )
    yield figure(
        "Complete latency",
        "From the emit of a spout until the batch in which its tree was acked was committed. High: "
        "see Capacity, and how long batches take.",
        "s",
        {
            "p50": quantile(0.5, "fulmen_complete_latency_seconds"),
            "p99": quantile(0.99, "fulmen_complete_latency_seconds"),
        },
        width=3,
    )
    yield figure(
        "Pending trees",
        "Messages that are on their way. Growing: bolts can't follow, or do not ack. "
        "maxSpoutPending limits it.",
        "short",
        {"pending": "sum(fulmen_acker_pending_trees{OF})"},
        width=3,
    )


def ackers() -> Iterator[Any]:
    """What `__acker` does."""
    yield lines(
        "Executed by __acker",
        "Messages that ackers execute, per second: `__ack_init` for each tree of a spout, "
        "`__ack_ack` for each acked tuple of a tree, `__ack_fail` for each failed one. Nothing "
        "although spouts emit: they emit without a message id, or there are no ackers.",
        "cps",
        {"{{stream}}": "sum by (stream) (rate(fulmen_acker_executed_total{OF}[R]))"},
    )
    yield lines(
        "Trees acked, by acker task",
        "Trees that each acker task saw acked entirely, per second. About as many each: trees are "
        "spread by chance.",
        "cps",
        {"task {{task}}": "sum by (task) (rate(fulmen_acker_trees_acked_total{OF}[R]))"},
        is_stacked=True,
    )
    yield lines(
        "Trees failed, by acker task",
        "Trees that each acker task saw fail or time out, per second. Reasons are above.",
        "cps",
        {"task {{task}}": "sum by (task) (rate(fulmen_acker_trees_failed_total{OF}[R]))"},
        is_stacked=True,
    )
    yield lines(
        "Pending trees, by acker task",
        "Trees that each acker task keeps. They end with their last ack, a fail, or after "
        "messageTimeoutSeconds.",
        "short",
        {"task {{task}}": "sum by (task) (fulmen_acker_pending_trees{OF})"},
        width=12,
        is_stacked=True,
    )
    yield lines(
        "Pending messages, by spout",
        "Not acked or failed yet, or the spout was not told yet. At maxSpoutPending times its "
        "tasks: the spout waits for the bolts.",
        "short",
        {EACH: "sum by (component) (fulmen_spout_pending_messages{OF})"},
        width=12,
        is_stacked=True,
    )


def batches() -> Iterator[Any]:
    """The batches and what they cost."""
    phases = "fulmen_batch_seconds"
    yield lines(
        "Batch duration",
        "`run`: the batch's jobs. `commit`: until it was durable. `wait`: since the batch before; "
        "long only in an idle topology and after failed attempts. Long commits: see the "
        "checkpoint's store. Long runs: see Capacity.",
        "s",
        {
            "{{phase}} p50": quantile(0.5, phases, "phase"),
            "{{phase}} p99": quantile(0.99, phases, "phase"),
        },
    )
    yield lines(
        "Batches",
        "That counted, per second. None: the topology does not get on; see the driver's log and "
        "the topology's conditions.",
        "cps",
        {"batches": "sum(rate(fulmen_batches_total{OF}[R]))"},
    )
    yield lines(
        "Failed attempts",
        "Attempts of batches that came to nothing and were repeated, per minute. A few when a "
        "worker is lost; many: the driver's log says why.",
        "cpm",
        {"failed attempts": "60 * sum(rate(fulmen_failed_attempts_total{OF}[R]))"},
    )
    yield lines(
        "Permits",
        "Tuples that all tasks of a spout may emit in a batch. The topology sets them such that "
        "batches last about batchTargetMillis; falling: tuples have become more expensive.",
        "short",
        {EACH: "sum by (component) (fulmen_permit_tuples{OF})"},
    )
    yield lines(
        "Checkpoint, bytes",
        "Written per second: commits, and files of large state. High: keep less in `state`, or "
        "change fewer keys of it.",
        "Bps",
        {"{{part}}": "sum by (part) (rate(fulmen_checkpoint_bytes_total{OF}[R]))"},
        is_stacked=True,
    )
    yield lines(
        "Checkpoint, time",
        "Share of the time. `commit`: until commits were durable. `state`: of all workers "
        "together, to pickle and write state.",
        "percentunit",
        {"{{part}}": "sum by (part) (rate(fulmen_checkpoint_seconds_total{OF}[R]))"},
    )


def recoveries() -> Iterator[Any]:
    """What went wrong and was made good."""
    yield lines(
        "Errors",
        "Exceptions in a component's code, and what it gave to `report_error`, per minute. The "
        "topology's own page and the driver's log have their texts.",
        "cpm",
        {EACH: per_minute("fulmen_errors_total", "component")},
        width=6,
    )
    yield lines(
        "Reasons of failures",
        "Tuples that components failed, by the kind of reason, per minute.",
        "cpm",
        {
            f"{EACH}: {{{{reason}}}}": (
                "60 * sum by (component, reason) (rate(fulmen_failure_reasons_total{OF}[R]))"
            )
        },
        width=6,
    )
    yield lines(
        "Messages that wait",
        "Messages of spouts, and results of bolts, that have failed, and come again after a pause.",
        "none",
        {
            EACH: "sum by (component) (fulmen_spout_resting_messages{OF})",
            f"{EACH} results": "sum by (component) (fulmen_result_resting{OF})",
        },
        width=6,
    )
    yield lines(
        "Replayed",
        "Messages and results that were emitted again after they failed, per minute. The same ones "
        "for ever: set maxReplays.",
        "cpm",
        {EACH: per_minute("fulmen_replayed_total", "component")},
        width=6,
    )
    yield lines(
        "Dead letters",
        "Messages that were given up after maxReplays failures, and tuples that were dropped "
        "because they kill their workers, per minute; and how many the checkpoint keeps, for "
        "`fulmen dead-letters` to show and to send again.",
        "cpm",
        {
            EACH: per_minute("fulmen_dead_lettered_total", "component"),
            f"{EACH} dropped": per_minute("fulmen_dropped_total", "component"),
            f"{EACH} kept": "sum by (component) (fulmen_dead_letters_kept{OF})",
        },
        width=6,
    )
    yield lines(
        "Results",
        "What bolts emit by themselves: how their trees ended, per minute, and how many are "
        "pending.",
        "cpm",
        {
            f"{EACH} {{{{outcome}}}}": (
                "60 * sum by (component, outcome) (rate(fulmen_result_trees_total{OF}[R]))"
            ),
            f"{EACH} pending": "sum by (component) (fulmen_result_pending{OF})",
        },
        width=6,
    )
    yield lines(
        "Restored tasks",
        "Times that a task's state was read from the checkpoint, per minute: after a lost worker, "
        "or when executors move. Again and again: workers are lost; see why their pods end.",
        "cpm",
        {EACH: per_minute("fulmen_restored_tasks_total", "component")},
        width=6,
    )
    yield lines(
        "Size of state",
        "What self.state of all tasks takes in the checkpoint.",
        "bytes",
        {EACH: "sum by (component) (fulmen_state_bytes{OF})"},
        width=6,
    )
    yield lines(
        "Growth of state, keys per hour",
        "Over the last hour. Always above 0: keys are never deleted; see state_ttl.",
        "short",
        {EACH: "3600 * sum by (component) (deriv(fulmen_state_keys{OF}[1h]))"},
        width=6,
    )


ROWS = {
    "At a glance": (state, trees),
    "__acker throughput": (ackers,),
    "Transactions": (progress, attempts),
    "Components": (component_counts, component_troubles),
    "Lag and backpressure": (lag_and_waits,),
    "Workers": (workers,),
    "Batches": (batches,),
    "Recoveries": (recoveries,),
}


def dashboard() -> Dashboard:
    """The whole of it."""
    made = (
        Dashboard("Fulmen topology")
        .uid(UID)
        .description("A topology that runs on Fulmen. docs/metrics.md explains each metric.")
        .tags(["fulmen"])
        .time("now-30m", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(choice("namespace", "fulmen_workers", or_all=True))
        .with_variable(choice("topology", 'fulmen_workers{namespace=~"$namespace"}'))
    )
    rows = {title: [panel for part in parts for panel in part()] for title, parts in ROWS.items()}
    shown = json.dumps([panel.build() for row in rows.values() for panel in row], cls=JSONEncoder)
    rows["Components"] += others(shown)
    number = 0
    for title, panels in rows.items():
        number += 1
        made.with_row(Row(title).id(number))
        for panel in panels:
            number += 1
            made.with_panel(panel.id(number))
    return made


def text() -> str:
    """What must be in the file."""
    return json.dumps(dashboard().build(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text(), encoding="utf-8")
