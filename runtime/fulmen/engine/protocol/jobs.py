"""Jobs, as the driver sees them: Spark runs the stages of a batch, or a stand-in without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from fulmen.engine.protocol.callbacks.calls import Call
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport, Summary
from fulmen.engine.tuples import wire


class Jobs(Protocol):
    """Runs the stages of a batch."""

    def start(self, placed: PlacedTopology) -> Sequence[int]:
        """Begin a run, or go on with another plan.

        Returns:
            Numbers of the workers that batches will run on: those of the plan that are there.
        """
        ...

    def run(self, header: Header, timeout_seconds: float) -> list[bytes]:
        """The stages of a batch that the header names: the rows of the last of them.

        Raises:
            JobFailed: It came to nothing.
        """
        ...

    def recover(self) -> Sequence[int]:
        """After an attempt that failed or was void: wait until another can be made.

        Returns:
            Numbers of the workers that are there.
        """
        ...

    def left_calls(self) -> Sequence[Call]:
        """After `recover`: calls that were under way in processes that the failure has ended.

        As far as that is known.
        """
        ...

    def calls_under_way(self) -> Sequence[Call]:
        """Calls that have not ended, at least those that last long. One thread at a time asks."""
        ...

    def cancel(self) -> None:
        """End the job that runs, if any, with JobFailed. Any thread may."""

    def alive(self) -> Sequence[int]:
        """Numbers of the workers that are there now."""
        ...

    def close(self) -> None:
        """Let go of everything."""


class Cause(StrEnum):
    """Possible causes of a failed batch."""

    TUPLES = "tuples"
    OUTAGE = "outage"
    """The store does not answer, or what a component connects to; it may do so later."""
    DENIED = "denied"
    """The store refuses this process, which may never have had the right."""
    CHECKPOINT = "checkpoint"
    """Something in it is missing or damaged: no batch can succeed."""


@dataclass(frozen=True)
class Failure:
    """Why a batch came to nothing.

    Attributes:
        reason: Why it failed, in one line.
        report: About the component that made it so, if one did.
        cause: What may have made it so.
        traceback: Of an exception in a stage, if it was one that no component is known to have.
    """

    reason: str
    report: ErrorReport | None
    cause: Cause = Cause.TUPLES
    traceback: str = ""


def read_rows(rows: Sequence[bytes]) -> tuple[list[Summary], Failure | None, list[bytes]]:
    """The rows of a job: summaries, why the batch is void if it is, and rows for later stages."""
    summaries: list[Summary] = []
    void: Failure | None = None
    others: list[bytes] = []
    for row in rows:
        if row[:1] == wire.VOID:
            failure = Failure(*wire.unpack(row))
            if void is None or (failure.report is not None and failure.report.fatal):
                void = failure
        elif row[:1] == wire.SUMMARY:
            summaries.append(wire.unpack(row))
        else:
            others.append(row)
    return summaries, void, others
