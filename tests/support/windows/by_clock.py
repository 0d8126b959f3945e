"""Runs of topologies whose windows and joins go by the time of day."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import event
from hypothesis import strategies as st

from fulmen import BasicBolt
from fulmen.engine.tasks.parts import timers
from fulmen.testing import ABORT, PAUSE, CollectBolt, Later, ManualClock, run
from support.windows.aggregates import plain

START = datetime(2024, 5, 1, tzinfo=UTC)
FIRST = plain(START)
MARKS = [(), (), (PAUSE,), (PAUSE,), (Later("4s"),), (Later("1m"),), (ABORT,)]
RUNS = st.lists(st.tuples(st.integers(1, 6), st.sampled_from([0, 7, 3600, -30])), max_size=2)
"""How many batches each run has but the last, and the seconds until the next one by its clock."""


class Arrivals(BasicBolt):
    """Says when the batch of each tuple began."""

    outputs = ("values", "came")

    def prepare(self, conf, context):
        self._context = context

    transient = ("_context",)

    def goes_by_clock(self, options):
        return True

    def execute(self, tup, collector):
        collector.emit([tup.values, self._context.batch.next_watermark])


def tell_arrivals(builder, source="source"):
    """Have the topology collect when the tuples of a component came, as `came`."""
    builder.set_bolt("arrivals", Arrivals).shuffle_grouping(source)
    builder.set_bolt("came", CollectBolt).shuffle_grouping("arrivals")


def arrivals_of(result):
    """All tuples and when they came, in the order of these times."""
    return sorted(([*values, came] for values, came in result.collected("came")), key=by_time)


def by_time(arrival):
    return arrival[-1]


def in_runs(built, runs, extra):
    """Run a topology to its end, by clocks of which some are behind, on other workers each time.

    In each run windows end in pages of another size.
    """
    clock, result = ManualClock(start=START), None
    for batches, pause in [*runs, (None, 0)]:
        how = {"clock": clock, "batch_seconds": 1.7, "batches": batches}
        with pytest.MonkeyPatch.context() as patch:
            for name in ("PAGE", "PAGE_ON_DISK"):
                patch.setattr(timers, name, extra.draw(st.sampled_from([1, 2, 10**5])))
            result = run(built, checkpoint=result, workers=extra.draw(st.integers(1, 3)), **how)
        assert result.errors == []
        event(f"{pause} s until the next run")
        clock = ManualClock(clock.now, start=START + timedelta(seconds=pause))
    return result
