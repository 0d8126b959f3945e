"""What bolts keep from transaction to transaction: exact, or refused."""

import threading
from collections import Counter
from types import SimpleNamespace

import pytest

from fulmen import BasicBolt, BatchBolt, TransactionalTopologyBuilder
from fulmen.api.transactions import TransactionAttempt
from fulmen.engine.protocol.transaction_work import Opened, TransactionWork
from fulmen.engine.tasks.uncommitted import Uncommitted
from fulmen.errors import TopologyFailed
from fulmen.testing import TransactionFault, run
from support.transactions.sources import Rows

WORDS = list("ababaa")


class Keep(BasicBolt):
    """Counts words, in its state and in a field."""

    outputs = ("tx", "word")

    def prepare(self, conf, context):
        self.seen = Counter()

    def execute(self, tup, collector):
        word = tup["row"]
        self.state[word] = self.state.get(word, 0) + 1
        self.seen[word] += 1
        collector.emit([tup["tx"], word])


class KeepBatch(BatchBolt):
    """Counts words: those of `execute`, and those of `finish_batch`, in a list."""

    def prepare(self, conf, context, collector, attempt):
        self.words = []

    def execute(self, tup):
        self.state["executed"] = self.state.get("executed", 0) + 1
        self.words.append(tup["word"])

    def finish_batch(self):
        self.state["batches"] = self.state.get("batches", 0) + 1
        words = self.state.get("words", [])
        words += self.words
        self.state["words"] = words


def kept(committer=True, **spec):
    builder = TransactionalTopologyBuilder("kept", "spout", Rows([WORDS], 2), **spec)
    builder.set_bolt("basic", Keep).shuffle_grouping("spout")
    set_bolt = builder.set_committer_bolt if committer else builder.set_bolt
    set_bolt("batch", KeepBatch).fields_grouping("basic", ["word"])
    return builder


@pytest.mark.parametrize("kills", [False, True])
@pytest.mark.parametrize("committer", [False, True])
def test_what_a_failed_attempt_has_kept_is_gone_with_it(committer, kills):
    phase = "committing" if committer else "processing"
    faults = [
        TransactionFault(1, "basic", kills=kills),
        TransactionFault(2, "batch", phase, kills=kills, moment="after", times=2),
    ]
    result = run(kept(committer), failing=faults)
    assert dict(result.transactions.attempts) == {1: 2, 2: 3, 3: 1}
    assert result.state("basic") == result.fields("basic")["seen"] == {"a": 4, "b": 2}
    state = result.state("batch")
    assert (state["executed"], Counter(state["words"])) == (6, {"a": 4, "b": 2})


def test_a_transaction_that_is_given_up_leaves_nothing():
    fault = TransactionFault(2, "batch", "committing", times=2)
    result = run(kept(max_replays=1), failing=[fault])
    assert [one.txid for one in result.transactions.given_up] == [2]
    assert [one.reason for one in result.transactions.failed] == [f"asked for: {fault}"] * 2
    assert result.state("batch")["batches"] == 3, "committers are called for it, with nothing"
    assert result.state("basic") == {"a": 3, "b": 1}
    assert Counter(result.state("batch")["words"]) == {"a": 3, "b": 1}


class Slow(BatchBolt):
    """The thread of its first attempt goes on until its second one is committed."""

    begins, ends = threading.Event(), threading.Event()

    def prepare(self, conf, context, collector, attempt):
        self.attempt = attempt

    def execute(self, tup):
        pass

    def finish_batch(self):
        if self.begins.is_set():
            self.state["finished"] = self.state.get("finished", 0) + 1
            return
        self.begins.set()
        self.ends.wait(30)
        self.state["finished"] = 100


class Next(BatchBolt):
    """Lets that thread go on when another attempt is there."""

    def prepare(self, conf, context, collector, attempt):
        if Slow.begins.is_set():
            Slow.ends.set()

    def execute(self, tup):
        pass

    def finish_batch(self):
        pass


