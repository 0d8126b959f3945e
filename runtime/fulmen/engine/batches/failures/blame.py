"""Whom an attempt that came to nothing speaks against, and what attempts do without then. Pure.

One reason is enough: as long as a service, a transaction or a task's own call explains the failure,
no tuple is suspected.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from fulmen.engine.batches.done import Done
from fulmen.engine.batches.failures.crashes import Crashes
from fulmen.engine.batches.failures.own_calls import OwnCalls
from fulmen.engine.batches.failures.service_probe import ServiceProbe
from fulmen.engine.batches.failures.suspects import Suspects
from fulmen.engine.batches.transactions import Transactions
from fulmen.engine.protocol.callbacks.call_names import FUNCTIONS, OF_NO_TUPLE, method_of
from fulmen.engine.protocol.callbacks.calls import Call
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import PlacedTopology

MAKING = frozenset(
    (
        "making its groupings",
        "reading its config",
        "making the instance",
        "restoring self.state",
        "restoring its fields",
        "looking at self.state",
        "prepare",
        "get_emitter",
    )
)
"""Calls that make the instance of a task that batches need: no tuple is to blame."""


class Fault(Enum):
    """The cause of a failure, as far as it is known at once."""

    UNKNOWN = auto()
    """It may be a tuple's."""
    OUTAGE = auto()
    """The store is away, or the cluster took a worker."""
    SERVICE = auto()
    """A component can't reach what it connects to."""


@dataclass(frozen=True)
class VoidAttempt:
    """An attempt that came to nothing.

    Attributes:
        reason: Why, in one line.
        traceback: Of what failed in a worker, if there is one.
        fault: Whose it is.
        calls: Those of authors' that it came to nothing in, as far as that is known.
        hung_seconds: It was given so long, and these calls did not end. 0: their process did.
    """

    reason: str = ""
    traceback: str = ""
    fault: Fault = Fault.UNKNOWN
    calls: Sequence[Call] = ()
    hung_seconds: float = 0.0


@dataclass
class Blame:
    """The suspects of failures, by kind.

    Attributes:
        crashes: Against a tuple.
        probe: Against a service.
        left_out: Spout tasks that batches do without.
        unmade: Other tasks, whose instances could not be made.
        own_calls: Calls of bolts that are for no tuple.
    """

    crashes: Crashes = field(default_factory=Crashes)
    probe: ServiceProbe = field(default_factory=ServiceProbe)
    left_out: Suspects = field(default_factory=Suspects)
    unmade: Suspects = field(default_factory=Suspects)
    own_calls: OwnCalls = field(default_factory=OwnCalls)

    def begin(self, header: Header, spouts: Sequence[int], now: float) -> Header:
        """The header of an attempt without what is suspected; a permit of 0 stays so.

        Args:
            header: With the permit that tasks of spouts have if nothing is suspected.
            spouts: These tasks.
            now: Steady seconds.
        """
        left_out = self.left_out.paused(now) if header.active else self.left_out.tasks
        able = [task for task in spouts if task not in left_out]
        permits, poisoned = self.crashes.permits(able)
        if self.probe.is_next or (permits is not None and not header.default_permit):
            permits, poisoned = dict.fromkeys(spouts, 0), ()
        return replace(
            header,
            default_permit=header.default_permit if permits is None else 0,
            permits=permits or {},
            poisoned=poisoned,
            cause=self.crashes.cause if poisoned else "",
            traceback=self.crashes.traceback if poisoned else "",
            left_out=left_out,
            one_by_one=self.own_calls.one_by_one,
            without=self.own_calls.without(now),
        )

    def succeeded(self, done: Done) -> bool:
        """A batch counted. Returns whether it only asked for a service."""
        self.left_out.succeeded(done.header.left_out)
        self.unmade.succeeded()
        self.own_calls.succeeded(done.summaries)
        return self.probe.committed()

    def trusts(self, enough: float) -> bool:
        """A batch with tuples counted: they are trusted again, step by step.

        Args:
            enough: If so many may be emitted, none is suspected any more.

        Returns:
            Whether none was suspected.
        """
        was_trusted = self.crashes.limit is None
        if self.crashes.succeeded(enough):
            self.crashes = Crashes()
        return was_trusted

    def failed(
        self,
        void: VoidAttempt,
        header: Header | None,
        placed: PlacedTopology,
        transactions: Transactions | None,
        now: float,
    ) -> bool:
        """Note a failed attempt. Returns whether a tuple may be to blame.

        Args:
            void: What is known of that.
            header: Of the attempt.
            placed: The topology.
            transactions: Of a transactional topology: they have to come again.
            now: Steady seconds at which the same batch can be tried again.
        """
        is_away = void.fault is Fault.SERVICE and transactions is None
        self.probe.failed(is_service_away=is_away)
        spouts = placed.spout_tasks
        others = [call for call in void.calls if call.task not in spouts]
        unmade = [call for call in others if method_of(call.callback) in MAKING]
        for call in unmade:
            self.unmade.blame(call.task, call.callback, now, void.hung_seconds)
        is_outage = void.fault is not Fault.UNKNOWN or bool(unmade)
        if transactions is not None and transactions.came_to_nothing(
            void.reason, is_outage=is_outage
        ):
            return False
        poisoned = () if header is None else header.poisoned
        if is_outage or self._is_spouts_own(void, placed, poisoned, now):
            return False
        own = [call for call in others if method_of(call.callback) in OF_NO_TUPLE]
        for call in own:
            self.own_calls.blame(call.task, call.callback, now, void.hung_seconds)
        return not own

    def _is_spouts_own(
        self, void: VoidAttempt, placed: PlacedTopology, poisoned: Collection[int], now: float
    ) -> bool:
        """Whether spouts' own calls made the attempt fail."""
        plan = placed.plan
        spouts = [t for t in placed.spout_tasks if plan.component_of(t) not in plan.pinned]
        of_spouts = [call for call in void.calls if call.task in spouts]
        own = [call for call in of_spouts if call.callback != FUNCTIONS]
        for call in own:
            self.left_out.blame(call.task, call.callback, now, void.hung_seconds)
        # the batch without its tuple succeeded, and nobody was sent that tuple
        proven = [] if void.calls else [task for task in poisoned if task in spouts]
        for task in proven:
            self.left_out.prove(task, now)
            self.crashes = Crashes()
        return bool(own or proven)
