import pickle
from collections import Counter
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen import TransactionAttempt
from fulmen.api.custom_grouping import CustomStreamGrouping
from fulmen.engine.grouping.choosers import choose_one, make_chooser
from fulmen.engine.grouping.partial_key import two_choices
from fulmen.engine.keyed.hashing.value_hash import list_hash, value_hash
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import GroupingError
from fulmen.topology.builder import BoltDeclarer
from fulmen.topology.resource.spec import GroupingType
from support.docs.pages import ROOT

TARGETS = [9, 4, 7, 5]
SIZES = st.lists(st.integers(0, 40) | st.sampled_from([1, 64, 65, 1000, 3000]), max_size=8)


def rows_of(rows, arrow=False):
    """Rows of Python values, or the same as a record batch."""
    found = TupleRows(rows)
    if not arrow:
        return found
    return TupleRows.of_arrow(found.record_batch([str(i) for i in range(len(rows[0]))]))


def empty_rows(n):
    return TupleRows([()] * n)


def chooser(kind, targets=TARGETS, seed=1, **options):
    rng = np.random.default_rng(seed)
    return make_chooser(kind, targets=targets, rng=rng, source_task=2, **options)


def pairs(choice):
    index = range(len(choice.tasks)) if choice.index is None else choice.index.tolist()
    return list(zip(index, choice.tasks.tolist(), strict=True))


ALL_KINDS = [kind for kind in get_args(GroupingType) if kind not in ("custom", "direct")]


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("targets", [[3], [3, 8], [5, 300, 2]])
@pytest.mark.parametrize("n", [0, 1, 10, 100])
def test_every_grouping_gives_tasks_as_int32(kind, targets, n):
    choice = chooser(kind, targets, fields=[0]).choose(rows_of([(f"w{k}",) for k in range(n)]))
    assert choice.tasks.dtype == np.int32
    assert set(choice.tasks.tolist()) <= set(targets)
    if choice.index is None:
        assert len(choice.tasks) == n
    else:
        assert choice.index.dtype == np.int32
        assert len(choice.index) == len(choice.tasks)


@pytest.mark.parametrize("kind", get_args(GroupingType))
def test_every_grouping_has_a_chooser_a_method_and_a_row_of_the_docs(kind):
    if kind != "direct":  # the emitter is the one who chooses
        assert chooser(kind, fields=[0], custom=Answers()).choose(rows_of([([4],)])).tasks.size
    assert callable(getattr(BoltDeclarer, kind.replace("-", "_") + "_grouping"))
    assert f"\n| `{kind}` |" in (ROOT / "docs/guide/streams.md").read_text(encoding="utf-8")


# ---- shuffle -------------------------------------------------------------------------------------


@given(sizes=SIZES, targets=st.sets(st.integers(1, 99), min_size=1, max_size=12))
def test_shuffle_gives_every_target_one_of_each_lap(sizes, targets):
    shuffle = chooser("shuffle", sorted(targets))
    tasks = np.concatenate([[], *(shuffle.choose(empty_rows(n)).tasks for n in sizes)]).tolist()
    laps = [tasks[i : i + len(targets)] for i in range(0, len(tasks), len(targets))]
    assert all(set(lap) == targets for lap in laps[:-1])
    assert all(len(set(lap)) == len(lap) for lap in laps)


@given(sizes=SIZES, seeds=st.randoms(use_true_random=False))
def test_shuffle_stays_even_when_it_is_moved_between_chunks(sizes, seeds):
    counts = Counter(dict.fromkeys(TARGETS, 0))
    state = None
    for n in sizes:
        shuffle = chooser("shuffle", seed=seeds.randrange(1000))
        shuffle.restore(pickle.loads(pickle.dumps(state)))
        counts.update(shuffle.choose(empty_rows(n)).tasks.tolist())
        state = shuffle.state()
        assert max(counts.values()) - min(counts.values()) <= 1
    assert (state is None) == (sum(sizes) % 4 == 0)


def test_laps_of_a_shuffle_differ():
    laps = chooser("shuffle").choose(empty_rows(4 * 500)).tasks.reshape(-1, 4)
    orders = Counter(map(tuple, laps.tolist()))
    assert len(orders) == 24
    assert min(orders.values()) > 5


def test_the_state_of_a_shuffle_is_the_rest_of_its_lap():
    shuffle = chooser("shuffle")
    first = shuffle.choose(empty_rows(6)).tasks.tolist()
    assert sorted(first[4:] + list(shuffle.state())) == sorted(TARGETS)
    rest = shuffle.state()
    assert tuple(shuffle.choose(empty_rows(2)).tasks.tolist()) == rest
    assert shuffle.state() is None