def test_a_thread_of_a_failed_attempt_changes_nothing_any_more():
    builder = TransactionalTopologyBuilder("slow", "spout", Rows([["a", "b"]], 2))
    builder.set_committer_bolt("first", Next).global_grouping("spout")
    slow = builder.set_committer_bolt("slow", Slow).global_grouping("spout")
    slow.set_blocking(True)
    result = run(builder, failing=[TransactionFault(1, "first", "committing", moment="before")])
    assert dict(result.transactions.attempts) == {1: 2}
    assert result.state("slow") == {"finished": 1}


class OnlyFields(Keep):
    def execute(self, tup, collector):
        self.seen[tup["row"]] += 1


class Lets(OnlyFields):
    transient = ("seen",)


def count(where, word):
    """What no look at a class can see."""
    where[word] = where.get(word, 0) + 1


class Helped(Keep):
    def execute(self, tup, collector):
        count(self.state, tup["row"])


class HelpedBatch(KeepBatch):
    def execute(self, tup):
        count(self.state, tup["row"])

    def finish_batch(self):
        pass


def side_by_side(cls):
    builder = TransactionalTopologyBuilder("x", "spout", Rows([["a"] * 6], 2), max_spout_pending=2)
    builder.set_bolt("x", cls).shuffle_grouping("spout")
    return builder


@pytest.mark.parametrize(
    ("cls", "what", "cure"),
    [
        (Helped, "self.state", ""),
        (HelpedBatch, "self.state", ""),
        (OnlyFields, "field 'seen'",
         ", or name 'seen' in `transient` if it is no part of any result"),
    ],
)  # fmt: skip
def test_what_transactions_side_by_side_would_share_is_refused(cls, what, cure):
    with pytest.raises(TopologyFailed) as raised:
        run(side_by_side(cls))
    assert (
        f"{what} was changed, but up to 2 transactions are active side by side (maxSpoutPending):"
        " each would see what others have changed, and these may still fail. Write"
        f" maxSpoutPending: 1{cure}"
    ) in str(raised.value)


def test_fields_that_may_be_lost_are_no_state():
    assert run(side_by_side(Lets)).transactions.committed == [1, 2, 3]


# ---- what is held -------------------------------------------------------------------------------

ONE, AGAIN, TWO = TransactionAttempt(1, 1), TransactionAttempt(1, 2), TransactionAttempt(2, 3)
CHANGE = {"state.1.0": (b"x", 0)}


def uncommitted():
    spec = SimpleNamespace(max_spout_pending=None)
    placed = SimpleNamespace(topology=SimpleNamespace(spec=spec), commit_phase={"last"})
    return Uncommitted(placed)


def test_changes_are_kept_until_their_transaction_may_be_committed():
    it = uncommitted()
    assert not it.begin(TransactionWork([Opened(ONE, {})]))
    it.hold(CHANGE)
    assert it.take() == {}
    assert not it.begin(TransactionWork(commits=ONE, waiting=[ONE]))
    it.hold({"state.2.0": (b"y", 0)})
    assert it.take() == {**CHANGE, "state.2.0": (b"y", 0)}
    assert not it.is_undone(TransactionWork([Opened(TWO, {})], committed=1))
    assert it.is_undone(TransactionWork([Opened(AGAIN, {})]))


def test_a_task_that_was_made_after_it_had_processed_an_attempt_does_not_commit_it():
    it = uncommitted()
    assert it.begin(TransactionWork(commits=ONE, waiting=[ONE]))
    it.begin(TransactionWork([Opened(AGAIN, {})]))
    assert not it.begin(TransactionWork(commits=AGAIN, waiting=[AGAIN]))


def test_a_task_that_has_changed_nothing_is_left_alone_when_an_attempt_fails():
    it = uncommitted()
    it.begin(TransactionWork([Opened(ONE, {})]))
    it.hold({"engine": (b"x", 1)})
    assert not it.is_undone(TransactionWork([Opened(AGAIN, {})]))
