from unittest import mock

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from fulmen.checkpoint import rewriting
from fulmen.engine.state.messages.id_runs import LEAST_RANGE, IdRuns
from fulmen.engine.state.messages.pending_messages import PendingMessages
from fulmen.engine.state.messages.result_rows import ResultRows
from support.runs.engine_runs import Records


def ranges(*pairs):
    return np.array(pairs, np.int64).reshape(-1, 2)


def ended(pending, *pairs):
    return list(pending.end(ranges(*pairs))[0])


def test_what_ends_is_told_once_and_forgotten():
    pending = PendingMessages()
    pending.add(0, ["a", "b", "c"])
    pending.add(3, ["d", "e"])
    assert pending.count == 5
    assert ended(pending, (1, 2), (4, 5)) == ["b", "e"]
    assert ended(pending, (0, 5)) == ["a", "c", "d"]
    assert ended(pending, (0, 5)) == []
    assert pending.count == 0


def test_single_numbers_come_with_their_message_ids():
    pending = PendingMessages()
    pending.add(10, ["a", None, "c"])
    pending.add(20, ["x"])
    assert list(pending.end_singly([5, 10, 11, 12, 13, 20, 21])) == [
        (10, "a"),
        (11, None),
        (12, "c"),
        (20, "x"),
    ]
    assert list(pending.end_singly([10, 20])) == []
    assert pending.count == 0


def test_of_ranges_and_single_numbers_together_each_ends_once():
    pending = PendingMessages()
    pending.add(0, ["a", "b", "c", "d"])
    pending.add(4, ["e", "f"])
    pending.end_singly([2])
    assert pending.end(ranges((0, 1), (2, 5)), [1, 2, 5, 9]) == (
        ["a", "d", "e"],
        [(1, "b"), (5, "f")],
    )
    assert pending.count == 0


def test_nothing_happened_nothing_to_write():
    pending = PendingMessages()
    pending.add(0, [])
    assert pending.record(1) is None
    assert pending.end(ranges()) == ([], [])
    assert pending.record(1) is None


ROWS = ResultRows.of("default", [["a", "b", "c"], [1, 2, 3]], "l", None)
AS_LIST = [("default", ["a", 1], None), ("default", ["b", 2], None), ("default", ["c", 3], None)]


@given(st.lists(st.integers(10, 12), unique=True), st.booleans(), st.booleans())
def test_results_as_columns_are_as_a_list_of_them(ends, singly, restored):
    pending = PendingMessages()
    pending.add(10, ROWS)
    if restored:
        pending = PendingMessages.restore([pending.record(1)[0]])
    if singly:
        told = [msg_id for _, msg_id in pending.end_singly(sorted(ends))]
    else:
        told = ended(pending, *((n, n + 1) for n in sorted(ends)))
    assert told == [AS_LIST[n - 10] for n in sorted(ends)]
    left = {n: result for n, result in enumerate(AS_LIST, 10) if n not in ends}
    assert dict(pending.find([10, 11, 12])) == left
    assert PendingMessages.ids_in(pending.everything()) == left
    pending.replace(10, "gone")
    assert pending.count == len(left)


BATCHES = st.lists(
    st.tuples(
        st.lists(st.integers(0, 40), max_size=6),  # which of the pending ones end, as a range
        st.lists(  # emits, one chunk each, whose ids may begin with a range
            st.tuples(st.integers(0, 5), st.sampled_from([0, 0, LEAST_RANGE])), max_size=3
        ),
        st.sampled_from(["singly", "ranges", "apart"]),  # how to tell: apart is some of both
        st.lists(st.integers(0, 12), max_size=4),  # which of them end before the commit
        st.booleans(),  # whether the process is lost afterwards
    ),
    max_size=30,
)


@example([([], [(5, 0), (5, 0)], "ranges", [], False), ([0], [], "ranges", [], True)], 0)
@given(BATCHES, st.sampled_from((0, 0, 0, rewriting.FEW)))
def test_many_batches_with_restarts_against_a_dict(batches, few):
    with mock.patch.object(rewriting, "FEW", few):
        check_against_a_dict(batches)


def check_against_a_dict(batches):
    pending, records, expected, sequence = PendingMessages(), Records(), {}, 0
    for number, (ends, chunks, how, ends_at_once, lost) in enumerate(batches, 1):
        alive = sorted(expected)
        chosen = sorted({alive[i % len(alive)] for i in ends} if alive else ())
        apart = {"singly": chosen, "ranges": [], "apart": chosen[::2]}[how]
        pairs = [(s, s + 1) for s in chosen if s not in apart]
        told, told_apart = pending.end(ranges(*pairs), apart)
        assert list(told) == [expected[s] for s, _ in pairs]
        assert told_apart == [(s, expected[s]) for s in apart]
        expected = {s: msg_id for s, msg_id in expected.items() if s not in chosen}
        first = sequence
        for size, numbers in chunks:
            ids = IdRuns(range(sequence, sequence + numbers))
            ids.extend([f"m{sequence + i}" for i in range(size)])
            expected |= dict(enumerate(ids, sequence))
            pending.add(sequence, ids)
            sequence += len(ids)
        gone = sorted({first + i for i in ends_at_once if first + i < sequence})
        pending.forget(ranges(*((n, n + 1) for n in gone)))
        expected = {s: msg_id for s, msg_id in expected.items() if s not in gone}
        record = pending.record(number)
        new = [s for s in expected if s >= first]
        assert (record is None) == (not chosen and not new)
        records.add(number, record)
        assert pending.count == len(expected)
        if lost:
            pending = PendingMessages.restore(records.payloads)
            assert pending.count == len(expected)
            assert pending.record(number + 1) is None
    everything = PendingMessages.restore(records.payloads)
    assert ended(everything, (0, sequence)) == [expected[s] for s in sorted(expected)]


def test_the_log_stays_in_proportion_to_what_is_pending():
    pending, records, stuck = PendingMessages(), Records(), 5_000
    pending.add(0, list(range(stuck)))
    records.add(1, pending.record(1))
    whole = records.bytes
    for number in range(2, 1000):
        sequence = stuck + number
        pending.add(sequence, [sequence])
        if number > 2:
            assert ended(pending, (sequence - 1, sequence)) == [sequence - 1]
        records.add(number, pending.record(number))
        assert records.bytes < 6 * whole
        assert len(records.kept) < 200
    assert records.written < 60 * whole  # and not 1000 times


def test_restarts_again_and_again_let_no_log_grow():
    pending, records = PendingMessages(), Records()
    pending.add(0, list(range(1000)))
    records.add(1, pending.record(1))
    for number in range(2, 400):
        pending = PendingMessages.restore(records.payloads)
        pending.add(number * 10_000, ["x"])
        ended(pending, ((number - 1) * 10_000, (number - 1) * 10_000 + 1))
        records.add(number, pending.record(number))
        assert len(records.kept) < 140


def test_stragglers_do_not_keep_what_was_emitted_with_them():
    pending = PendingMessages()
    pending.add(0, ["stuck", *range(10_000)])
    ended(pending, (1, 10_001))
    data, keep_from = pending.record(7)
    assert keep_from == 7
    assert len(data) < 200


def test_a_log_is_written_anew_when_it_is_larger_than_what_it_describes():
    policy = rewriting.RewritePolicy()
    assert policy.rewrite(alive=0, changed=1)
    steps = [policy.rewrite(alive=1000, changed=100) for _ in range(60)]
    assert steps[:21] == [False] * 20 + [True]
    assert steps.count(True) == 2
