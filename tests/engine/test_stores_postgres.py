"""Maps in a real PostgreSQL: exact, whatever happens to the server or to other writers."""

import time
import traceback
import zlib

import psycopg
import pytest

from fulmen.services.sql import postgres as postgres_service
from fulmen.transactional import PostgresMap, StaleAttempt, StoreRefused, StoreUnavailable, plus
from fulmen.transactional.conformance import CASES, at, context_of
from support.runs.spark_runs import wait_until
from support.servers.postgres import PASSWORD, USER
from support.stores.committers import Committing, Paused, Writing
from support.suite.seeds import generator, several


@pytest.fixture
def make(postgres, request):
    """Makes views of this test's own map."""
    table = f"t{zlib.crc32(request.node.name.encode()):x}"

    def made(task=0, rule="opaque", dsn=postgres.dsn, table=table, **kinds):
        return PostgresMap(dsn, table, context_of(task), rule=rule, **kinds)

    return made


@pytest.mark.parametrize("seed", several(1))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_maps_in_postgresql_are_exact(case, seed, postgres):
    with generator(seed) as rng:
        case(lambda name, context, rule: PostgresMap(postgres.dsn, name, context, rule=rule), rng)


# ---- what is in the tables -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "key", "value", "shown"),
    [
        ({"key": "text", "value": "integer"}, "é", 2**62, ("é", 2**62)),
        ({"key": "integer", "value": "text"}, -7, "seven", (-7, "seven")),
        ({"key": "float", "value": "bytes"}, 0.5, b"\0\xff", (0.5, b"\0\xff")),
        ({"key": "bytes", "value": "float"}, b"\0\xff", 1e300, (b"\0\xff", 1e300)),
        ({"key": "json", "value": "json"}, ("a", 1), {"b": [None]}, ('["a",1]', {"b": [None]})),
    ],
    ids=["integer", "text", "bytes", "float", "json"],
)
def test_keys_and_values_are_columns_that_anybody_can_read(
    make, postgres, kinds, key, value, shown
):
    table = f"plain_{kinds['value']}"
    a_map = make(table=table, **kinds)
    a_map.put(at(1), {key: value})
    a_map.put(at(1, 2), {key: value})
    assert postgres.run(f"SELECT key, value FROM {table}") == [shown]
    assert a_map.get_many([key]) == {key: value}


def test_the_trace_of_the_opaque_rule_is_in_the_columns(make, postgres):
    a_map = make(table="trace", value="integer")
    for attempt, partial in ((at(1), 1), (at(2), 3)):
        a_map.update(attempt, {"n": partial}, plus)
    assert postgres.run("SELECT value, previous, txid FROM trace") == [(4, 1, 2)]
    a_map.update(at(2, 2), {"n": 2}, plus)
    assert postgres.run("SELECT value, previous, txid FROM trace") == [(3, 1, 2)]
    a_map.update(at(3, 3), {"n": 2}, plus)
    assert postgres.run("SELECT value, previous, txid FROM trace") == [(5, 3, 3)]


def test_a_map_can_be_in_a_schema(make, postgres):
    postgres.run("CREATE SCHEMA shop")
    make(table="shop.counts").update(at(1), {"a": 1}, plus)
    assert postgres.run("SELECT key, value FROM shop.counts") == [("a", 1)]
    assert postgres.run("SELECT map, rule FROM shop.fulmen_maps") == [("counts", "opaque")]


# ---- other writers -------------------------------------------------------------------------------


def test_a_writer_that_is_stopped_in_the_middle_is_waited_for(make):
    """What it has written then is replaced: the other attempt is the later one."""
    pause = Paused()
    make().update(at(1), {"a": 1, "b": 1}, plus)
    stale = Writing(make(), at(2, 1), {"a": 10}, pause)
    assert pause.entered.wait(30)
    live = Writing(make(), at(2, 2), {"b": 100}, plus)
    live.join(0.2)
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


def test_a_writer_that_is_stopped_for_long_loses_its_lock(make, monkeypatch):
    """The server ends its transaction; when it wakes up it is told so."""
    make().update(at(1), {"a": 1}, plus)
    monkeypatch.setattr(postgres_service, "IDLE_SECONDS", 1)
    pause = Paused()
    stale = Writing(make(), at(2, 1), {"a": 10}, pause)
    assert pause.entered.wait(30)
    assert Writing(make(), at(2, 2), {"a": 100}, plus).result() is None
    pause.go_on.set()
    assert isinstance(stale.result(), StoreUnavailable)
    assert make().get_many(["a"]) == {"a": 101}


