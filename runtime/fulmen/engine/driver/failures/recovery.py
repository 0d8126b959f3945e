"""Recovers from a failed attempt: tells it, waits, plans again, tries again.

Or the topology can't go on. How much of the batch the next attempt has, the coordinator decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from fulmen.engine.batches.coordinator import Coordinator
from fulmen.engine.batches.failures.blame import Fault, VoidAttempt
from fulmen.engine.driver.checkpoints.committer import CommitWriter
from fulmen.engine.driver.clocks import Clocks
from fulmen.engine.driver.failures.author_calls import AuthorCalls
from fulmen.engine.driver.observer import Observer
from fulmen.engine.driver.replanning import Planner
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.jobs import Cause, Failure, Jobs
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.engine.tasks.author.errors import Unavailable
from fulmen.engine.totals.totals import Totals
from fulmen.engine.totals.waits import Stops, Wait
from fulmen.errors import CheckpointError, JobFailed, JobTimedOut, TopologyFailed, Unreachable

OUTAGE_TOLD_SECONDS = 5.0
"""Most outages are over before."""


@dataclass
class Recovery:
    """Deals with failed attempts.

    Attributes:
        jobs: What runs the stages.
        planner: Knows where executors are.
        committer: Knows how well the store answers.
        totals: Count failures and errors.
        observer: Is told of them.
        clocks: How time passes.
        calls: Which calls of authors' made attempts fail.
        reason: Why the last attempt failed that did.
        away: About the component that can't reach what its `open` or `prepare` connects to; None:
            the last attempt did not fail of that.
    """

    jobs: Jobs
    planner: Planner
    committer: CommitWriter
    totals: Totals
    observer: Observer
    clocks: Clocks
    away: ErrorReport | None = field(init=False, default=None)
    calls: AuthorCalls = field(init=False)
    reason: str = field(init=False, default="")
    _outages: int = field(init=False, default=0)
    _opened: Coordinator | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.calls = AuthorCalls(self.jobs, self.planner, self.totals, self.observer, self.clocks)

    @property
    def outage(self) -> Wait | None:
        """The checkpoint, or the first service, waited for for seconds. For any thread."""
        with self.totals.lock:
            away = list(self.totals.waits.away.values())
        own = self.committer.outage
        for wait in (*([] if own is None else [own]), *sorted(away, key=lambda one: one.since)):
            if self.clocks.wall() - (wait.since or 0.0) >= OUTAGE_TOLD_SECONDS:
                return wait
        return None

    def succeeded(self, coordinator: Coordinator) -> None:
        """A batch counted, so all components are open."""
        self._outages, self.away, self._opened = 0, None, coordinator
        self.calls.succeeded(coordinator)

    def after_error(
        self,
        coordinator: Coordinator,
        header: Header,
        error: Unavailable | JobFailed | Unreachable,
    ) -> None:
        """An attempt raised.

        Raises:
            TopologyFailed: The topology can't go on.
        """
        self.away = None
        match error:
            case Unavailable():
                self._failed(coordinator, header, self._unavailable(error.report))
            case Unreachable():
                self._failed(coordinator, header, self._store_away(str(error)))
            case JobFailed():
                self.calls.end_if_given_up()
                fault = Fault.OUTAGE if error.is_clusters else Fault.UNKNOWN
                void = VoidAttempt(str(error), error.traceback, fault)
                self._failed(coordinator, header, void, error)

    def after_void(self, coordinator: Coordinator, header: Header, failure: Failure) -> None:
        """Deal with a failed attempt.

        Raises:
            CheckpointError: Parts of the checkpoint are missing or damaged.
            Fenced: Another driver has taken over.
            TopologyFailed: The topology can't go on.
        """
        self.away = None
        self._failed(coordinator, header, self._void_of(failure, coordinator))

    def _void_of(self, failure: Failure, coordinator: Coordinator) -> VoidAttempt:
        report, reason = failure.report, failure.reason
        if report is not None:
            with suppress(Unreachable):  # of a driver that was superseded, others use what it uses
                self.committer.log.check()
            if report.fatal:
                if report.is_outside and coordinator is self._opened:  # it was right before
                    return self._unavailable(replace(report, fatal=False))
                raise self.fatal(report)
            if failure.cause is Cause.OUTAGE:
                return self._unavailable(report)
        match failure.cause:
            case Cause.TUPLES:
                return VoidAttempt(reason, failure.traceback)
            case Cause.OUTAGE:
                return self._store_away(reason)
            case Cause.DENIED if self.totals.batches:  # workers had their rights before
                return self._store_away(reason)
        try:
            self.committer.log.check()  # of a driver that was superseded, much may be gone
        except Unreachable as e:
            return self._store_away(str(e))
        raise CheckpointError(reason)

    def _unavailable(self, report: ErrorReport) -> VoidAttempt:
        """A service that `open` or `prepare` needs is away: the batch is tried again, for ever."""
        self.away = report
        with self.totals.lock:
            self.totals.waits.is_away(report, self.clocks.wall(), self.totals.steady())
        self.tell([report])
        return VoidAttempt(f"{self._who(report)}: {report.message}", fault=Fault.SERVICE)

    def _store_away(self, reason: str) -> VoidAttempt:
        """Note that the store did not do what a batch needs."""
        return VoidAttempt(f"{reason} {self.committer.is_away(reason)}", fault=Fault.OUTAGE)

    def source_said(self, away: ErrorReport | None) -> None:
        """Note that a service of the source of transactions is away. None: it is back."""
        with self.totals.lock:
            waits, steady = self.totals.waits, self.totals.steady()
            if away is None:
                waits.are_back(Stops.SOURCE)
            else:
                waits.is_away(away, self.clocks.wall(), steady, Stops.SOURCE)

    def _failed(
        self,
        coordinator: Coordinator,
        header: Header,
        void: VoidAttempt,
        job: JobFailed | None = None,
    ) -> None:
        """See which workers are left, and have the batch tried again.

        Args:
            coordinator: Is told.
            header: Of the attempt.
            void: What is known of it.
            job: A worker was lost, or its batch cancelled: however often, that may pass.

        Raises:
            TopologyFailed: It is neither, and happens without any tuple too. Or a spout makes its
                batches fail, and the topology has `onError: crash`.
        """
        is_outage = void.fault is not Fault.UNKNOWN
        if not is_outage:  # nothing that is away is known to hold up the batch
            with self.totals.lock:
                self.totals.waits.are_back(Stops.BATCHES)
        self.totals.attempt_failed(void.reason)
        self.observer.attempt_failed(header.number, void.reason)
        alive = self.jobs.recover()
        while not alive:
            self.observer.note("no worker is left: waiting until one is back")
            alive = self.jobs.recover()
        calls = self.calls.blamed(job)
        self.reason = self.calls.name(calls, job, void.reason)
        is_hopeless = coordinator.hopeless
        if is_outage or is_hopeless:
            self.clocks.sleep(min(5.0, 0.1 * 2**self._outages))
            self._outages = min(self._outages + 1, 16)
        hung_seconds = job.seconds if isinstance(job, JobTimedOut) else 0.0
        void = replace(void, reason=self.reason, calls=calls, hung_seconds=hung_seconds)
        coordinator.failed(void, self.clocks.steady())
        self.calls.failed(coordinator)
        if coordinator.hopeless and not is_hopeless:
            self._hopeless(coordinator, header, self.reason, is_loss=job is not None)
        self.planner.replan(alive)

    def _hopeless(
        self, coordinator: Coordinator, header: Header, reason: str, *, is_loss: bool
    ) -> None:
        """Note that the batch fails from now on although it has no tuple that could be left out."""
        failures = coordinator.blame.crashes.failures
        what = (
            f"batch {header.number} failed {failures} times in a row, at last without"
            f" any tuple of a spout in it: {reason}"
        )
        if not is_loss:
            raise TopologyFailed(f"{what}. The last attempts are in the log")
        self.observer.note(
            f"{what}. Either workers are taken away again and again, or a component ends its"
            " process. The batch is tried until it succeeds"
        )

    def refuse_hopeless(self, coordinator: Coordinator) -> None:
        """End a topology that is to be drained, and none of whose batches succeeds.

        Raises:
            TopologyFailed: That is so.
        """
        if coordinator.hopeless:
            raise TopologyFailed(
                f"the topology can't be drained, as its batches fail again and again, at last:"
                f" {self.reason}. What is committed stays"
            )

    def tell(self, errors: Sequence[ErrorReport]) -> None:
        """Count and tell errors that are no part of a batch."""
        for error in self.totals.note(errors, self.clocks.wall()):
            self.observer.error(error)

    def fatal(self, report: ErrorReport) -> TopologyFailed:
        """The end of the topology because of a component. It is counted; who ends tells it."""
        if report is not self.away:  # that one was counted when it came
            self.totals.note([report], self.clocks.wall())
        return TopologyFailed(f"{self._who(report)}: {report.message}", report.traceback)

    def _who(self, report: ErrorReport) -> str:
        return self.planner.current.placed.who(report.component, report.task)
