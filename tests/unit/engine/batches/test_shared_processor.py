"""A topology that has a processor now and then has batches as large as one that has it always."""

import math

import pytest

from support.runs.coordinators import Checked
from support.suite.seeds import generator

PERIOD = 0.1
"""So often a container with a limit may run again, in seconds."""
MESSAGE_TIMEOUT = 30
STAGE, TUPLE, EMIT = 0.006, 1e-4, 2e-5
"""CPU seconds of the stage in a batch, of a tuple in it, and of that what its emit takes."""


def run(share, spark, waits):
    """A topology whose spout always has more: CPU seconds for each tuple, and the longest batch.

    Args:
        share: The part of each period that it has a processor for.
        spark: CPU seconds of Spark in each batch.
        waits: How long each tuple waits for something else.
    """

    def delay(cpu):
        runs = share * PERIOD
        periods = math.floor(cpu / runs + rng.random())
        return periods * (PERIOD - runs)

    with generator(1) as rng:
        coordinator, tuples, total, longest = Checked(), 0, 0.0, 0.0
        for number in range(150):
            header = coordinator.begin()
            emitted = min(header.default_permit, math.ceil(header.emit_seconds / EMIT))
            cpu = rng.uniform(0.7, 1.6) * STAGE + rng.uniform(0.8, 1.3) * TUPLE * emitted
            others = rng.uniform(0.7, 1.6) * spark
            waited, asks = delay(cpu), waits * emitted
            took = cpu + waited + asks
            seconds = took + others + delay(others)
            coordinator.succeed(
                seconds,
                emitted=emitted,
                work=took,
                busy={1: took / 2 + asks / 2},
                cpu_seconds=cpu,
                run_delay=waited,
            )
            if number >= 30:
                tuples, total = tuples + emitted, total + cpu + others
                longest = max(longest, seconds)
    return total / tuples, longest


@pytest.mark.parametrize("waits", [0.0, 0.001])
@pytest.mark.parametrize("spark", [0.0, 0.06])
def test_a_tuple_takes_no_more_of_a_processor_that_others_have_most_of_the_time(spark, waits):
    alone, _ = run(1.0, spark, waits)
    for share in (0.5, 0.1, 0.02):
        cpu, longest = run(share, spark, waits)
        assert cpu < 1.5 * alone
        assert longest < MESSAGE_TIMEOUT / 2
