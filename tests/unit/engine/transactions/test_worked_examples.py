"""Storm's own examples of transactional topologies, with their exact results."""

from collections import Counter
from itertools import pairwise

import pytest

from fulmen import TransactionalTopologyBuilder
from fulmen.engine.batches.transactions import Transactions
from fulmen.engine.tasks.transactional.emitter_task import EmitterTask
from fulmen.testing import TransactionFault, run
from support.stores.outside_stores import STORES, fresh_store
from support.transactions.sources import ChangingRows, Numbers
from support.transactions.words import (
    Collect,
    collected,
    counted_words,
    four_phases,
    global_count,
    transactional_words,
    words_in,
)

WORKERS = pytest.mark.parametrize("workers", [1, 2, 3])
ACTIVE = pytest.mark.parametrize("active", [1, 2, 5])

# ---- the global count ---------------------------------------------------------------------------

NUMBERS = [list(range(10)), list(range(4)), list(range(7))]


@WORKERS
@ACTIVE
def test_the_global_count_is_exact(workers, active):
    name = fresh_store()
    builder = global_count({"store": name}, NUMBERS, 3, max_spout_pending=active)
    result = run(builder, workers=workers)
    assert result.transactions.committed == [1, 2, 3, 4]
    assert STORES[name].notes() == [
        ("committed", 1, 9),
        ("committed", 2, 7),
        ("committed", 3, 4),
        ("committed", 4, 1),
    ]
    assert STORES[name].all() == {"global": (4, 21)}


@WORKERS
@ACTIVE
@pytest.mark.parametrize("kills", [False, True])
def test_a_transaction_that_is_committed_twice_leaves_the_count_unchanged(workers, active, kills):
    name = fresh_store()
    builder = global_count({"store": name}, NUMBERS, 3, max_spout_pending=active)
    fault = TransactionFault(2, "sum", "committing", kills=kills, moment="after")
    result = run(builder, workers=workers, failing=[fault])
    assert result.transactions.committed == [1, 2, 3, 4]
    assert STORES[name].notes().count(("committed", 2, 7)) == 2
    assert STORES[name].all() == {"global": (4, 21)}


# ---- processing and commit ----------------------------------------------------------------------


def events_of(name, txid):
    """What was noted of a transaction: (component, what, of what)."""
    return [(event[1], *event[3:]) for event in STORES[name].notes() if event[0] == txid]


PROCESSING = [
    ("A", "execute", "spout"),
    ("A", "finish"),
    ("B", "execute", "A"),
    ("B", "execute", "A"),
    ("C", "execute", "A"),
    ("C", "execute", "A"),
    ("D", "execute", "C"),
    ("D", "execute", "C"),
]
COMMIT = [
    ("B", "finish"),
    ("C", "execute", "B"),
    ("C", "finish"),
    ("D", "execute", "C"),
    ("D", "execute", "C"),
    ("D", "finish"),
]
"""B emits in `execute` as well: what C gets then, it gets while the transaction is processed."""


@WORKERS
@ACTIVE
def test_committers_and_all_behind_them_finish_in_the_commit(workers, active):
    name = fresh_store()
    builder = four_phases({"store": name}, [["a", "b", "c"]], max_spout_pending=active)
    committed = []

    def note(result):
        if (now := result.transactions.committed) != committed:
            committed[:] = now
            STORES[name].note("counted", *now)
        return False

    result = run(builder, workers=workers, until=lambda r: note(r) or len(committed) == 3)
    assert result.transactions.committed == [1, 2, 3]
    for txid in (1, 2, 3):
        events = events_of(name, txid)
        processing = Counter([*PROCESSING, ("C", "execute", "B"), ("C", "execute", "B")])
        processing += Counter([("D", "execute", "C")] * 2)
        commit = len(COMMIT)
        assert Counter(events[:-commit]) == processing
        assert events[-commit:] == COMMIT
    notes = STORES[name].notes()
    for txid in (2, 3):  # the one before counts before anything of this one is committed
        counted = next(i for i, e in enumerate(notes) if e[0] == "counted" and e[-1] == txid - 1)
        assert counted < notes.index((txid, "B", 0, "finish"))


@WORKERS
def test_a_task_finishes_when_all_tasks_in_front_have(workers):
    name = fresh_store()
    run(four_phases({"store": name}, [["a", "b"]] * 5, tasks=4), workers=workers)
    for txid in (1, 2):
        events = events_of(name, txid)
        ends = [[i for i, e in enumerate(events) if e == (c, "finish")] for c in "ABCD"]
        assert [len(of) for of in ends] == [4, 4, 4, 4]
        assert all(max(before) < min(after) for before, after in pairwise(ends))
        of_tasks = {}
        for event in STORES[name].notes():
            if event[0] == txid:
                of_tasks.setdefault(event[1:3], []).append(event[3])
        assert len(of_tasks) == 16
        assert all(calls.index("finish") == len(calls) - 1 for calls in of_tasks.values())


