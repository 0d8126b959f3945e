"""`fulmen why`: from what is known of a topology to sentences with cures."""

import json
import re
from datetime import UTC, datetime

import pytest

from fulmen.cli.display.served_figures import TopologyView
from fulmen.cli.display.why.cluster import (
    condition_findings,
    event_findings,
    is_about,
    scaling_findings,
)
from fulmen.cli.display.why.explanations import EXPLANATIONS, explanation_of, plain
from fulmen.cli.display.why.finding import Finding, cure_of
from fulmen.cli.display.why.findings import NOTHING, Known, why, why_lines
from fulmen.cli.display.why.run import (
    CURES,
    RunReport,
    failures_of_report,
    failures_of_view,
    latency_of_report,
    time_findings,
    wait_findings,
)
from fulmen.metrics import MetricsServer
from support.cli.fake_kubectl import Fails, topology
from support.docs.pages import anchors, blocks
from support.runs.metered import run_metered

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC).timestamp()
DONE = {"Ready": "True", "Reconciling": "False", "Stalled": "False", "SpecAccepted": "True"}


def on_cluster(conditions=(), annotations=None, generation=1, observed=1, **status):
    """A topology with conditions: (type, status, reason, message)."""
    names = ("type", "status", "reason", "message")
    status["conditions"] = [dict(zip(names, found, strict=True)) for found in conditions]
    made = topology(generation=generation, observed=observed, status=status)
    made["metadata"]["annotations"] = annotations or {}
    return made


# ---- conditions, restarts, errors


@pytest.mark.parametrize(
    ("found", "findings"),
    [
        (on_cluster(), []),
        (on_cluster([("Ready", "True", "Active", ""), ("Stalled", "False", "AsExpected", "")]), []),
        (on_cluster([("Ready", "True", "Active", "running")]), []),
        (
            on_cluster([("Ready", "False", "OOMKilled", "it had 1 GiB")]),
            [
                Finding(
                    "Ready is False, OOMKilled: the driver's memory was not enough. it had 1 GiB",
                    "Raise `driver.resources.limits.memory`.",
                )
            ],
        ),
        (  # a start that waits for what Placed names is no reason to wait
            on_cluster(
                [
                    ("Ready", "False", "Starting", "exec-3: no such bucket"),
                    ("Reconciling", "True", "Starting", "exec-3: no such bucket"),
                    ("Placed", "False", "Odd", "no worker hosts anything; exec-3: no such bucket"),
                ]
            ),
            [Finding("Placed is False, Odd. no worker hosts anything; exec-3: no such bucket")],
        ),
        (  # one reason is told once, where it explains most
            on_cluster(
                [
                    ("Ready", "False", "InvalidSpec", "bolt 'a'"),
                    ("SpecAccepted", "False", "InvalidSpec", "bolt 'a': no class."),
                    ("Stalled", "True", "InvalidSpec", "bolt 'a'"),
                ]
            ),
            [
                Finding(
                    "SpecAccepted is False, InvalidSpec: there are mistakes in the spec or the"
                    " code, or other numbers of tasks than the checkpoint has; the message lists"
                    " them all. bolt 'a': no class.",
                    "Mend them and apply again.",
                )
            ],
        ),
        (  # in Kubernetes' own words
            on_cluster([("Placed", "False", "CreateContainerError", "no room")]),
            [Finding("Placed is False, CreateContainerError. no room")],
        ),
        (
            on_cluster([("SpecAccepted", "True", "AcceptedWithWarnings", "no timeout")]),
            [
                Finding(
                    "SpecAccepted is True, AcceptedWithWarnings: the newest spec is running. no"
                    " timeout",
                    "Read the warnings.",
                )
            ],
        ),
        (
            on_cluster([("Ready", "True", "Active", "batch 3 is run again")]),
            [
                Finding(
                    "it is Active: batch 3 is run again",
                    "Troubleshooting (docs/troubleshooting.md#batches-are-run-again).",
                )
            ],
        ),
        (
            on_cluster(annotations={"fulmen.dev/paused": "true"}),
            [
                Finding(
                    "the annotation fulmen.dev/paused is set: the operator changes nothing of it",
                    "Remove the annotation.",
                )
            ],
        ),
        (
            on_cluster(generation=2),
            [
                Finding(
                    "the operator has not looked at the newest spec yet",
                    "Wait. If that lasts, see whether the operator runs: kubectl --namespace fulmen"
                    " rollout status deployment/fulmen-operator",
                )
            ],
        ),
        (  # long ago, and all is well since
            on_cluster(restarts={"count": 2, "failures": 0, "time": "2026-11-20T10:00:00Z"}),
            [],
        ),
        (
            on_cluster(
                restarts={
                    "count": 4,
                    "failures": 3,
                    "cause": "CheckpointUnreachable",
                    "message": "no route",
                    "time": "2026-11-20T10:00:00Z",
                }
            ),
            [
                Finding(
                    "its driver was started again 4 times, 3 of them in a row. The last one ended"
                    " at 2026-11-20T10:00:00Z: CheckpointUnreachable: no route",
                    "Mend the store; the driver tries again. Pods read Secrets when they start:"
                    " after a change of one, change `spec.restartNonce`.",
                )
            ],
        ),
        (
            on_cluster(
                restarts={"count": 1, "cause": "Evicted", "time": "2026-11-20T11:30:00Z"}
            ),
            [
                Finding(
                    "its driver was started again once. The last one ended at"
                    " 2026-11-20T11:30:00Z: Evicted"
                )
            ],
        ),
    ],
)  # fmt: skip
def test_a_status_says_how_a_topology_is(found, findings):
    assert list(condition_findings(found, NOW)) == findings


