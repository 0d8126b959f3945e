"""One driver after another, and two at once."""

import pickle
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from fulmen.checkpoint import (
    CommitLog,
    Store,
    Update,
    load,
    load_many,
    read_commit,
    read_manifest,
)
from fulmen.checkpoint.garbage import FENCE_SECONDS, LAG, SURE_SECONDS, LogLimits
from fulmen.checkpoint.log import new_tag, uptime
from fulmen.checkpoint.names import commit_key
from fulmen.checkpoint.payloads import newest_number
from fulmen.checkpoint.record import INLINE_BYTES, MANIFEST_EVERY, encode
from fulmen.errors import AlreadyExists, CheckpointError, Fenced, NotFound, Unreachable
from support.stores.checkpoint import FakeClock, Model, memory_store, saved, stored


@pytest.fixture
def store():
    return memory_store()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def open_log(store, clock):
    """Opens the log as some driver, and claims unless told not to."""

    def open_log(driver="one", claim=True):
        log = CommitLog(store, "wc", driver, clock=clock)
        if claim:
            log.claim()
        return log

    return open_log


def commit(log, payload=b"x", task="a/0", journal="s", keep_from=0, tag="t", **more):
    update = Update(payload, None, log.manifest.number + 1 if keep_from is None else keep_from)
    log.commit(log.draft(tag=tag, clock=2.5, updates={task: {journal: update}}, **more))


# ---- one driver --------------------------------------------------------------------------------


def test_an_empty_checkpoint_is_claimed_as_commit_1(open_log, store):
    log = open_log(claim=False)
    assert (log.manifest.number, log.epoch, store.list("")) == (0, 0, [])
    claim = log.claim()
    assert (claim.number, claim.epoch, claim.claim, claim.base) == (1, 1, True, 1)
    assert (log.manifest.number, log.manifest.tag, log.epoch) == (1, claim.tag, 1)
    assert store.list("") == ["commits/00000000000000000001"]


def test_state_comes_back_after_a_restart(open_log, store):
    log = open_log("one")
    commit(log, b"1", sections={"plan": b"p", "gone": b"g"})
    commit(log, b"2", sections={"gone": None}, transient={"acks": b"a"})
    commit(log, b"3", task="b/0", transient={"deliveries": b"d"})
    after = open_log("two", claim=False)
    assert after.manifest == log.manifest
    claim = after.claim()
    assert (claim.number, after.epoch) == (5, 2)
    assert after.manifest.clock == 2.5
    assert after.manifest.sections == {"plan": b"p"}
    # Nobody knows whether the first driver had acted on these.
    assert after.manifest.transient == {"deliveries": b"d"}
    assert stored(store, 5) == {"a/0": {"s": [b"1", b"2"]}, "b/0": {"s": [b"3"]}}
    commit(after, b"4")
    assert after.manifest.transient == {}
    assert stored(store, 6)["a/0"] == {"s": [b"1", b"2", b"4"]}


def test_every_state_can_be_read_between_manifests(open_log, store):
    log = open_log()
    model = Model()
    model.apply()
    for number in range(2, 138):
        changes = [("a/0", f"s{number % 3}", b"%d" % number, number - 10 if number > 10 else 0)]
        log.commit(log.draft(tag="t", clock=0.0, updates=saved(store, number, "t", changes)))
        model.apply(changes)
    for number in [0, 1, 2, 63, 64, 65, 66, 128, 129, 130, 137]:
        assert stored(store, number) == model.payloads(number)
    with_manifest = [n for n in range(1, 138) if read_commit(store, n).manifest is not None]
    assert with_manifest == [1, 65, 129]


def test_big_payloads_go_to_files_and_small_ones_into_the_commit(open_log, store):
    log = open_log()
    small, big = b"s" * (INLINE_BYTES - 1), b"b" * INLINE_BYTES
    changes = [("count/0", "small", small, 0), ("count/0", "big", big, 0)]
    log.commit(log.draft(tag="9f", clock=0.0, updates=saved(store, 2, "9f", changes)))
    assert store.list("state/") == ["state/00000000000000000002.9f.count=2F0.big"]
    assert load(store, log.manifest, "count/0") == {"small": [small], "big": [big]}


