"""Waits: services that are away, full buffers, lag."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto

from fulmen.api.signals import Lag
from fulmen.engine.batches.done import Done
from fulmen.engine.batches.transactions import Outcome
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport, Summary


class Stops(Enum):
    """The work that stops while a service is away."""

    BATCHES = auto()
    SOURCE = auto()
    """The source of transactions opens none."""
    TRANSACTIONS = auto()
    """The attempts of a transaction fail, one after another."""


class WaitKind(StrEnum):
    """The kind of a wait: it decides what a person may do about it."""

    LONG_CALL = "long_call"
    """A call of an author's code has not ended for seconds."""
    LEFT_OUT = "left_out"
    """Batches do without a spout task, or without a bolt's call, as it made them fail."""
    AWAY = "away"
    """A service that a component needs does not answer."""
    CHECKPOINT = "checkpoint"
    """The checkpoint does not do what it is asked to."""
    HOLD = "hold"
    """A bolt holds the spouts."""
    FULL = "full"
    """`maxSpoutPending` is reached, and nobody acks."""
    RESTING = "resting"
    """Messages have failed, and come again after a pause."""
    TIME = "time"
    """A timer of event time is due at a time that may never come."""


@dataclass(frozen=True)
class Wait:
    """A wait of batches or spouts, made where it is noticed.

    Attributes:
        kind: What kind of wait it is.
        component: Who waits, or is waited for; "": the whole topology.
        sentence: All of it for people: logs, reports, the page and the command say this.
        since: When it began, in seconds of time.time(); None: not known.
    """

    kind: WaitKind
    component: str
    sentence: str
    since: float | None = None


@dataclass(frozen=True)
class Away(Wait):
    """A service that a component needs, and that does not answer.

    Attributes:
        service: What is away; "": the exception did not say.
        began: When it was away first, in seconds of the driver's steady clock.
        stops: What does not go on without it.
    """

    since: float = 0.0
    service: str = ""
    began: float = 0.0
    stops: Stops = Stops.BATCHES


def utc(at: float) -> str:
    """A moment of time.time() for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


@dataclass
class Waits:
    """All that holds up batches or spouts at the moment.

    Attributes:
        left_out: What batches do without, by task.
        long_calls: Calls that have not ended for seconds.
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
    left_out: dict[int, Wait] = field(default_factory=dict)
    full: Mapping[int, float] = field(default_factory=dict)
    exhausted: dict[int, bool | None] = field(default_factory=dict)
    long_calls: Sequence[Wait] = ()

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
        before, since, began = self.away.get(name), wall, steady
        if before is not None and before.service == service:
            since, began = before.since, before.began
        text = f"{name!r} waits for {service or 'a service'} since {utc(since)}: {message}"
        self.away[name] = Away(WaitKind.AWAY, name, text, since, service, began, stops)

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
        """Note a committed batch: nothing was away that it needs.

        Args:
            summaries: Of all its parts.
            holds: Why spouts emit nothing after it.
        """
        self.are_back(Stops.BATCHES)
        self.holds = holds
        for summary in summaries:
            self.lags.update(summary.lags)
            self.exhausted.update(summary.exhausted)

    def look_for_full(
        self, placed: PlacedTopology, pending: Mapping[int, int], done: Done, now: float
    ) -> None:
        """Note the spout tasks that may emit nothing more after a batch.

        Args:
            placed: The topology.
            pending: Of each spout task: its messages that have not ended.
            done: The batch.
            now: In seconds of the driver's steady clock.
        """
        limit = placed.topology.spec.max_spout_pending
        if limit is None or done.transactions is not None:
            self.full = {}
            return
        spouts = [task for name in placed.spouts for task in placed.plan.tasks(name)]
        full = [task for task in spouts if pending.get(task, 0) >= limit]
        ended = {o for s in done.summaries for o in (*s.acked, *(failed[0] for failed in s.failed))}
        moved = {placed.task_of_origin.get(origin) for origin in ended} if full else set()
        self.full = {task: now if task in moved else self.full.get(task, now) for task in full}

    def renumber(self) -> None:
        """Forget the waits of tasks: tasks are others from now on."""
        self.holds, self.lags, self.left_out, self.full = {}, {}, {}, {}
        self.exhausted = {}

    def copy(self) -> Waits:
        """Copy it: the copy does not change with this."""
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
    """Add up the lag of tasks: all their messages, and the age of the oldest.

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
