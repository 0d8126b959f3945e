"""What is deleted, when, and that nothing grows."""

import threading

import pytest

from fulmen.checkpoint import CommitLog, Store, read_manifest
from fulmen.checkpoint.garbage import FENCE_SECONDS, LAG, LIMITS, SWEEP_EVERY, LogLimits
from fulmen.checkpoint.names import commit_key, state_file_name
from fulmen.checkpoint.payloads import load_many
from fulmen.checkpoint.record import INLINE_BYTES, MANIFEST_EVERY
from fulmen.checkpoint.savepoints.pins import PINS, Pin, pins_section
from fulmen.errors import CheckpointError, Unreachable
from support.stores.checkpoint import FakeClock, Model, memory_store, saved, stored

BIG = b"b" * INLINE_BYTES


@pytest.fixture
def store():
    return memory_store()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def log(store, clock):
    return claimed(store, clock)


def claimed(store, clock, driver="one", limits=LIMITS):
    log = CommitLog(store, "wc", driver, clock=clock, limits=limits)
    log.claim()
    return log


def commit(log, changes=(), removed=()):
    number = log.manifest.number + 1
    updates = saved(log._store, number, "t", changes)
    log.commit(log.draft(tag="t", clock=0.0, updates=updates, removed_tasks=removed))


def replace(log, payload=BIG, task="a/0"):
    """A commit that replaces all the task has; returns the new state file."""
    number = log.manifest.number + 1
    commit(log, [(task, "s", payload, number)])
    return state_file_name(number, "t", task, "s")


def test_a_dropped_file_goes_some_commits_later(log, store):
    first, second = replace(log), replace(log)
    for _ in range(LAG - 1):
        commit(log)
        log.collect()
        assert store.list("state/") == [first, second]
    commit(log)
    assert log.collect() == 1
    assert store.list("state/") == [second]
    assert log.collect() == 0


def test_commits_go_when_a_newer_manifest_and_no_payload_needs_them(log, store, clock):
    commit(log, [("a/0", "s", b"kept", 0)])
    clock.now += FENCE_SECONDS
    for _ in range(MANIFEST_EVERY + LAG - 2):
        commit(log)
        log.collect()
    newest = log.manifest.number
    assert store.list("commits/") == [commit_key(n) for n in range(1, newest + 1)]
    commit(log)
    log.collect()
    manifest = 1 + MANIFEST_EVERY
    assert newest + 1 == manifest + LAG
    assert store.list("commits/") == [
        commit_key(n) for n in (2, *range(manifest, manifest + LAG + 1))
    ]
    assert stored(store, log.manifest.number) == {"a/0": {"s": [b"kept"]}}


def test_what_the_newest_commits_refer_to_can_be_loaded_after_every_collection(log, store):
    model = Model()
    model.apply()
    for number in range(2, 150):
        changes = [(f"a/{number % 3}", "s", BIG if number % 2 else b"x", number - number % 5)]
        commit(log, changes)
        model.apply(changes)
        log.collect()
        oldest = max(number - LAG + 1, 1)
        assert stored(store, oldest) == model.payloads(oldest)


def test_files_of_attempts_that_were_not_committed_are_swept(log, store, clock):
    used = replace(log)
    for number, tag in ((2, "void"), (3, "void")):
        saved(store, number, tag, [("a/0", "s", BIG, 0)])
    coming = state_file_name(4, "t", "a/0", "s")
    saved(store, 4, "t", [("a/0", "s", BIG, 0)])
    after = claimed(store, clock, "two")  # commit 3
    after.collect()
    assert store.list("state/") == [used, coming]


def test_sweeps_are_repeated_now_and_then(store, clock):
    log = claimed(store, clock, limits=LogLimits(sweep_every=5))
    log.collect()
    saved(store, 2, "void", [("a/0", "s", BIG, 0)])
    for _ in range(4):
        commit(log)
        assert log.collect() == 0
    commit(log)
    assert log.collect() == 1


def test_what_a_driver_left_that_died_is_swept_by_the_next(store, clock):
    log = claimed(store, clock)
    for _ in range(2 * MANIFEST_EVERY):
        replace(log)
    assert len(store.list("")) == 1 + 4 * MANIFEST_EVERY
    clock.now += FENCE_SECONDS
    after = claimed(store, clock, "two")
    after.collect()
    number = after.manifest.number
    assert store.list("state/") == [state_file_name(number - 1, "t", "a/0", "s")]
    assert store.list("commits/") == [commit_key(1), commit_key(number)]  # the claims


