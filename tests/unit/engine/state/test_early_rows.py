"""What a sink is given of early results, and of what comes in time afterwards."""

import pytest

from fulmen.engine.state.early_rows import EarlyRows
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.journals import EARLY
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.tuples.tuple_rows import TupleRows

FIELDS = ("shop", "sales")
RETRACTING = ("shop", "sales", "is_retraction")


def chunk(*rows, fields=FIELDS, component="windows"):
    return Chunk(component, "default", fields, 1, None, TupleRows([list(row) for row in rows]))


def nowhere(chunk):
    return [None] * len(chunk)


def values(chunks):
    return [tuple(row) for one in chunks for row in one.rows]


def ahead(early, *rows, fields=FIELDS, failed=()):
    """What is given at the end of a run with these rows."""
    back, new, _ = early.ahead([chunk(*rows, fields=fields)] if rows else [])
    early.gave([(one, dict.fromkeys(failed, "refused")) for one in new])
    return values([*back, *new])


def restored(early, number=1):
    """The same, as the next run has it."""
    updates = early.state.updates(number)
    journals = {name: [data] for name, (data, _) in updates.items() if data}
    return EarlyRows(KeyedState.restore(journals, name=EARLY), nowhere)


def test_the_end_of_a_run_gives_what_was_not_given_before_each_row_as_often_as_it_is_there():
    early = EarlyRows(KeyedState(name=EARLY), nowhere)
    assert ahead(early, ("kiel", 1), ("bonn", 2)) == [("kiel", 1), ("bonn", 2)]
    early = restored(early)
    assert ahead(early, ("bonn", 2), ("kiel", 1)) == []
    assert ahead(early, ("bonn", 2), ("bonn", 2)) == [("bonn", 2)]
    assert ahead(early, ("bonn", 2.0)) == [("bonn", 2.0)]  # another value, though it is equal
    assert ahead(early, ("bonn", 2)) == [("bonn", 2)]  # it was no more in between


def test_a_row_that_failed_was_not_given():
    early = EarlyRows(KeyedState(name=EARLY), nowhere)
    ahead(early, ("kiel", 1), ("bonn", 2), failed=[1])
    assert ahead(early, ("kiel", 1), ("bonn", 2)) == [("bonn", 2)]


def test_one_object_that_comes_twice_is_the_same_row_as_two_that_are_equal():
    early, text = EarlyRows(KeyedState(name=EARLY), nowhere), "".join(["ki", "el"])
    ahead(early, (text, text))
    assert ahead(early, (text, "".join(["ki", "el"]))) == []


def test_where_each_row_is_one_more_what_comes_in_time_is_not_given_again():
    early = EarlyRows(KeyedState(name=EARLY), nowhere)
    ahead(early, ("kiel", 1), ("bonn", 2))
    other = chunk(("kiel", 1), component="spout")
    rows = chunk(("bonn", 2), ("kiel", 3), ("bonn", 2))
    back, new, known = early.in_time([other, rows], appends=True)
    assert (back, values(new), values(known)) == (
        [],
        [("kiel", 1), ("kiel", 3), ("bonn", 2)],
        [("bonn", 2)],
    )
    assert ahead(early, ("kiel", 1)) == []


def test_where_a_row_may_replace_another_one_what_comes_in_time_is_given_and_all_at_the_next_end():
    early = EarlyRows(KeyedState(name=EARLY), nowhere)
    ahead(early, ("kiel", 1), ("bonn", 2))
    back, new, known = early.in_time([chunk(("kiel", 1))], appends=False)
    assert (back, values(new), known) == ([], [("kiel", 1)], [])
    assert not early.state
    assert ahead(early, ("bonn", 2)) == [("bonn", 2)]


def test_rows_that_may_be_taken_back_are_before_anything_else_comes():
    early = EarlyRows(KeyedState(name=EARLY), nowhere)
    ahead(early, ("kiel", 1, True), ("kiel", 2, False), fields=RETRACTING)
    early = restored(early)
    back, new, known = early.in_time([chunk(("kiel", 3, False), fields=RETRACTING)], appends=True)
    assert sorted(values(back)) == [("kiel", 1, False), ("kiel", 2, True)]
    assert (values(new), known) == ([("kiel", 3, False)], [])
    assert not early.state


def test_rows_that_may_be_taken_back_are_when_the_next_end_does_not_have_them():
    early = EarlyRows(KeyedState(name=EARLY), nowhere)
    ahead(early, ("kiel", 2, False), ("bonn", 1, False), fields=RETRACTING)
    given = ahead(early, ("bonn", 1, False), ("kiel", 5, False), fields=RETRACTING)
    assert given == [("kiel", 2, True), ("kiel", 5, False)]
    assert ahead(early) == [("bonn", 1, True), ("kiel", 5, True)]
    assert ahead(early) == []


class Odd:
    def __reduce__(self):
        raise ValueError("it can't be pickled")


@pytest.mark.parametrize("appends", [False, True])
def test_a_row_that_cannot_be_known_again_is_given_each_time(appends):
    early, row = EarlyRows(KeyedState(name=EARLY), nowhere), ("kiel", Odd())
    assert ahead(early, row) == [row]
    assert ahead(early, row) == [row]
    assert values(early.in_time([chunk(row)], appends=appends).new) == [row]
