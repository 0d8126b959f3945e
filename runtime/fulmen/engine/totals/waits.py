"""What a topology waits for, and what waits for it: services that are away, full buffers, lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from fulmen.api.signals import Lag
from fulmen.engine.batches.transactions import Outcome
from fulmen.engine.protocol.summary import ErrorReport, Summary


class Stops(Enum):
    """What does not go on while a service is away."""

    BATCHES = auto()
    SOURCE = auto()
    """The source of transactions opens none."""
    TRANSACTIONS = auto()
    """The attempts of a transaction fail, one after another."""


@dataclass(frozen=True)
class Away:
    """A service that a component needs, and that does not answer.

    Attributes:
        service: What is away; "": the exception did not say.
        component: What needs it.
        task: The task that said so last.
        reason: What it said last, in one line.
        since: When it was away first, in seconds of time.time().
        began: The same, in seconds of the driver's steady clock.
        stops: What does not go on without it.
    """

    service: str
    component: str
    task: int
    reason: str
    since: float
    began: float
    stops: Stops = Stops.BATCHES

    @property
    def name(self) -> str:
        """The service for people."""
        return self.service or "a service"


@dataclass(frozen=True)
class LeftOutTask:
    """A spout task, or a bolt's call for no tuple, that batches do without, as it made them fail.

    Attributes:
        component: The component.
        task: The task.
        reason: Which call, and what is wrong with it.
        since: In seconds of time.time().
    """

    component: str
    task: int
    reason: str
    since: float


@dataclass(frozen=True)
class LongCall:
    """A call of an author's code that has not ended for seconds.

    Attributes:
        who: Component and task, for people.
        callback: What was called.
        since: In seconds of time.time().
    """

    who: str
    callback: str
    since: float


@dataclass
class Waits:
    """What holds up batches or spouts at the moment.

    Attributes:
        left_out: What batches do without, by task.
        long_calls: Those that have not ended for seconds.
        exhausted: Spout task -> whether it says that there will never be another tuple; None: it
            does not know its end.
        away: Component -> the service that it waits for.
        holds: Task -> why spouts emit nothing.
        lags: Spout task -> how far it is behind its source.
        full: Spout task -> since when `maxSpoutPending` is reached, and nothing of it has ended, in
            seconds of the driver's steady clock.
    """

    away: dict[str, Away] = field(default_factory=dict)
    holds: Mapping[int, str] = field(default_factory=dict)
    lags: dict[int, Lag] = field(default_factory=dict)
    left_out: dict[int, LeftOutTask] = field(default_factory=dict)
    full: Mapping[int, float] = field(default_factory=dict)
    exhausted: dict[int, bool | None] = field(default_factory=dict)
    long_calls: Sequence[LongCall] = ()

    def is_away(
        self, report: ErrorReport, wall: float, steady: float, stops: Stops = Stops.BATCHES
    ) -> None:
        """A component could not reach what it needs.

        Args:
            report: What it said.
            wall: Now, in seconds of time.time().
            steady: Now, in seconds of the driver's steady clock.
            stops: What does not go on without it.
        """
        name, service, message = report.component, report.service, report.message
        if service:
            message = message.partition(f"{service} ")[2].partition(": ")[2] or message
        new = Away(service, name, report.task, message, wall, steady, stops)
        before = self.away.get(name)
        if before is not None and before.service == new.service:
            new = replace(new, since=before.since, began=before.began)
        self.away[name] = new

    def are_back(self, stops: Stops) -> None:
        """Components reach what these needed."""
        self.away = {name: away for name, away in self.away.items() if away.stops is not stops}

    def attempts_ended(
        self, outcome: Outcome, errors: Sequence[ErrorReport], wall: float, steady: float
    ) -> None:
        """A batch counted in which attempts of transactions were committed, or failed.

        Args:
            outcome: What it means for transactions.
            errors: What its components have reported.
            wall: Now, in seconds of time.time().
            steady: Now, in seconds of the driver's steady clock.
        """
        if outcome.committed or outcome.given_up:
            self.are_back(Stops.TRANSACTIONS)
        for failed in outcome.failed:
            if failed.is_outage:
                said = [
                    e for e in errors if (e.component, e.task) == (failed.component, failed.task)
                ]
                named = (e for e in said if e.service)
                report = next(named, ErrorReport(failed.component, failed.task, failed.reason))
                self.is_away(report, wall, steady, Stops.TRANSACTIONS)

    def add(self, summaries: Sequence[Summary], holds: Mapping[int, str]) -> None:
        """A batch was committed: nothing was away that it needs.

        Args:
            summaries: Of all its parts.
            holds: Why spouts emit nothing after it.
        """
        self.are_back(Stops.BATCHES)
        self.holds = holds
        for summary in summaries:
            self.lags.update(summary.lags)
            self.exhausted.update(summary.exhausted)

    def renumber(self) -> None:
        """Tasks are others from now on."""
        self.holds, self.lags, self.left_out, self.full = {}, {}, {}, {}
        self.exhausted = {}

    def copy(self) -> Waits:
        """One that does not change with this."""
        return Waits(
            dict(self.away),
            dict(self.holds),
            dict(self.lags),
            dict(self.left_out),
            dict(self.full),
            dict(self.exhausted),
            self.long_calls,
        )


def lag_of(lags: Mapping[int, Lag], tasks: Iterable[int]) -> Lag | None:
    """How far tasks are behind together: all their messages, and the oldest of these.

    If one of them is behind and does not know by how many messages, the total is unknown.

    Returns:
        None: None of them has said.
    """
    said = [lags[task] for task in tasks if task in lags]
    if not said:
        return None
    messages = [lag.messages for lag in said if lag.messages is not None]
    if any(lag.messages is None and lag.seconds for lag in said):
        messages = []
    seconds = [lag.seconds for lag in said if lag.seconds is not None]
    return Lag(sum(messages) if messages else None, max(seconds) if seconds else None)
