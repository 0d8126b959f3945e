"""The header of a batch, which the driver sends to every stage."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fulmen.engine.protocol.deliveries import Deliveries
from fulmen.engine.protocol.figures.taps import TapRequest
from fulmen.engine.protocol.letter_orders import LetterOrder
from fulmen.engine.protocol.read_ahead import AheadRequest
from fulmen.engine.protocol.transaction_work import TransactionWork


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
        rows: Mapping[int, Sequence[bytes]],
        header_bytes: int,
        file: str,
        write: Callable[[str, bytes], object],
    ) -> Injected:
        """Rows by worker: in the header if they are few, else in an object in the checkpoint.

        Args:
            rows: The rows.
            header_bytes: How many bytes are few.
            file: The name of that object.
            write: Makes that object.
        """
        if sum(len(row) for some in rows.values() for row in some) <= header_bytes:
            return Injected(rows)
        write(file, pickle.dumps(dict(rows), 5))
        return Injected(file=file)

    def of(self, worker: int, read: Callable[[str], bytes]) -> Sequence[bytes]:
        """The rows for one worker."""
        rows = pickle.loads(read(self.file)) if self.file is not None else self.rows
        own: Sequence[bytes] = rows.get(worker, ())
        return own


class Poison(NamedTuple):
    """How the batch of a tuple that is dropped has failed.

    Attributes:
        cause: In one line.
        traceback: Of what failed in a worker, if there is one.
    """

    cause: str
    traceback: str = ""


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
        default_permit: The permit of spout tasks that `permits` does not name.
        active: Whether spouts emit at all.
        deliveries: Origin -> how trees ended. None: they are in commit `number` - 1.
        poisoned: Spout tasks whose first emit is to be failed instead of sent: it crashed workers
            before.
        cause: Why a tuple of theirs is failed: what became of its batch.
        traceback: Of how that batch failed, if there is one.
        emit_seconds: How long spouts may emit.
        is_retry: Whether an attempt of the same batch failed before.
        injected: For the first stage of the job.
        bases: Stage -> the base of one that did not run in the batch before: what it was then.
        first: The first stage of the job.
        stop_before: The stage that the job ends before; 0: it runs to the last one.
        closes: Nothing is run: instances are closed, because the topology ends.
        drains: After all else bolts get their last turn, see `Bolt.drain`.
        transactions: What is to be processed and committed in a transactional topology.
        watermarks: Bolt -> the watermark of what it receives, and the one before it: what is due by
            that one has fired.
        paged: Bolts that bring so many results of event time at most as fit into the batch: what is
            behind them waits for the rest.
        ends_time: Bolts for which nothing will come any more: all their timers of event time are
            due.
        looks_ahead: All of them are called as well, for what they emit alone: of what the batch
            changes only what sinks have is kept.
        wall: The time of day, in seconds of time.time(), if there are event times.
        opens: Nothing is run: instances are made, so that the job that follows finds them.
        left_out: Spout tasks that the batch does without: they are neither made nor called.
        one_by_one: Bolt tasks that note each timer and window by itself.
        without: Bolt task -> calls that the batch does without, by name -> why.
        taps: What people who look at tuples want to see of the batch.
        letters: What people want done with dead letters.
        ahead: What to read for a topology that is to come; None: nothing, or nothing any more.
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
    traceback: str = ""
    emit_seconds: float = 0.1
    is_retry: bool = False
    injected: Injected = field(default_factory=Injected)
    bases: Mapping[int, str] = field(default_factory=dict)
    first: int = 0
    stop_before: int = 0
    closes: bool = False
    drains: bool = False
    transactions: TransactionWork = field(default_factory=TransactionWork)
    watermarks: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    paged: tuple[str, ...] = ()
    ends_time: tuple[str, ...] = ()
    looks_ahead: bool = False
    wall: float = 0.0
    opens: bool = False
    left_out: tuple[int, ...] = ()
    one_by_one: tuple[int, ...] = ()
    without: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    taps: tuple[TapRequest, ...] = ()
    letters: tuple[LetterOrder, ...] = ()
    ahead: AheadRequest | None = None

    def with_injected(self, injected: Injected) -> Header:
        """Copy the header with rows for the first stage."""
        return replace(self, injected=injected)

    def opening(self) -> Header:
        """The header of the job before the attempt's own, in which instances are made.

        It has one stage, which makes those of all stages: jobs are dear while JVMs are cold.
        """
        return replace(self, opens=True, first=0, stop_before=1, injected=Injected(), deliveries={})

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

    def poison(self, task: int) -> Poison | None:
        """Why the first emit of spout task `task` is dropped instead of sent. None: it is sent."""
        return Poison(self.cause, self.traceback) if task in self.poisoned else None

    def encode(self) -> str:
        """The header as text, for a local property: the attributes that differ from the default."""
        told = {n: v for n, v in vars(self).items() if n in _REQUIRED or v != _USUAL[n]}
        return base64.b64encode(pickle.dumps(told, 5)).decode()

    @staticmethod
    def decode(text: str) -> Header:
        """Read what `encode` made."""
        return Header(**pickle.loads(base64.b64decode(text)))


_REQUIRED = {"number", "tag", "base", "clock", "previous_clock", "default_permit"}
_USUAL = vars(Header(number=0, tag="", base="", clock=0.0, previous_clock=0.0, default_permit=0))


def tick_due(period: float, header: Header) -> bool:
    """Whether the batch clock passed a multiple of `period` seconds, or several: one tick then."""
    return int(header.clock // period) > int(header.previous_clock // period)
