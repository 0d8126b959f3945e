"""Lookups in tables: what is emitted is what SQL says, and what holds while a table changes."""

import os
import sqlite3
from contextlib import closing
from threading import Event

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fulmen import Stream, TopologyBuilder
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.base.lookup.holder import TableHolder
from fulmen.connectors.base.lookup.table import LookupTable, Seen
from fulmen.connectors.files import FileLookup
from fulmen.connectors.files.lookup import FileLookupTable
from fulmen.connectors.sqlite import SqliteLookup
from fulmen.errors import ValidationFailed
from fulmen.testing import ABORT, PAUSE, BoltHarness, CollectBolt, ListSpout, run
from support.connectors.lookup_tables import COLUMNS, SQL, csv_text, written
from support.windows.sql_events import by_sql

KINDS = ("csv", "json", "parquet", "sqlite")
FIELDS = ["n", "code", "zone"]
CONFIG = {"fields": ["n", "code"], "key": ["code"], "add": ["label", "most"]}
EXTRAS = [(), (), (), (PAUSE,), (ABORT,)]


def found(cls, items, config, replays=True, tasks=2, **how):
    """What is emitted, and the result."""
    builder = TopologyBuilder()
    builder.set_spout("rows", ListSpout(items, fields=FIELDS, replays=replays))
    builder.set_bolt("lookup", cls, tasks).shuffle_grouping("rows").set_config(config)
    builder.set_bolt("out", CollectBolt).shuffle_grouping("lookup")
    result = run(builder, **how)
    return [tuple(row) for row in result.collected("out")], result


# ---- what is emitted

CODES = st.sampled_from(["a", "b", "c", "", None])
ZONES = st.sampled_from([1, 2, None])
TABLES = st.lists(
    st.tuples(CODES, ZONES, st.sampled_from(["x", "", None]), st.integers(-3, 9) | st.none()),
    max_size=9,
)
ON = {"one": ["code"], "two": ["code", "zone"], "renamed": {"code": "label", "zone": "most"}}
QUERIES = {
    "inner": "SELECT {rows} FROM e JOIN t ON {on}",
    "left": "SELECT {rows} FROM e LEFT JOIN t ON {on}",
    "semi": "SELECT {base} FROM e WHERE EXISTS (FROM t WHERE {on})",
    "anti": "SELECT {base} FROM e WHERE NOT EXISTS (FROM t WHERE {on})",
}


CASES = {
    "kind": st.sampled_from([*KINDS, "keys"]),
    "how": st.sampled_from([*QUERIES]),
    "on": st.sampled_from([*ON]),
    "matches": st.sampled_from(["all", "first", "last"]),
    "is_conditional": st.booleans(),
    "memory": st.sampled_from([0, 1000, 10**9]),
    "table": TABLES,
    "rows": st.lists(st.tuples(st.integers(0, 9), CODES, ZONES), max_size=12),
}
EXAMPLES = settings.default.max_examples


def by_query(how, on, matches, is_conditional, table, rows, memory=0):
    """What DuckDB finds."""
    pairs = ON[on] if isinstance(ON[on], dict) else {name: name for name in ON[on]}
    keys = ", ".join(pairs.values())
    kept = {
        "all": "",
        "first": f"QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY i) = 1",
        "last": f"QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY i DESC) = 1",
    }[matches]
    equal = " AND ".join(f"e.{field} = t.{column}" for field, column in pairs.items())
    condition = " AND (n <= most OR label = 'x')" if is_conditional else ""
    base = "n, e.code, e.zone"
    query = QUERIES[how].format(base=base, rows=f"{base}, label, most", on=equal + condition)
    found = by_sql(
        f"WITH t AS (FROM t0 {kept}) {query}",
        e=("n BIGINT, code TEXT, zone BIGINT", rows),
        t0=(f"{SQL}, i BIGINT", [(*row, i) for i, row in enumerate(table)]),
    )
    return sorted(found, key=str)


def config_of(folder, kind, how, on, matches, is_conditional, table, memory=10**9):
    if matches != "all" and kind == "keys":
        kind = "sqlite"
    cls, where = written(kind, folder, table)
    config = {**where, "key": ON[on], "fields": FIELDS, "type": how, "matches": matches}
    config["memoryBytes"] = memory
    config["add"] = {"name": "label", "limit": "most"}
    if is_conditional:
        config["where"] = "n <= \"limit\" or name = 'x'"
    return cls, config