def test_a_number_of_workers_that_does_not_grow_is_told_with_the_cure():
    message = "batches take more than targetCapacity of the time, and maxWorkers is 4"
    scaling = {"workers": 4, "reason": "AtMaximum", "message": message}
    found = on_cluster([("Ready", "True", "Active", "")], autoscale=scaling)
    told = [event(reason="NotScaled", message=message)]
    (state,) = why(Known(NOW, found, told))
    assert state.findings == [Finding(f"it has 4 workers: {message}", "Raise `maxWorkers`.")]
    enough = on_cluster(
        [("Ready", "True", "Active", "")], autoscale={**scaling, "reason": "Enough"}
    )
    assert list(scaling_findings(enough)) == []
    state, scales = why(Known(NOW, enough))
    assert state.findings == [Finding(NOTHING)]
    assert (scales.title, scales.findings) == (
        "How it scales",
        [Finding(f"autoscale: 4 workers; now Enough: {message}")],
    )


def test_errors_of_a_status_are_told_if_the_driver_says_nothing():
    error = {"component": "split", "task": 3, "message": "no", "time": "T", "count": 1200}
    (_, fails) = why(Known(NOW, on_cluster([("Ready", "False", "Error", "")], errors=[error])))
    assert fails.title == "What fails"
    assert fails.findings == [Finding("split, task 3: no (last at T, 1,200 times)")]


# ---- events


def event(at="11:58:00", reason="OOMKilled", message="no memory", name="word-count-driver-1", **of):
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-11-20T{at}Z",
        "involvedObject": {"kind": "Pod", "name": name},
        **of,
    }


def test_the_newest_warnings_come_first_and_each_once():
    events = [
        event("11:50:00", message="older"),
        event(count=3),
        event("11:57:00"),  # the same once more
        event("10:59:00", message="an hour ago and more"),
        event(type="Normal", message="no warning"),
        event(lastTimestamp=None, eventTime="2026-11-20T11:59:30.123456Z", message="new\nwords"),
    ]
    assert [finding.text for finding in event_findings(events, NOW)] == [
        "29 s ago, OOMKilled of pod word-count-driver-1: new words",
        "2 min ago, OOMKilled of pod word-count-driver-1: no memory (3 times)",
        "10 min ago, OOMKilled of pod word-count-driver-1: older",
    ]
    assert event_findings(events, NOW)[0].cure == "Raise `driver.resources.limits.memory`."