def test_a_task_that_has_no_state_has_no_journals(open_log, store):
    assert load(store, open_log().manifest, "a/7") == {}
    assert read_manifest(store, 0).tasks == {}


def test_the_size_of_all_commits_is_counted_and_that_of_claims_is_not(open_log, store):
    log = open_log()
    for _ in range(2):
        commit(log)
    sizes = [len(store.get(commit_key(number))) for number in (2, 3)]
    assert log.bytes_written == sum(sizes)


def test_each_object_is_read_once(open_log, store, monkeypatch):
    log = open_log()
    updates = {f"a/{n}": {"s": Update(b"%d" % n), "t": Update(b"t")} for n in range(20)}
    for _ in range(3):
        log.commit(log.draft(tag="t", clock=0.0, updates=updates))
    read = []
    get_many = Store.get_many

    def watched(self, keys):
        read.extend(keys)
        return get_many(self, keys)

    monkeypatch.setattr(Store, "get_many", watched)
    loaded = load_many(store, log.manifest, updates)
    assert read == [commit_key(n) for n in (2, 3, 4)]
    assert loaded == {f"a/{n}": {"s": [b"%d" % n] * 3, "t": [b"t"] * 3} for n in range(20)}


def test_an_attempt_that_saves_twice_is_told(store):
    changes = [("a/0", "s", b"x" * INLINE_BYTES, 0)]
    saved(store, 2, "t", changes)
    with pytest.raises(AlreadyExists):
        saved(store, 2, "t", changes)


# ---- two drivers -------------------------------------------------------------------------------


def test_the_driver_before_is_fenced(open_log, store):
    one = open_log("one")
    commit(one)
    two = open_log("two")
    with pytest.raises(Fenced) as caught:
        commit(one, b"lost")
    assert str(caught.value) == (
        "driver 'one' (epoch 1) can't make commit 3 in checkpoint memory://test: driver 'two'"
        " (epoch 2) has taken over. Nothing is lost: the other driver runs the batch again."
        " This driver must stop, without acking or emitting anything more. If both were started on"
        " purpose, give each topology a checkpoint of its own (spec.checkpoint)."
    )
    for again in (lambda: commit(one), one.check, one.collect, one.claim):
        with pytest.raises(Fenced):
            again()
    commit(two, b"2")
    assert stored(store, 4) == {"a/0": {"s": [b"x", b"2"]}}


def test_an_idle_driver_can_see_that_it_was_fenced(open_log):
    one = open_log("one")
    one.check()
    commit(one)
    one.check()
    open_log("two")
    with pytest.raises(Fenced, match="can't make commit 3"):
        one.check()
    with pytest.raises(Fenced):
        commit(one)


def test_a_claim_whose_number_was_taken_takes_the_next(open_log, store):
    one = open_log("one")
    two = open_log("two", claim=False)
    for number in range(2, 7):
        commit(one, b"%d" % number)
    assert two.claim().number == 7
    assert (one.epoch, two.epoch) == (1, 2)
    assert load(store, two.manifest, "a/0") == {"s": [b"2", b"3", b"4", b"5", b"6"]}


def test_of_two_that_claim_the_last_one_goes_on(open_log):
    open_log("old")
    one, two = open_log("one", claim=False), open_log("two", claim=False)
    assert (one.claim().epoch, two.claim().epoch) == (2, 3)
    with pytest.raises(Fenced, match="driver 'two'"):
        commit(one)
    commit(two)


def test_of_threads_that_claim_at_once_one_goes_on(open_log, store):
    logs = [open_log(str(n), claim=False) for n in range(6)]

    def claim(log):
        with suppress(Fenced):  # by a claim that followed at once
            log.claim()

    with ThreadPoolExecutor(len(logs)) as pool:
        list(pool.map(claim, logs))
    newest = CommitLog(store, "wc", "reader").manifest
    assert (newest.number, newest.epoch) == (6, 6)
    for log in logs:
        if log.epoch == newest.epoch:
            commit(log)
        else:
            with pytest.raises(Fenced):
                commit(log)
    assert len(store.list("commits/")) == 7


