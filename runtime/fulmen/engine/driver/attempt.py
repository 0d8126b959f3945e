"""One attempt of a batch, run as one Spark job or as several.

Under load it is one job of all stages. A light batch (batches/pace/stage_skipping.py) starts with
fewer stages, and what they leave for later ones comes to the driver: if that is nothing, the batch
is done; if it is messages about trees that all ended, the driver is the acker; otherwise another
job takes it up.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fulmen.checkpoint import Store, state_file_name
from fulmen.engine.acking.acker_task import AckerTask
from fulmen.engine.acking.messages import Messages
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.callbacks.processes import this_process
from fulmen.engine.protocol.header import Header, Injected
from fulmen.engine.protocol.jobs import Failure, read_rows
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.tasks.run_ackers import run_ackers
from fulmen.engine.tuples import wire
from fulmen.plan.model import DRIVER
from fulmen.topology.resource.spec import ACKER


@dataclass
class AttemptResult:
    """The outcome of an attempt.

    Attributes:
        summaries: Of all stages and workers that ran.
        void: Why it came to nothing, if it did.
        skipped: Stages that did not run.
        ackers_ran: Whether the ackers' stage had a job of its own.
    """

    summaries: list[Summary] = field(default_factory=list)
    void: Failure | None = None
    skipped: tuple[int, ...] = ()
    ackers_ran: bool = False


def run_attempt(
    run_job: Callable[[Header], Sequence[bytes]],
    placed: PlacedTopology,
    store: Store,
    header: Header,
    cuts: Sequence[int],
    rng: np.random.Generator,
) -> AttemptResult:
    """Run the stages of an attempt until there is nothing left for the others.

    Raises:
        JobFailed: A job came to nothing.
        Unreachable: The store does not answer.
    """
    ran, first, stages = AttemptResult(), 0, placed.plan.stages
    if not cuts:
        ran.skipped = tuple(range(len(stages)))
        return ran
    for end in cuts:
        job = replace(header, first=first, stop_before=end)
        summaries, ran.void, rows = read_rows(run_job(job))
        ran.summaries += summaries
        if ran.void is not None:
            return ran
        ran.ackers_ran = first > 0 and stages[first] == (ACKER,)
        if not rows:
            ran.skipped = tuple(range(end, len(stages)))
            return ran
        assert end < len(stages), f"a row of kind {rows[0][:1]!r} has passed all stages"
        if stages[end] == (ACKER,):
            summary = settle(placed, rows, header.clock, rng)
            if summary is not None:
                ran.summaries.append(summary)
                ran.skipped = (end,)
                return ran
        by_worker: dict[int, list[bytes]] = defaultdict(list)
        for row in rows:
            by_worker[_worker_of(row, placed)].append(row)
        first = end
        file = state_file_name(header.number, header.tag, "driver", f"stage-{end}")
        injected = Injected.made(by_worker, placed.limits.header_bytes, file, store.put)
        header = header.with_injected(injected)
    raise AssertionError("the last job has no rows for others")


def settle(
    placed: PlacedTopology, rows: Sequence[bytes], clock: float, rng: np.random.Generator
) -> Summary | None:
    """Do the work of acker tasks that have no pending trees with these messages.

    Returns:
        None: A tree is left, which they have to keep.
    """
    started = time.perf_counter()
    messages: dict[int, Messages] = defaultdict(Messages)
    for row in rows:
        task, *parts = wire.unpack(row)
        messages[task].add(Messages(*parts))
    summary = Summary(len(placed.plan.stages) - 1, DRIVER, process=this_process(DRIVER))
    outbox = Outbox(placed, DRIVER, rng, summary)
    ackers = {task: AckerTask(task, {}) for task in placed.ackers}
    run_ackers(placed, ackers, messages, clock, summary, outbox)
    if any(summary.levels.values()):
        return None
    summary.seconds = time.perf_counter() - started
    return summary


def _worker_of(row: bytes, placed: PlacedTopology) -> int:
    """The worker that a row is for. All its tuples go to the same one."""
    if row[:1] == wire.ACKS:
        return placed.plan.worker_of(wire.unpack(row)[0])
    return int(placed.task_worker[wire.unpack_tuples(row).targets[0]])
