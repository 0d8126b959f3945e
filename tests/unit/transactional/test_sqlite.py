"""Maps in SQLite: what is in the file, other writers, and what is refused."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from fulmen.services.pools import close_all, pool_of
from fulmen.services.sql import sqlite
from fulmen.transactional import SqliteMap, StaleAttempt, StoreRefused, StoreUnavailable, plus
from fulmen.transactional.conformance import CASES, at, context_of
from support.stores.committers import Paused, Writing
from support.suite.seeds import generator, several


@pytest.fixture(autouse=True)
def _no_connection_stays():
    yield
    close_all()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "counts.db"


@pytest.fixture
def make(file):
    """Makes views of one map."""

    def made(task=0, rule="opaque", file=file, table="counts", **kinds):
        return SqliteMap(file, table, context_of(task), rule=rule, **kinds)

    return made


def rows(file, statement):
    with closing(sqlite3.connect(file)) as db:
        return db.execute(statement).fetchall()


@pytest.mark.slow
@pytest.mark.parametrize("seed", several(1))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_maps_in_sqlite_are_exact(case, seed, file):
    with generator(seed) as rng:
        case(lambda name, context, rule: SqliteMap(file, name, context, rule=rule), rng)


@pytest.mark.parametrize(
    ("kinds", "key", "value", "shown"),
    [
        ({"key": "text", "value": "integer"}, "é", 2**62, ("é", 2**62)),
        ({"key": "integer", "value": "text"}, -7, "7", (-7, "7")),
        ({"key": "float", "value": "bytes"}, 0.5, b"\0\xff", (0.5, b"\0\xff")),
        ({"key": "bytes", "value": "float"}, b"\0\xff", 1e300, (b"\0\xff", 1e300)),
        ({"key": "json", "value": "json"}, ("a", 1.0), {"b": [None]}, ('["a",1]', '{"b":[null]}')),
    ],
    ids=["integer", "text", "bytes", "float", "json"],
)
def test_keys_and_values_are_columns_that_anybody_can_read(make, file, kinds, key, value, shown):
    a_map = make(**kinds)
    a_map.put(at(1), {key: value})
    a_map.put(at(1, 2), {key: value})
    assert rows(file, "SELECT key, value FROM counts") == [shown]
    assert a_map.get_many([key]) == {key: value}


def test_the_trace_of_the_opaque_rule_is_in_the_columns(make, file):
    a_map, select = make(value="integer"), "SELECT value, previous, txid FROM counts"
    for attempt, partial in ((at(1), 1), (at(2), 3)):
        a_map.update(attempt, {"n": partial}, plus)
    assert rows(file, select) == [(4, 1, 2)]
    a_map.update(at(2, 2), {"n": 2}, plus)
    assert rows(file, select) == [(3, 1, 2)]


@pytest.mark.parametrize(
    ("kinds", "key", "value", "message"),
    [
        ({}, 7, 1, "a key: 7 is of type int, but the column of type 'text' takes a str; other"),
        ({}, "a\0", 1, r"a key: 'a\x00' contains the character NUL, which no text column takes"),
        ({}, "\ud800", 1, r"a key: '\ud800' is no Unicode text: it has a lone surrogate"),
        ({}, "a", {1}, "the value of key 'a': {1} can't be written as JSON (Object of type set"),
        ({}, "a", float("nan"), "the value of key 'a': nan can't be written as JSON (Out of range"),
        ({}, "a", ["\0"], r"the value of key 'a': ['\x00'] contains the character NUL"),
        ({}, "a", ["\ud800"], r"can't be written as JSON (it has a lone surrogate)"),
        ({"value": "integer"}, "a", True, "True is of type bool, but the column of type 'integer'"),
        ({"value": "integer"}, "a", 2**63, "has more than 64 bits: a column of type 'json' takes"),
        ({"value": "float"}, "a", "1", "'1' is of type str, but the column of type 'float' takes"),
        ({"value": "float"}, "a", float("nan"), "nan is no number, and equals nothing"),
        ({"value": "bytes"}, "a", "b", "'b' is of type str, but the column of type 'bytes' takes"),
    ],
)
def test_what_does_not_fit_a_column_is_refused(make, kinds, key, value, message):
    a_map = make(**kinds)
    with pytest.raises(StoreRefused) as raised:
        a_map.put(at(1), {key: value} if kinds else {"good": 1, key: value})
    assert message in str(raised.value)
    assert a_map.get_many(["good"]) == {}


def test_keys_that_are_equal_in_python_are_one_row(make, file):
    a_map = make(key="json", value="integer")
    a_map.update(at(1), {("a", 1): 1, True: 1}, plus)
    a_map.update(at(2), {("a", 1.0): 1, 2: 1, None: 1}, plus)
    found = dict(rows(file, "SELECT key, value FROM counts"))
    assert found == {'["a",1]': 2, "2": 1, "null": 1, "true": 1}


# ---- other writers -------------------------------------------------------------------------------


def test_a_writer_in_the_middle_is_waited_for(make):
    make().update(at(1), {"a": 1, "b": 1}, plus)
    pause = Paused()
    stale = Writing(make(), at(2, 1), {"a": 10}, pause)
    assert pause.entered.wait(30)
    live = Writing(make(), at(2, 2), {"b": 100}, plus)
    live.join(0.1)
    assert live.is_alive()
    pause.go_on.set()
    assert (stale.result(), live.result()) == (None, None)
    assert make().get_many(["a", "b"]) == {"a": 1, "b": 101}


def test_a_writer_that_comes_to_the_lock_after_a_later_attempt_changes_nothing(make):
    pause = Paused()
    live = Writing(make(), at(2, 2), {"a": 1}, pause)
    assert pause.entered.wait(30)
    stale = Writing(make(), at(2, 1), {"a": 10, "b": 10}, plus)
    pause.go_on.set()
    assert live.result() is None
    assert isinstance(stale.result(), StaleAttempt)
    assert make().get_many(["a", "b"]) == {"a": 1}


def test_equal_keys_of_two_tasks_are_refused(make):
    make(0).update(at(1), {"a": 1}, plus)
    with pytest.raises(StoreRefused, match="was changed by task 0 of 'count' in the same attempt"):
        make(1).update(at(1), {"a": 1}, plus)
    make(1).update(at(1, 2), {"a": 1}, plus)  # another attempt: the grouping has changed
    assert make().get_many(["a"]) == {"a": 1}


ENDLESS = """
import itertools, sys
from fulmen.transactional import SqliteMap, plus
from fulmen.transactional.conformance import at, context_of
counts = SqliteMap(sys.argv[1], "counts", context_of(), rule="opaque")
partials = dict.fromkeys(map(str, range(500)), 1)
for txid in itertools.count(1):
    counts.update(at(txid), partials, plus)
    print(txid, flush=True)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_in_the_middle_leaves_no_part_of_a_commit_phase(make, file):
    command = [sys.executable, "-c", ENDLESS, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(3):
            written = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        written = max([written, *map(int, process.stdout.read().split())])
    found = make().get_many(map(str, range(500)))
    assert len(found) == 500
    assert len(set(found.values())) == 1
    assert found["7"] in (written, written + 1)


def test_a_process_that_was_forked_makes_connections_of_its_own(make):
    make().update(at(1), {"a": 1}, plus)
    pid = os.fork()
    if pid == 0:
        made = 1
        try:
            make(1).update(at(1), {"b": 1}, plus)
            made = 0
        finally:
            os._exit(made)
    assert os.waitpid(pid, 0)[1] == 0
    make().update(at(2), {"a": 1}, plus)
    assert make().get_many(["a", "b"]) == {"a": 2, "b": 1}


# ---- what is refused -----------------------------------------------------------------------------


def refused(error, a_map):
    with pytest.raises(error) as raised:
        a_map.update(at(9), {"a": 1}, plus)
    return str(raised.value)


def test_a_file_that_is_locked_is_said(make, file, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.1)
    make().put(at(1), {})
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        text = refused(StoreUnavailable, make())
    assert text == (
        f"map 'counts' in SQLite file '{file}': the file was locked by another process for 0.1"
        f" seconds. Nothing was changed. Find the process, as with `fuser {file}`; a reader that"
        " keeps a transaction open locks the file too."
    )
    make().update(at(9), {"a": 1}, plus)


def test_a_full_disk_is_said_and_nothing_is_changed(make, file):
    make().put(at(1), {"a": 1})
    with pool_of(("sqlite", str(file))).lent(lambda: None) as connection:
        connection.db.execute("PRAGMA max_page_count = 8")
    with pytest.raises(StoreUnavailable, match=r"the disk is full. Nothing was changed. Make room"):
        make().put(at(2), {f"{n}": "x" * 500 for n in range(200)})
    assert make().get_many(["a", "7"]) == {"a": 1}
    make().put(at(2), {f"{n}": "x" * 500 for n in range(200)})


@pytest.fixture
def somebody():
    """This process as a user who is not root, and a folder of its own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        os.seteuid(was)
        shutil.rmtree(folder)


def test_a_file_that_is_read_only_is_said(make, somebody):
    file = somebody / "counts.db"
    was = os.geteuid()
    os.seteuid(os.getuid())
    make(file=file).put(at(1), {"a": 1})
    file.chmod(0o444)
    os.seteuid(was)
    close_all()
    text = refused(StoreUnavailable, make(file=file))
    assert f"the file is read-only for user {was} (attempt to write a readonly database)" in text


def test_a_file_that_can_not_be_made_is_said(make, somebody):
    file = somebody / "counts.db"
    somebody.chmod(0o555) if os.geteuid() == os.getuid() else None
    text = refused(StoreUnavailable, make(file=file))
    assert f"can't be opened by user {os.geteuid()} (unable to open database file)" in text


def test_a_folder_that_is_not_there_is_said(make, tmp_path):
    text = refused(StoreUnavailable, make(file=tmp_path / "no" / "counts.db"))
    assert f"there is no folder '{tmp_path / 'no'}'. Make it first." in text


def test_a_file_that_is_not_of_sqlite_is_not_touched(make, file):
    file.write_text("no database, but a longer text " * 100)
    before = file.read_bytes()
    assert "the file is damaged or none of SQLite's" in refused(StoreUnavailable, make())
    assert file.read_bytes() == before


def test_a_table_of_somebody_else_is_not_touched(make, file):
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE counts (key, value)")
        db.execute("INSERT INTO counts VALUES ('a', 7)")
        db.commit()
    assert refused(StoreRefused, make()) == (
        f"map 'counts' in SQLite file '{file}': there is a table 'counts' that Fulmen has not made."
        " It was not touched. Use another name for this bolt's map."
    )
    assert rows(file, "SELECT * FROM counts") == [("a", 7)]
    assert rows(file, "SELECT count(*) FROM sqlite_master") == [(1,)]


def test_whose_a_map_is_is_said(make, file):
    make().put(at(1), {})
    other = SqliteMap(file, "counts", context_of(component="sums"), rule="opaque")
    assert "it belongs to bolt 'count' of topology 'conformance', not to bolt 'sums' of" in refused(
        StoreRefused, other
    )
    text = refused(StoreRefused, make(rule="transactional"))
    assert "it was made with rule='opaque', and is opened with rule='transactional'" in text
    assert "key='text', and is opened with key='json'" in refused(StoreRefused, make(key="json"))


def test_a_layout_of_another_version_is_refused(make, file):
    make().put(at(1), {})
    close_all()
    with closing(sqlite3.connect(file)) as db:
        db.execute("UPDATE fulmen_maps SET layout = 1")
        db.commit()
    assert "it has layout 1, but this version of Fulmen knows 3" in refused(StoreRefused, make())


def test_a_table_that_is_gone_is_not_made_again(make, file):
    make().put(at(1), {"a": 1})
    close_all()
    with closing(sqlite3.connect(file)) as db:
        db.execute("DROP TABLE counts")
    assert "its table 'counts' is gone. Restore it." in refused(StoreUnavailable, make())


def test_a_file_that_was_replaced_is_opened_anew(make, file, tmp_path):
    make().put(at(1), {"a": 1})
    shutil.copy(file, tmp_path / "copy")
    make().put(at(2), {"a": 2})
    (tmp_path / "copy").replace(file)
    assert make().get_many(["a"]) == {"a": 1}


@pytest.mark.parametrize("table", ["Counts", "a b", "a.b", "fulmen_maps", "sqlite_x", "", "x" * 60])
def test_names_that_others_would_have_to_quote_are_refused(make, table):
    with pytest.raises(StoreRefused, match="a table can't be named"):
        make(table=table)


def test_mistakes_of_the_author_are_said(make):
    with pytest.raises(StoreRefused, match=r"rule is 'exact'. Write 'transactional' or 'opaque'."):
        make(rule="exact")
    with pytest.raises(StoreRefused, match=r"value is 'int'. Write one of 'text', 'integer',"):
        make(value="int")
    with pytest.raises(
        StoreRefused, match=r"the attempt is 3. Give the TransactionAttempt of `prepare`"
    ):
        make().put(3, {})
