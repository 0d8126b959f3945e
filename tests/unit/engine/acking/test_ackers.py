import itertools
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fulmen.checkpoint import rewriting
from fulmen.engine.acking.acker_task import AckerTask, restore
from fulmen.engine.acking.messages import Messages, acker_index, combine
from fulmen.engine.acking.root_ids import (
    first_root,
    root_ids,
    sequence_ranges,
    sequences_of,
    with_sequences,
)
from fulmen.engine.acking.trees import TIMED_OUT, Trees, step
from fulmen.engine.tasks.run_ackers import born_by_origin
from fulmen.engine.tuples.chunk import RootRange
from support.runs.engine_runs import Records

IDS = st.integers(0, 2**64 - 1)
ROOTS = st.one_of(
    st.integers(0, 30),  # close together
    st.builds(lambda origin, n: (origin << 48) + n, st.integers(0, 3), st.integers(0, 50)),
    IDS,
)


def u64(values):
    return np.array(values, np.uint64)


def inits(*pairs, born=0.0):
    roots, values = zip(*pairs, strict=True) if pairs else ((), ())
    return Messages(inits=[(u64(roots), u64(values), np.full(len(roots), born))])


def acks(*pairs):
    roots, values = zip(*pairs, strict=True) if pairs else ((), ())
    return Messages(acks=[(u64(roots), u64(values), None)])


def together(*parts):
    messages = Messages()
    for part in parts:
        messages.add(part)
    return messages


# ---- one row per root ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "combined"),
    [
        pytest.param([], [], id="none"),
        pytest.param([(7, 5), (7, 5)], [(7, 0, 2)], id="tree-complete"),
        pytest.param([(7, 5), (9, 1), (7, 4)], [(7, 1, 2), (9, 1, 1)], id="two-roots"),
        pytest.param([(7, 5), (2**63, 1), (7, 4)], [(7, 1, 2), (2**63, 1, 1)], id="far-apart"),
        pytest.param([(2**64 - 1, 3), (0, 3)], [(0, 3, 1), (2**64 - 1, 3, 1)], id="extremes"),
        pytest.param(
            [(7, 5), (10**6, 1), (7, 4)], [(7, 1, 2), (10**6, 1, 1)], id="far-apart-of-one-origin"
        ),
    ],
)
def test_messages_of_one_root_become_one_row(messages, combined):
    roots, values = (u64([m[k] for m in messages]) for k in range(2))
    found = combine(roots, values)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == combined
    assert [column.dtype for column in found] == [np.uint64, np.uint64, np.int64]


@pytest.mark.parametrize("other", [8, 10**6, 2**63], ids=["near", "far", "of-another-origin"])
def test_what_is_combined_already_counts_for_as_many_messages_as_it_stands_for(other):
    found = combine(u64([7, other, 7]), u64([5, 1, 4]), np.array([2, 3, 1], np.int64))
    assert [column.tolist() for column in found] == [[7, other], [1, 1], [3, 3]]
    assert found[2].dtype == np.int64


@pytest.mark.parametrize("other", [8, 10**6, 2**63], ids=["near", "far", "of-another-origin"])
def test_messages_are_compacted_to_one_row_for_each_root(other):
    messages = together(inits((1, 5)), inits((2, 6)), acks((7, 5), (other, 1), (7, 4)))
    for _ in range(2):
        messages.compact()
        ((roots, values, born),) = messages.inits
        assert (roots.tolist(), values.tolist(), born.tolist()) == ([1, 2], [5, 6], [0.0, 0.0])
        ((roots, values, counts),) = messages.acks
        assert (roots.tolist(), values.tolist()) == ([7, other], [1, 1])
        assert (counts.tolist(), counts.dtype) == ([2, 1], np.int64)
    messages.add(acks((7, 1), (other, 1)))
    messages.compact()
    ((roots, values, counts),) = messages.acks
    assert (roots.tolist(), values.tolist()) == ([7, other], [0, 0])
    assert (counts.tolist(), counts.dtype) == ([3, 2], np.int64)


