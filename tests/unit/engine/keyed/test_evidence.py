"""Which parts of keys may be the grouping's, by what batches have written."""

import pytest

from fulmen.engine.keyed.evidence import Evidence


@pytest.mark.parametrize(
    ("keys", "fields", "left"),
    [
        (["a", "b"], 1, ["whole"]),
        ([("a", "b")], 1, ["whole"]),
        ([("a", "b"), ("b", "a")], 2, ["whole", "first"]),
        ([("a", ("b", "c"))], 2, ["whole", "first"]),
    ],
)
def test_keys_that_are_known_to_be_seen_show_what_they_show_if_each_is_asked(keys, fields, left):
    for are_seen in (False, True):
        evidence = Evidence()
        evidence.look(keys, {*keys}, fields, 7, are_seen=are_seen)
        assert (evidence.parts, evidence.since) == (left, 7)
