"""A pipeline of more than ten steps and three tables, for a test that kills it."""

from typing import NamedTuple

from fulmen.connectors.files import FileSpout
from fulmen.connectors.sqlite import SqliteSink
from fulmen.streams import Streams, agg, tumbling


class Sale(NamedTuple):
    user: str
    item: str
    cents: int
    at: str


def in_cents(row) -> Sale:
    return Sale(row.user, row.item, row.price * 100, row.at)


def both_ways(row):
    return [row, row._replace(item="all")]


shop = Streams("ten-steps", workers=2)
fields = {"user": "string", "item": "string", "price": "int64", "at": "string"}
rows = shop.source(
    "rows",
    FileSpout,
    path="rows/*.jsonl",
    format={"type": "json", "fields": fields},
    event_time="at",
    lag="1m",
    parallelism=2,
)
sold = (
    rows.filter(lambda row: row.price % 7)
    .with_fields(user="lower(user)")
    .map(in_cents)
    .flat_map(both_ways, fields=["user", "item", "cents", "at"])
    .peek(lambda row: row.cents)
    .where("cents < 9500")
)
windows = sold.key_by("item").window(tumbling("10m"))
totals = windows.aggregate(name="windows", parallelism=2, n=agg.count(), cents=agg.sum("cents"))
totals = totals.with_fields(mean=lambda row: row.cents / row.n).select(
    "item", "n", "cents", "mean", start="cast(window_start as string)"
)
latest = sold.where("item = 'all'").key_by("user")
sums = latest.update_state(
    lambda kept, row: kept + row.cents, 0, fields="cents", name="sums", parallelism=2
)
few = sold.where("item = 'all' and cents < 1000").key_by("user", "cents")
each = few.aggregate(name="each", parallelism=2, n=agg.count(), retract=True)
alike = each.key_by("n").aggregate(name="alike", parallelism=2, alike=agg.count(), retract=True)
both = each.join(alike, on="n", retract=True, name="both", parallelism=2)
exact = {"path": "tables.db", "mode": "upsert", "guarantee": "exactly-once"}
totals.sink("windows-table", SqliteSink, **exact, table="windows", key=["item", "start"], create={
    "item": "TEXT", "start": "TEXT", "n": "INTEGER", "cents": "INTEGER", "mean": "REAL",
})  # fmt: skip
sums.sink("sums-table", SqliteSink, **exact, table="sums", key=["user"], create={
    "user": "TEXT", "cents": "INTEGER",
})  # fmt: skip
both.sink("alike-table", SqliteSink, **exact, table="alike", deleted_field="is_retraction", key=[
    "user", "cents", "n",
], create={"user": "TEXT", "cents": "INTEGER", "n": "INTEGER", "alike": "INTEGER"})  # fmt: skip