def test_an_event_that_says_no_more_than_a_condition_is_left_out():
    told = [Finding("Ready is False, OOMKilled. no memory")]
    events = [event(message="no memory"), event(message="another")]
    assert [found.text.rpartition(": ")[2] for found in event_findings(events, NOW, told)] == [
        "another"
    ]


def test_no_more_events_are_told_than_fit_on_a_page():
    assert len(event_findings([event(message=str(n)) for n in range(50)], NOW)) == 5


def test_probes_that_fail_in_each_start_hide_no_other_event():
    probes = [
        event(reason="Unhealthy", message=f"{kind} probe failed: Get http://10.0.0.{n}: refused")
        for n in range(5)
        for kind in ("Startup", "Readiness")
    ]
    dies = event(at="11:50:00", reason="Unhealthy", message="Liveness probe failed: timeout")
    [found] = event_findings([*probes, dies], NOW)
    assert found.text.endswith("Liveness probe failed: timeout")


@pytest.mark.parametrize(
    ("pod", "is_own"),
    [
        ("word-count-driver-12", True),
        ("word-count-1-exec-3", True),
        ("word-count-preflight-0a1b2c", True),
        ("known", True),
        ("word-count-other-driver-1", False),
        ("other-word-count-driver-1", False),
        ("word-count-driver-1x", False),
    ],
)
def test_an_event_is_of_the_topology_that_the_pod_belongs_to(pod, is_own):
    assert is_about(event(name=pod), "word-count", ["known"]) == is_own


# ---- figures of a driver


BOLT = {
    "kind": "bolt",
    "outputs": [],
    "lag": None,
    "time": None,
    "unread": {},
    "inputs": [],
    "steps": [],
    "busiest_task": None,
    "executors": 1,
    "tasks": 4,
    "emitted": 0,
    "executed": 1000,
    "acked": 1000,
    "failed": 0,
    "capacity": 0.1,
    "execute_ms": 2.0,
    "complete_ms": None,
    "pending": None,
    "errors": 0,
}
WORKER = {
    "worker": 0,
    "present": True,
    "busy": 0.1,
    "run_delay": 0.0,
    "host": None,
    "pod": None,
    "slot": None,
    "pid": None,
    "memory_bytes": None,
    "executor_count": 1,
}
BATCHES = {"count": 10, "failed_attempts": 0, "last_failure": "", "phases_ms": {}, "stages": []}
TIME = {
    "watermark": None,
    "behind_seconds": None,
    "held_by": None,
    "timers": 0,
    "late": {},
    "why": None,
    "is_stuck": False,
}
TREES = {
    "acked": 1000,
    "failed": 0,
    "timed_out": 0,
    "pending": 0,
    "replayed": 0,
    "dead_lettered": 0,
    "dropped": 0,
}
TRANSACTIONS = {
    "committed_txid": 6,
    "active": {},
    "attempts": {},
    "committed_per_second": 2.5,
    "lag": None,
    "head": "",
}
VIEW = {
    "name": "shop",
    "state": "Active",
    "uptime_seconds": 60,
    "trees": TREES,
    "transactions": None,
    "waits": [],
    "kept_state": {},
    "failures": [],
    "errors": [],
    "worker_counts": {"wanted": 1, "present": 1},
    "acked_per_second": 100,
    "complete_latency_ms": {"p50": 12.0, "p99": 40.0},
    "components": [{**BOLT, "name": "count"}],
    "workers": [WORKER],
    "batches": BATCHES,
}


def view(**changes):
    return TopologyView.model_validate({**VIEW, **changes})


def bolt(name="count", **changes):
    return {**BOLT, "name": name, **changes}


