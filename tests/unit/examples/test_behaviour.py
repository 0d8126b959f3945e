"""What the examples show beyond the output of one run: losses, time, a service."""

import importlib.util
import json
import sqlite3
import threading
from contextlib import closing
from datetime import datetime

import duckdb
import pytest

from fulmen.engine.worker.in_process import Crash
from fulmen.testing import BoltHarness, run
from support.connectors.served_topologies import Client, served
from support.docs.examples import EXAMPLES, commands
from support.servers.ports import free_port


def shown(name, component):
    """The state of a component as the example's README shows it, in lines."""
    return next(out for line, out in commands(name) if component in line).splitlines()


def killed_after(rows):
    """A fault: workers die now and then."""
    seen = {"rows": 0}

    def fault(stage, worker, moment):
        seen["rows"] += moment == "row"
        if seen["rows"] == rows:
            seen["rows"] += 1
            raise Crash("killed")

    return fault


@pytest.mark.parametrize(
    ("name", "rows"),
    [("exclamation", 1), ("dead-letters", 2), ("join", 1), ("join", 7), ("flaky", 3), ("flaky", 9)],
)
def test_a_lost_process_changes_nothing(name, rows, example):
    topology = example(name)
    component = topology.spec.bolts[-1].name
    whole, broken = run(topology), run(topology, fault=killed_after(rows))
    assert broken.state(component) == whole.state(component) != {}
    assert broken.report["failed_attempts"] == 1


def test_flaky_counts_exactly_what_it_is_given(example):
    result = run(example("flaky", "spec.config.end=2345"))
    assert result.state("count") == {d: 235 if d < 5 else 234 for d in range(10)}
    assert 0.03 < result.trees["failed"] / 2345 < 0.08


def test_join_waits_for_a_partner_in_the_next_batch(example):
    example("join")
    from join import Join

    with BoltHarness(Join, fields=["order", "what"]) as bolt:
        order = bolt.execute([1, "tea"])
        bolt.tick()
        bolt.restart()
        assert bolt.acked == bolt.failed == []
        bolt.tick()
        assert [reason for _, reason in bolt.failed] == ["nothing came to join with source"]
        assert order.values == [1, "tea"]


def test_the_window_slides(example):
    topology = example("rolling-top-words", "spec.bolts[count].config.slots=3")
    rankings = []

    def enough(result):
        ranking = result.state("rank-all").get("top")
        if ranking is not None and ranking not in rankings[-1:]:
            rankings.append(ranking)
        return rankings[-1:] == [[]]

    run(topology, until=enough, batch_seconds=0.25)
    assert rankings[-2:] == [[("mike", 500), ("nathan", 400), ("golda", 300)], []]


def test_the_ranking_is_that_of_the_readme(example):
    result = run(example("rolling-top-words"), until=lambda r: r.batches == 50, batch_seconds=0.1)
    assert [f"top  {result.state('rank-all')['top']}"] == shown("rolling-top-words", "rank-all")


def test_a_tick_before_the_last_turn_leaves_its_ranking(example):
    example("rolling-top-words")
    from rolling import Rank

    with BoltHarness(Rank, fields=["word", "count"], conf={"length": 3}) as bolt:
        bolt.execute(["mike", 500])
        bolt.tick()
        bolt.drain()
        bolt.execute(["mike", 501])
        bolt.drain()
    assert [emitted.values for emitted in bolt.emitted] == [[[("mike", 500)]], [[("mike", 501)]]]


@pytest.fixture
def service():
    """The URL of the service of the example, running."""
    spec = importlib.util.spec_from_file_location("server", EXAMPLES / "http-lookup" / "server.py")
    server = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(server)
    with server.make_server(0) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_countries_are_looked_up(example, service):
    result = run(example("http-lookup", f"spec.bolts[lookup].config.url='{service}/{{city}}'"))
    found = [f"{country:8} {cities}" for country, cities in result.state("countries").items()]
    assert sorted(line.replace(" ", "") for line in found) == [
        line.replace(" ", "") for line in shown("http-lookup", "countries")
    ]


