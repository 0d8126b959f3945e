"""Authors' code that the driver hosts: pinned spouts, coordinators of transactions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fulmen.checkpoint import CommitLog, Store, load_many
from fulmen.engine.batches.coordinator import Coordinator
from fulmen.engine.batches.ledger import Ledger, shown_metadata
from fulmen.engine.batches.transactions import Outcome, Transactions
from fulmen.engine.driver.clocks import Clocks
from fulmen.engine.driver.failures.recovery import Recovery
from fulmen.engine.hosted.hosted_coordinator import HostedCoordinator
from fulmen.engine.hosted.pinned_spouts import PinnedSpouts
from fulmen.engine.protocol.deliveries import Deliveries
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import CurrentTopology, PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport, Summary
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.journals import PARTITIONS
from fulmen.engine.tasks.author.errors import ComponentFailed, Unavailable, shortened
from fulmen.engine.totals.totals import Totals
from fulmen.errors import PASSED_ON, TopologyFailed, repr_of
from fulmen.plan.model import DRIVER

MOST_SHOWN = 500
"""Characters of where a transaction begins."""


def transactions_of(
    placed: PlacedTopology, ledger: Ledger, epoch: int, branch: str, before: Transactions | None
) -> Transactions | None:
    """The transactions of a topology; None: it has none."""
    spec = placed.topology.spec
    if not spec.transactional:
        return None
    return Transactions(
        epoch=epoch,
        branch=branch,
        ledger=ledger,
        has_commit_phase=bool(placed.commit_phase),
        most=spec.max_spout_pending or 1,
        max_replays=spec.max_replays,
        attempts=0 if before is None else before.attempts,  # the next ones are to be greater
    )


@dataclass
class PinnedHost:
    """The host of pinned spouts. Of a topology without any nothing is called."""

    _current: CurrentTopology
    _store: Store
    _recovery: Recovery
    _generator: Callable[[], np.random.Generator]
    _spouts: PinnedSpouts | None = None  # made when they are first asked
    woken: threading.Event = field(default_factory=threading.Event)
    """Set when one of them wants the next batch at once."""

    def open(self, number: int) -> None:
        """Make them, unless they are, with what commit `number` has of them."""
        if self._spouts is None:
            hung = self._recovery.calls.end_if_given_up
            with self._failures_told():
                self._spouts = PinnedSpouts(
                    self._current, self._store, number, self._generator, hung, self.woken.set
                )

    def take(self, header: Header) -> tuple[Header, list[Summary], Mapping[int, Deliveries]]:
        """Let them have their turns: see `PinnedSpouts.take`."""
        assert self._spouts is not None
        with self._failures_told():
            return self._spouts.take(header)

    def give(self, summaries: Sequence[Summary]) -> None:
        """Give them what a commit has for them: see `PinnedSpouts.give`."""
        if self._spouts is not None:
            self._spouts.give(summaries)

    @contextmanager
    def _failures_told(self) -> Iterator[None]:
        try:
            yield
        except Unavailable:
            raise
        except ComponentFailed as e:
            raise self._recovery.fatal(e.report) from e

    def close(self) -> None:
        """Let go of them."""
        spouts, self._spouts = self._spouts, None
        if spouts is not None:
            self._recovery.tell(spouts.close())


@dataclass
class TransactionHost:
    """The work for transactions besides running batches.

    It has the authors' coordinators open them, has them counted, and tells of those that are given
    up. Of a topology that has none it does nothing.
    """

    _current: CurrentTopology
    _totals: Totals
    _recovery: Recovery
    _store: Store
    _log: CommitLog
    _clocks: Clocks
    _hosted: list[HostedCoordinator] = field(default_factory=list)  # made when first asked

    def open(self, coordinator: Coordinator) -> None:
        """Ask the authors' coordinators for new transactions.

        Raises:
            TopologyFailed: The topology can't go on.
        """
        transactions = coordinator.transactions
        if transactions is None or not coordinator.active or coordinator.last.holds:
            return
        if not self._hosted:
            placed, steady = self._current.placed, self._clocks.steady
            self._hosted = [HostedCoordinator(placed, name, steady) for name in placed.emitters]
        try:
            self._fill(transactions)
        except ComponentFailed as e:
            raise self._recovery.fatal(e.report) from e
        for one in self._hosted:
            self._recovery.tell(one.take_errors())
            self._count(one)
        self._recovery.source_said(next((one.away for one in self._hosted if one.away), None))
        exhausted = [one.name for one in self._hosted if one.is_exhausted]
        if len(exhausted) == len(self._hosted) and not transactions.is_settled:
            exhausted = []  # attempts of one that comes again may leave something for another
        transactions.exhausted_sources = exhausted
        transactions.source_is_away = any(one.is_away for one in self._hosted)

    def _fill(self, transactions: Transactions) -> None:
        """Open as many transactions as may be, and as a source has something for.

        Raises:
            ComponentFailed: A coordinator raised, and the topology can't go on.
        """
        while (wanted := transactions.to_initialize()) is not None:
            txid, previous = wanted
            parts = {one.name: one.part(txid, previous.get(one.name)) for one in self._hosted}
            metadata = {name: part for name, part in parts.items() if part is not None}
            if not metadata:
                break
            transactions.initialize(txid, metadata)
        for one in self._hosted:
            one.look_ahead()

    def _count(self, hosted: HostedCoordinator) -> None:
        """Have counted what the author's coordinator has counted and measured."""
        summary = Summary(-1, DRIVER)
        hosted.tell(summary)
        if not (summary.samples or summary.lags):
            return
        with self._totals.lock:
            errors = list(self._totals.count(summary))
            self._totals.waits.lags.update(summary.lags)
        self._recovery.tell(errors)

    def count(self, coordinator: Coordinator) -> None:
        """Count the transactions and the lag as they are now."""
        if coordinator.transactions is not None:
            lags = {one.name: one.lag for one in self._hosted if one.lag is not None}
            self._totals.begin(coordinator.transactions, lags)

    def check(self, coordinator: Coordinator) -> None:
        """After an attempt that came to nothing: see whether a transaction is to blame.

        Raises:
            TopologyFailed: It has ended its workers again and again.
        """
        transactions = coordinator.transactions
        if transactions is not None and transactions.ended:
            raise TopologyFailed(transactions.ended + self._begin(transactions.ledger.head))

    def _begin(self, txid: int) -> str:
        """Say where a transaction begins in each partition of its sources."""
        emitters = self._current.placed.emitters
        if len(emitters) == 1:
            return self._begin_in(emitters[0], txid, "Its partitions")
        whose = ((name, f"Its partitions of {name!r}") for name in emitters)
        return "".join(self._begin_in(name, txid, what) for name, what in whose)

    def _begin_in(self, source: str, txid: int, what: str) -> str:
        """Begin one source; `what` begins the sentence."""
        begins: dict[int, Any] = {}
        try:
            plan = self._current.placed.plan
            keys = [plan.key_of(task) for task in plan.tasks(source)]
            for journals in load_many(self._store, self._log.manifest, keys).values():
                for partition, ends in KeyedState.restore(journals, name=PARTITIONS).items():
                    if before := [end for of, end in ends if of < txid]:
                        begins[partition] = before[-1]
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (the store's, or of an author's class; the message matters)
            return ""
        if not begins:
            return ""
        text = f". {what} begin behind {repr_of(dict(sorted(begins.items())))}"
        return shortened(text, MOST_SHOWN)

    def tell(self, outcome: Outcome | None) -> None:
        """Tell of a transaction that a batch has given up."""
        if outcome is None or outcome.given_up is None:
            return
        one, placed = outcome.given_up, self._current.placed
        message = (
            f"transaction {one.txid} ({shown_metadata(one.metadata)}) is given up after"
            f" {one.failures} attempts: {one.reason}{self._begin(one.txid)}"
        )
        name = next(iter(one.metadata), placed.emitters[0])
        self._recovery.tell([ErrorReport(name, placed.plan.tasks(name).start, message)])

    def close(self) -> None:
        """Let go of the authors' coordinators."""
        hosted, self._hosted = self._hosted, []
        for one in hosted:
            self._recovery.tell(one.close())
