"""A driver that dies between any two operations on the store, and the one that follows it."""

import pytest

from fulmen.checkpoint import CommitLog
from fulmen.checkpoint.garbage import FENCE_SECONDS, LogLimits
from fulmen.checkpoint.record import INLINE_BYTES
from support.stores.checkpoint import (
    Died,
    FakeClock,
    Model,
    links_of,
    memory_store,
    mortal,
    saved,
    stored,
)

BIG = b"b" * INLINE_BYTES


SHORT_CYCLES = LogLimits(manifest_every=3, lag=1, sweep_every=4)
"""Manifests, deletions and sweeps within a few commits."""


def changes_of(number):
    """What commit `number` changes: all kinds of updates take their turn."""
    big = BIG + b"%d" % number
    return [
        [("a/0", "log", b"%d" % number, 0), ("a/1", "log", big, 0)],
        [("a/0", "log", big, number - 3), ("a/0", "whole", b"%d" % number, number)],
        [("a/0", "whole", big, number), ("a/1", "log", None, number - 1)],
        [("gone/0", "log", big, 0)],
    ][number % 4]


def removed_by(number):
    return ["gone/0", "moved/1"] if number % 4 == 1 else []


def moves_of(number):
    """What a task logs goes to two others as well, and from one of these to the next."""
    return [
        [("gone/0", "log", "moved/0", "log"), ("gone/0", "log", "moved/1", "log")],
        [],
        [("moved/0", "log", "a/1", "other")],
        [],
    ][(number + 3) % 4]


def run(store, clock, driver, commits, model):
    """A driver's life: it claims, commits so often, and collects after each commit.

    The model holds every state that was acknowledged, and one more that may have been made.
    """
    log = CommitLog(store, "wc", driver, clock=clock, limits=SHORT_CYCLES)
    model.apply()
    model.acknowledged = log.claim().number
    for _ in range(commits):
        clock.now += 1
        number = log.manifest.number + 1
        changes, removed = changes_of(number), removed_by(number)
        updates, moves = saved(store, number, driver, changes), moves_of(number)
        model.apply(changes, removed, moves)
        links = links_of(log.manifest, moves)
        draft = log.draft(
            tag=driver, clock=0.0, updates=updates, removed_tasks=removed, links=links
        )
        log.commit(draft)
        model.acknowledged = number
        log.collect()
    return log


def operations(commits):
    """How many operations such a life has."""
    backend = mortal(memory_store(), 10**9, True)
    run(backend, FakeClock(), "one", commits, Model())
    return 10**9 - backend._backend.left


def check(store, model):
    """The checkpoint holds one of the states that were committed, with all acknowledged ones."""
    newest = CommitLog(store, "wc", "reader").manifest.number
    assert newest in (model.acknowledged, len(model.states) - 1)
    assert stored(store, newest) == model.payloads(newest)
    del model.states[newest + 1 :]
    model.acknowledged = newest  # it was seen, so it stays


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_crash_at_any_operation(done):
    lives = operations(commits=20)
    assert lives > 80
    for dies_at in range(lives):
        store, clock, model = memory_store(), FakeClock(), Model()
        with pytest.raises(Died):
            run(mortal(store, dies_at, done), clock, "one", 20, model)
        check(store, model)
        clock.now += FENCE_SECONDS
        after = run(store, clock, "two", 9, model)
        assert stored(store, after.manifest.number) == model.payloads(after.manifest.number)
        assert after.manifest.number == len(model.states) - 1
        assert set(store.list("state/")) >= after.manifest.files.keys()


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_two_crashes_in_a_row(done):
    lives = operations(commits=5)
    for dies_at in range(0, lives, 3):
        for dies_again_at in range(0, lives, 5):
            store, clock, model = memory_store(), FakeClock(), Model()
            run(store, clock, "zero", 4, model)
            for driver, at in (("one", dies_at), ("two", dies_again_at)):
                clock.now += FENCE_SECONDS
                with pytest.raises(Died):
                    run(mortal(store, at, done), clock, driver, 10, model)
                check(store, model)
            clock.now += FENCE_SECONDS
            log = run(store, clock, "three", 6, model)
            assert stored(store, log.manifest.number) == model.payloads(log.manifest.number)