def test_the_reach_of_a_url_is_counted_while_workers_are_lost(example):
    port = free_port()
    topology = example("reach", f"spec.spouts[reach].config.port={port}", "spec.workers=2")
    asked = [line.split("'")[1] for line, _ in commands("reach") if " call " in line]
    answers = [out for line, out in commands("reach") if " call " in line]
    with served(topology, fault=killed_after(3)) as life, closing(Client(port)) as client:
        life.wait_until_it_listens(port)
        found = [client.send(json.loads(one), "/reach")[:2] for one in asked]
    assert found == [(200, int(answer)) for answer in answers]


def test_a_service_that_is_down_fails_the_tuple_if_it_is_not_to_be_waited_for(example):
    config = "spec.bolts[lookup].config"
    down = f"{config}.url='http://127.0.0.1:1'"
    topology = example("http-lookup", down, f"{config}.retries=0", f"{config}.whenAway=fail")
    result = run(topology, batches=2)
    assert result.trees["failed"] == 20


def test_what_is_no_number_fails_before_anything_changed(example):
    example("dead-letters")
    from amounts import Sum

    with BoltHarness(Sum, fields=["amount"]) as bolt:
        assert bolt.execute(["a lot"]) == bolt.failed[0][0]
        assert bolt.state == {}


CLICKS = """
    SELECT "user", s, s + INTERVAL 10 MINUTES, count(*), sum(amount), count(DISTINCT page),
        quantile_disc(millis, 0.95)
    FROM (SELECT *, time_bucket(INTERVAL 10 MINUTES, "at") AS s FROM 'clicks/*.json')
    GROUP BY "user", s ORDER BY "user", s"""


def test_clicks_are_those_of_sql_over_the_files(example, tmp_path):
    table = tmp_path / "clicks.db"
    topology = example("clicks", f"spec.bolts[table].config.path={table}")
    run(topology, fault=killed_after(30))
    with sqlite3.connect(table) as database:
        rows = database.execute("SELECT * FROM clicks ORDER BY user, window_start").fetchall()
    found = [(r[0], r[1][:16].replace("T", " "), r[2][:16].replace("T", " "), *r[3:]) for r in rows]
    wanted = [(r[0], str(r[1])[:16], str(r[2])[:16], *r[3:]) for r in duckdb.sql(CLICKS).fetchall()]
    assert found == wanted


VISITS = """
    WITH clicks AS (
        SELECT "user", page, "at", "at" - lag("at") OVER w > INTERVAL 30 MINUTES AS is_new
        FROM 'clicks/*.json' WINDOW w AS (PARTITION BY "user" ORDER BY "at")
    ), numbered AS (
        SELECT *, count(*) FILTER (is_new) OVER (PARTITION BY "user" ORDER BY "at") AS visit
        FROM clicks
    )
    SELECT "user", min("at"), max("at") + INTERVAL 30 MINUTES, count(*), arg_min(page, "at"),
        arg_max(page, "at"), count(DISTINCT page)
    FROM numbered GROUP BY "user", visit ORDER BY 1, 2"""
PAYMENTS = """
    SELECT id, customer, amount, method, p."at"
    FROM 'orders/*.json' o LEFT JOIN 'payments/*.json' p
        ON id = "order" AND p."at" BETWEEN o."at" AND o."at" + INTERVAL 1 HOUR
    ORDER BY id"""


@pytest.mark.parametrize(
    ("name", "table", "sql"),
    [("visits", "visits", VISITS), ("payments", "orders", PAYMENTS)],
    ids=["visits", "payments"],
)
def test_rows_are_those_of_sql_over_the_files(example, tmp_path, name, table, sql):
    file = tmp_path / "rows.db"
    run(example(name, f"spec.bolts[table].config.path={file}"), fault=killed_after(30))
    with sqlite3.connect(file) as database:
        rows = database.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
    assert [[plain(value) for value in row] for row in rows] == [
        [plain(value) for value in row] for row in duckdb.sql(sql).fetchall()
    ]


def plain(value):
    """A time as text without its zone; anything else as it is."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S")
    is_time = isinstance(value, str) and value[10:11] == "T"
    return value[:19] if is_time else value