@given(st.lists(st.tuples(ROOTS, IDS)), st.randoms(use_true_random=False))
def test_any_part_may_be_combined_before_the_rest(messages, rng):
    expected = {}
    for root, value in messages:
        before, n = expected.get(root, (0, 0))
        expected[root] = before ^ value, n + 1
    parts = Messages()
    rng.shuffle(messages)
    cut = rng.randint(0, len(messages))
    for some in (messages[:cut], messages[cut:]):
        part = acks(*some)
        if rng.random() < 0.5:
            part.compact()
        parts.add(part)
    parts.compact()
    ((roots, values, counts),) = parts.acks
    if counts is None:
        counts = np.ones(len(roots), np.int64)
    found = zip(roots.tolist(), values.tolist(), counts.tolist(), strict=True)
    assert [(r, v, n) for r, v, n in found] == [(r, *expected[r]) for r in sorted(expected)]


# ---- which acker -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("root", "of_2", "of_3", "of_4"),
    [  # the list hash of a Long in Java
        (1, 0, 2, 0),
        (0, 1, 1, 3),
        (2**64 - 1, 1, 1, 3),
        (1234567890123456789, 0, 1, 0),
        (-1234567890123456789 % 2**64, 1, 0, 3),
        (2**63 - 1, 1, 2, 3),
        (2**63, 1, 2, 3),
    ],
)
def test_a_root_belongs_to_the_acker_that_storm_would_choose(root, of_2, of_3, of_4):
    assert [acker_index(u64([root]), n).tolist() for n in (2, 3, 4)] == [[of_2], [of_3], [of_4]]
    assert acker_index(u64([root]), 3).dtype == np.int64


@given(st.lists(st.tuples(ROOTS, IDS), unique_by=lambda p: p[0]), st.integers(1, 5))
def test_all_messages_about_a_root_go_to_the_same_acker(pairs, ackers):
    roots = [root for root, _ in pairs]
    messages = together(
        inits(*pairs, born=7.5),
        acks(*pairs, *((root, 1) for root in roots)),
        Messages(fails=[(root, "no") for root in roots], resets=list(roots)),
    )
    parts = messages.split(ackers)
    assert len(parts) == ackers
    for k, part in enumerate(parts):
        mine = [p for p in pairs if acker_index(u64([p[0]]), ackers)[0] == k]
        assert sorted(rows(part.inits)) == sorted((r, v, 7.5) for r, v in mine)
        assert sorted(rows(part.acks)) == sorted((r, v ^ 1, 2) for r, v in mine)
        assert [root for root, _ in part.fails] == part.resets == [r for r, _ in mine]


def rows(parts):
    """The messages of all parts: one after the other, each a tuple."""
    return [row for part in parts for row in zip(*(c.tolist() for c in part), strict=True)]


@given(
    st.sampled_from((1, 16, 64, 100)),
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(0, 5),
    st.integers(0, 9),
    st.booleans(),
)
@example(64, 0, 0, 2, 0, True)
@example(64, 30, 0, 1, 2, True)
@example(16, 0, 16, 0, 0, False)
@example(16, 8, 4, 0, 4, True)
@example(100, 10, 0, 5, 0, True)
@example(16, 3, 0, 0, 9, True)
@example(100, 10, 0, 0, 95, False)
def test_many_messages_travel_in_several_rows(n, of_inits, of_acks, of_fails, of_resets, compacts):
    whole = together(
        inits(*((i, i + 1) for i in range(of_inits))),
        acks(*((i, value) for i in range(of_acks) for value in (2 * i, 1))),
        Messages(fails=[(i, "no") for i in range(of_fails)], resets=list(range(of_resets))),
    )
    if compacts:
        whole.compact()
    whole_size = size(whole)
    parts = list(whole.parts(n))
    back = together(*parts)
    for messages in (whole, back):
        messages.compact()
    for kind in ("inits", "acks"):
        assert rows(getattr(back, kind)) == rows(getattr(whole, kind))
    assert (back.fails, back.resets) == (whole.fails, whole.resets)
    assert all(parts)
    assert all(size(part) <= max(n, 32) for part in parts)
    if whole_size <= n:
        assert len(parts) <= 1


def test_there_are_few_parts_and_none_without_a_message():
    fails = Messages(fails=[(root, "no") for root in range(5)])
    assert [len(part.fails) for part in fails.parts(64)] == [2, 2, 1]
    assert list(Messages().parts(64)) == []


def size(messages):
    """How many messages these count for."""
    of_columns = sum(len(roots) for roots, *_ in (*messages.inits, *messages.acks))
    return of_columns + 32 * len(messages.fails) + len(messages.resets)