def waits(kind, sentence, component="a"):
    return {"waits": [{"kind": kind, "component": component, "sentence": sentence}]}


def behind(name, seconds, of):
    held = {"component": of, "part": None}
    return bolt(name, time={**TIME, "behind_seconds": seconds, "held_by": held})


@pytest.mark.parametrize(
    ("changes", "text", "cure"),
    [
        (
            waits("long_call", "spout 'a': next_tuple runs"),
            "spout 'a': next_tuple runs",
            "If the call may take that long, raise batchTimeoutSeconds.",
        ),
        (
            waits("left_out", "spout 'a', task 1, is left out"),
            "spout 'a', task 1, is left out",
            "Everything else goes on, and it is tried again now and then",
        ),
        (
            waits("away", "'a' waits for Kafka"),
            "'a' waits for Kafka",
            "Mend the service; the driver tries again for ever.",
        ),
        (
            waits("resting", "1 message of 'a' failed"),
            "1 message of 'a' failed",
            "Mend what the last reason says.",
        ),
        (
            waits("full", "'a' emits nothing"),
            "'a' emits nothing",
            "A bolt that collects tuples needs a larger maxSpoutPending",
        ),
        (
            {"components": [bolt("lines", kind="spout")], "uptime_seconds": 300},
            "spout 'lines' has emitted nothing since the driver started, 5 min ago",
            "It is asked, and returns without a tuple.",
        ),
        (
            waits("hold", "spouts rest, because 'b' holds them"),
            "spouts rest, because 'b' holds them",
            "It lets go when there is room again",
        ),
        (
            {"waits": 2 * waits("time", "a waits for part 1")["waits"]},
            "a waits for part 1",
            "See docs/guide/no-results.md#why-does-my-timer-or-window-not-fire.",
        ),
        (
            {
                "components": [
                    behind("a", -3451.5, "a"),
                    behind("c", -3451.5, "a"),
                    behind("b", -59.0, "b"),
                ]
            },
            "the watermark of 'a' is 57 min ahead of the clock, so what comes with the time of now"
            " is late",
            "Look for a sender whose clock is ahead",
        ),
        (
            {"worker_counts": {"wanted": 3, "present": 1}},
            "2 of 3 workers are missing",
            "Their executors run on the others meanwhile",
        ),
    ],
)  # fmt: skip
def test_a_driver_says_what_it_waits_for(changes, text, cure):
    (found,) = wait_findings(view(**changes))
    assert found.text == text
    assert found.cure.startswith(cure)


@pytest.mark.parametrize(
    "changes",
    [
        {"uptime_seconds": 59},
        {"components": [bolt("lines", kind="spout", emitted=1)]},
        waits("hold", "spouts rest", "b"),
        waits("away", "'lines' waits for Kafka", "lines"),
    ],
    ids=["soon", "emitted", "held", "away"],
)
def test_a_spout_that_emits_nothing_is_told_only_if_nothing_else_says_why(changes):
    silent = {"components": [bolt("lines", kind="spout")], "uptime_seconds": 300}
    found = [finding.text for finding in wait_findings(view(**{**silent, **changes}))]
    assert not any("emitted nothing" in text for text in found)


