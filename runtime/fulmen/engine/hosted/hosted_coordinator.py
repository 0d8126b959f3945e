"""Hosts the coordinator of a transactional spout: asks it, here in the driver, what there is."""

from __future__ import annotations

import math
import operator
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fulmen.api.components import FailedException
from fulmen.api.components.returned import refuse_unrun
from fulmen.api.signals import Signals
from fulmen.api.transactional_spouts import PartitionCoordinator, TransactionCoordinator
from fulmen.engine.emitting.routes import configuration_of, context_of
from fulmen.engine.hosted.exit_guard import hosting
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport, Summary
from fulmen.engine.state.values.renamed_classes import loads
from fulmen.engine.tasks.author.errors import (
    LONGEST_TRACEBACK,
    ComponentFailed,
    Unavailable,
    author_traceback,
    may_pass,
    service_of,
    shortened,
)
from fulmen.engine.tasks.transactional.spout_parts import part_of, wrong_part
from fulmen.errors import PASSED_ON, error_text, repr_of
from fulmen.topology.code.loading import create

T = TypeVar("T")
PAUSE_SECONDS = 1.0
"""After an exception, before the coordinator is asked again."""
LAG_SECONDS = 1.0
LARGEST_METADATA = 256 * 1024
"""Bytes of one transaction's metadata, which is in each commit, and in what each batch is told."""


