"""Sizes and pauses of the engine. They change how it works, and not what comes out."""

from __future__ import annotations

from dataclasses import dataclass

from fulmen.checkpoint.garbage import LIMITS as LOG_LIMITS
from fulmen.checkpoint.garbage import LogLimits
from fulmen.engine.tuples.wire import ROW_TUPLES


@dataclass(frozen=True)
class EngineLimits:
    """One set of them. Tests make some small, so that little data reaches them.

    Attributes:
        row_tuples: Tuples, or messages to ackers, that one row between workers carries.
        waiting_tuples: Tuples that are let pile up in a stage's inboxes before its tasks run.
        spout_slice: Tuples that a spout emits before the bolts of its stage run: less memory, and
            warm caches.
        header_bytes: More bytes than this are in the checkpoint, and not in the header that each
            task is sent.
        light_emits: Of batches with fewer emits, rows may go through the driver, if that spares a
            stage.
        whole_batches: So many batches run whole after one whose trees outlived it: it took one job
            more, not less.
        look_seconds: Between two looks for workers that were lost.
        check_seconds: Without a commit, between two looks whether another driver has taken over.
        making_share: Instances may take so many times as long as a batch to be made.
        hang_seconds: A call of an author's that has lasted so long is told.
        collect_every: Commits between two runs of the checkpoint's garbage collector.
        log: How often the log does what is not needed for each commit.
    """

    row_tuples: int = ROW_TUPLES
    waiting_tuples: int = 1 << 14
    spout_slice: int = 1 << 14
    header_bytes: int = 4096
    light_emits: int = 4_000
    whole_batches: int = 16
    look_seconds: float = 2.0
    check_seconds: float = 10.0
    making_share: float = 12.0
    hang_seconds: float = 10.0
    collect_every: int = 16
    log: LogLimits = LOG_LIMITS


LIMITS = EngineLimits()
"""The limits that topologies run with."""
