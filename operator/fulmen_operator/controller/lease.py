"""Elects a leader by a Lease that all operators of an installation see. Pure: clocks are arguments.

Guaranteed: at no time may two candidates write, as long as no clock runs more than WAIT_SECONDS /
LEAD_SECONDS times as fast as another. A leader counts from the moment at which it asked for the
lease; the others count from the moment at which they saw that it has it, which is later, and they
wait for longer than it leads. Each compares times of its own clock only, so it does not matter what
clocks say. A process that is stopped, an API server that is away, a request or an answer that is
late or lost: all of these make others wait longer, and let nobody lead for longer.

A lease may be deleted without its holder knowing it, and operators of versions before this one have
none. So whoever has made a lease waits for as long as others do before it leads.

Kubernetes' Python client has an election of its own, `kubernetes.aio.leaderelection`. Its leader
counts from the answer, by a clock that can be set, and nothing keeps it from writing when its time
is over; it never gives a lease back.
"""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final

from fulmen_operator.model import Object

WAIT_SECONDS: Final = 10
"""A lease that has not changed for so long may be taken by another."""
LEAD_SECONDS: Final = 7
"""Seconds after asking for its lease in which the holder may write."""


@dataclass(frozen=True)
class Look:
    """Read the lease. The answer is the lease, or None if there is none."""


@dataclass(frozen=True)
class Claim:
    """A request to write the lease if it is unchanged. The answer is the lease as written.

    Attributes:
        version: The resourceVersion of the lease that was seen; None: there was none.
        holder: The new holder; empty: nobody.
        transitions: How often the holder has changed, this change included.
        is_new: Whether the holder changes.
    """

    version: str | None
    holder: str
    transitions: int
    is_new: bool


Request = Look | Claim


@dataclass(frozen=True)
class _Seen:
    """The lease as a candidate saw it last.

    Attributes:
        version: Its resourceVersion; None: there was none.
        uid: Its uid, which changes if it is deleted and made anew; None: there was none.
        holder: Its holder; empty: nobody.
        transitions: How often the holder has changed.
        free_at: When it may be taken, by the candidate's own clock, if it does not change.
    """

    version: str | None
    uid: str | None
    holder: str
    transitions: int
    free_at: float


class LeaseCandidate:
    """One process that may lead. `name`: its name as the holder; no other process ever has it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._seen: _Seen | None = None
        self._is_sure = False  # that the lease is as it was seen last: nobody else may write it
        self._until = -math.inf
        self._not_before = -math.inf

    @property
    def holder(self) -> str:
        """The holder when the lease was seen last; empty: nobody, or it was never seen."""
        return self._seen.holder if self._seen else ""

    def left(self, now: float) -> float:
        """Seconds for which this candidate may write; 0: it may not."""
        return 0.0 if now < self._not_before else max(0.0, self._until - now)

    def turn(self, clock: Callable[[], float]) -> Generator[Request, Object | None, None]:
        """Try once to get or to keep the lease. Yields requests, and is sent their answers.

        It may be abandoned at any request: whether that was carried out does not matter.
        """
        if not self._is_sure:
            self._saw((yield Look()), clock())
        asked = clock()
        claim = self._claim(asked)
        if claim is None:
            return
        self._is_sure = False  # until there is an answer
        self._saw((yield claim), clock())
        self._is_sure = True
        self._until = asked + LEAD_SECONDS

    def give_back(self, clock: Callable[[], float]) -> Generator[Request, Object | None, None]:
        """Lead no more, and say so, so that others need not wait. As `turn` otherwise.

        Who waits itself says nothing: others have to wait as well.
        """
        self._until = -math.inf
        if not self._is_sure:
            self._saw((yield Look()), clock())
        self._is_sure = False
        seen = self._seen
        if seen is not None and seen.holder == self._name and clock() >= self._not_before:
            yield Claim(seen.version, "", seen.transitions, is_new=False)

    def _saw(self, lease: Object | None, now: float) -> None:
        version = None if lease is None else str(lease["metadata"]["resourceVersion"])
        if self._seen is None or version != self._seen.version:
            before, self._seen = self._seen, _taken_in(lease, version, now)
            is_another = before is None or self._seen.uid != before.uid
            if is_another and self._seen.holder == self._name:
                self._not_before = now + WAIT_SECONDS
        if self._seen.holder != self._name:
            self._until = -math.inf

    def _claim(self, now: float) -> Claim | None:
        seen = self._seen
        assert seen is not None, "it was looked at"
        if seen.holder == self._name:
            return Claim(seen.version, self._name, seen.transitions, is_new=False)
        if now < seen.free_at:
            return None
        transitions = seen.transitions + (seen.version is not None)
        return Claim(seen.version, self._name, transitions, is_new=True)


def _taken_in(lease: Object | None, version: str | None, now: float) -> _Seen:
    if lease is None:
        return _Seen(version, None, "", 0, -math.inf)
    spec: dict[str, Any] = lease.get("spec") or {}
    holder = str(spec.get("holderIdentity") or "")
    seconds = max(WAIT_SECONDS, int(spec.get("leaseDurationSeconds") or 0))
    free_at = now + seconds if holder else -math.inf
    transitions = int(spec.get("leaseTransitions") or 0)
    return _Seen(version, str(lease["metadata"]["uid"]), holder, transitions, free_at)