def test_equal_keys_of_two_tasks_are_refused(make):
    make(0).update(at(1), {"a": 1}, plus)
    with pytest.raises(StoreRefused, match="was changed by task 0 of 'count' in the same attempt"):
        make(1).update(at(1), {"a": 1}, plus)
    make(1).update(at(1, 2), {"a": 1}, plus)  # another attempt: the grouping has changed
    assert make().get_many(["a"]) == {"a": 1}


def test_two_tasks_that_change_a_key_at_the_same_time_lose_nothing_in_silence(make):
    pause = Paused()
    make(0).update(at(2), {"a": 1}, plus)
    slow = Writing(make(0), at(2, 2), {"a": 1}, pause)
    assert pause.entered.wait(30)
    make(1).update(at(2, 2), {"a": 1}, plus)
    pause.go_on.set()
    error = slow.result()
    assert isinstance(error, StoreUnavailable)
    assert "use fields grouping" in str(error)


def test_all_tasks_may_make_the_map_at_once(make):
    with_all = [Writing(make(task), at(1), {f"{task}": 1}, plus) for task in range(8)]
    assert [writing.result() for writing in with_all] == [None] * 8
    assert len(make().get_many(map(str, range(8)))) == 8


def test_attempts_share_a_connection(make, postgres):
    for txid in range(1, 10):
        make().update(at(txid), {"a": 1}, plus)
    before = {pid for (pid,) in postgres.run("SELECT pid FROM pg_stat_activity")}
    for txid in range(10, 20):
        make().update(at(txid), {"a": 1}, plus)
    after = postgres.run("SELECT pid FROM pg_stat_activity WHERE application_name = 'fulmen'")
    assert {pid for (pid,) in after} <= before


# ---- outages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", several(1))
def test_a_server_that_is_killed_in_the_middle_leaves_no_part_of_a_commit_phase(
    make, postgres, seed
):
    keys = [f"key-{n}" for n in range(300)]
    make().update(at(1), dict.fromkeys(keys, 1), plus)
    committing = Committing(make(), keys, first=2)
    committing.start()
    with generator(seed) as rng:
        for _ in range(3):
            was = committing.done
            wait_until(lambda w=was: committing.done > w, "a commit")
            time.sleep(rng.random() / 20)
            postgres.kill()
            postgres.start()
            assert len(set(make().get_many(keys).values())) == 1
    was = committing.done
    wait_until(lambda: committing.done > was, "a commit after the last kill")
    committing.end()
    assert committing.failures > 0
    assert make().get_many(keys) == dict.fromkeys(keys, committing.done)


def test_a_connection_that_was_cut_is_made_anew(make, postgres):
    make().update(at(1), {"a": 1}, plus)
    postgres.run(
        "SELECT pg_terminate_backend(pid, 9999) FROM pg_stat_activity"
        " WHERE application_name = 'fulmen'"
    )
    make().update(at(2), {"a": 1}, plus)
    assert make().get_many(["a"]) == {"a": 2}


