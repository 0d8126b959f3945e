"""How large the next batch may be. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from fulmen.engine.batches.done import Done
from fulmen.engine.batches.size.fixed_cost import TRIAL_SHARE, FixedCost, seconds_for
from fulmen.engine.batches.size.permits import FIRST_PERMIT, RecentBatches, next_permit
from fulmen.engine.batches.summaries import work_seconds
from fulmen.plan import Plan
from fulmen.topology.resource.spec import TopologySpec

EMIT_SHARE, WHOLE_SHARE = 0.5, 0.8
"""A spout stage ends after that part of a batch's target, however much of its permit is left: the
latter if it is the only stage, as bolts run between its emits. Pinned spouts are in none."""
TIMEOUT_SHARE = 0.25
"""However seldom workers have a processor, a batch should take at most that part of a timeout."""


@dataclass
class BatchSize:
    """The size of the next batch. It follows the time that batches take.

    Attributes:
        permit: How many tuples each spout task may emit in a batch.
        emit_seconds: How long spouts may emit in a batch. 0: as the target says.
        typical_emits: How many tuples all of them emitted lately.
    """

    permit: int = FIRST_PERMIT
    emit_seconds: float = 0.0
    typical_emits: float = 0.0

    def __post_init__(self) -> None:
        self._recent = RecentBatches()
        self._fixed = FixedCost()

    def seconds_to_emit(self, spec: TopologySpec, plan: Plan) -> float:
        """How long spouts may emit in the next batch."""
        longest = self._recent.at_least_overhead(spec.batch_target_millis / 1000)
        is_whole = len(plan.stages) == 1 and not plan.pinned
        share = WHOLE_SHARE if is_whole else EMIT_SHARE
        return self.emit_seconds or share * seconds_for(longest, self._fixed.seconds)

    def most_likely(self, tasks: int) -> int:
        """How many tuples an attempt of so many spout tasks is likely to have had at most."""
        return min(self.permit * tasks, int(2 * self.typical_emits) + tasks)

    def adapt(self, done: Done, seconds: float, commit_work: float, spec: TopologySpec) -> None:
        """A batch counted that nothing is suspected of.

        Args:
            done: The batch.
            seconds: How long it took, without the time that it had no processor for.
            commit_work: Seconds that writing it took because of what is in it.
            spec: Says how long it should take under load.
        """
        target, summaries = spec.batch_target_millis / 1000, done.summaries
        if seconds < done.seconds:  # for the rest there was no processor
            longest = TIMEOUT_SHARE * min(spec.batch_timeout_seconds, spec.message_timeout_seconds)
            target = min(target, longest * seconds / done.seconds)
        emitted = sum(s.emitted for s in summaries)
        self.typical_emits = max(float(emitted), 0.9 * self.typical_emits)
        work = work_seconds(summaries) + commit_work
        self._recent.took(emitted, seconds, work)
        self._fixed.took(emitted, work)
        fixed = self._fixed.seconds
        target = self._recent.at_least_overhead(target)
        if (allowed := seconds_for(target, fixed)) == target:
            fixed = 0.0
        self.permit = next_permit(
            self.permit,
            summaries,
            work - fixed,
            self._recent.excess(fixed),
            allowed - fixed,
            self._recent.beyond_smaller(fixed),
            tasks=max(1, sum(spout.parallelism for spout in spec.spouts)),
        )
        if fixed and self._fixed.wants_trial():
            self.permit = max(1, self.permit // TRIAL_SHARE)
