"""What a sink with keys is given of early results, and which keys it deletes."""

import pytest

from fulmen.engine.state.early_table import EarlyTable, has_keys_alone
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.journals import EARLY
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.tuples.tuple_rows import TupleRows

FIELDS = ("shop", "start", "sales")
KEY = ("shop", "start")


def table(state=None, about="as it was"):
    state = KeyedState(name=EARLY) if state is None else state
    return EarlyTable(state, KEY, about, lambda chunk: [None] * len(chunk))


def given(early, *rows, in_time=False, failed=(), undeleted=()):
    """The rows whose keys are deleted, and those that are written."""
    written = Chunk("windows", "default", FIELDS, 1, None, TupleRows([list(r) for r in rows]))
    chunks = [written] if rows else []
    gone, new = early.in_time(chunks) if in_time else early.ahead(chunks)
    refused = dict.fromkeys(failed, "refused"), dict.fromkeys(undeleted, "refused")
    early.wrote([(c, refused[1]) for c in gone], [(c, refused[0]) for c in new], early=not in_time)
    return tuple([tuple(row) for chunk in some for row in chunk.rows] for some in (gone, new))


def restored(early):
    """The same, as the next run has it."""
    updates = early.state.updates(1)
    journals = {name: [data] for name, (data, _) in updates.items() if data}
    return table(KeyedState.restore(journals, name=EARLY))


def test_the_end_of_a_run_deletes_the_keys_that_no_row_has_any_more():
    early = table()
    assert given(early, ("kiel", 5, 1), ("bonn", 7, 2)) == ([], [("kiel", 5, 1), ("bonn", 7, 2)])
    early = restored(early)
    assert given(early, ("kiel", 2, 3), ("bonn", 7, 2)) == ([("kiel", 5, 1)], [("kiel", 2, 3)])
    assert given(early, ("kiel", 2, 4), ("bonn", 7, 2)) == ([], [("kiel", 2, 4)])
    assert given(early) == ([("bonn", 7, 2), ("kiel", 2, 4)], [])
    assert not early.state


def test_what_came_in_time_is_never_deleted():
    early = table()
    given(early, ("kiel", 5, 1), ("bonn", 7, 2))
    assert given(early, ("kiel", 5, 1), in_time=True) == ([], [("kiel", 5, 1)])
    assert given(early) == ([("bonn", 7, 2)], [])


def test_the_last_row_of_a_key_is_the_one_that_there_is():
    early = table()
    given(early, ("kiel", 5, 1), ("kiel", 5, 2))
    assert given(early, ("kiel", 5, 0), ("kiel", 5, 2)) == ([], [])
    assert given(early, ("kiel", 5, 1)) == ([], [("kiel", 5, 1)])


@pytest.mark.parametrize("in_time", [False, True])
def test_a_key_with_a_none_is_deleted_before_another_row_takes_its_place(in_time):
    early = table()
    given(early, ("kiel", None, 1))
    assert given(early, ("kiel", None, 2), in_time=in_time) == (
        [("kiel", None, 1)],
        [("kiel", None, 2)],
    )


def test_what_was_refused_was_not_written_and_not_deleted():
    early = table()
    assert given(early, ("kiel", 5, 1), failed=[0])[1] == [("kiel", 5, 1)]
    assert given(early, ("kiel", 5, 1))[1] == [("kiel", 5, 1)]
    assert given(early, ("kiel", 5, 9), failed=[0], in_time=True)[1] == [("kiel", 5, 9)]
    assert given(early, undeleted=[0])[0] == [("kiel", 5, 1)]
    assert given(early)[0] == [("kiel", 5, 1)]


def test_nothing_is_deleted_by_what_is_known_of_another_topology():
    early = table()
    given(early, ("kiel", 5, 1))
    assert given(table(early.state, about="changed")) == ([], [])


@pytest.mark.parametrize(
    ("ways", "tasks", "alone"),
    [
        ([("shuffle", ())], 1, True),
        ([("shuffle", ())], 2, False),
        ([("global", ())], 2, True),
        ([("fields", ("shop",))], 2, True),
        ([("fields", ("shop", "sales"))], 2, False),
        ([("fields", ("shop",)), ("fields", ("start",))], 2, False),
    ],
)
def test_a_task_has_keys_alone_if_all_rows_of_each_come_to_it(ways, tasks, alone):
    assert has_keys_alone(KEY, ways, tasks) is alone
    assert not has_keys_alone((), ways, tasks)