def test_a_claim_that_is_followed_at_once_is_fenced(open_log, monkeypatch):
    one, two = open_log("one", claim=False), open_log("two", claim=False)
    put = Store.put

    def overtaken(self, key, data):
        put(self, key, data)
        monkeypatch.undo()
        two.claim()

    monkeypatch.setattr(Store, "put", overtaken)
    with pytest.raises(Fenced) as caught:
        one.claim()
    assert (caught.value.number, caught.value.holder) == (2, "two")
    commit(two)


def test_a_claim_gives_up_against_a_driver_that_never_pauses(open_log, store, monkeypatch):
    one = open_log("one")
    two = CommitLog(store, "wc", "two", limits=LogLimits(claim_tries=3))
    draft = two._draft_claim
    monkeypatch.setattr(two, "_draft_claim", lambda: [draft(), commit(one)][0])
    with pytest.raises(CheckpointError) as caught:
        two.claim()
    assert str(caught.value) == (
        "checkpoint memory://test: driver 'two' found every number up to 4 taken by driver 'one'"
        " (epoch 1), which keeps committing. Stop that driver first."
    )


# ---- a driver that slept while what fenced it was deleted --------------------------------------


def overtaken(open_log, store, clock):
    """A driver that still thinks it is the newest, and the one that deleted what fenced it."""
    one = open_log("one")
    commit(one)
    two = open_log("two")
    clock.now += FENCE_SECONDS
    for _ in range(3 * MANIFEST_EVERY):
        commit(two, keep_from=None)
    two.collect()
    assert commit_key(one.manifest.number + 1) not in store.list("commits/")
    return one, two


def test_a_commit_into_a_gap_is_noticed(open_log, store, clock):
    one, two = overtaken(open_log, store, clock)
    with pytest.raises(Fenced, match="driver 'two'"):
        commit(one, b"too late")
    commit(two, b"last", keep_from=None)
    assert stored(store, two.manifest.number) == {"a/0": {"s": [b"last"]}}
    after = open_log("three")
    assert load(store, after.manifest, "a/0") == {"s": [b"last"]}


def test_only_a_driver_that_may_have_slept_looks_for_newer_commits(open_log, clock, monkeypatch):
    log, looks = open_log(), []

    def watched(store):
        looks.append(clock.now)
        return newest_number(store)

    monkeypatch.setattr("fulmen.checkpoint.log.newest_number", watched)
    for seconds, expected in [(0, 0), (SURE_SECONDS, 0), (SURE_SECONDS + 1, 1), (1, 1)]:
        clock.now += seconds
        commit(log)
        assert len(looks) == expected


def test_a_claim_into_a_gap_is_made_again(open_log, store, clock):
    late = open_log("late", claim=False)
    _, two = overtaken(open_log, store, clock)
    assert late.claim().number == two.manifest.number + 1
    assert late.epoch == two.epoch + 1
    with pytest.raises(Fenced, match="driver 'late'"):
        commit(two)


def test_a_claim_into_a_gap_before_an_older_claim_is_made_again(open_log, store):
    one = open_log("one")
    late = open_log("late", claim=False)
    commit(one)
    two = open_log("two")  # commit 3, which does not build on the claim that `late` will make
    for _ in range(3 * MANIFEST_EVERY):
        commit(two, keep_from=None)
    two.collect()
    assert store.list("commits/")[:2] == [commit_key(1), commit_key(3)]
    assert late.claim().number == two.manifest.number + 1


