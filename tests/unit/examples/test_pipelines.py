"""Each pipeline of examples/pipelines, with files in place of servers.

Sources are read in the format that the pipeline declares, so that types are those of the real ones.
What sinks would write is collected.
"""

import json
import shutil
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import duckdb
import pytest
import yaml

from fulmen.testing import run
from support.docs.pages import ROOT

FOLDER = ROOT / "examples" / "pipelines"
SAMPLES = ROOT / "tests" / "data" / "recipes"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(minutes):
    """So long after noon, as messages have it."""
    return (NOON + timedelta(minutes=minutes)).isoformat()


def collected(name, sources, folder):
    """What each sink of a pipeline gets: the sink's name -> its rows, sorted.

    Args:
        name: The pipeline.
        sources: Source -> its lines, or the objects that its messages are.
        folder: Where the files are put.
    """
    topology = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    spec = topology["spec"]
    for spout in spec["spouts"]:
        path = folder / f"{spout['name']}.txt"
        lines = sources[spout["name"]]
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        of_file = {n: spout["config"][n] for n in ("format", "header") if n in spout["config"]}
        spout["class"] = "fulmen.connectors.files.FileSpout"
        spout["config"] = {"path": str(path), "follow": False, **of_file}
    for bolt in spec["bolts"]:
        if ".connectors." in bolt["class"]:
            bolt |= {"class": "fulmen.testing.CollectBolt", "config": {}}
    (folder / "topology.yaml").write_text(
        yaml.safe_dump(topology, sort_keys=False), encoding="utf-8"
    )
    result = run(folder / "topology.yaml")
    assert [error for error in result.errors if not error.is_warning] == []
    sinks = [bolt["name"] for bolt in spec["bolts"] if bolt["class"].endswith("CollectBolt")]
    return {sink: sorted(map(tuple, result.collected(sink)), key=repr) for sink in sinks}


def clicks(user, kind, price, minute):
    return {"user": user, "kind": kind, "price": price, "at": at(minute)}


def request(path, status, second):
    when = f"[01/Mar/2026:12:00:{second:02} +0000]"
    return f'127.0.0.1 - - {when} "GET {path} HTTP/1.1" {status} 5 "-" "-"'


ITEMS = [
    [{"product": "tea", "price": 2.5, "count": 2}, {"product": "cup", "price": 4}],
    [],
    None,
    [{"product": "tea", "price": 2.25}],
]
VISITS = [("ann", "/a", 0), ("ann", "/basket", 20), ("bob", "/a", 0), ("ann", "/b", 55)]
ADDRESSES = [{"country": "FR"}, {}, None]
CELSIUS = [20.0, 21.0] * 5 + [55.0, -300.0, 22.0]
TEXTS = [("The cow and the moon", 0), ("the cow", 0.5), ("moon", 1.5)]