FROM_A = {"from": "a:default", "executed": 10, "acked": 4, "failed": 0}
TICKS = {"from": "__system:__tick", "executed": 99, "acked": 0, "failed": 0}
ACKER = bolt("__acker", kind="acker")


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({}, []),
        (  # a failure is told once, although it is an error, too
            {
                "failures": [
                    {"component": "a", "count": 1, "example": "as told"},
                    {"component": "b", "count": 9, "example": "bolt 'b': execute: no"},
                ],
                "errors": [
                    {"component": "b", "task": 2, "message": "execute: no", "count": 9},
                    {"component": "a", "task": 1, "message": "failed: as told", "count": 1},
                    {"component": "b", "task": 3, "message": "just saying", "count": 2},
                ],
            },
            [
                "b: 9 failed, such as: bolt 'b': execute: no",
                "a: 1 failed, such as: as told",
                "b, task 3: just saying (2 times)",
            ],
        ),
        (
            {"trees": {**TREES, "timed_out": 1, "dead_lettered": 2, "dropped": 3}},
            [
                "1 tree timed out",
                "2 messages went to the dead letters after maxReplays failures",
                "3 tuples dropped, since they kill their workers",
            ],
        ),
        (
            {"trees": {**TREES, "timed_out": 6}, "components": [bolt(inputs=[FROM_A, TICKS])]},
            [
                "6 trees timed out",
                "bolt 'count' has neither acked nor failed 6 of its 10 tuples, and trees time out."
                " A Bolt must call ack or fail for every tuple; a BasicBolt does so by itself.",
            ],
        ),
        (
            {
                "kept_state": {
                    "old": {"tasks": 1},
                    "older": {"tasks": 2, "until": "then"},
                }
            },
            [
                "component 'old' is not in the topology, and the checkpoint keeps its state"
                " (1 task)",
                "component 'older' is not in the topology, and the checkpoint keeps its state"
                " (2 tasks) until then",
            ],
        ),
        (
            {"components": [bolt(unread={"errors": 1200, "late": 1})]},
            [
                "count: 1,200 tuples on stream 'errors', which no bolt reads",
                "count: 1 tuple on stream 'late', which no bolt reads, and in no result",
            ],
        ),
        ({"components": [bolt(inputs=[FROM_A, TICKS])]}, []),
        (
            {"components": [bolt(inputs=[{**FROM_A, "failed": 6}]), ACKER]},
            [
                "bolt 'count' has failed 6 tuples, but they are in no tree, so no spout was told."
                " Anchor what is emitted, as in emit(values, anchors=tup), and emit with a msg_id"
                " in the spout.",
            ],
        ),
        ({"components": [bolt(inputs=[{**FROM_A, "failed": 6}])]}, []),  # nothing is acked
        (
            {"batches": {**BATCHES, "failed_attempts": 2, "last_failure": "worker 0 was lost"}},
            [
                "2 attempts at batches came to nothing, and the batches ran again; the last one:"
                " worker 0 was lost"
            ],
        ),
        (
            {"transactions": {**TRANSACTIONS, "head": "transaction 7 has failed"}},
            ["transaction 7 has failed"],
        ),
    ],
)
def test_a_driver_says_what_fails(changes, texts):
    assert [found.text for found in failures_of_view(view(**changes))] == texts


SPEED = "100 trees acked per second, complete latency 12 ms (p50) and 40 ms (p99)"
LAG = {"messages": 1234, "seconds": None}
COUNT = "bolt 'count' is the busiest: one of its executors is at work for"
STAGES = [
    {"stage": 0, "components": ["lines", "split"], "ms": 5.0},
    {"stage": 1, "components": ["count"], "ms": 45.0},
    {"stage": 2, "components": ["__acker"], "ms": None},
]


