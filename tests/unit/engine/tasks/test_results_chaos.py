"""Results of random bolts, behind which tuples fail, in a world in which anything dies."""

from collections import Counter
from unittest import mock

import pytest
from hypothesis import settings

from fulmen import TopologyBuilder
from fulmen.engine.driver.checkpoints.committer import CommitWriter
from fulmen.engine.driver.driver import Stop
from fulmen.engine.protocol.limits import EngineLimits
from fulmen.errors import Unreachable
from fulmen.testing import ManualClock
from support.lives.chaos import Chaos, DriverDied, chaotic
from support.parts.result_parts import (
    GATHERERS,
    WORLD,
    AtTicks,
    DeadLetters,
    Directly,
    RandomSink,
    check_results,
)
from support.runs.engine_runs import Numbers, Steady, make_driver, new_store, state_of
from support.suite import seeds

EXAMPLES = max(7, settings.default.max_examples // 4)
NUMBERS = 30
OFTEN = ("lives", "dead", "replayed", "late")
"""What happens. Without it hardly anything was tested."""


def any_topology(rng, kind):
    builder = TopologyBuilder(
        name="results",
        workers=rng.randint(1, 3),
        ackers=rng.choice((None, 1, 3)),
        message_timeout_seconds=1,
        max_replays=rng.choice((None, None, 1, 4)),
        config={"limit": NUMBERS, "wrong": rng.choice((0.0, 0.3, 0.6))},
    )
    builder.set_spout("source", Numbers)
    gather = builder.set_bolt("gather", kind, rng.randint(1, 3)).shuffle_grouping("source")
    gather.set_blocking(rng.random() < 0.3)
    if kind is AtTicks:
        gather.set_tick_seconds(rng.choice((0.3, 0.7)))
    sink = builder.set_bolt("sink", RandomSink, rng.randint(1, 2))
    if kind is Directly:
        sink.direct_grouping("gather")
    else:
        sink.shuffle_grouping("gather")
    builder.set_bolt("dead", DeadLetters).shuffle_grouping("gather", "__dead_letters")
    return builder.build()


def run_to_its_end(topology, chaos, rng):
    """The last driver, and how many there were."""
    clock, store = ManualClock(), new_store()
    limits = EngineLimits(whole_batches=1, spout_slice=3, header_bytes=rng.choice((0, 4096)))
    lives = 0
    while True:
        lives += 1
        jobs = Steady(clock, 0.25, chaos.fault, store)
        try:
            driver = make_driver(
                topology, store=chaotic(store, chaos), clock=clock, jobs=jobs, limits=limits
            ).start()
            chaos.crashes = lambda driver=driver: driver.coordinator.blame.crashes
            driver.coordinator.size.permit = rng.randint(1, 8)
            driver.run(Stop(when_drained=True))
        except (DriverDied, Unreachable):
            continue
        chaos.left = 0  # what is looked at now is there
        driver.close()
        return driver, lives


def check_end(driver):
    """Each result was accepted, or is dead, once."""
    accepted, dead = state_of(driver, "sink"), state_of(driver, "dead")
    check_results(accepted, dead, NUMBERS)
    assert driver.coordinator.settled
    assert not any(driver.totals.resting.values())
    return accepted, dead


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_result_is_acked_or_given_up_whatever_dies():
    seen = Counter()
    for number, seed in enumerate(seeds.several(10 * EXAMPLES)):
        if number >= EXAMPLES and all(seen[name] for name in OFTEN):
            return
        with seeds.generator(seed) as rng:
            WORLD.seed(rng.random())
            kind = GATHERERS[seed % len(GATHERERS)]
            topology = any_topology(rng, kind)
            faults = rng.choice((0, 50, 50))
            chaos = Chaos(rng.random(), faults=faults, rate=rng.choice((0.005, 0.02)))
            with mock.patch.object(CommitWriter, "collect", CommitWriter._collect_quietly):
                driver, lives = run_to_its_end(topology, chaos, rng)  # no thread outlives a driver
            accepted, dead = check_end(driver)
            trees = driver.totals.trees
            seen.update(lives=lives - 1, dead=len(dead))
            seen.update(replayed=trees.replayed, late=trees.timed_out)
            if lives == 1:
                assert trees.acked == NUMBERS + len(accepted) + len(dead)
                assert trees.failed + trees.timed_out == trees.replayed + trees.dead_lettered
                assert trees.dead_lettered == len(dead)
    pytest.fail(f"hardly anything was tested: {seen}")