CASES = {
    "clicks-to-postgres": (
        {
            "clicks": [
                clicks("Ann", "buy", 10, 0),
                clicks("ann", "buy", 20.5, 9),
                clicks("ann", "refund", 5, 9.5),
                clicks("ann", "buy", 1, 10),
                clicks("bob", "view", 100, 1),
                clicks("bob", "refund", 100, 1),
                clicks(None, "buy", 7, 1),
                '{"user": "bob", "price": "dear"}',
            ]
        },
        {
            "table": [
                ("ann", at(0), at(10), 2, 1, 30.5 * 0.908),
                ("ann", at(10), at(20), 1, 0, 0.908),
            ],
        },
    ),
    "failing-pages": (
        {
            "requests": [
                request("/pay?id=7", 503, 1),
                request("/pay?id=8", 500, 2),
                request("/", 500, 3),
                request("/pay", 200, 4),
                "no line of such a log",
            ]
        },
        {"table": [(at(0), "/", 1), (at(0), "/pay", 2)]},
    ),
    "enriched-orders": (
        {
            "orders": [
                {"id": n, "customer": customer, "amount": amount, "at": at(minute)}
                for n, customer, amount, minute in [
                    (1, 7, "1.10", 5),
                    (2, 8, "2.00", 5),
                    (3, 7, "3", 0.5),
                    (4, 7, "0.00", 9),
                ]
            ],
            "customers": [
                {"id": 7, "name": f" ann{n} ", "address": address, "since": at(n)}
                for n, address in enumerate(ADDRESSES)
            ],
        },
        {
            "table": [
                (1, Decimal("1.10"), at(5), "ann2", "-"),
                (2, Decimal("2.00"), at(5), None, None),
                (3, Decimal(3), at(0.5), "ann0", "FR"),
            ]
        },
    ),
    "unpaid-orders": (
        {
            "orders": [
                {"id": n, "email": f"{n}@example.com", "amount": n + 0.5, "at": at(n)}
                for n in range(3)
            ],
            "payments": [
                {"order": 0, "method": "card", "at": at(60)},
                {"order": 1, "method": "card", "at": at(62)},
            ],
        },
        {
            "reminders": [
                ("1@example.com", "Order 1 is not paid: 1.5 EUR"),
                ("2@example.com", "Order 2 is not paid: 2.5 EUR"),
            ]
        },
    ),
    "revenue-by-day": (
        {"orders": [{"id": n, "items": items, "at": at(n * 240)} for n, items in enumerate(ITEMS)]},
        {
            "table": [
                ("cup", at(-13 * 60), 1, 4),
                ("tea", at(-13 * 60), 1, 5.0),
                ("tea", at(11 * 60), 1, 2.25),
            ]
        },
    ),
    "visits-to-kafka": (
        {"clicks": [{"user": who, "page": page, "at": at(n)} for who, page, n in VISITS]},
        {"topic": [("ann", at(0), 2, "/a", "/basket", True)]},
    ),
    "sensor-alarms": (
        {"readings": [{"sensor": "s1", "celsius": celsius} for celsius in CELSIUS]},
        {"alarms": [("s1", 55.0, 24.0)]},
    ),
    "each-payment-once": (
        {
            "payments": [
                {"id": one, "card": "4000123412341234", "amount": amount, "at": at(n)}
                for n, (one, amount) in enumerate([("p", "9.99"), ("q", "0"), ("p", "9.99")])
            ]
        },
        {"topic": [("p", "****1234", Decimal("9.99"), at(0))]},
    ),
    "trending-words": (
        {"messages": [{"text": text, "at": at(minute)} for text, minute in TEXTS]},
        {
            "files": [
                *[(at(0), w, n) for w, n in (("and", 1), ("cow", 2), ("moon", 1), ("the", 3))],
                (at(1), "moon", 1),
            ]
        },
    ),
}


def shown(value):
    return value.isoformat() if isinstance(value, datetime) else value


@pytest.mark.parametrize("name", CASES)
def test_a_pipeline_writes_what_it_says(name, tmp_path):
    sources, wanted = CASES[name]
    found = collected(name, sources, tmp_path)
    for sink, rows in wanted.items():
        plain = [tuple(map(shown, row)) for row in found[sink]]
        assert plain == [pytest.approx(row) for row in sorted(rows, key=repr)]


def test_flights_meet_the_weather_of_their_hour_as_in_duckdb(tmp_path):
    """Real flights and weather. One line of each is broken, and one hour has a hurricane in it."""
    sources = {}
    for name, line in (
        ("flights", "2013,1,1,1,1,soon,1,1,1,UA,1,N1,EWR,IAH,1,1,1,1,2013-01-01T10:00:00Z"),
        ("weather", "EWR,2013,1,1,1,39,26,59,270,1048.3,NA,0,1012,10,2013-01-01T10:00:00Z"),
    ):
        shutil.copy(SAMPLES / f"{name}.csv", tmp_path)
        sources[name] = [*(tmp_path / f"{name}.csv").read_text().splitlines(), line]
    found = collected("flights-and-weather", sources, tmp_path)["table"]
    with duckdb.connect() as database:
        database.create_function("day_of", day_of, ["VARCHAR"], "VARCHAR")
        wanted = database.execute(BY_DAY.format(tmp_path)).fetchall()
    assert len(wanted) > 100
    plain = sorted(tuple(map(shown, row)) for row in found)
    assert plain == [pytest.approx(row) for row in sorted(wanted)]


def day_of(time):
    """When the day of a time began in New York."""
    local = datetime.fromisoformat(time).astimezone(ZoneInfo("America/New_York"))
    return local.replace(hour=0).astimezone(UTC).isoformat()


BY_DAY = """
    SELECT origin, day_of(time_hour) since, count(*),
        avg(dep_delay::INT) FILTER (WHERE wind_speed < 10),
        avg(dep_delay::INT) FILTER (WHERE wind_speed >= 10),
        count(*) FILTER (WHERE wind_speed IS NULL)
    FROM read_csv('{0}/flights.csv', nullstr='NA', all_varchar=true)
    LEFT JOIN (
        SELECT origin, time_hour, wind_speed::DOUBLE wind_speed
        FROM read_csv('{0}/weather.csv', nullstr='NA', all_varchar=true)
        WHERE wind_speed::DOUBLE BETWEEN 0 AND 150
    ) USING (origin, time_hour)
    WHERE dep_delay IS NOT NULL GROUP BY ALL"""