@WORKERS
@pytest.mark.parametrize(
    ("component", "phase"),
    [("A", "processing"), ("D", "processing"), ("B", "committing"), ("C", "committing")],
)
def test_nothing_behind_what_failed_is_finished_in_that_attempt(component, phase, workers):
    name = fresh_store()
    builder = four_phases({"store": name}, [["a", "b"]] * 5, tasks=3, max_spout_pending=2)
    fault = TransactionFault(1, component, phase, moment="before", task=2)
    result = run(builder, workers=workers, failing=[fault])
    assert result.transactions.attempts == {1: 2, 2: 2}
    finished = Counter(e[0] for e in events_of(name, 1) if e[1] == "finish")
    behind = [c for c in "BCD" if c > component] if phase == "committing" else ["B", "C", "D"]
    assert {c: finished[c] for c in behind} == dict.fromkeys(behind, 3)


# ---- where batches begin ------------------------------------------------------------------------

ROWS = list(range(1, 141))
TAKES = {1: [50, 40]}


def opaque(name, **spec):
    builder = TransactionalTopologyBuilder(
        "opaque", "spout", ChangingRows([ROWS], TAKES, 50), config={"store": name}, **spec
    )
    builder.set_bolt("collect", Collect).shuffle_grouping("spout")
    return builder


def emitted(name):
    """(txid, first row, last row) of each attempt that emitted any."""
    notes = [event for event in STORES[name].notes() if event[0] == "emitted"]
    return [(e[1], e[4] + 1, e[5]) for e in notes if e[4] < e[5]]


@WORKERS
@pytest.mark.parametrize("phase", ["processing", "committing"])
def test_a_batch_begins_where_the_last_emitted_one_ended(workers, phase):
    name = fresh_store()
    fault = TransactionFault(1, "collect", phase, moment="before")
    result = run(opaque(name, max_spout_pending=2), workers=workers, failing=[fault])
    assert emitted(name) == [(1, 1, 50), (2, 51, 100), (1, 1, 40), (2, 41, 90), (3, 91, 140)]
    assert result.transactions.committed[:3] == [1, 2, 3]
    assert result.transactions.attempts[1] == result.transactions.attempts[2] == 2
    assert collected(STORES[name].all()) == ROWS


def test_if_one_that_fails_did_not_fail_later_ones_tuples_would_be_lost(monkeypatch):
    finish = Transactions.finish

    def without_cascade(self, failed, now):
        later = {t: a for t, a in self.active.items() if failed and t > failed[0].attempt.txid}
        outcome = finish(self, failed, now)
        outcome.active.update(later)
        return outcome

    def keeping_later_ones(self, attempt, partition):
        later = tuple(e for e in self.ends.get(partition, ()) if e[0] > attempt.txid)
        emit_opaque(self, attempt, partition)
        self.ends[partition] = (*self.ends[partition], *later)

    emit_opaque = EmitterTask._emit_opaque
    monkeypatch.setattr(Transactions, "finish", without_cascade)
    monkeypatch.setattr(EmitterTask, "_emit_opaque", keeping_later_ones)
    name = fresh_store()
    fault = TransactionFault(1, "collect", "committing", moment="before")
    run(opaque(name, max_spout_pending=2), failing=[fault])
    assert emitted(name) == [(1, 1, 50), (2, 51, 100), (1, 1, 40), (3, 101, 140)]
    assert set(ROWS) - set(collected(STORES[name].all())) == set(range(41, 51))


@WORKERS
@ACTIVE
def test_numbers_are_emitted_once_by_any_number_of_tasks(workers, active):
    name = fresh_store()
    builder = TransactionalTopologyBuilder(
        "numbers",
        "spout",
        Numbers(47, 6),
        3,
        config={"store": name},
        max_spout_pending=active,
    )
    builder.set_bolt("collect", Collect, 2).shuffle_grouping("spout")
    faults = [TransactionFault(t, "collect", "committing", kills=t % 2 == 0) for t in (2, 3, 5)]
    result = run(builder, workers=workers, failing=faults)
    assert result.transactions.committed == list(range(1, 9))
    assert sorted(collected(STORES[name].all())) == list(range(47))


# ---- words and buckets --------------------------------------------------------------------------

WORDS = [["a"] * 25 + ["b"] * 9 + ["c"], ["b"] * 2 + ["d"] * 10, ["a", "e"] * 20]


@pytest.mark.matrix(share=1 / 3)
@WORKERS
@ACTIVE
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([], id="nothing fails"),
        pytest.param(
            [
                TransactionFault(3, "count", "committing"),
                TransactionFault(4, "buckets", "committing"),
                TransactionFault(5, "buckets", "committing", kills=True),
                TransactionFault(6, "bucketize", "committing", kills=True),
                TransactionFault(7, "count", "processing"),
            ],
            id="much fails",
        ),
    ],
)
def test_words_and_buckets_are_exact(workers, active, faults):
    name = fresh_store()
    builder = transactional_words({"store": name}, WORDS, 3, max_spout_pending=active)
    result = run(builder, workers=workers, failing=faults)
    assert result.transactions.committed == list(range(1, 15))
    assert words_in(STORES[name].all()) == counted_words([w for part in WORDS for w in part])
    failed = {fault.txid for fault in faults}
    attempts = result.transactions.attempts
    assert all(attempts[txid] > 1 for txid in failed if txid != 6)
    assert failed or set(attempts.values()) == {1}