def test_long_reasons_are_cut():
    messages = Messages()
    messages.fail([1, 2], "x" * 10_000)
    messages.fail([3], "short")
    messages.fail_each([4, 5], iter(["y" * 501, "short, too"]))
    assert messages.fails == [
        *((1, "x" * 500), (2, "x" * 500), (3, "short")),
        *((4, "y" * 500), (5, "short, too")),
    ]


# ---- one batch -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "acked", "failed", "pending"),
    [
        pytest.param(inits((1, 0)), [1], [], [], id="nobody-received-it"),
        pytest.param(inits((1, 5)), [], [], [1], id="not-acked-yet"),
        pytest.param(together(acks((1, 5)), inits((1, 5))), [1], [], [], id="ack-before-init"),
        pytest.param(acks((1, 5)), [], [], [], id="ack-of-a-dead-tree"),
        pytest.param(Messages(fails=[(1, "x")]), [], [], [], id="fail-of-a-dead-tree"),
        pytest.param(Messages(resets=[1]), [], [], [], id="reset-of-a-dead-tree"),
        pytest.param(
            together(inits((1, 5)), Messages(fails=[(1, "x"), (1, "y")])),
            [],
            [(1, "x")],
            [],
            id="failed-the-first-reason-counts",
        ),
        pytest.param(
            together(inits((1, 5)), acks((1, 5)), Messages(fails=[(1, "x")])),
            [1],
            [],
            [],
            id="complete-and-failed",
        ),
        pytest.param(
            # storm.md 6.3: T=0x1234 with children 0x0F0F and 0xAAAA
            together(inits((1, 0x1234)), acks((1, 0xB791), (1, 0x0F0F))),
            [],
            [],
            [1],
            id="one-child-left",
        ),
        pytest.param(
            together(inits((1, 0x1234)), acks((1, 0xB791), (1, 0x0F0F), (1, 0xAAAA))),
            [1],
            [],
            [],
            id="all-children-acked",
        ),
    ],
)
def test_how_a_tree_ends(messages, acked, failed, pending):
    outcome = step(Trees(), messages, clock=0.0, timeout_seconds=30)
    assert outcome.acked.tolist() == acked
    assert list(outcome.failed) == failed
    assert outcome.trees.roots.tolist() == pending
    assert outcome.ended_before.tolist() == []
    assert list(outcome.timed_out) == []
    assert len(outcome.changed) == len(pending)
    assert len(outcome.born) == len(acked)


def test_a_tree_times_out_when_it_is_older_than_the_timeout_and_not_before():
    trees = step(Trees(), inits((1, 5)), 100.0, 30).trees
    outcome = step(trees, Messages(), 130.0, 30)
    assert (outcome.trees.roots.tolist(), outcome.timed_out) == ([1], [])
    outcome = step(trees, Messages(), 130.5, 30)
    assert (outcome.failed, outcome.timed_out) == ([], [1])
    assert outcome.not_acked == [(1, TIMED_OUT)]
    assert outcome.ended_before.tolist() == [1]


def test_acked_at_last_whatever_its_age():
    trees = step(Trees(), inits((1, 5)), 0.0, 30).trees
    assert step(trees, acks((1, 5)), 1e9, 30).acked.tolist() == [1]


def test_a_reset_starts_the_timeout_anew_and_an_ack_does_not():
    trees = step(Trees(), inits((1, 5), (2, 5)), 0.0, 30).trees
    outcome = step(trees, together(acks((1, 4)), Messages(resets=[2, 2])), 20.0, 30)
    assert outcome.changed.tolist() == [True, True]
    outcome = step(outcome.trees, Messages(), 40.0, 30)
    assert outcome.timed_out == [1]
    assert outcome.trees.roots.tolist() == [2]
    assert outcome.changed.tolist() == [False]


def test_trees_whose_ids_differ_in_the_last_bit_only_are_told_apart():
    origin = 1 << 62  # more than a float can tell apart
    trees = step(Trees(), inits(*((origin + i, 5) for i in range(4))), 0.0, 30).trees
    messages = Messages(fails=[(origin + 1, "no")], resets=[origin + 2])
    outcome = step(trees, messages, 20.0, 30)
    assert list(outcome.failed) == [(origin + 1, "no")]
    outcome = step(outcome.trees, Messages(), 40.0, 30)
    assert outcome.timed_out == [origin, origin + 3]
    assert outcome.trees.roots.tolist() == [origin + 2]