@pytest.mark.parametrize(
    ("changes", "findings"),
    [
        ({}, [(f"{COUNT} 10 % of the time, and takes 2.0 ms for a tuple", "")]),
        (
            {"components": [bolt("a"), bolt(capacity=0.85)]},
            [
                (
                    f"{COUNT} 85 % of the time, and takes 2.0 ms for a tuple",
                    "Raise its parallelism, which is 1: its 4 tasks may be on as many executors.",
                )
            ],
        ),
        (
            {"components": [bolt(capacity=0.85, executors=4)]},
            [
                (
                    f"{COUNT} 85 % of the time, and takes 2.0 ms for a tuple",
                    "It has as many executors as its 4 tasks",
                )
            ],
        ),
        (
            {
                "components": [bolt("a", kind="spout", capacity=None, lag=LAG)],
                "workers": [
                    {**WORKER, "worker": 0, "present": True, "busy": 0.97},
                    {**WORKER, "worker": 1, "present": False},
                    {**WORKER, "worker": -1, "present": True, "busy": 0.0},
                ],
            },
            [
                ("spout 'a' is behind its source: 1,234 messages to read", ""),
                ("all workers are at work for 97 % of the time or more", "Add workers"),
            ],
        ),
        (
            {
                "components": [],
                "workers": [
                    {**WORKER, "worker": 0, "present": True, "busy": 0.97, "run_delay": 0.24},
                    {**WORKER, "worker": 1, "present": True, "busy": 0.97, "run_delay": 0.25},
                    {**WORKER, "worker": 2, "present": False, "busy": 0.97, "run_delay": 0.9},
                ],
            },
            [("a worker is ready to run and has no processor for 25 % of the time", "Its machine")],
        ),
        (
            {
                "components": [
                    bolt("a", kind="spout", capacity=None, lag={"messages": 0, "seconds": 200.0}),
                    bolt("b", kind="spout", capacity=None, lag={"messages": 0, "seconds": 0.0}),
                ]
            },
            [("spout 'a' is behind its source: the oldest is 3 min 20 s old", "")],
        ),
        (
            {"components": [bolt(capacity=None, busiest_task={"task": 7, "share": 0.5})]},
            [
                (
                    "task 7 of bolt 'count' gets 50 % of its tuples; a fair share of its 4 tasks"
                    " would be 25 %",
                    "If a fields grouping has a value that comes often: an Aggregate",
                )
            ],
        ),
        (  # of two tasks, too, one may get nearly all
            {"components": [bolt(capacity=None, tasks=2, busiest_task={"task": 7, "share": 0.8})]},
            [
                (
                    "task 7 of bolt 'count' gets 80 % of its tuples; a fair share of its 2 tasks"
                    " would be 50 %",
                    "If a fields",
                )
            ],
        ),
        ({"components": [bolt(capacity=None, busiest_task={"task": 7, "share": 0.49})]}, []),
        (
            {
                "components": [
                    bolt(capacity=None, executed=99, busiest_task={"task": 7, "share": 1.0}),
                    bolt("a", capacity=None, tasks=1, busiest_task={"task": 9, "share": 1.0}),
                ]
            },
            [],
        ),
        (
            {
                "components": [],
                "batches": {
                    **BATCHES,
                    "stages": STAGES,
                    "phases_ms": {"run": 50.0, "commit": 51.0, "wait": None},
                },
            },
            [
                ("the slowest stage of a batch is that of count: 45 ms of 50 ms", "`fulmen plan"),
                ("a commit takes 51 ms, and the batch itself 50 ms", "The checkpoint's store"),
            ],
        ),
        (
            {
                "components": [],
                "batches": {
                    **BATCHES,
                    "stages": STAGES[:1],
                    "phases_ms": {"run": 50.0, "commit": 50.0},
                },
            },
            [],
        ),
    ],
)
def test_a_driver_says_where_the_time_goes(changes, findings):
    first, *found = time_findings(view(**changes))
    assert first == Finding(SPEED)
    assert [finding.text for finding in found] == [text for text, _ in findings]
    for finding, (_, cure) in zip(found, findings, strict=True):
        assert finding.cure.startswith(cure)
        assert bool(finding.cure) == bool(cure)


def test_a_driver_of_transactions_tells_how_many_are_committed():
    quiet = {"p50": None, "p99": None}
    first, *_ = time_findings(view(transactions=TRANSACTIONS, complete_latency_ms=quiet))
    assert first.text == "2.5 transactions committed per second"


# ---- a report


def test_a_report_says_what_has_failed():
    report = RunReport.model_validate(
        run_metered(["a b", "raise this", "report"], max_replays=1).totals.report()
    )
    texts = [found.text for found in failures_of_report(report)]
    assert any(text.startswith("split: ") and "raise this" in text for text in texts)
    assert any("just saying" in text for text in texts)
    (latency,) = latency_of_report(report)
    assert latency.text.startswith("complete latency was ")


