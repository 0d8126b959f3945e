"""What the driver tells every stage of a batch, and what each stage tells the driver."""

from __future__ import annotations

import base64
import json
import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fulmen.checkpoint import Update
from fulmen.engine.chunk import Ranges
from fulmen.engine.measures import ChunkTimes

HEADER_BYTES = 4096
"""More bytes than this are in the checkpoint, and not in the header that each task is sent."""
DELIVERIES = "deliveries"
"""The section of a commit with what spouts are still to be told: valid until the next commit."""


@dataclass(frozen=True)
class Deliveries:
    """How trees ended, for one spout task.

    Attributes:
        acked: Ranges [first, end) of sequence numbers.
        failed: Sequence number and reason.
    """

    acked: Ranges
    failed: tuple[tuple[int, str], ...] = ()

    def plus(self, later: Deliveries) -> Deliveries:
        """Both together."""
        return Deliveries(np.concatenate([self.acked, later.acked]), self.failed + later.failed)

    def after(self, first: Deliveries) -> Deliveries:
        """What is behind `first`, which these begin with (see `plus`)."""
        return Deliveries(self.acked[len(first.acked) :], self.failed[len(first.failed) :])

    def __len__(self) -> int:
        return len(self.failed) + int((self.acked[:, 1] - self.acked[:, 0]).sum())

    def split(self, n: int) -> tuple[Deliveries, Deliveries]:
        """The first `n`, failed ones before acked ones, and the rest."""
        left = max(0, n - len(self.failed))
        ends = np.cumsum(self.acked[:, 1] - self.acked[:, 0])
        now, later = self.acked[ends <= left], self.acked[ends > left]
        started = left - (int(ends[len(now) - 1]) if len(now) else 0)
        if started and len(later):
            first, end = later[0].tolist()
            now = np.concatenate([now, [[first, first + started]]])
            later = np.concatenate([[[first + started, end]], later[1:]])
        return Deliveries(now, self.failed[:n]), Deliveries(later, self.failed[n:])


NOTHING_ENDED = Deliveries(np.empty((0, 2), np.int64))


@dataclass(frozen=True)
class Injected:
    """Rows that the driver adds to the first stage of a job.

    They are what pinned spouts emitted, or what an earlier job of the same batch left for this one.

    Attributes:
        rows: Worker -> rows.
        file: The object in the checkpoint that holds the rows instead, because they are many.
    """

    rows: Mapping[int, Sequence[bytes]] = field(default_factory=dict)
    file: str | None = None

    @staticmethod
    def made(
        rows: Mapping[int, Sequence[bytes]], file: str, write: Callable[[str, bytes], object]
    ) -> Injected:
        """Rows by worker: in the header if they are few, else in a file that `write` is given."""
        if sum(len(row) for some in rows.values() for row in some) <= HEADER_BYTES:
            return Injected(rows)
        write(file, pickle.dumps(dict(rows), 5))
        return Injected(file=file)

    def of(self, worker: int, read: Callable[[str], bytes]) -> Sequence[bytes]:
        """The rows for one worker."""
        rows = pickle.loads(read(self.file)) if self.file is not None else self.rows
        found: Sequence[bytes] = rows.get(worker, ())
        return found


