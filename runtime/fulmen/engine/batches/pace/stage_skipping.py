"""Light batches: which stages a batch of few tuples may leave out.

A Spark job takes its time for each stage, whether there is anything for it or not. So a light batch
begins without the stages that may have nothing to do: the ackers', as most trees end in the batch
in which they began, which the driver can see as well; and after a batch in which nothing happened
all but the first. What follows if they have something to do after all: engine/driver/attempt.py.

Where the driver hosts all spouts, it knows whether there is anything for workers. A batch that has
nothing for them, such as one that tells spouts how trees ended, has no job at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fulmen.engine.batches.done import Done
from fulmen.engine.protocol.header import Header, tick_due
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.topology.resource.spec import ACKER

LIGHT_REST = 0.5
"""After a light batch the next one waits for that part of its time: batches back to back would only
keep the processors busy, and be smaller. No longer than up to the target: a batch that reaches it
is not small because it came early. Nor is one whose spouts were not allowed to emit more."""
LIGHT_REST_OF_ONE_STAGE = 0.25
"""`LIGHT_REST` for batches of one stage. They are short, so a longer rest costs more latency
than it saves: see docs/measurements.md."""


@dataclass
class StageSkipping:
    """Decides which stages the next batch leaves out.

    Attributes:
        bases: Stage -> the tag that its tasks carry, of stages that the last batch left out.
        rest_seconds: How long to wait before the next batch.
        is_full: Whether spouts emitted as much as the last one allowed.
    """

    bases: Mapping[int, str] = field(default_factory=dict)
    rest_seconds: float = 0.0
    is_full: bool = False
    _whole_run: str = ""  # the last run in which a batch had all stages
    _whole_batches: int = 0
    _is_light_and_one: bool = False  # the batch at hand is light, and has one stage only

    def cuts(
        self,
        placed: PlacedTopology,
        header: Header,
        *,
        emits: float,
        pending: int,
        is_idle: bool,
        is_spouts_alone: bool = False,
    ) -> tuple[int, ...]:
        """Divide the stages of an attempt into jobs: the end of each. None: it has no job.

        Args:
            placed: The topology.
            header: Of the attempt.
            emits: How many tuples spouts are likely to emit.
            pending: Trees that acker tasks hold, as far as they have told.
            is_idle: Whether spouts are all that need be asked, if nothing is due for bolts.
            is_spouts_alone: Whether workers need not be asked, if there is nothing for them.
        """
        stages = placed.plan.stages
        end = len(stages)
        self._is_light_and_one = False
        if pending or emits > placed.limits.light_emits or self._must_be_whole(placed, header):
            return (end,)
        if is_spouts_alone and _is_of_driver_alone(placed, header):
            return ()
        self._is_light_and_one = end == 1
        ends = {1} if is_idle and _may_do_nothing(placed, header) else set()
        if stages[-1] == (ACKER,):
            ends.add(end - 1)
        return (*sorted(ends - {0, end}), end)

    def _must_be_whole(self, placed: PlacedTopology, header: Header) -> bool:
        if self._whole_batches > 0 or header.is_retry or header.is_suspect or header.drains:
            return True
        if header.transactions:  # bolts see the end of a batch even if it is empty
            return True
        # in the first batch of a run bolts are made, and ackers tell what they hold
        return self._whole_run != placed.run or header.deliveries is None

    def trees_outlived_batch(self, whole_batches: int) -> None:
        """Run so many batches whole: trees were left for the ackers, in a job of their own."""
        self._whole_batches = whole_batches + 1

    def committed(
        self, done: Done, placed: PlacedTopology, seconds: float, *, is_full: bool
    ) -> None:
        """A batch counted.

        Args:
            done: The batch.
            placed: The topology.
            seconds: How long it took, without the time that it had no processor for.
            is_full: Whether spouts emitted as much as they were allowed to.
        """
        if not done.skipped:
            self._whole_run = placed.run
        self.bases = {stage: done.header.base_of(stage) for stage in done.skipped}
        share = LIGHT_REST if done.skipped else LIGHT_REST_OF_ONE_STAGE * self._is_light_and_one
        target = placed.topology.spec.batch_target_millis / 1000
        rest = min(share * seconds, max(0.0, target - seconds))
        self.is_full = is_full
        self.rest_seconds = 0.0 if is_full else rest
        self._whole_batches = max(0, self._whole_batches - 1)


def _may_do_nothing(placed: PlacedTopology, header: Header) -> bool:
    """Whether bolts have nothing to do if spouts emit nothing."""
    return not (header.deliveries or _has_bolts_work(placed, header))


def _is_of_driver_alone(placed: PlacedTopology, header: Header) -> bool:
    """Whether the driver hosts all spouts, and has nothing for tasks on workers."""
    pinned, told = placed.plan.pinned, header.deliveries or ()
    tasks = (placed.task_of_origin.get(origin) for origin in told)
    return (
        all(name in pinned for name in placed.sources)
        and all(task is not None and placed.plan.component_of(task) in pinned for task in tasks)
        and not (header.taps or header.letters or header.ahead or _has_bolts_work(placed, header))
    )


def _has_bolts_work(placed: PlacedTopology, header: Header) -> bool:
    """Whether the driver has rows for bolts, or a tick is due."""
    injected = header.injected
    ticks = (bolt.tick_seconds for bolt in placed.topology.spec.bolts)
    is_due = any(period and tick_due(period, header) for period in ticks)
    return bool(injected.rows or injected.file or is_due)