@pytest.mark.parametrize("state", [None, (8, 4), (1,)])
def test_a_shuffle_begins_anew_if_its_state_is_about_other_tasks(state):
    shuffle = chooser("shuffle")
    shuffle.choose(empty_rows(3))
    shuffle.restore(state)
    assert sorted(shuffle.choose(empty_rows(4)).tasks.tolist()) == sorted(TARGETS)


def test_a_chunk_that_was_chosen_does_not_change_later():
    shuffle = chooser("shuffle")
    chunks = [shuffle.choose(empty_rows(n)).tasks for n in (5, 2000, 5)]
    copies = [chunk.copy() for chunk in chunks]
    for _ in range(5):
        shuffle.choose(empty_rows(700))
    assert all((chunk == copy).all() for chunk, copy in zip(chunks, copies, strict=True))


@pytest.mark.parametrize(
    ("local", "among"),
    [([7, 5], {5, 7}), ([4], {4}), ([], set(TARGETS)), ([1, 2], set(TARGETS)), ([9, 1], {9})],
)
def test_local_or_shuffle(local, among):
    near = chooser("local-or-shuffle", local=local)
    counts = Counter(near.choose(empty_rows(12 * len(among))).tasks.tolist())
    assert counts == Counter(dict.fromkeys(among, 12))


# ---- fields --------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize("arrow", [False, True])
@given(
    rows=st.lists(st.tuples(st.text("aé😀"), st.integers(-(2**63), 2**63 - 1), st.floats())),
    fields=st.sampled_from([[0], [1], [2], [2, 0], [0, 1, 2]]),
)
def test_fields_grouping_goes_by_the_position_of_the_values(times, arrow, rows, fields):
    rows = rows * times
    choice = chooser("fields", fields=fields).choose(rows_of(rows, arrow and bool(rows)))
    hashes = [list_hash([row[i] for i in fields]) for row in rows]
    assert choice.tasks.tolist() == [sorted(TARGETS)[hashed % 2**32 * 4 >> 32] for hashed in hashes]
    assert choice.index is None


def test_fields_grouping_without_fields_is_global():
    assert chooser("fields").choose(empty_rows(2)).tasks.tolist() == [4, 4]


@pytest.mark.parametrize("kind", ["fields", "partial-key"])
def test_the_error_about_a_value_names_emission_and_field(kind):
    rows = rows_of([("a", 1), ("b", {}), ("c", {})])
    by_key = chooser(kind, fields=[0, 1])
    with pytest.raises(GroupingError, match="type 'dict'") as raised:
        by_key.choose(rows)
    assert (raised.value.emission, raised.value.field) == (1, 1)
    assert by_key.state() is None


# ---- partial key ---------------------------------------------------------------------------------


def sequential(rows, fields, counts):
    """Storm's partial key grouping, one tuple after the other."""
    targets = sorted(TARGETS)
    for row in rows:
        candidates = two_choices([value_hash(row[i]) for i in fields], len(targets))
        task = min((targets[c] for c in candidates), key=lambda task: counts[task])
        counts[task] += 1
        yield task