@dataclass(frozen=True)
class Header:
    """One attempt of one batch. Travels to every stage in a local property of the Spark job.

    Attributes:
        number: The commit that the batch is to become.
        tag: Random, of this attempt: what its tasks' state is marked with.
        base: The tag that tasks' state must carry; any other must be restored from the checkpoint.
        clock: Batch clock, in seconds.
        previous_clock: That of the batch before; a tick is due where the clock passed a multiple of
            its period.
        permits: How many tuples each spout task may emit; `default_permit` for those not named.
        default_permit: For spout tasks that `permits` does not name.
        active: Whether spouts emit at all.
        deliveries: Spout slot -> how trees ended. None: they are in commit `number` - 1.
        poisoned: Spout tasks whose first emit is to be failed instead of sent: it crashed workers
            before.
        cause: Why a tuple of theirs is failed: what became of its batch.
        emit_seconds: How long spouts may emit.
        is_retry: Whether an attempt of the same batch failed before.
        injected: For the first stage of the job.
        bases: Stage -> the base of one that did not run in the batch before: what it was then.
        first: The first stage of the job.
        end: The stage that the job ends before; 0: it runs to the last one.
        ends: Nothing is run: instances are closed, because the topology ends.
        drains: After all else bolts get their last turn, see `Bolt.drain`.
    """

    number: int
    tag: str
    base: str
    clock: float
    previous_clock: float
    default_permit: int
    active: bool = True
    permits: Mapping[int, int] = field(default_factory=dict)
    deliveries: Mapping[int, Deliveries] | None = field(default_factory=dict)
    poisoned: tuple[int, ...] = ()
    cause: str = ""
    emit_seconds: float = 0.1
    is_retry: bool = False
    injected: Injected = field(default_factory=Injected)
    bases: Mapping[int, str] = field(default_factory=dict)
    first: int = 0
    end: int = 0
    ends: bool = False
    drains: bool = False

    def with_injected(self, injected: Injected) -> Header:
        """The same header with rows for the first stage."""
        return replace(self, injected=injected)

    def base_of(self, stage: int) -> str:
        """The tag that the tasks of a stage must carry."""
        return self.bases.get(stage, self.base)

    @property
    def is_suspect(self) -> bool:
        """Whether one of its tuples is thought to crash workers: it is made of few, to find it."""
        return bool(self.permits)

    def permit(self, task: int) -> int:
        """How many tuples spout task `task` may emit."""
        return self.permits.get(task, self.default_permit)

    def encode(self) -> str:
        """As text, for a local property."""
        packed: str | None = ""
        if self.deliveries is None:
            packed = None
        elif self.deliveries:
            packed = base64.b64encode(pack_deliveries(self.deliveries)).decode()
        return json.dumps(
            [
                self.number,
                self.tag,
                self.base,
                self.clock,
                self.previous_clock,
                self.default_permit,
                self.active,
                {str(k): v for k, v in self.permits.items()},
                packed,
                self.poisoned,
                self.cause,
                self.emit_seconds,
                self.is_retry,
                {
                    str(worker): [base64.b64encode(row).decode() for row in rows]
                    for worker, rows in self.injected.rows.items()
                },
                self.injected.file,
                {str(stage): base for stage, base in self.bases.items()},
                self.first,
                self.end,
                self.ends,
                self.drains,
            ]
        )

    @staticmethod
    def decode(text: str) -> Header:
        """What `encode` made."""
        (
            number,
            tag,
            base,
            clock,
            previous_clock,
            default_permit,
            active,
            permits,
            packed,
            poisoned,
            cause,
            emit_seconds,
            is_retry,
            injected,
            injected_file,
            bases,
            first,
            end,
            ends,
            drains,
        ) = json.loads(text)
        deliveries: Mapping[int, Deliveries] | None = {}
        if packed is None:
            deliveries = None
        elif packed:
            deliveries = unpack_deliveries(base64.b64decode(packed))
        rows = {int(w): [base64.b64decode(row) for row in rows] for w, rows in injected.items()}
        return Header(
            number=number,
            tag=tag,
            base=base,
            clock=clock,
            previous_clock=previous_clock,
            default_permit=default_permit,
            active=active,
            permits={int(k): v for k, v in permits.items()},
            deliveries=deliveries,
            poisoned=tuple(poisoned),
            cause=cause,
            emit_seconds=emit_seconds,
            is_retry=is_retry,
            injected=Injected(rows, injected_file),
            bases={int(stage): base for stage, base in bases.items()},
            first=first,
            end=end,
            ends=ends,
            drains=drains,
        )


