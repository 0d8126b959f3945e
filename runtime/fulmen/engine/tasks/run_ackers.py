"""Runs acker tasks, and counts what they have done as Storm does."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from fulmen.engine.acking.acker_task import AckerTask
from fulmen.engine.acking.messages import Messages
from fulmen.engine.acking.root_ids import (
    SEQUENCE_BITS,
    sequence_ranges,
    sequences_of,
    with_sequences,
)
from fulmen.engine.acking.trees import TIMED_OUT as TIMED_OUT_REASON
from fulmen.engine.acking.trees import TreesOutcome
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.figures.statistics import (
    ACKED,
    CRASHED,
    EMITTED,
    EXECUTED,
    FAILED,
    PENDING_TREES,
    RESULTS_ACKED,
    RESULTS_FAILED,
    TIMED_OUT,
    TRANSFERRED,
    acker_name,
    add_chunk,
    add_task,
)
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.tasks.parts.message_trees import CRASH_REASON
from fulmen.topology.resource.spec import ACKER

_REASONS = {CRASHED: CRASH_REASON, TIMED_OUT: TIMED_OUT_REASON}
"""Reasons of messages that no component has failed: they count as their spout's."""


def run_ackers(
    placed: PlacedTopology,
    ackers: Mapping[int, AckerTask],
    messages: Mapping[int, Messages],
    clock: float,
    summary: Summary,
    outbox: Outbox,
) -> None:
    """Have acker tasks apply their messages of a batch.

    Args:
        placed: The topology.
        ackers: The acker of each task.
        messages: The messages for each task.
        clock: Batch clock, in seconds.
        summary: Takes how trees ended.
        outbox: Takes the counts and times.
    """
    timeout = placed.topology.spec.message_timeout_seconds
    acked: dict[int, list[np.ndarray]] = defaultdict(list)
    for task, acker in ackers.items():
        started = time.perf_counter()
        outcome = acker.run(messages.get(task, Messages()), clock, timeout)
        seconds = time.perf_counter() - started
        outbox.busy[placed.plan.executor_of(task).first] += seconds
        for known in (sequence_ranges(outcome.acked), sequences_of(outcome.done)):
            for origin, ranges in known.items():
                acked[origin].append(ranges)
        not_acked = outcome.not_acked
        summary.failed += with_sequences(not_acked)
        summary.levels[PENDING_TREES, task] = len(outcome.trees)
        summary.born += born_by_origin(outcome)
        count_trees(placed, acker, outcome, outbox)
        time_messages(acker, seconds, outbox)
        add_task(
            outbox.tasks,
            task,
            emitted=outcome.acked_count + len(not_acked),
            executed=sum(acker.executed.values()),
            seconds=seconds,
        )
    summary.acked = {origin: np.concatenate(ranges) for origin, ranges in acked.items()}


def count_trees(
    placed: PlacedTopology, acker: AckerTask, outcome: TreesOutcome, outbox: Outbox
) -> None:
    """Count what an acker executed, and the trees that ended for those at whom they began."""
    counts = outbox.counts
    for stream, n in acker.executed.items():
        if n:
            counts[ACKER, EXECUTED, stream] += n
            counts[ACKER, ACKED, stream] += n
            counts[acker_name(acker.task), EXECUTED, stream] += n
    not_acked = len(outcome.failed) + len(outcome.timed_out)
    for stream, n in (("__ack_ack", outcome.acked_count), ("__ack_fail", not_acked)):
        if n:
            counts[ACKER, EMITTED, stream] += n
            counts[ACKER, TRANSFERRED, stream] += n
            counts[acker_name(acker.task), EMITTED, stream] += n
    acked = Counter({origin: b - a for origin, a, b in _origins(outcome)})
    for one in outcome.done:
        acked[one.first >> SEQUENCE_BITS] += one.n
    for origin, n in acked.items():
        component = placed.component_of_origin(origin)
        what = RESULTS_ACKED if component in placed.result_bolts else ACKED
        counts[component, what, ""] += n
    crashed = [root for root, reason in outcome.failed if reason == CRASH_REASON]
    not_acked_roots = [root for root, _ in outcome.not_acked]
    for what, roots in (
        (FAILED, not_acked_roots), (CRASHED, crashed), (TIMED_OUT, outcome.timed_out)
    ):  # fmt: skip
        for origin, n in Counter([root >> SEQUENCE_BITS for root in roots]).items():
            component = placed.component_of_origin(origin)
            is_failed = what == FAILED and component in placed.result_bolts
            counts[component, RESULTS_FAILED if is_failed else what, ""] += n
            if what in _REASONS and origin in placed.task_of_origin:
                task = placed.plan.tasks(component).start
                outbox.failures.add(component, task, _REASONS[what], n)


def time_messages(acker: AckerTask, seconds: float, outbox: Outbox) -> None:
    """Count the time of an acker's messages; it acks each of them at once."""
    each = seconds / max(1, sum(acker.executed.values()))
    for stream, n in acker.executed.items():
        if n:
            add_chunk(outbox.times, ACKER, stream, each, n, n)


def born_by_origin(outcome: TreesOutcome) -> list[tuple[float, int, int]]:
    """(wall clock second of the emit, number, spout origin) of the trees that were acked."""
    births: Counter[tuple[float, int]] = Counter()
    rounded = np.round([one.born for one in outcome.done], 3).tolist()
    for one, born in zip(outcome.done, rounded, strict=True):
        births[born, one.first >> SEQUENCE_BITS] += one.n
    for origin, a, b in _origins(outcome):
        times = np.round(outcome.born[a:b], 3)
        firsts = np.concatenate(([0], np.flatnonzero(np.diff(times)) + 1))
        counts = np.diff(firsts, append=b - a)
        for born, n in zip(times[firsts].tolist(), counts.tolist(), strict=True):
            births[born, origin] += n  # what was emitted together was born at once
    return [(born, n, origin) for (born, origin), n in sorted(births.items())]


def _origins(outcome: TreesOutcome) -> Iterator[tuple[int, int, int]]:
    """Each spout origin with the places of its trees among the acked ones: they are in order."""
    origins = outcome.acked >> np.uint64(SEQUENCE_BITS)
    cuts = [0, *(np.flatnonzero(np.diff(origins)) + 1).tolist(), len(origins)]
    for a, b in pairwise(cuts if len(origins) else ()):
        yield int(origins[a]), a, b
