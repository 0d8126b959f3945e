"""Cents by user in ten minutes, as bolts by hand."""

from datetime import UTC, datetime

from fulmen import BasicBolt, TopologyBuilder
from fulmen.connectors.files import FileSink, FileSpout
from fulmen.windows import WindowedBolt


class Buys(BasicBolt):
    outputs = ["user", "cents", "at"]

    def execute(self, tup, collector):
        if tup["kind"] == "buy":
            collector.emit([tup["user"], tup["price"] * 100, tup["at"]])


class Totals(WindowedBolt):
    outputs = ["user", "start", "n", "cents"]

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        cents = [tup["cents"] for tup in window.tuples]
        start = datetime.fromtimestamp(window.start / 1000, UTC)
        self.collector.emit([*window.key, start, len(cents), sum(cents)])


FIELDS = {"user": "string", "kind": "string", "price": "int64", "at": "timestamp"}
builder = TopologyBuilder("totals")
builder.set_spout("clicks", FileSpout).set_config(
    {"path": "clicks/*.jsonl", "follow": False, "format": {"type": "json", "fields": FIELDS}}
).set_event_time("at")
builder.set_bolt("buys", Buys).local_or_shuffle_grouping("clicks")
builder.set_bolt("totals", Totals).fields_grouping("buys", ["user"]).set_config(
    {"window": {"length": "10m", "slide": "10m"}, "timestampField": "at", "key": ["user"]}
)
builder.set_bolt("out", FileSink).local_or_shuffle_grouping("totals").set_config(
    {"path": "out", "guarantee": "exactly-once", "format": {"type": "json"}}
)
topology = builder.build()