@given(**CASES)
@settings(max_examples=EXAMPLES)
def test_what_is_found_in_a_table_is_what_sql_finds(tmp_path_factory, kind, rows, **case):
    """With nulls and equal keys."""
    event(f"{kind}, {case['how']} on {case['on']}, {case['matches']}")
    cls, config = config_of(tmp_path_factory.mktemp("table"), kind, **case)
    bolt = BoltHarness(cls, fields=FIELDS, conf=config)
    for row in rows:
        bolt.execute(list(row))
    emitted = sorted((tuple(one.values) for one in bolt.emitted), key=str)
    assert bolt.failed == []
    assert emitted == by_query(**case, rows=rows)


SEVERAL = [("a", 1, "x", 5), ("a", 2, "y", 3), ("b", None, "y", 1), ("a", 1, "z", 4), (None,) * 4]


@pytest.mark.parametrize(("kind", "memory"), [("csv", 10**9), ("csv", 0), ("keys", 0)])
@pytest.mark.parametrize("is_conditional", [False, True])
@pytest.mark.parametrize("matches", ["all", "first", "last"])
@pytest.mark.parametrize("how", QUERIES)
def test_each_way_to_look_up_is_that_of_sql(tmp_path, how, matches, is_conditional, kind, memory):
    case = {"how": how, "on": "one", "matches": matches, "is_conditional": is_conditional}
    case["memory"] = memory
    cls, config = config_of(tmp_path, kind, table=SEVERAL, **case)
    bolt = BoltHarness(cls, fields=FIELDS, conf=config)
    rows = [(n, code, 1) for n in (2, 4, 9) for code in ("a", "b", "c", None)]
    for row in rows:
        bolt.execute(list(row))
    emitted = sorted((tuple(one.values) for one in bolt.emitted), key=str)
    assert emitted == by_query(**case, table=SEVERAL, rows=rows)


