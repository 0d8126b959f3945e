from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.engine.acking.messages import Messages, combine
from fulmen.engine.acking.root_ids import (
    TRACED,
    sequence_ranges,
    traced_among,
    traced_root,
    with_sequences,
    without_traced,
)
from fulmen.engine.acking.trees import Trees, step

PLACES = st.tuples(st.integers(0, 3), st.integers(0, 40))  # origin and sequence number
TREES = st.dictionaries(PLACES, st.booleans(), max_size=5)  # whether each is traced


def root_of(place, is_traced):
    root = traced_root(*place)
    return root if is_traced else without_traced(root)


def ids(roots):
    return np.array(sorted(roots), np.uint64)


@given(TREES)
def test_ranges_of_sequences_are_the_same_whichever_trees_are_traced(trees):
    ranges = sequence_ranges(ids(root_of(*pair) for pair in trees.items()))
    plain = sequence_ranges(ids(root_of(place, is_traced=False) for place in trees))
    assert {k: v.tolist() for k, v in ranges.items()} == {k: v.tolist() for k, v in plain.items()}


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(TREES)
def test_a_failed_tree_has_its_sequence_number_whether_or_not_it_is_traced(trees):
    failed = [(root_of(*pair), "why") for pair in trees.items()]
    assert with_sequences(failed) == [(*place, "why") for place in trees]


@given(st.lists(st.tuples(PLACES, st.booleans(), st.integers(0, 2**64 - 1)), max_size=8))
def test_acks_of_traced_and_other_trees_are_combined_apart(acks):
    roots = [root_of(place, is_traced) for place, is_traced, _ in acks]
    expected, counts = {}, Counter(roots)
    for root, (_, _, value) in zip(roots, acks, strict=True):
        expected[root] = expected.get(root, 0) ^ value
    values = np.array([value for _, _, value in acks], np.uint64)
    found = [column.tolist() for column in combine(np.array(roots, np.uint64), values)]
    assert found[0] == sorted(expected)
    assert found[1:] == [[of[root] for root in found[0]] for of in (expected, counts)]


def test_the_acker_knows_which_of_two_equal_messages_is_traced():
    roots = ids([root_of((0, 1), is_traced=True), root_of((0, 2), is_traced=False)])
    messages = Messages(inits=[(roots, np.array([5, 6], np.uint64), np.zeros(2))])
    messages.acks.append((roots[1:], np.array([6], np.uint64), None))
    outcome = step(Trees(), messages, 0.0, 30.0)
    assert traced_among(outcome.acked).tolist() == [traced_root(0, 1)]
    assert not (outcome.trees.roots & TRACED).any()