def test_a_claim_in_a_gap_is_not_taken_for_the_commit_that_was_there(open_log, store):
    one = open_log("one")
    late, later = open_log("late", claim=False), open_log("later", claim=False)
    big = b"x" * (INLINE_BYTES + 1)  # in a file of its own, so that its commit can go
    updates = saved(store, 2, "t", [("b/0", "s", big, 0)])
    one.commit(one.draft(tag="t", clock=2.5, updates=updates))
    two = open_log("two")
    for i in range(3 * MANIFEST_EVERY):
        commit(two, task=f"c/{i}")
    two.collect()
    newest = two.manifest.number
    assert store.list("commits/") == [commit_key(n) for n in range(1, newest + 1) if n != 2]
    assert late.claim().number == newest + 1
    assert commit_key(2) in store.list("commits/")  # that of `late`
    assert later.claim().number == newest + 2
    assert load(store, later.manifest, "b/0") == {"s": [big]}


def test_claims_stay_for_as_long_as_they_may_be_needed(open_log, store, clock):
    one = open_log("one")
    two = open_log("two")
    clock.now += FENCE_SECONDS - 1
    for _ in range(3 * MANIFEST_EVERY):
        commit(two, keep_from=None)
    two.collect()
    assert store.list("commits/")[:2] == [commit_key(1), commit_key(2)]
    clock.now += 1
    for _ in range(LAG):
        commit(two, keep_from=None)
    two.collect()
    assert store.list("commits/")[0] > commit_key(2)
    clock.now -= FENCE_SECONDS - SURE_SECONDS  # as if it had not slept
    with pytest.raises(Fenced):
        one.check()


# ---- unknown outcomes --------------------------------------------------------------------------


class LossyBackend:
    """Answers of coming puts are lost; `effects` says whether each of them is done."""

    def __init__(self, backend):
        self.backend = backend
        self.effects = []

    def put(self, key, data):
        if not self.effects:
            return self.backend.put(key, data)
        if self.effects.pop(0):
            self.backend.put(key, data)
        raise Unreachable("memory://test", key, "timeout", unknown=True)

    def __getattr__(self, name):
        return getattr(self.backend, name)


@pytest.fixture
def lossy(store):
    store._backend = LossyBackend(store._backend)
    return store._backend


@pytest.mark.parametrize("effects", [[True], [False], [False, True], [True, True]])
def test_a_commit_of_unknown_outcome_can_be_made_again(open_log, store, lossy, effects):
    log = open_log()
    draft = log.draft(tag="a", clock=0.0, updates={"a/0": {"s": Update(b"x")}})
    lossy.effects = list(effects)
    with pytest.raises(Unreachable):
        log.commit(draft)
    while lossy.effects:
        with pytest.raises((Unreachable, AlreadyExists)):
            store.put(commit_key(2), encode(draft))
    log.commit(draft)
    commit(log, b"y")
    assert stored(store, 3) == {"a/0": {"s": [b"x", b"y"]}}


def test_until_its_outcome_is_known_no_other_commit_is_accepted(open_log, lossy):
    log = open_log()
    lossy.effects = [True]
    with pytest.raises(Unreachable):
        commit(log, tag="a")
    with pytest.raises(ValueError, match="commit 2 was tried with tag 'a' and may have been made"):
        commit(log, tag="b")
    log.check()  # says nothing about itself


def test_a_claim_of_unknown_outcome_can_be_made_again(open_log, lossy):
    log = open_log(claim=False)
    lossy.effects = [True, False]
    for _ in range(2):
        with pytest.raises(Unreachable):
            log.claim()
    assert (log.claim().number, log.epoch) == (2, 2)
    commit(log)


def test_a_tag_has_64_random_bits():
    tags = {new_tag() for _ in range(3)}
    assert len(tags) == 3
    assert all(re.fullmatch("[0-9a-f]{16}", tag) for tag in tags)


# ---- the clock ---------------------------------------------------------------------------------


def test_the_clock_goes_on_while_the_machine_sleeps(monkeypatch):
    monkeypatch.setattr(time, "CLOCK_BOOTTIME", 7, raising=False)
    monkeypatch.setattr(time, "clock_gettime", {7: 1000.0}.__getitem__)
    assert uptime() == 1000.0


