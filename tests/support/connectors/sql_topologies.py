"""Whole topologies from a table to a table, whose processes are lost at random, in this process."""

import random

from fulmen import TopologyBuilder
from fulmen.engine.worker.in_process import Crash
from fulmen.testing import run

ROWS = 400


class Killer:
    """Loses a process at random moments, at most so often.

    After two losses in a row some batches get through: of a third one, a call of the spout's would
    be blamed.
    """

    SPARED = 80
    """Moments without a loss."""

    def __init__(self, rng, most=8):
        self.rng, self.most, self.kills, self.spared = rng, most, 0, 0

    def __call__(self, stage, worker, moment):
        self.spared -= 1
        if self.spared <= 0 and self.kills < self.most and self.rng.random() < 0.15:
            self.kills += 1
            self.spared = self.SPARED if self.kills % 2 == 0 else 0
            raise Crash


def copy(target, seed, spout, source, sink, tasks=1):
    """Copy all rows of table `source` to table `copied`, with two drivers that follow each other.

    Args:
        target: Has `run`, for statements; and the tables.
        seed: What is lost follows from it.
        spout: The class of the source.
        source: Its options.
        sink: The class of the sink, and its options.
        tasks: Of the spout.
    """
    rng = random.Random(seed)
    killer = Killer(rng)
    kind, options = sink
    b = TopologyBuilder("copy", workers=rng.randint(1, 3), max_spout_pending=rng.randint(5, 20))
    b.set_spout("source", spout, tasks).set_config({"follow": False, "pollSeconds": 0, **source})
    exactly = {"guarantee": "exactly-once", "table": "copied", **options}
    b.set_bolt("copied", kind, rng.randint(1, 3)).shuffle_grouping("source").set_config(exactly)
    result = run(b, fault=killer, batches=rng.randint(1, 4))
    result = run(b, fault=killer, checkpoint=result)
    assert killer.kills > 1
    assert result.trees["failed"] == result.trees["timed_out"] == 0
    found = [value for (value,) in target.run("SELECT id FROM copied ORDER BY id")]
    assert found == list(range(1, ROWS + 1))