class HostedCoordinator:
    """The author's coordinator, made when it is first asked.

    Attributes:
        name: Of its spout.
        is_exhausted: Whether it said that there will never be another transaction.
        is_away: Whether it could not say what there is, when it was asked last.
        lag: What it said of messages that are not in any transaction yet.
        away: What it said of a service that is away; None: it has reached what it needs.
        errors: What went wrong, for somebody to take and tell.
    """

    def __init__(self, placed: PlacedTopology, name: str, steady: Callable[[], float]) -> None:
        """Host the coordinator of one transactional spout of a topology."""
        self._placed = placed
        self.name = name
        self._task = placed.plan.tasks(name).start
        self._steady = steady
        self._coordinator: TransactionCoordinator | None = None
        self._not_before = self._lag_after = -math.inf
        self._told = ""
        self.is_exhausted = self.is_away = False
        self.lag: int | None = None
        self.away: ErrorReport | None = None
        self._signals: Signals | None = None
        self._was_made = self._has_opened = False
        self.errors: list[ErrorReport] = []

    def try_out(self) -> list[ErrorReport]:
        """Make the coordinator now, and let go of it.

        Returns:
            What its `close` raised.

        Raises:
            Unavailable: What it needs is away.
            ComponentFailed: Something is wrong with it, or the topology has `onError: crash`.
        """
        try:
            self._made()
        except FailedException as e:
            raise Unavailable(self._report(_Raised("get_coordinator", e))) from e
        except _Raised as e:
            report = self._report(e)
            kind = ComponentFailed if report.fatal else Unavailable
            raise kind(report) from e.error
        return self.close()

    def part(self, txid: int, previous: bytes | None) -> bytes | None:
        """Ask for the part of a new transaction, pickled; None: its spout has nothing for one now.

        Args:
            txid: The number of the transaction.
            previous: What it has said of the last one in which the spout has a part.

        Raises:
            ComponentFailed: It raised, and the topology has `onError: crash`.
        """
        if self._is_to_be_left:
            return None
        with self._noting():
            coordinator = self._made()
            if not self._call("is_ready", lambda: coordinator.is_ready()):
                return None
            try:
                metadata = self._metadata(coordinator, txid, previous)
            except _Raised as e:
                if not may_pass(e.error):
                    # it believes that a transaction has what none has, and perhaps that this was
                    # the last
                    self._drop()
                raise
            self._has_opened = True
            return metadata
        return None

    def look_ahead(self) -> None:
        """Ask whether there will be more, and how much, after it was asked for parts.

        Raises:
            ComponentFailed: It raised, and the topology has `onError: crash`.
        """
        self.is_exhausted = False
        if self._is_to_be_left:
            return
        with self._noting():
            coordinator = self._made()
            self.is_exhausted = bool(self._call("is_exhausted", coordinator.is_exhausted))
            if self._has_opened or self._steady() >= self._lag_after:
                self._look_at_lag(coordinator)
            self._told, self.is_away, self.away = "", False, None

    @property
    def _is_to_be_left(self) -> bool:
        """Whether it has raised a moment ago."""
        return self._steady() < self._not_before

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note what it raises: it is asked again later."""
        try:
            yield
        except FailedException:  # not now
            self.is_away = True
            self._not_before = self._steady() + PAUSE_SECONDS
        except _Raised as e:
            self._note(e)

    def _look_at_lag(self, coordinator: TransactionCoordinator) -> None:
        """Ask for it not too often: to know it may take a source some time."""
        self.lag = self._call("lag", lambda: _whole(coordinator.lag()))
        self._lag_after, self._has_opened = self._steady() + LAG_SECONDS, False

    def _made(self) -> TransactionCoordinator:
        if self._coordinator is None:
            spec = self._placed.component(self.name)
            configuration = self._call(
                "reading its config", lambda: configuration_of(self._placed, self._task)
            )
            conf = dict(configuration.conf)
            context = context_of(self._placed, self._task, configuration)
            self._signals = context.signals
            folder = self._placed.code_folder
            source = self._call("making the instance", lambda: create(spec, folder))
            made = self._call("get_coordinator", lambda: source.get_coordinator(conf, context))
            wanted: type[TransactionCoordinator] = part_of(source, "Coordinator")
            # of the two kinds with partitions, the coordinators are the same
            has_partitions = issubclass(wanted, PartitionCoordinator)
            if not isinstance(made, PartitionCoordinator if has_partitions else wanted):
                raise _Raised("get_coordinator", wrong_part(made, wanted))
            self._coordinator, self._was_made = made, True
        return self._coordinator

    def _metadata(
        self, coordinator: TransactionCoordinator, txid: int, previous: bytes | None
    ) -> bytes:
        if isinstance(coordinator, PartitionCoordinator):
            given: Any = self._call("num_partitions", lambda: _count(coordinator.num_partitions()))
        else:
            initialize = getattr(coordinator, "initialize_transaction")  # noqa: B009
            given = self._call(
                "initialize_transaction",
                lambda: initialize(txid, None if previous is None else loads(previous)),
            )
        metadata = self._call("pickling the metadata", lambda: _pickled(given))
        if len(metadata) > LARGEST_METADATA:
            raise _Raised(
                "initialize_transaction",
                ValueError(
                    f"the metadata of transaction {txid} has {len(metadata)} bytes, but at most"
                    f" {LARGEST_METADATA} are allowed: say where the tuples are, not what they are"
                ),
            )
        return metadata

    def _call(self, what: str, call: Callable[[], T]) -> T:
        calling = CALLS.begin(self._task, f"coordinator, {what}")
        try:
            with hosting():
                returned = call()
                refuse_unrun(returned)
                return returned
        except FailedException:
            raise
        except PASSED_ON:
            raise
        except BaseException as e:
            raise _Raised(what, e) from e
        finally:
            CALLS.end(calling)

    def _note(self, raised: _Raised) -> None:
        """Note an error: it is told once, until it differs, and tried again later."""
        self.is_away = True
        self._not_before = self._steady() + PAUSE_SECONDS
        report = self._report(raised)
        if report.fatal:
            raise ComponentFailed(report) from raised.error
        self.away = report if may_pass(raised.error) else None
        if report.message != self._told:
            self._told = report.message
            self.errors.append(report)

    def _report(self, raised: _Raised) -> ErrorReport:
        """The report; it is fatal if the topology can't go on."""
        message = f"coordinator, {raised.what}: {error_text(raised.error)}"
        is_fatal = self._placed.topology.spec.on_error == "crash" or (
            not self._was_made and not may_pass(raised.error)
        )
        stack = shortened(author_traceback(raised.error), LONGEST_TRACEBACK)
        service = service_of(raised.error)
        return ErrorReport(self.name, self._task, message, stack, fatal=is_fatal, service=service)

    def tell(self, summary: Summary) -> None:
        """Put into a summary what the author's code has told."""
        if self._signals is not None:
            summary.take(self._task, self._signals, self.name)

    def take_errors(self) -> list[ErrorReport]:
        """Take the errors since the last call."""
        errors, self.errors = self.errors, []
        return errors

    def close(self) -> list[ErrorReport]:
        """Let go of the coordinator. Returns what went wrong."""
        self._drop()
        return self.take_errors()

    def _drop(self) -> None:
        """Let go of the coordinator. It is made anew when it is asked again."""
        if self._coordinator is not None:
            coordinator, self._coordinator = self._coordinator, None
            try:
                self._call("close", coordinator.close)
            except FailedException:
                pass
            except _Raised as e:
                message = f"coordinator, close: {error_text(e.error)}"
                self.errors.append(ErrorReport(self.name, self._task, message))


def _whole(lag: Any) -> int | None:
    """Turn the lag that an author's coordinator gives into a number that can be shown."""
    return None if lag is None else max(0, int(lag))


def _count(partitions: Any) -> int:
    """The number of partitions that a coordinator has said."""
    try:
        number = operator.index(partitions)
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(
            f"it returned {repr_of(partitions)}, but must return a whole number from 0"
        )
    return number


def _pickled(metadata: Any) -> bytes:
    """Metadata as they are kept. What can't be unpickled is noticed here, before it is kept."""
    data = pickle.dumps(metadata, 5)
    pickle.loads(data)
    return data


class _Raised(Exception):
    """The author's coordinator raised."""

    def __init__(self, what: str, error: BaseException) -> None:
        super().__init__(what)
        self.what, self.error = what, error
