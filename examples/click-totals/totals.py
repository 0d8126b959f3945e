"""What each user has spent every ten minutes: `fulmen run totals.py`."""

from typing import NamedTuple

from fulmen.connectors.files import FileSink, FileSpout
from fulmen.connectors.sqlite import SqliteSink
from fulmen.streams import Streams, agg, tumbling


class Click(NamedTuple):
    """A line of a log."""

    user: str
    page: str
    amount: float
    millis: int
    at: str


shop = Streams("click-totals", workers=2)
clicks = shop.source(
    "clicks",
    FileSpout,
    row=Click,
    path="clicks/*.json",
    follow=False,
    format={"type": "json", "fields": ["user", "page", "amount", "millis", "at"]},
    event_time="at",
    lag="1m",
    parallelism=2,
)
bought = clicks.filter(lambda click: click.amount > 0).with_fields(cents="amount * 100")
per_user = bought.key_by("user").window(tumbling("10m"))
totals = per_user.aggregate(name="per-user", bought=agg.count(), cents=agg.sum("cents"))
totals.sink(
    "table",
    SqliteSink,
    path="totals.db",
    table="totals",
    key=["user", "window_start"],
    mode="upsert",
    guarantee="exactly-once",
    create={
        "user": "TEXT",
        "window_start": "TEXT",
        "window_end": "TEXT",
        "bought": "INTEGER",
        "cents": "REAL",
    },
)
clicks.errors.sink("errors", FileSink, path="errors", format={"type": "json"})