def test_a_report_of_transactions_says_what_holds_them_up():
    report = RunReport(
        topology="sales",
        batches=3,
        seconds=0.4,
        trees=TREES,
        latency_ms={"p50": 5, "p99": 30},
        transactions={"head": "transaction 7 has failed once", "lag": 3},
        components={},
        failed_attempts=1,
    )
    assert [found.text for found in failures_of_report(report)] == [
        "1 attempt at batches came to nothing, and the batches ran again",
        "transaction 7 has failed once",
    ]
    assert [found.text for found in latency_of_report(report)] == [
        "complete latency was 5.0 ms (p50) and 30 ms (p99), in 400 ms",
        "3 messages of the source are in no transaction yet",
    ]


# ---- the page


def test_a_page_has_a_section_for_each_question_that_has_an_answer():
    known = Known(
        NOW,
        on_cluster([("Ready", "False", "OOMKilled", "")]),
        [event()],
        view(worker_counts={"wanted": 2, "present": 1}, components=[]),
        unknown=["its log could not be read: no"],
    )
    assert list(why_lines(why(known))) == [
        "How it is",
        "- Ready is False, OOMKilled: the driver's memory was not enough",
        "  What to do: Raise `driver.resources.limits.memory`.",
        "",
        "What it waits for",
        "- 1 of 2 workers are missing",
        "  What to do: Their executors run on the others meanwhile: see why their pods are not"
        " ready.",
        "",
        "What happened lately",
        "- 2 min ago, OOMKilled of pod word-count-driver-1: no memory",
        "  What to do: Raise `driver.resources.limits.memory`.",
        "",
        "Where the time goes",
        f"- {SPEED}",
        "",
        "What is not known",
        "- its log could not be read: no",
    ]


def test_a_page_says_if_nothing_is_wrong():
    (section,) = why(Known(NOW, on_cluster([("Ready", "True", "Active", "")])))
    assert section.findings == [Finding(NOTHING)]


def test_every_reason_has_one_explanation_and_its_cure_no_marks_of_markdown():
    reasons = [reason for row in EXPLANATIONS for reason in row.reasons]
    assert len(reasons) == len(set(reasons))
    assert explanation_of("Unheard") is None
    assert cure_of("Unheard") == cure_of("AsPlanned") == ""
    assert not any("](" in cure_of(reason) for reason in reasons)
    assert plain("see [little room](#little-room), or [a](b.md)") == (
        "see little room (docs/conditions.md#little-room), or a (docs/b.md)"
    )


def test_the_pages_that_cures_name_are_there():
    cures = [*map(cure_of, (reason for row in EXPLANATIONS for reason in row.reasons))]
    named = re.findall(r"docs/[\w/-]+\.md#[\w-]+", " ".join([*cures, *CURES.values()]))
    assert len(named) > 5
    for page, _, anchor in (name.partition("#") for name in named):
        assert anchor in anchors(page), f"{page}#{anchor}"


# ---- the command


def test_why_of_a_run_on_this_machine(fulmen):
    totals = run_metered(["a b", "raise this"], max_replays=1).totals
    with MetricsServer("127.0.0.1", 0, lambda: totals) as server:
        result = fulmen("why", "--url", server.url)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "topology 'metered' is Active"
    assert "What fails" in lines
    assert any(line.startswith("- split: ") and "raise this" in line for line in lines)
    assert "Where the time goes" in lines


