"""Sums over the summaries of a batch. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fulmen.engine.protocol.figures.statistics import CHECKPOINT_BYTES
from fulmen.engine.protocol.summary import ErrorReport, Summary
from fulmen.plan import Plan

ENGINE_SHARE = 5.0
"""If tuples are what takes time, a stage takes at most so many times as long as the CPU time of its
process, besides the time of authors' code."""
WAITING = 2.0
"""Authors' code that takes so many times the CPU time of its process waits for something. What else
a stage takes is no work then: a process that does little waits for rows from the stage before."""
BYTES_PER_SECOND = 20e6
"""The slowest at which bytes move: through a process, a JVM, a disk, and out again."""


def work_seconds(summaries: Sequence[Summary]) -> float:
    """The part of a batch's time that grows with its tuples: of each stage, the slowest worker's.

    What Spark needs for a job with few tuples is not in it: fewer tuples would not make that less.
    Nor is the time for which a worker had no processor, or most of a stage in which little was done
    and little was moved: a machine that is busy with other things takes its time for one tuple as
    for a thousand.
    """
    work = sum(_slowest(summaries, lambda summary: summary.seconds - summary.run_delay).values())
    most = max((_effort(summaries, s.partition) for s in summaries), default=0.0)
    return min(work, most) if most else work


def _effort(summaries: Sequence[Summary], worker: int) -> float:
    """How long a worker can have taken for its tuples, in all of its stages."""
    its = [summary for summary in summaries if summary.partition == worker]
    busy = sum(max(0.0, sum(s.busy.values()) - s.run_delay) for s in its)
    cpu = sum(summary.cpu_seconds for summary in its)
    written = sum(summary.counts["", CHECKPOINT_BYTES, "state"] for summary in its)
    moved = (sum(summary.moved_bytes for summary in its) + written) / BYTES_PER_SECOND
    return busy + (cpu if busy > WAITING * cpu else ENGINE_SHARE * cpu) + moved


def seconds_with_processors(summaries: Sequence[Summary], seconds: float) -> float:
    """Seconds of a batch if whoever was ready to run had had a processor.

    Stages say for how long they had none. Nobody says it of Spark's processes, which have as much
    of the same processors.
    """
    delay = sum(summary.run_delay for summary in summaries)
    if not delay:
        return seconds
    cpu = sum(summary.cpu_seconds for summary in summaries)
    stages = sum(slowest_seconds(summaries).values())
    with_processor = _slowest(summaries, lambda summary: summary.seconds - summary.run_delay)
    return sum(with_processor.values()) + max(0.0, seconds - stages) * cpu / (cpu + delay)


def slowest_seconds(summaries: Sequence[Summary]) -> dict[int, float]:
    """Stage -> the seconds of its slowest worker, which the next stage waits for."""
    return _slowest(summaries, lambda summary: summary.seconds)


def _slowest(summaries: Sequence[Summary], seconds: Callable[[Summary], float]) -> dict[int, float]:
    slowest: dict[int, float] = {}
    for summary in summaries:
        slowest[summary.stage] = max(slowest.get(summary.stage, 0.0), seconds(summary))
    return slowest


def commit_work_seconds(seconds: float, size: int) -> float:
    """The part of a commit's time that grows with what is in it: `size` bytes."""
    return min(seconds, size / BYTES_PER_SECOND)


def restore_seconds(summaries: Sequence[Summary]) -> float:
    """How long stages waited, one after another, until their tasks had been made anew."""
    return sum(_slowest(summaries, lambda summary: summary.restore_seconds).values())


def holds_after(
    holds: Mapping[int, str], summaries: Sequence[Summary], plan: Plan
) -> Mapping[int, str]:
    """Why spouts are to emit nothing after a batch, by the task that says so.

    Args:
        holds: What was so before it.
        summaries: Of all its parts. What a part does not say any more is over.
        plan: Where tasks are.
    """
    ran = {(summary.stage, summary.partition) for summary in summaries}
    stages = {name: i for i, names in enumerate(plan.stages) for name in names}
    kept = {
        task: reason
        for task, reason in holds.items()
        if (stages.get(plan.component_of(task)), plan.worker_of(task)) not in ran
    }
    return kept | {task: why for summary in summaries for task, why in summary.holds.items()}


def fatal_error(summaries: Sequence[Summary]) -> ErrorReport | None:
    """The first error after which the topology must stop."""
    return next((e for s in summaries for e in s.errors if e.fatal), None)
