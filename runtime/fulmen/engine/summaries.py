"""What the summaries of a batch say together. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fulmen.engine.protocol import ErrorReport, Summary

ENGINE_SHARE = 5.0
"""If tuples are what takes time, a stage takes at most so many times as long as authors' code."""


def work_seconds(summaries: Sequence[Summary]) -> float:
    """The part of a batch's time that grows with its tuples: of each stage, the slowest worker's.

    What Spark needs for a job with few tuples is not in it: fewer tuples would not make that less.
    Nor is most of a stage in which the author's code hardly ran: a machine that is busy with other
    things, or a process that imports modules, takes its time for one tuple as for a thousand.
    """
    slowest: dict[int, float] = {}
    authors: dict[int, float] = {}
    for summary in summaries:
        slowest[summary.stage] = max(slowest.get(summary.stage, 0.0), summary.seconds)
        busy = sum(summary.busy.values())
        authors[summary.partition] = authors.get(summary.partition, 0.0) + busy
    work = sum(slowest.values())
    most = max(authors.values(), default=0.0)
    return min(work, ENGINE_SHARE * most) if most else work


def restore_seconds(summaries: Sequence[Summary]) -> float:
    """How long stages waited, one after another, until their tasks had been made anew."""
    longest: dict[int, float] = {}
    for summary in summaries:
        longest[summary.stage] = max(longest.get(summary.stage, 0.0), summary.restore_seconds)
    return sum(longest.values())


def fatal_error(summaries: Sequence[Summary]) -> ErrorReport | None:
    """The first error after which the topology must stop."""
    return next((e for s in summaries for e in s.errors if e.fatal), None)