def test_why_of_the_report_of_a_run(fulmen, tmp_path):
    file = tmp_path / "report.json"
    file.write_text(json.dumps(run_metered(["a b"]).totals.report()))
    result = fulmen("why", "--report", "report.json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("topology 'metered' has ended\n")


def test_why_of_a_topology_on_a_cluster_reads_all_that_it_may(fulmen, kubectl):
    found = on_cluster(
        [("Placed", "False", "WorkersMissing", "1 of 2 workers")],
        stateSince="T",
        message="it runs",
        driverPod="word-count-driver-1",
    )
    recent = datetime.now(UTC).strftime("%H:%M:%S")
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    own = event(None, lastTimestamp=f"{day}T{recent}Z", message="of it")
    other = {**own, "message": "another's", "involvedObject": {"kind": "Pod", "name": "x"}}
    kubectl.answer_each(
        {
            "get topologies.fulmen.dev/word-count": found,
            "get pods": {"items": []},
            "get events involvedObject.kind=Pod,type=Warning": {"items": [own, other]},
            "get events": {"items": []},
            "get --raw": VIEW,
        }
    )
    result = fulmen("why", "word-count", "-n", "blue")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "topology 'word-count' is Active since T: it runs"
    assert any(line.startswith("- Placed is False, WorkersMissing: ") for line in lines)
    assert any("of it" in line for line in lines)
    assert not any("another's" in line for line in lines)
    assert f"- {SPEED}" in lines
    own_events = next(asked for asked in kubectl.asked if "events" in asked)
    assert own_events[own_events.index("--field-selector") + 1] == (
        "involvedObject.kind=Topology,involvedObject.name=word-count,type=Warning"
    )


def test_why_says_what_it_may_not_read(fulmen, kubectl):
    kubectl.answer_each(
        {
            "get topologies.fulmen.dev/word-count": on_cluster(driverPod="word-count-driver-1"),
            "get": Fails("Error from server (Forbidden): you may not"),
        }
    )
    result = fulmen("why", "word-count")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-3:] == [
        "What is not known",
        "- its events could not be read: the cluster does not allow you to do this: Error from"
        " server (Forbidden): you may not.",
        "- the figures of its driver could not be read: the cluster does not allow you to do this:"
        " Error from server (Forbidden): you may not.",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [],
            "give one of these: the NAME of a topology on a cluster, --url, --report.",
        ),
        (
            ["a", "--url", "http://x"],
            "give one of these: the NAME of a topology on a cluster, --url, --report.",
        ),
        (
            ["--url", "http://x", "-n", "blue"],
            "--namespace and --context are for a topology on a cluster.",
        ),
        (
            ["--url", "localhost:4040"],
            "--url localhost:4040: must begin with http:// or https://.",
        ),
        (
            ["--report", "none.json"],
            "--report: 'none.json' can't be read: No such file or directory.",
        ),
        (
            ["--report", "wrong.json"],
            "--report: 'wrong.json' is not what `fulmen run --report` writes.",
        ),
    ],
)
def test_wrong_use(fulmen, tmp_path, arguments, message):
    (tmp_path / "wrong.json").write_text("{}")
    result = fulmen("why", *arguments)
    assert (result.exit_code, result.stderr) == (2, f"Error: {message}\n")


def test_nothing_that_is_said_controls_a_terminal(fulmen, kubectl):
    evil = "\x1b[2Jgone\r\nso\x9b1m"
    found = on_cluster([("Ready", "False", "Odd", evil)], message=evil)
    kubectl.answer_each({"get topologies.fulmen.dev/word-count": found, "get": {"items": [found]}})
    for arguments in (["why", "word-count"], ["list"]):
        said = fulmen(*arguments).stdout
        assert "\\u001b[2Jgone so\\u009b1m" in said
        assert not set("\x1b\r\x9b") & set(said)


def test_the_page_shows_what_is_said(fulmen, kubectl):
    found = on_cluster(
        [("Ready", "False", "Unschedulable", "0/1 nodes are available: insufficient memory")],
        state="Starting",
        stateSince="2026-11-20T11:58:41Z",
        message="no worker hosts anything",
    )
    kubectl.answer_each({"get topologies.fulmen.dev/word-count": found, "get": {"items": []}})
    said = fulmen("why", "word-count").stdout
    (shown,) = (b.text for b in blocks("docs/conditions.md", "text") if "How it is" in b.text)
    assert shown.split() == said.split()