def tick_due(period: float, header: Header) -> bool:
    """Whether the batch clock passed a multiple of `period` seconds, or several: one tick then."""
    return int(header.clock // period) > int(header.previous_clock // period)


def pack_deliveries(deliveries: Mapping[int, Deliveries]) -> bytes:
    """As bytes, for a header or a commit."""
    return pickle.dumps({slot: (d.acked, d.failed) for slot, d in deliveries.items()}, 5)


def unpack_deliveries(data: bytes) -> dict[int, Deliveries]:
    """What `pack_deliveries` made."""
    return {slot: Deliveries(*parts) for slot, parts in pickle.loads(data).items()}


@dataclass(frozen=True)
class ErrorReport:
    """Something that went wrong in an author's code, or a warning about it.

    Attributes:
        component: Where.
        task: Where.
        message: One line.
        traceback: The stack of the author's code, if there is one.
        fatal: `onError: crash`, or an error that the topology can't go on after.
        more: How many errors followed it in the same task and batch that are not told.
        is_warning: Nothing has gone wrong yet: it is told, and not counted.
    """

    component: str
    task: int
    message: str
    traceback: str = ""
    fatal: bool = False
    more: int = 0
    is_warning: bool = False


@dataclass
class Summary:
    """What one stage did on one worker in one batch.

    Attributes:
        stage: Which; -1 for pinned spouts.
        partition: The worker; -1 for the driver.
        updates: Task key -> slot -> what the commit is to hold.
        counts: (component, what, of which) -> number.
        acked: Spout slot -> ranges of sequence numbers whose trees were acked.
        failed: (slot, sequence number, reason) of trees that ended otherwise.
        timed_out: How many of `failed` timed out.
        pending: Trees pending, by acker task.
        times: How long tuples took to be executed and acked.
        busy: First task of an executor -> seconds in the author's code.
        born: (wall clock second of the emit, number, spout slot) of acked trees: for the complete
            latency.
        errors: Errors of components.
        restored: Keys of tasks that were restored from the checkpoint.
        restore_seconds: How long making these tasks took, with `open` and `prepare`.
        exhausted: Spout task -> whether it says that there will never be another tuple.
        spout_pending: Spout task -> messages that are not acked or failed yet, those to be
            delivered included.
        owed: Spout slot -> what was to be delivered and was not, because the batch is to be small.
        emitted: Tuples that spouts emitted.
        state_bytes: Written to state files of their own.
        state_seconds: Spent on pickling and writing state.
        process: (worker, process id).
        seconds: How long the stage ran.
        cpu_seconds: Of this process, meanwhile, but for making tasks anew.
        moved_bytes: Of the rows that came from other stages, and went to others.
        extra: For tests: every tuple that was emitted, if the setup asks for it.
    """

    stage: int
    partition: int
    updates: dict[str, dict[str, Update]] = field(default_factory=dict)
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    acked: dict[int, Ranges] = field(default_factory=dict)
    failed: list[tuple[int, int, str]] = field(default_factory=list)
    timed_out: int = 0
    pending: dict[int, int] = field(default_factory=dict)
    times: ChunkTimes = field(default_factory=dict)
    busy: dict[int, float] = field(default_factory=dict)
    born: list[tuple[float, int, int]] = field(default_factory=list)
    errors: list[ErrorReport] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    restore_seconds: float = 0.0
    exhausted: dict[int, bool] = field(default_factory=dict)
    spout_pending: dict[int, int] = field(default_factory=dict)
    owed: dict[int, Deliveries] = field(default_factory=dict)
    emitted: int = 0
    state_bytes: int = 0
    state_seconds: float = 0.0
    process: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    moved_bytes: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


class VoidBatch(Exception):
    """Another part of this batch came to nothing, so this one does as well: it is run again.

    Attributes:
        row: The row that said so.
    """

    def __init__(self, row: bytes) -> None:
        super().__init__(row)
        self.row = row
