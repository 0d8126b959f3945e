"""Cents by user in ten minutes, as streams."""

from fulmen.connectors.files import FileSink, FileSpout
from fulmen.streams import Streams, agg, tumbling

FIELDS = {"user": "string", "kind": "string", "price": "int64", "at": "timestamp"}
LINES = {"type": "json", "fields": FIELDS}
shop = Streams("totals")
clicks = shop.source(
    "clicks", FileSpout, path="clicks/*.jsonl", follow=False, format=LINES, event_time="at"
)
buys = clicks.filter(lambda click: click.kind == "buy")
buys = buys.with_fields(cents=lambda click: click.price * 100)
windows = buys.key_by("user").window(tumbling("10m"))
totals = windows.aggregate(name="totals", n=agg.count(), cents=agg.sum("cents"))
totals = totals.select("user", "n", "cents", start="window_start")
totals.sink("out", FileSink, path="out", guarantee="exactly-once", format={"type": "json"})
