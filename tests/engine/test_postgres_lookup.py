"""Lookups in a real PostgreSQL."""

from datetime import date
from decimal import Decimal

import psycopg
import pytest

from fulmen import TopologyBuilder
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.postgres import PostgresLookup
from fulmen.errors import ValidationFailed
from fulmen.services.errors import StoreRefused
from fulmen.testing import BoltHarness, CollectBolt, ListSpout, run

COLUMNS = {
    "string": ("text", "a", "b", 7),
    "int32": ("integer", 7, 2**40, "7"),
    "int64": ("bigint", 7, 2**70, "7"),
    "float64": ("double precision", 7.5, 2**80, "7.5"),
    "decimal": ("numeric(9, 2)", Decimal("7.50"), 0.1, "7.5"),
    "bool": ("boolean", True, False, "t"),
    "date32": ("date", date(2026, 1, 2), date(1, 1, 1), "2026-01-02"),
}


@pytest.fixture
def database(postgres):
    with psycopg.connect(postgres.dsn, autocommit=True) as db:
        db.execute("DROP TABLE IF EXISTS looked_up")
        yield db


def config(postgres, **more):
    known = {"dsn": postgres.dsn, "table": "looked_up", "columns": {"code": "string", "n": "int64"}}
    return known | {"key": {"asked": "code"}, "fields": ["asked"], "add": ["n"]} | more


def asked_for(bolt, *codes):
    bolt.emitted.clear()
    bolt.failed.clear()
    for code in codes:
        bolt.execute([code])
    return [one.values[1] for one in bolt.emitted]


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_key_of_each_type_finds_its_rows(postgres, database, kind):
    of, there, missing, never = COLUMNS[kind]
    database.execute(f"CREATE TABLE looked_up (code {of}, n bigint)")
    rows = "INSERT INTO looked_up VALUES (%s, 1), (%s, 2), (NULL, 3)"
    database.execute(rows, [there, there])
    columns = {"code": kind, "n": "int64"}
    bolt = BoltHarness(PostgresLookup, fields=["asked"], conf=config(postgres, columns=columns))
    assert sorted(asked_for(bolt, there)) == [1, 2]
    assert asked_for(bolt, missing, None) == [None, None]
    assert bolt.failed == []
    assert asked_for(bolt, never) == []
    assert len(bolt.failed) == 1, "its tuple fails, and says why"


def test_keys_of_several_columns_are_asked_for_together_and_remembered_for_a_while(
    postgres, database
):
    database.execute("CREATE TABLE looked_up (code text, zone int, n bigint)")
    database.execute(
        "INSERT INTO looked_up SELECT 'c' || i % 50, i / 50, i FROM generate_series(0, 999) AS i"
    )
    columns = {"code": "string", "zone": "int32", "n": "int64"}
    known = {"columns": columns, "key": ["code", "zone"], "fields": ["code", "zone"]}
    builder = TopologyBuilder()
    items = [[f"c{i % 60}", i // 60] for i in range(1200)]
    builder.set_spout("rows", ListSpout(items, fields=["code", "zone"]))
    bolt = builder.set_bolt("lookup", PostgresLookup).shuffle_grouping("rows")
    bolt.set_config(config(postgres, **known))
    builder.set_bolt("out", CollectBolt).shuffle_grouping("lookup")
    result = run(builder)
    assert sorted(map(tuple, result.collected("out")), key=repr) == sorted(
        ((f"c{c}", z, z * 50 + c if c < 50 else None) for c in range(60) for z in range(20)),
        key=repr,
    )

    class Timed(PostgresLookup):
        now = 0.0
        clock = staticmethod(lambda: Timed.now)

    harness = BoltHarness(Timed, fields=["asked"], conf=config(postgres))
    assert asked_for(harness, "c7")[0] == 7
    database.execute("UPDATE looked_up SET n = -1")
    assert asked_for(harness, "c7")[0] == 7
    Timed.now = 11.0
    assert asked_for(harness, "c7")[0] == -1


def test_a_row_that_can_not_be_read_fails_its_tuple_alone(postgres, database):
    database.execute("CREATE TABLE looked_up (code text, day date)")
    database.execute("INSERT INTO looked_up VALUES ('a', '2026-01-02'), ('b', 'infinity')")
    columns = {"code": "string", "day": "date32"}
    known = config(postgres, columns=columns, add=["day"])
    bolt = BoltHarness(PostgresLookup, fields=["asked"], conf=known)
    assert asked_for(bolt, "a", "b", "c") == [date(2026, 1, 2), None]
    [failure] = bolt.failed
    assert "a row of the table: field 'day': 'infinity' is no date32" in str(failure)


def test_a_server_that_is_away_is_waited_for(postgres, database):
    database.execute("CREATE TABLE looked_up (code text, n bigint)")
    bolt = BoltHarness(PostgresLookup, fields=["asked"], conf=config(postgres))
    database.execute("ALTER TABLE looked_up RENAME TO renamed")
    with pytest.raises(ServiceUnavailable):
        asked_for(bolt, "a")
    database.execute("ALTER TABLE renamed RENAME TO looked_up")
    assert asked_for(bolt, "a") == [None]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "nope"}, "nope"),
        ({"columns": {"code": "string", "nope": "int64"}, "add": ["nope"]}, "nope"),
        ({"columns": {"code": "int64", "n": "int64"}}, "column 'code' is text, which is no int64"),
        ({"columns": ["code", "n"]}, "column 'code' has no type. Write columns as a mapping"),
        ({"matches": "last"}, "matches is 'last', but rows that are asked for by their key"),
    ],
)
def test_a_mistake_is_told_when_a_topology_starts(postgres, database, options, said):
    database.execute("CREATE TABLE looked_up (code text, n bigint)")
    with pytest.raises((StoreRefused, ValidationFailed)) as error:
        BoltHarness(PostgresLookup, fields=["asked"], conf=config(postgres, **options))
    assert said in str(error.value)