@pytest.mark.parametrize("pending", [[], [3, 5]], ids=["no-tree", "two-trees"])
def test_roots_that_are_not_pending_have_no_place(pending):
    trees = step(Trees(), inits(*((root, 1) for root in pending)), 0.0, 30).trees
    assert trees.place(u64([2, 4, 6])).tolist() == [-1, -1, -1]
    assert trees.place(u64(pending)).tolist() == [*range(len(pending))]


def test_the_time_of_the_emit_is_kept_until_the_end():
    trees = step(Trees(), together(inits((2, 5), born=7.5), inits((1, 3), born=6.5)), 0.0, 30).trees
    outcome = step(trees, acks((2, 5), (1, 3)), 1.0, 30)
    assert (outcome.acked.tolist(), outcome.born.tolist()) == ([1, 2], [6.5, 7.5])


def test_trees_of_several_batches_lie_in_the_order_of_their_roots():
    trees = step(Trees(), inits((4, 1), (9, 3), (6, 2), born=1.5), 0.0, 30).trees
    trees = step(trees, inits((7, 5), (8, 6), (5, 4), born=2.5), 1.0, 30).trees
    assert trees.roots.tolist() == [4, 5, 6, 7, 8, 9]
    assert trees.values.tolist() == [1, 4, 2, 5, 6, 3]
    assert trees.since.tolist() == [0.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    assert trees.born.tolist() == [1.5, 2.5, 1.5, 2.5, 2.5, 1.5]


# ---- batch after batch -----------------------------------------------------------------------

EVENTS = st.tuples(
    st.sampled_from(("init", "ack", "ack", "fail", "reset")),
    st.integers(0, 12),
    st.sampled_from((0, 1, 2, 3)),
)


@example([([("init", n, 1) for n in range(6)], False), ([("ack", 0, 1)], True)], 0)
@given(
    st.lists(st.tuples(st.lists(EVENTS, max_size=12), st.booleans()), max_size=40),
    st.sampled_from((0, 0, 0, rewriting.FEW)),
)
def test_many_batches_with_restarts_against_a_dict(batches, few):
    """Restored from its records at any time, an acker goes on as if nothing had happened."""
    with mock.patch.object(rewriting, "FEW", few):
        check_against_a_dict(batches)


def check_against_a_dict(batches):
    fresh, expected, clock = itertools.count(100), {}, 0.0
    task, records = AckerTask(1, {}), Records()
    roots = dict.fromkeys(range(13), 0)
    for number, (events, restarts) in enumerate(batches, 1):
        clock += 1.0
        messages, fails = Messages(), {}
        for what, which, value in events:
            if what == "init":
                if roots[which] in expected:
                    continue  # a root is used once
                roots[which] = next(fresh)
                messages.add(inits((roots[which], value), born=clock))
                expected[roots[which]] = [value, clock]
            root = roots[which]
            if what == "ack":
                messages.add(acks((root, value)))
            elif what == "fail":
                messages.fails.append((root, "no"))
                fails[root] = True
            elif what == "reset":
                messages.resets.append(root)
        for some, values, _ in messages.acks:
            root = int(some[0])
            if root in expected:
                expected[root][0] ^= int(values[0])
        for root in messages.resets:
            if root in expected:
                expected[root][1] = clock
        acked = sorted(r for r, (v, _) in expected.items() if v == 0)
        failed = sorted(r for r, (v, _) in expected.items() if v and r in fails)
        late = sorted(
            r for r, (v, since) in expected.items() if v and r not in fails and clock - since > 5
        )
        outcome = task.run(messages, clock, 5)
        assert outcome.acked.tolist() == acked
        assert list(outcome.failed) == [(r, "no") for r in failed]
        assert list(outcome.timed_out) == late
        assert outcome.not_acked == [*outcome.failed, *((r, TIMED_OUT) for r in late)]
        for root in (*acked, *failed, *late):
            del expected[root]
        records.add(number, task.updates(number).get("trees"))
        if restarts:
            task = AckerTask(1, {"trees": records.payloads})
        for trees in (task.trees, restore(records.payloads)):
            columns = (trees.roots, trees.values, trees.since)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            assert [(r, [v, s]) for r, v, s in rows] == sorted(expected.items())


def test_the_log_of_trees_stays_in_proportion_to_what_is_pending():
    task, records = AckerTask(1, {}), Records()
    waiting = 10_000
    task.run(inits(*((r, 1) for r in range(waiting))), 0.0, 1e9)
    records.add(1, task.updates(1)["trees"])
    for number in range(2, 600):
        new = waiting + number
        task.run(together(inits((new, 1)), acks((new - 1, 1))), 0.0, 1e9)
        records.add(number, task.updates(number)["trees"])
        assert records.bytes < 3 * 32 * waiting
        assert len(records.payloads) < 200
    assert records.written < 8 * 32 * waiting


def test_an_acker_without_messages_writes_nothing():
    task = AckerTask(1, {})
    task.run(Messages(), 0.0, 30)
    assert task.updates(1) == {}
    task.run(together(inits((1, 5)), acks((1, 5))), 0.0, 30)  # begun and ended in one batch
    assert task.updates(2) == {}


def test_an_acker_counts_each_ack_of_each_root():
    task = AckerTask(1, {})
    messages = together(inits((1, 6), (2, 1)), acks((1, 2), (1, 4)), acks((2, 1)))
    messages.add(Messages(fails=[(9, "x")], resets=[1, 1]))
    task.run(messages, 0.0, 30)
    assert task.executed == {
        "__ack_init": 2,
        "__ack_ack": 3,
        "__ack_fail": 1,
        "__ack_reset_timeout": 2,
    }


RANGES = st.lists(
    st.tuples(
        st.integers(0, 2),  # origin
        st.lists(st.sampled_from([0, 0, 0, 5]), min_size=1, max_size=4),  # what trees wait for
        st.sampled_from([7.25, 7.2504, 8.5]),
    ),
    min_size=1,
    max_size=6,
)


@given(RANGES, st.integers(0, 20), st.lists(st.integers(0, 23), max_size=4), st.booleans())
def test_of_trees_that_are_not_told_apart_an_acker_says_the_same(some, acked, edges, is_sent):
    def told(*, apart):
        messages, sequence = Messages(acked_in_ranges=acked), 100
        roots, waiting = [], []
        for origin, values, born in some:
            one = RootRange(first_root(origin, sequence), len(values))
            one.born, one.values = born, u64(values) if any(values) else None
            messages.ranges.append(one)
            roots += one.roots_at(None).tolist()
            waiting += [] if one.values is None else one.roots_at(None).tolist()
            sequence += len(values)
        if waiting:  # the others have no edge that could be acked
            messages.add(acks(*((waiting[i % len(waiting)], 5) for i in edges)))
        messages.fail(roots[:1], "one")
        messages.fail(roots[-1:], "other")
        if apart:
            messages.tell_apart()
        task = AckerTask(1, {})
        outcome = task.run(messages.split(1)[0] if is_sent else messages, 3.0, 30)
        ended = [sequence_ranges(outcome.acked), sequences_of(outcome.done)]
        numbers = {
            (origin, n)
            for ranges in ended
            for origin, pairs in ranges.items()
            for a, b in pairs.tolist()
            for n in range(a, b)
        }
        pending = outcome.trees.roots.tolist(), outcome.trees.born.tolist()
        births = born_by_origin(outcome)
        return task.executed, numbers, outcome.acked_count, pending, outcome.failed, births

    assert told(apart=False) == told(apart=True)


# ---- root ids --------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), unique=True))
def test_acks_to_spouts_are_ranges(pairs):
    roots = np.sort(u64([(origin << 48) + n for origin, n in pairs]))
    ranges = sequence_ranges(roots)
    found = [
        (origin, n)
        for origin, some in ranges.items()
        for a, b in some.tolist()
        for n in range(a, b)
    ]
    assert sorted(found) == sorted(pairs)
    for some in ranges.values():
        assert all(b < c for (_, b), (c, _) in itertools.pairwise(some.tolist()))


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(st.integers(0, 2**16 - 1), st.integers(0, 2**47 - 1))
def test_a_root_id_tells_origin_and_sequence(origin, sequence):
    root = int(root_ids(origin, sequence, 1)[0])
    assert with_sequences([(root, "why")]) == [(origin, sequence, "why")]