@given(**CASES, data=st.data())
@settings(max_examples=max(EXAMPLES // 10, 3))
def test_what_is_found_does_not_depend_on_batches_and_on_workers_that_die(
    tmp_path_factory, kind, rows, data, **case
):
    cls, config = config_of(tmp_path_factory.mktemp("table"), kind, **case)
    items = []
    for row in rows:
        items += [list(row), *data.draw(st.sampled_from(EXTRAS))]
    emitted, result = found(cls, items, config, workers=data.draw(st.integers(1, 3)))
    assert result.errors == []
    assert sorted(emitted, key=str) == by_query(**case, rows=rows)


def test_a_key_that_no_key_of_the_table_can_equal_fails_its_tuple_alone(tmp_path):
    cls, where = written("csv", tmp_path, [("a", 1, "x", 5)])
    items = [[1, "a", 1], [2, 7, 1], [3, ["a"], 1], [4, None, 1], [5, "b", 1]]
    emitted, result = found(cls, items, CONFIG | where, replays=False)
    assert sorted(emitted) == [(1, "a", "x", 5), (4, None, None, None), (5, "b", None, None)]
    reasons = dict(result.failed("rows"))
    assert reasons[1] == (
        "field 'code' is 7, and column 'code' of the table has text: they never equal. Give one of"
        " them the other's type, in `fields` of the format or by `cast` in select"
    )
    assert "is ['a'], and column" in reasons[2]
    assert {*reasons} == {1, 2}


def test_a_table_whose_keys_are_of_several_types_is_told(tmp_path):
    (tmp_path / "table").write_text('{"code": "7", "label": 1}\n{"code": 8, "label": 2}')
    form = {"type": "json", "fields": ["code", "label"]}
    where = {"path": str(tmp_path / "table"), "format": form, "key": ["code"], "add": ["label"]}
    items = [["7"], [8], [7], ["8"]]
    builder = TopologyBuilder()
    builder.set_spout("rows", ListSpout(items, fields=["code"]))
    builder.set_bolt("lookup", FileLookup, 2).shuffle_grouping("rows").set_config(
        {**where, "fields": ["code"], "add": {"n": "label"}}
    )
    builder.set_bolt("out", CollectBolt).shuffle_grouping("lookup")
    result = run(builder)
    emitted = {tuple(row) for row in result.collected("out")}
    assert emitted == {("7", 1), (8, 2), (7, None), ("8", None)}
    assert [error.message for error in result.errors] == [
        "column 'code' of the table has values of several types: text ('7'), a number (8). A tuple"
        " finds those of its own type alone. Give the column a type in `fields` of the format"
    ]


@pytest.mark.parametrize(
    ("items", "how", "told"),
    [(["A"] * 1000, "inner", 1), (["A"] * 999, "left", 0), (["A"] * 1000, "anti", 0),
     (["A"] * 500 + ["a"] + ["A"] * 1500, "left", 0), (["A"] * 3000, "left", 1)],
)  # fmt: skip
def test_that_nothing_is_found_is_told_once_with_an_example_of_both(tmp_path, items, how, told):
    cls, where = written("csv", tmp_path, [("a", 1, "x", 5)])
    config = CONFIG | where | {"type": how}
    _, result = found(cls, [[n, code, 1] for n, code in enumerate(items)], config, tasks=1)
    assert len(result.errors) == told
    for error in result.errors:
        assert error.message == (
            "none of the first 1,000 tuples and more has a row of the table. One has 'code' = 'A',"
            " and a row 'code' = 'a'. If such keys should equal, write them alike, as by upper,"
            " trim or cast in select"
        )


def test_a_condition_without_a_value_fails_its_tuple_alone(tmp_path):
    cls, where = written("csv", tmp_path, [("a", 1, "x", 0), ("b", 1, "x", 1)])
    config = CONFIG | where | {"where": "n // most > 0"}
    emitted, result = found(cls, [[1, "a", 1], [2, "b", 1]], config, replays=False)
    assert emitted == [(2, "b", "x", 1)]
    [(_, why), *_] = result.failed("rows")
    assert why.startswith("where 'n // most > 0': ")


# ---- a table that changes


class Clocked:
    """A lookup by a clock that the test moves."""

    now = 0.0


def harness(cls, config):
    """One lookup, and a function that asks it for a code in another batch, 11 s later."""
    Clocked.now = 0.0

    class Timed(cls):
        clock = staticmethod(lambda: Clocked.now)

    bolt = BoltHarness(Timed, fields=FIELDS, conf=config)

    def ask(code="a", seconds=11.0, is_new_batch=True):
        Clocked.now += seconds
        if is_new_batch:
            bolt.bolt._context.batch.attempt = f"at {Clocked.now}"
        bolt.emitted.clear()
        bolt.execute([1, code, 1])
        [one] = bolt.emitted
        return one.values[-1]

    return bolt, ask


def aged(path, seconds=100):
    """Make a file look as if it was written long ago."""
    status = os.stat(path)
    os.utime(path, (status.st_atime, status.st_mtime - seconds))


def put(path, text, *, in_place):
    if in_place:
        path.write_text(text)
    else:
        (path.parent / "new").write_text(text)
        os.replace(path.parent / "new", path)


def test_a_table_that_replaces_another_is_read_at_the_next_look_in_another_batch(tmp_path):
    path = tmp_path / "table.csv"
    bolt, ask = harness(*joined(*written("csv", tmp_path, [("a", 1, "x", 5)])))
    assert ask() == 5
    put(path, csv_text([("a", 1, "x", 6)]), in_place=False)
    assert ask(is_new_batch=False) == 5, "all tuples of a batch see one table"
    assert ask(seconds=1) == 6
    put(path, csv_text([("a", 1, "x", 7)]), in_place=False)
    assert ask(seconds=9) == 6, "it is not looked at before reloadSeconds"
    assert ask(seconds=1) == 7
    assert bolt.errors == []


def joined(cls, where):
    return cls, CONFIG | where


def test_what_is_written_in_place_is_read_when_two_looks_see_it_alike(tmp_path):
    path = tmp_path / "table.csv"
    rows = [("a", 1, "x", 5), ("b", 1, "x", 8)]
    bolt, ask = harness(*joined(*written("csv", tmp_path, rows)))
    aged(path)
    ask(), ask()
    put(path, csv_text([("a", 1, "x", 6)]), in_place=True)
    aged(path)
    assert ask("b") == 8, "the rest may be still to come"
    put(path, csv_text([("a", 1, "x", 6), ("b", 1, "x", 9)]), in_place=True)
    aged(path, 50)
    assert ask("b") == 8, "it is still being written"
    assert (ask("b"), ask("a")) == (9, 6)
    assert bolt.errors == []


class Written(LookupTable):
    """A table of one row, whose number is another one each time; and what looks see of it."""

    name = "table"

    def __init__(self, *seen):
        self._seen, self._reads = list(seen), 0

    def look(self):
        return self._seen[0] if len(self._seen) == 1 else self._seen.pop(0)

    def read(self):
        self._reads += 1
        yield [[self._reads]]


class Reading(int):
    is_on_disk = False


def numbers(table, looks):
    """Which reading of a table is there in each of some batches."""

    def index(table):
        [[[number]]] = table.read()
        return Reading(number)

    holder = TableHolder(table, index, 10.0, lambda: 10.0 * len(found))
    found = []
    holder.begin()
    for _ in range(looks):
        found.append(holder.of_batch(f"batch {len(found)}"))
    return found


def test_a_change_that_a_coarse_clock_does_not_show_is_read():
    """A file that was written just now may be written again without another time."""
    young, old = Seen("here", 1, is_young=True), Seen("here", 1)
    assert numbers(Written(*[young] * 4, *[old] * 9), 5) == [1, 2, 3, 3, 3]


def test_a_table_that_changes_while_it_is_read_is_not_taken():
    old, new = Seen("here", 1), Seen("there", 2)
    assert numbers(Written(old, old, old, new, old, old, new, new), 6) == [1, 1, 1, 1, 3, 3]


def test_what_follows_a_table_on_disk_is_read_beside_the_batches(tmp_path, monkeypatch):
    """Which see the old one until all of the new one is there."""
    path, may_read = tmp_path / "table.csv", Event()
    cls, where = written("csv", tmp_path, [("a", 1, "x", 5)])
    aged(path)
    bolt, ask = harness(cls, CONFIG | where | {"memoryBytes": 0})
    assert ask() == 5
    read = FileLookupTable.read
    monkeypatch.setattr(FileLookupTable, "read", lambda self: may_read.wait(30) and read(self))
    for text, told in ((csv_text([("a", 1, "x", 6)]), 0), ("code,zone\n{]", 1)):
        may_read.clear()
        put(path, text, in_place=False)
        aged(path)
        before = ask()
        assert ask() == before, "it is still being read"
        assert bolt.bolt._holder._reading is not None
        may_read.set()
        bolt.bolt._holder._reading.exception(30)
        assert ask(is_new_batch=False) == before, "all tuples of a batch see one table"
        assert ask(seconds=1) == 6
        assert len(bolt.errors) == told
    assert "can't be used: " in bolt.errors[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_place", [True, False])
def test_while_a_table_is_broken_or_gone_the_one_before_counts_and_that_is_told(
    tmp_path, kind, in_place
):
    path = tmp_path / f"table.{kind}"
    bolt, ask = harness(*joined(*written(kind, tmp_path, [("a", 1, "x", 5)])))
    good = path.read_bytes()
    assert ask() == 5
    (tmp_path / "bad").write_bytes(b"code,zone\n{]" if kind != "sqlite" else b"x" * 4096)
    if in_place:
        path.write_bytes((tmp_path / "bad").read_bytes())
    else:
        os.replace(tmp_path / "bad", path)
    assert [ask() for _ in range(3)] == [5, 5, 5]
    assert bolt.errors, "it is told"
    assert "can't be used: " in bolt.errors[-1]
    assert bolt.errors[-1].endswith(
        "What was read before still counts, and it is tried again every 10 s"
    )
    path.unlink()
    bolt.errors.clear()
    assert ask() == 5
    assert "No such file" in bolt.errors[0]
    (tmp_path / "good").write_bytes(good)
    os.replace(tmp_path / "good", path)
    bolt.errors.clear()
    assert (ask(), ask("b")) == (5, None)
    assert bolt.errors == []


def test_a_table_of_sqlite_is_as_of_the_last_commit(tmp_path):
    cls, where = written("sqlite", tmp_path, [("a", 1, "x", 5)])
    _, ask = harness(cls, CONFIG | where)
    assert ask() == 5
    with closing(sqlite3.connect(where["path"])) as db:
        db.execute("UPDATE prices SET most = 6")
        assert ask() == 5
        db.commit()
        assert ask() == 6
        db.execute("DELETE FROM prices")
        db.commit()
    assert ask() is None


class Late(FileLookup):
    """Whose file is written when it was looked for four times."""

    tries, write = 0, None

    def prepare(self, conf, context):
        Late.tries += 1
        if Late.tries == 4:
            Late.write()
        super().prepare(conf, context)


def test_a_topology_waits_for_a_table_that_is_not_there_yet(tmp_path):
    path = tmp_path / "table.csv"
    cls, where = written("csv", tmp_path, [("a", 1, "x", 5)])
    text = path.read_text()
    path.unlink()
    with pytest.raises(ServiceUnavailable) as error:
        BoltHarness(cls, fields=FIELDS, conf=CONFIG | where)
    assert str(error.value) == (
        f"file '{path}' can't be used: [Errno 2] No such file or directory: '{path}'"
    )

    Late.tries, Late.write = 0, lambda: path.write_text(text)
    emitted, _ = found(Late, [[1, "a", 1]], CONFIG | where)
    assert emitted == [(1, "a", "x", 5)]
    assert Late.tries > 3


# ---- limits, and mistakes


@pytest.mark.parametrize(
    ("kind", "option", "said"),
    [
        ("csv", {"format": {"type": "csv", "fields": ["nope"]}, "key": ["nope"], "add": []},
         "has no 'nope', only ['code', 'zone', 'label', 'most']"),
        ("csv", {"header": False}, "line 1: it has the fields' names"),
        ("parquet", {"format": {"type": "parquet", "fields": {"code": "int64"}}, "add": []},
         "its column 'code' is string, which is no int64"),
        ("sqlite", {"columns": ["code", "nope"], "add": []}, "it has no column 'nope', only"),
        ("sqlite", {"columns": {"code": "int64"}, "add": []}, "row 1: field 'code': 'a' is no"),
        ("sqlite", {"table": "nope"}, "SQLite says 'no such table: nope'"),
    ],
)  # fmt: skip
def test_a_table_that_can_not_be_used_says_why(tmp_path, kind, option, said):
    cls, where = written(kind, tmp_path, [("a", 1, "x", n) for n in range(3)])
    with pytest.raises(ServiceUnavailable) as error:
        BoltHarness(cls, fields=FIELDS, conf=CONFIG | where | option)
    assert said in str(error.value)


MISTAKES = {
    "a-field": ({"fields": ["m"]}, "fields: there is no field 'm', only ['n', 'code', 'zone']"),
    "a-key": ({"key": {"cod": "code"}}, "key: there is no field 'cod', only ['n', 'code', 'zone']"),
    "a-column": ({"add": ["lable"]}, "add: the table has no column 'lable', only"),
    "twice": ({"add": {"n": "label"}}, "the field 'n' is there twice"),
    "a-condition": ({"where": "n < mots"}, "where 'n < mots': there is no field 'mots' (column 5)"),
    "a-type": ({"where": "label > 3"}, "where 'label > 3': "),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found_before_it_runs(tmp_path, name):
    option, said = MISTAKES[name]
    cls, where = written("csv", tmp_path, [])
    with pytest.raises(ValidationFailed) as error:
        found(cls, [[1, "a", 1]], CONFIG | where | option)
    assert said in str(error.value)


def test_a_key_of_another_type_is_found_before_it_runs(tmp_path):
    builder = TopologyBuilder()
    (tmp_path / "rows").write_text("")
    from fulmen.connectors.files import FileSpout

    form = {"type": "csv", "fields": {"n": "int64", "code": "int64", "zone": "int64"}}
    spout = builder.set_spout("rows", FileSpout())
    spout.set_config({"path": str(tmp_path / "rows"), "follow": False, "format": form})
    cls, where = written("csv", tmp_path, [])
    builder.set_bolt("lookup", cls).shuffle_grouping("rows").set_config(CONFIG | where)
    with pytest.raises(ValidationFailed) as error:
        run(builder)
    assert (
        "key: field 'code' is int64, and column 'code' of the table is string: they never equal."
        " Give the column that type: fields: {code: int64}; or cast the field in `select`"
    ) in str(error.value)


def test_columns_that_are_not_named_are_all_added_but_the_key(tmp_path):
    cls, where = written("csv", tmp_path, [("a", 1, "x", 5)])
    emitted, _ = found(cls, [[1, "a", 1]], {**where, "fields": ["n"], "key": ["code"]})
    assert emitted == [(1, *[1, "x", 5])]
    assert COLUMNS[1:] == ("zone", "label", "most")
    assert issubclass(cls, FileLookup)
    assert not issubclass(SqliteLookup, FileLookup)


def test_that_nothing_is_passed_on_is_told_unless_it_is_said(tmp_path):
    (tmp_path / "table.csv").write_text("code\n")
    form = {"type": "csv", "fields": ["code", "label"]}
    config = {"path": str(tmp_path / "table.csv"), "format": form, "header": True, "key": ["code"]}
    bolt = FileLookup()
    for more, told in (({}, ["fields: [n, code]"]), ({"fields": []}, [])):
        options = FileLookup.config_model.model_validate(config | more)
        found = [str(one) for one in bolt.check_input(options, Stream(["n", "code"]))]
        assert [any(said in one for one in found) for said in told] == [True] * len(found)
