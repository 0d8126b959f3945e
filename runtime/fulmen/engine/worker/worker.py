"""One stage on one worker, called for every batch: what stages of a Spark job do. No Spark here.

A stage never raises: that would cost Spark the process, and with it the state of all its tasks.
What goes wrong makes the batch void: a marker travels to the driver in place of results, and the
batch is run again from the last commit.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from fulmen.checkpoint import Store
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.callbacks.told_calls import TELLS, CallTeller
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.jobs import Cause
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.read_ahead import AheadReport
from fulmen.engine.protocol.summary import ErrorReport, Summary, VoidBatch
from fulmen.engine.tasks.author.errors import (
    LONGEST_TRACEBACK,
    ComponentFailed,
    Unavailable,
    shortened,
)
from fulmen.engine.tuples import wire
from fulmen.engine.worker.read_ahead import ReadAhead
from fulmen.engine.worker.stage_tasks import StageTasks
from fulmen.errors import PASSED_ON, AlreadyExists, CheckpointError, Denied, Unreachable, error_text
from fulmen.secrets import masked
from fulmen.topology.resource.quantity import amount


class Worker:
    """The tasks of one process. They belong to a run: those of another are closed.

    Attributes:
        stage_tasks: What makes the tasks of a stage.
    """

    stage_tasks: type[StageTasks] = StageTasks

    def __init__(
        self,
        stores: Mapping[str, Store] | None = None,
        clock: Callable[[], float] = time.perf_counter,
        generator: Callable[[], np.random.Generator] = np.random.default_rng,
        teller: CallTeller | None = None,
    ) -> None:
        """A worker without tasks.

        Args:
            stores: Those that are open already, by URI.
            clock: For how long restoring takes, in seconds.
            generator: Makes random generators.
            teller: Tells the driver of calls that last; None: the driver sees them by itself.
        """
        self._clock = clock
        self._generator = generator
        self._teller = teller
        self._placed_topologies: dict[str, PlacedTopology] = {}
        self._tasks: dict[tuple[int, int], StageTasks] = {}
        self._ahead: dict[int, ReadAhead] = {}
        self._stores: dict[str, Store] = dict(stores or {})

    def placed(self, run: str, pickled: bytes) -> PlacedTopology:
        """The topology of a run; unpickled once, since that takes longer than a small batch."""
        found = self._placed_topologies.get(run)
        if found is None:
            self.close()
            found = self._placed_topologies[run] = pickle.loads(pickled)
        return found

    def close(self) -> None:
        """Let go of all instances."""
        for tasks in self._tasks.values():
            for error in tasks.close():  # of a run that is over: nobody but the log can be told
                who = f"{error.component}, task {error.task}"
                sys.stderr.write(f"{who}: {error.message}\n{error.traceback}")
        for ahead in self._ahead.values():
            ahead.close()
        self._tasks.clear()
        self._ahead.clear()
        self._placed_topologies.clear()

    def run_stage(
        self,
        placed: PlacedTopology,
        stage: int,
        partition: int,
        header: Header,
        void: str | None,
        rows: Iterable[bytes],
    ) -> Iterator[tuple[int, bytes]]:
        """Run a batch's part: yields (partition of the next stage, row). Raises nothing."""
        summary = Summary(stage, partition)
        try:
            if void is not None:
                raise VoidBatch(void_row(void))
            if header.opens:
                for each in range(len(placed.plan.stages)):
                    self._tasks_of(placed, each, partition).make(header)
                return
            tasks = self._tasks_of(placed, stage, partition)
            if stage == header.first:
                self._commit_beside(partition, header)
                summary.ahead = self._read_ahead(placed, partition, tasks.store, header)
            yield from tasks.run(header, rows, summary)
            yield partition, wire.pack(wire.SUMMARY, summary)
            return
        except PASSED_ON:
            raise
        except GeneratorExit:
            CALLS.end()
            raise
        except BaseException as e:  # noqa: BLE001 (whatever it is, the batch is void and says why)
            CALLS.end()
            row = _row_of(e)
            everywhere = void is not None or not isinstance(e, VoidBatch)
        # who learned of it from a row passes it on in its own partition alone: all others have got
        # that row too
        for destination in placed.workers if everywhere else (partition,):
            yield destination, row

    def _commit_beside(self, partition: int, header: Header) -> None:
        """Have `blocking` committers begin at once to commit what has waited for it here."""
        attempt = header.transactions.commits
        if attempt is not None:
            for (_, of), tasks in self._tasks.items():
                if of == partition and tasks.is_at_base(header):
                    tasks.commit_beside(attempt)

    def _read_ahead(
        self, placed: PlacedTopology, partition: int, store: Store, header: Header
    ) -> AheadReport | None:
        """Read what a topology to come needs here, or stop that."""
        ahead = self._ahead.get(partition)
        if header.ahead is None:
            if ahead is not None:
                ahead.give_up()
                del self._ahead[partition]
            return None
        if ahead is None:
            limit = amount(placed.topology.spec.keyed_state.disk_limit)
            ahead = self._ahead[partition] = ReadAhead(store, partition, limit)
        return ahead.follow(header.ahead)

    def _tasks_of(self, placed: PlacedTopology, stage: int, partition: int) -> StageTasks:
        tasks = self._tasks.get((stage, partition))
        if tasks is None:
            store = self._stores.get(placed.checkpoint)
            if store is None:
                store = self._stores[placed.checkpoint] = Store.open(placed.checkpoint)
            if self._teller is not None:
                self._teller.serve(placed.run, store, placed.limits.hang_seconds)
            tasks = self._tasks[stage, partition] = self.stage_tasks(
                placed, stage, partition, store, self._clock, self._generator()
            )
        return tasks


def _row_of(error: BaseException) -> bytes:
    """The row for the driver and other workers about an error of a stage."""
    match error:
        case VoidBatch():
            return error.row
        case ComponentFailed():
            cause = Cause.OUTAGE if isinstance(error, Unavailable) else Cause.TUPLES
            return void_row(str(error), error.report, cause)
        case Unreachable():
            return void_row(str(error), cause=Cause.OUTAGE)
        case Denied():
            return void_row(str(error), cause=Cause.DENIED)
        case AlreadyExists():  # it ran twice
            return void_row(str(error), cause=Cause.TUPLES)
        case CheckpointError():
            return void_row(str(error), cause=Cause.CHECKPOINT)
    stack = masked(traceback.format_exc())
    sys.stderr.write(stack)
    return void_row(error_text(error), traceback=shortened(stack, LONGEST_TRACEBACK))


def void_row(
    reason: str,
    report: ErrorReport | None = None,
    cause: Cause = Cause.TUPLES,
    traceback: str = "",
) -> bytes:
    """The marker of a batch that came to nothing."""
    return wire.pack(wire.VOID, (masked(reason), report, cause, traceback))


_worker = Worker(teller=CallTeller() if TELLS in os.environ else None)


def _run(
    run: str,
    pickled: bytes,
    stage: int,
    partition: int,
    header: str,
    void: str | None,
    rows: Iterator[bytes],
) -> Iterator[tuple[int, bytes]]:
    placed = _worker.placed(run, pickled)
    # partitions are numbered without gaps, and workers may have been lost
    worker = placed.workers[partition]
    for destination, row in _worker.run_stage(
        placed, stage, worker, Header.decode(header), void, rows
    ):
        yield placed.workers.index(destination), row


def stage_function(placed: PlacedTopology) -> Any:
    """The function to give to Spark. Constant for a run: Spark can keep what it makes of it."""
    return partial(_run, placed.run, pickle.dumps(placed, 5))