def test_the_clock_is_a_steady_one_where_none_goes_on(monkeypatch):
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    before = time.monotonic()
    assert before <= uptime() <= time.monotonic()


# ---- what is wrong -----------------------------------------------------------------------------


def test_the_checkpoint_of_another_topology_is_refused(open_log, store):
    open_log()
    with pytest.raises(CheckpointError) as caught:
        CommitLog(store, "other", "one")
    assert str(caught.value) == (
        "checkpoint memory://test is that of topology 'wc', not of 'other'. Give each topology a"
        " checkpoint of its own (spec.checkpoint); or, to go on from the state of that one, which"
        " then has none any more, set spec.checkpoint.takeOver to 'wc'."
    )


def test_a_checkpoint_is_taken_over_by_whom_it_is_given_to_and_is_lost_to_its_owner(store):
    """Both have one name, in two namespaces; the first one is still running."""
    first = CommitLog(store, "staging/wc", "one")
    first.claim()
    commit(first)
    with pytest.raises(CheckpointError, match="is that of topology 'staging/wc', not of 'prod/wc'"):
        CommitLog(store, "prod/wc", "two")
    second = CommitLog(store, "prod/wc", "two", takes_over="staging/wc")
    second.claim()
    assert second.manifest.topology == "prod/wc"
    with pytest.raises(CheckpointError, match="is that of topology 'prod/wc', not of 'staging/wc'"):
        CommitLog(store, "staging/wc", "three")
    with pytest.raises(Fenced):
        commit(first)
    commit(second)
    again = CommitLog(store, "prod/wc", "four", takes_over="staging/wc")  # the word may stay
    again.claim()
    commit(again)


def test_two_topologies_that_start_at_once_in_one_place(open_log, store):
    other = CommitLog(store, "other", "one")
    open_log()
    with pytest.raises(CheckpointError, match="is that of topology 'wc', not of 'other'"):
        other.claim()


def test_a_missing_commit_is_named(open_log, store):
    log = open_log()
    for _ in range(3):
        commit(log)
    store.delete([commit_key(3)])
    with pytest.raises(CheckpointError) as caught:
        open_log()
    assert str(caught.value) == (
        "checkpoint memory://test: 'commits/00000000000000000003' is missing, but later commits"
        " rely on it. Restore it from a copy of the store, or start the topology with an empty"
        " checkpoint, which loses its state."
    )
    with pytest.raises(NotFound):
        read_manifest(store, 4)


def test_a_driver_that_opens_while_another_deletes_reads_again(open_log, store, monkeypatch):
    log = open_log()
    commit(log)
    get = Store.get
    stale = [commit_key(2)]

    def newest_is_gone(self, key):
        if key in stale:
            stale.remove(key)
            raise NotFound(self.uri, key)
        return get(self, key)

    monkeypatch.setattr(Store, "get", newest_is_gone)
    assert open_log("two", claim=False).manifest.number == 2


def test_only_the_owner_commits(open_log):
    log = open_log(claim=False)
    with pytest.raises(CheckpointError) as caught:
        commit(log)
    assert str(caught.value) == (
        "checkpoint memory://test: driver 'one' has not claimed it. Call claim() first."
    )
    log.claim()
    with pytest.raises(CheckpointError) as caught:
        log.claim()
    assert str(caught.value) == (
        "checkpoint memory://test: driver 'one' has claimed it already. Open it anew to claim it"
        " once more."
    )


def test_only_the_next_commit_is_accepted(open_log):
    log = open_log()
    draft = log.draft(tag="a", clock=0.0)
    log.commit(draft)
    with pytest.raises(ValueError, match="commit 2 of epoch 1 is not the next one, which is 3 of"):
        log.commit(draft)


@pytest.mark.parametrize(
    "error",
    [
        CheckpointError("text"),
        AlreadyExists("s3://b", "k"),
        NotFound("s3://b", "k"),
        Unreachable("s3://b", "k", "timeout", True),
        Fenced("s3://b", 7, "one", 1, "two", 2),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_cross_processes(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