@pytest.mark.parametrize("arrow", [False, True])
@given(
    words=st.lists(st.integers(0, 30) | st.just(7), max_size=50),
    sizes=SIZES,
    fields=st.sampled_from([[0], [1], [1, 0]]),
)
def test_partial_key_decides_as_one_tuple_after_the_other(arrow, words, sizes, fields):
    counts = Counter()
    state = None
    for size in sizes:
        rows = [(f"word {word}", word) for word in words * (size // 20)]
        partial = chooser("partial-key", fields=fields)
        partial.restore(pickle.loads(pickle.dumps(state)))
        tasks = partial.choose(rows_of(rows, arrow and bool(rows))).tasks.tolist()
        assert tasks == list(sequential(rows, fields, counts))
        state = partial.state()


def test_the_state_of_a_partial_key_does_not_grow():
    partial = chooser("partial-key", fields=[0])
    for _ in range(50):
        partial.choose(rows_of([(k,) for k in range(1000)]))
    assert min(partial.state()) == 0
    assert max(partial.state()) < 100


def test_a_partial_key_begins_anew_if_its_state_is_about_other_tasks():
    rows = rows_of([("a",)] * 3)
    partial, fresh = chooser("partial-key", fields=[0]), chooser("partial-key", fields=[0])
    partial.restore((5, 0))
    assert partial.choose(rows).tasks.tolist() == fresh.choose(rows).tasks.tolist()
    partial.restore(None)
    assert partial.state() is None


def test_partial_key_with_more_targets_than_fit_into_a_byte():
    targets = range(1, 400)
    rows = [(k,) for k in range(300)]
    tasks = chooser("partial-key", targets, fields=[0]).choose(rows_of(rows)).tasks.tolist()
    for row, task in zip(rows, tasks, strict=True):
        assert task - 1 in two_choices([value_hash(row[0])], 399)


# ---- the others ----------------------------------------------------------------------------------


def test_all_grouping_gives_each_tuple_to_each_target():
    choice = chooser("all").choose(empty_rows(2))
    assert pairs(choice) == [(0, 4), (0, 5), (0, 7), (0, 9), (1, 4), (1, 5), (1, 7), (1, 9)]


def test_global_grouping_gives_all_to_the_lowest_task():
    assert chooser("global").choose(empty_rows(3)).tasks.tolist() == [4, 4, 4]


def test_none_grouping_is_random():
    counts = Counter(chooser("none").choose(empty_rows(4000)).tasks.tolist())
    assert set(counts) == set(TARGETS)
    assert 800 < min(counts.values()) < max(counts.values()) < 1200


class Answers(CustomStreamGrouping):
    """Answers with what the tuple says."""

    def choose_tasks(self, task_id, values):
        assert task_id == 2
        return values[0]


@pytest.mark.parametrize(
    ("answers", "index", "tasks"),
    [
        ([[4], (9,), np.array([7])], None, [4, 9, 7]),
        ([[], [4, 5], [4]], [1, 1, 2], [4, 5, 4]),
        ([[], []], [], []),
        ([], None, []),
        ([[5, 5]], [0, 0], [5, 5]),
    ],
)
def test_custom_grouping(answers, index, tasks):
    choice = chooser("custom", custom=Answers()).choose(rows_of([(answer,) for answer in answers]))
    assert (choice.index if choice.index is None else choice.index.tolist()) == index
    assert choice.tasks.tolist() == tasks
    assert choice.tasks.dtype == np.int32


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ([4, 8], "returned 8, which is not one of the tasks that subscribe: [4, 5, 7, 9]"),
        ("4", "returned '4', which is not one of the tasks that subscribe: [4, 5, 7, 9]"),
        ([[4]], "returned [4], which is not one of the tasks that subscribe: [4, 5, 7, 9]"),
        (None, "returned None. It must return a list of task ids, maybe empty"),
        (4, "returned 4. It must return a list of task ids, maybe empty"),
    ],
)
@pytest.mark.parametrize("targets", [TARGETS])
def test_a_wrong_answer_of_a_custom_grouping(answer, text, targets):
    with pytest.raises(GroupingError) as raised:
        chooser("custom", targets, custom=Answers()).choose(rows_of([([4],), (answer,)]))
    assert str(raised.value) == f"Answers.choose_tasks() called for task 2 {text}"
    assert raised.value.emission == 1


def test_a_custom_grouping_that_raises():
    with pytest.raises(GroupingError) as raised:
        chooser("custom", custom=Answers()).choose(rows_of([([],), ()]))
    assert str(raised.value) == (
        "Answers.choose_tasks() called for task 2 raised IndexError: tuple index out of range"
    )
    assert raised.value.emission == 1
    assert isinstance(raised.value.__cause__, IndexError)


def test_a_custom_grouping_is_asked_even_if_there_is_only_one_target():
    choice = chooser("custom", [3], custom=Answers()).choose(TupleRows([([],), ([3],)]))
    assert pairs(choice) == [(1, 3)]


@pytest.mark.parametrize(
    ("kind", "tasks"), [("all", [4, 5, 7, 9]), ("global", [4]), ("fields", [7]), ("custom", [7, 5])]
)
def test_choose_one(kind, tasks):
    row = ("nathan", [7, 5])
    custom = type("Second", (Answers,), {"choose_tasks": lambda self, task, values: values[1]})()
    chosen = choose_one(chooser(kind, fields=[0], custom=custom), row)
    assert chosen == tasks
    assert {type(task) for task in chosen} == {int}


def test_all_attempts_of_a_transaction_go_to_the_same_task():
    rows = [[TransactionAttempt(txid, n)] for txid in range(40) for n in (1, 2, 1 << 40)]
    tasks = [choose_one(chooser("fields", fields=[0]), row)[0] for row in rows]
    assert tasks == [
        choose_one(chooser("fields", fields=[0]), [t])[0] for t in range(40) for _ in "123"
    ]
    assert set(tasks) == set(TARGETS)
