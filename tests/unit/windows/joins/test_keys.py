"""The key of what has no match in a join: DuckDB says the same of `USING`."""

import pytest

from fulmen.testing import ABORT, PAUSE, run
from fulmen.windows import IntervalJoin, LookupJoin, TableJoin, TemporalJoin, WindowJoin
from support.windows.joins import CONFIG, LEFT, RIGHT, topology
from support.windows.sql_events import by_sql

BY_KEY = {
    **CONFIG,
    "left": {**LEFT, "fields": ["who", "n"]},
    "right": {**RIGHT, "fields": {"w": "who", "b": "n"}},
}
"""`who` is the key of either side, `w` that of the right one."""
JOINS = {
    "tumbling": (WindowJoin, {"window": {"type": "tumbling", "size": "10ms"}}),
    "session": (WindowJoin, {"window": {"type": "session", "gap": "10ms"}}),
    "interval": (IntervalJoin, {"upper": "10ms"}),
    "temporal": (TemporalJoin, {}),
    "lookup": (LookupJoin, {}),
    "table": (TableJoin, {}),
}
BOTH_ALONE = [("a", "x", 1, 3), ("b", "y", 2, 3), ("a", None, 3, 3), ("b", None, 4, 3)]


def rows_by_key(cls, config):
    """Of rows that all have no match."""
    result = run(topology(cls, [*BOTH_ALONE, PAUSE, ABORT, PAUSE], config, lag="1s"))
    assert result.errors == []
    return sorted((tuple(row[:4]) for row in result.collected("sink")), key=str)


@pytest.mark.parametrize("name", JOINS)
def test_the_key_is_emitted_of_the_side_that_is_there_as_sql_does_by_using(name):
    cls, more = JOINS[name]
    kind = "left" if cls in (TemporalJoin, LookupJoin) else "full"
    tables = {"a": ("who TEXT, n BIGINT", [("x", 1), (None, 3)])}
    tables["b"] = ("who TEXT, n BIGINT", [("y", 2), (None, 4)])
    of_right = {**BY_KEY, "left": {**LEFT, "fields": {"v": "who", "a": "n"}}}
    of_right["right"] = {**RIGHT, "fields": ["who", "n"]}
    for config, names in ((BY_KEY, "who, a.n, b.who, b.n"), (of_right, "a.who, a.n, who, b.n")):
        wanted = by_sql(f"SELECT {names} FROM a {kind} JOIN b USING (who)", **tables)
        assert rows_by_key(cls, {**config, **more, "type": kind}) == sorted(wanted, key=str)


def test_sides_may_call_the_key_by_names_of_their_own_and_each_part_is_found():
    config = {**CONFIG, "key": ["user", "day"], "type": "full", "upper": "1ms"}
    config["left"] = {**LEFT, "key": ["who", "at"], "fields": {"day": "at", "user": "who"}}
    config["right"] = {**RIGHT, "key": ["who", "n"], "fields": {"at": "at", "who": "who"}}
    found = [(3, "x", None, None), (2, "y", 3, "y"), (3, None, None, None), (4, None, 3, None)]
    assert rows_by_key(IntervalJoin, config) == sorted(found, key=str)


def test_what_only_has_the_name_of_the_key_is_none_without_a_match():
    config = {**CONFIG, "type": "full", "left": {**LEFT, "fields": {"who": "n", "k": "who"}}}
    config["right"] = {**RIGHT, "fields": ["n", "at"]}
    found = [(1, "x", None, None), (None, None, 2, 3), (3, None, None, None), (None, None, 4, 3)]
    assert rows_by_key(TableJoin, config) == sorted(found, key=str)


def test_a_key_that_has_no_name_for_both_sides_is_that_of_each_side_as_sql_does_by_on():
    config = {**CONFIG, "key": [], "type": "full"}
    config["left"] = {**LEFT, "key": ["who"], "fields": ["who", "n"]}
    config["right"] = {**RIGHT, "key": ["who"], "fields": {"w": "who", "b": "n"}}
    found = [("x", 1, None, None), (None, None, "y", 2), (None, 3, None, None)]
    assert rows_by_key(TableJoin, config) == sorted([*found, (None, None, None, 4)], key=str)