def test_what_is_not_ours_or_newer_is_left_alone(log, store):
    others = [
        "commits/notes.txt",
        "commits/00000000000000000001.bak",
        commit_key(99),
        "other/00000000000000000001",
        "state/00000000000000000001",
        "state/notes.txt",
        state_file_name(99, "t", "a/0", "s"),
    ]
    store.put(others[0], b"")
    for key in others[1:]:
        store.put(key, b"")
    log.collect()
    assert set(others) <= set(store.list(""))


def test_an_older_driver_that_still_collects_does_no_harm(store, clock):
    one = claimed(store, clock)
    for number in range(40):
        commit(one, [("a/0", "s", BIG if number % 2 else b"x", 0)])
    two = claimed(store, clock, "two")
    model = stored(store, two.manifest.number)
    commit(two, [("b/0", "s", BIG, 0)])
    clock.now += FENCE_SECONDS
    one.collect()  # it doesn't know yet
    assert stored(store, two.manifest.number) == model | {"b/0": {"s": [BIG]}}


def test_an_older_driver_does_not_mind_that_a_pin_it_knows_is_gone(store, clock):
    def pin(log, *pins):
        named = {f"p{number}": Pin(number, 0.0) for number in pins}
        log.commit(log.draft(tag="t", clock=0.0, sections={PINS: pins_section(named)}, full=True))

    one = claimed(store, clock)
    kept = one.manifest.number + 1
    pin(one, kept)
    two = claimed(store, clock, "two")
    pin(two)
    two.collect()
    assert commit_key(kept) not in store.list("commits/")
    assert one.collect() == 0


def test_a_pin_that_is_gone_is_told_to_its_own_driver(log, store):
    number = log.manifest.number + 1
    section = pins_section({"x": Pin(number, 0.0)})
    log.commit(log.draft(tag="t", clock=0.0, sections={PINS: section}, full=True))
    commit(log)
    store.delete([commit_key(number)])
    with pytest.raises(CheckpointError, match="savepoint 'x' can't be read"):
        log.collect()


def test_a_failed_deletion_is_done_later(log, store, monkeypatch):
    replace(log)
    replace(log)
    for _ in range(LAG):
        commit(log)

    def fail(self, keys):
        raise Unreachable(self.uri, next(iter(keys)), "timeout")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "delete", fail)
        with pytest.raises(Unreachable):
            log.collect()
    assert log.collect() == 1
    assert len(store.list("state/")) == 1


def test_collecting_runs_beside_commits(log, store):
    stop, failures = threading.Event(), []

    def collect():
        while not stop.is_set():
            try:
                log.collect()
            except BaseException as error:  # shown by the test
                failures.append(error)
                raise

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        for number in range(400):
            replace(log, b"%d" % number, task=f"a/{number % 7}")
    finally:
        stop.set()
        thread.join()
    assert failures == []
    manifest = read_manifest(store, log.manifest.number)
    assert manifest == log.manifest
    assert sorted(load_many(store, manifest, manifest.tasks)) == [f"a/{n}" for n in range(7)]


def test_nothing_grows(store, clock):
    """2,000 commits with all that leaves something behind; the number of objects is bounded."""
    tasks, payloads_a_journal, crashes = 5, 8, 10
    log = claimed(store, clock)
    most = 0
    for step in range(2000):
        clock.now += 0.02
        number = log.manifest.number + 1
        if step % 7 == 0:
            saved(store, number, f"void{step}", [("a/0", "s", BIG, 0)])
        task = f"a/{step % tasks}"
        keep = number - payloads_a_journal * tasks + 1
        changes = [
            (task, "log", BIG if step % 3 == 0 else b"x", max(keep, 0)),
            (task, "whole", BIG if step % 5 == 0 else b"y", number),
        ]
        commit(log, changes, removed=["gone/0"] if step % 11 == 0 else ())
        if step % 10 == 0:
            commit(log, [("gone/0", "s", BIG, 0)])
            log.collect()
            most = max(most, len(store.list("")))
        if step % 200 == 199:
            clock.now += FENCE_SECONDS if step % 400 == 399 else 1.0
            log = claimed(store, clock, f"driver {step}")
    referred = tasks * (payloads_a_journal + 1) + 1
    between_sweeps = min(SWEEP_EVERY, 200) // 7 + 1  # void attempts
    chain = MANIFEST_EVERY + crashes
    lag = (LAG + 10) * 3
    assert most <= referred + between_sweeps + chain + lag
    for _ in range(LAG):
        commit(log)
    log.collect()
    claimed(store, clock).collect()
    assert len(store.list("state/")) == len(log.manifest.files)
    assert len(store.list("commits/")) <= referred + crashes + 1