def test_a_connection_that_is_cut_in_the_middle_writes_nothing(make, postgres):
    make().update(at(1), {"a": 1}, plus)

    def cut(old, partial):
        postgres.run(
            "SELECT pg_terminate_backend(pid, 9999) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        return plus(old, partial)

    with pytest.raises(StoreUnavailable, match="PostgreSQL is away"):
        make().update(at(2), {"a": 1}, cut)
    assert make().get_many(["a"]) == {"a": 1}
    make().update(at(2, 2), {"a": 1}, plus)
    assert make().get_many(["a"]) == {"a": 2}


# ---- what is refused -----------------------------------------------------------------------------


def refused(error, a_map):
    """The text of what an update raises. It never has the password, nor has the traceback."""
    with pytest.raises(error) as raised:
        a_map.update(at(9), {"a": 1}, plus)
    whole = "".join(traceback.format_exception(raised.value))
    assert "s3cret" not in whole
    assert str(raised.value).startswith(f"map {a_map.where.split(chr(39))[1]!r} in PostgreSQL data")
    return str(raised.value)


def test_a_server_that_is_away_is_said(make):
    dsn = f"postgresql://shop:{PASSWORD.replace('/', '%2F')}@127.0.0.1:1/shop"
    text = refused(StoreUnavailable, make(dsn=dsn))
    assert "database 'shop' at 127.0.0.1:1: PostgreSQL is away (connection" in text


def test_a_wrong_password_is_said_and_not_shown(make, postgres):
    dsn = postgres.dsn_of(USER, "s3cret-wrong")
    assert "does not let us in" in refused(StoreUnavailable, make(dsn=dsn))
    assert "database" in refused(StoreUnavailable, make(dsn=f"{postgres.dsn} dbname=nothing"))


@pytest.mark.parametrize("dsn", ["s3cret", "postgresql://u:s3cret@[h/d", "host=h password='s3cret"])
def test_a_dsn_that_is_wrong_is_not_shown(make, dsn):
    with pytest.raises(StoreRefused, match="its DSN can't be understood") as raised:
        make(dsn=dsn)
    assert "s3cret" not in "".join(traceback.format_exception(raised.value))


def test_a_role_that_may_only_read_is_waited_for(make, postgres):
    name = make().name
    postgres.run(
        f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'",
        "ALTER ROLE reader SET default_transaction_read_only = on",
        "GRANT ALL ON SCHEMA public TO reader",
    )
    make().put(at(1), {"a": 1})
    postgres.run(f"GRANT ALL ON {name}, fulmen_maps, fulmen_marks TO reader")
    text = refused(StoreUnavailable, make(dsn=postgres.dsn_of("reader")))
    assert "the database or the role is read-only" in text
    assert make(dsn=postgres.dsn_of("reader")).get_many(["a"]) == {"a": 1}


def test_a_role_needs_no_right_to_make_tables_when_they_are_there(make, postgres):
    name = make().name
    postgres.run(
        f"CREATE ROLE writer LOGIN PASSWORD '{PASSWORD}'",
        "GRANT USAGE ON SCHEMA public TO writer",  # as everybody has it in a new database
    )
    a_map = make(dsn=postgres.dsn_of("writer"))
    make(table="other").put(at(1), {})  # so that the tables of all maps are there
    postgres.run("GRANT SELECT ON fulmen_maps TO writer")
    assert "a right is missing (permission denied for schema public" in refused(
        StoreUnavailable, a_map
    )
    make().put(at(1), {"a": 1})
    assert "permission denied for table fulmen_marks" in refused(StoreUnavailable, a_map)
    postgres.run(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {name}, fulmen_marks TO writer")
    a_map.update(at(10), {"a": 1}, plus)
    assert a_map.get_many(["a"]) == {"a": 2}


def test_a_table_of_somebody_else_is_not_touched(make, postgres):
    postgres.run("CREATE TABLE taken (key text, value int)", "INSERT INTO taken VALUES ('a', 7)")
    text = refused(StoreRefused, make(table="taken"))
    assert "there is a table 'taken' that Fulmen has not made. It was not touched." in text
    assert postgres.run("SELECT * FROM taken") == [("a", 7)]


def test_a_table_that_is_gone_is_not_made_again(make, postgres):
    make(table="gone").put(at(1), {"a": 1})
    postgres.run("DROP TABLE gone")
    assert "a table that was there is gone" in refused(StoreUnavailable, make(table="gone"))
    assert "its table 'gone' is gone. Restore it." in refused(StoreUnavailable, make(table="gone"))
    postgres.run("DELETE FROM fulmen_maps WHERE map = 'gone'")
    make(table="gone").put(at(1), {"a": 1})


def test_a_lock_that_is_held_too_long_is_said(make, postgres, monkeypatch):
    make().put(at(1), {"a": 1})
    monkeypatch.setattr(postgres_service, "LOCK_SECONDS", 1)
    with psycopg.connect(postgres.dsn) as other:
        other.execute("SELECT * FROM fulmen_marks FOR UPDATE")
        text = refused(StoreUnavailable, make())
    assert "another process has held this task's mark" in text


@pytest.mark.parametrize("table", ["Counts", "a b", "a.b.c", "fulmen_maps", "a;drop", "", "x" * 60])
def test_names_that_others_would_have_to_quote_are_refused(make, table):
    with pytest.raises(StoreRefused, match="a table can't be named"):
        make(table=table)


def test_threads_do_not_disturb_each_other(make, postgres):
    tasks = range(6)
    writers = [Committing(make(task), [f"{task}-{n}" for n in range(50)]) for task in tasks]
    for writer in writers:
        writer.start()
    wait_until(lambda: all(writer.done > 5 for writer in writers), "all writers")
    for writer in writers:
        writer.end()
    for task, writer in zip(tasks, writers, strict=True):
        assert make().get_many([f"{task}-7"]) == {f"{task}-7": writer.done}
