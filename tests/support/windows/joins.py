"""Topologies of one join, whose two streams are of one source."""

from fulmen import BasicBolt, TopologyBuilder
from fulmen.testing import CollectBolt, ListSpout

LEFT = {"from": "split", "stream": "orders", "time": "at", "fields": {"k": "who", "a": "n"}}
RIGHT = {"from": "split", "stream": "payments", "time": "at", "fields": {"b": "n"}}
CONFIG = {"left": LEFT, "right": RIGHT, "key": ["who"], "unit": "ms"}
WINDOW = {**CONFIG, "window": {"type": "tumbling", "size": "10ms"}}
SESSIONS = {**CONFIG, "window": {"type": "session", "gap": "10ms"}}
INTERVAL = {**CONFIG, "lower": "-5ms", "upper": "10ms"}


class Split(BasicBolt):
    """One source, so that the order of both sides is known."""

    outputs = {"orders": ["who", "n", "at"], "payments": ["who", "n", "at"]}  # noqa: RUF012

    def execute(self, tup, collector):
        side, *values = tup.values
        collector.emit(values, {"a": "orders", "b": "payments"}[side])


def topology(cls, items, config, lag="0", tasks=2, **settings):
    builder = TopologyBuilder(**settings)
    spout = builder.set_spout("source", ListSpout(items, fields=["side", "who", "n", "at"]))
    spout.set_event_time("at", unit="ms", lag=lag)
    builder.set_bolt("split", Split).global_grouping("source")
    join = builder.set_bolt("join", cls, tasks).set_config(config)
    join.fields_grouping("split", ["who"], "orders")
    join.fields_grouping("split", ["who"], "payments")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("join")
    builder.set_bolt("late", CollectBolt).shuffle_grouping("join", "late")
    return builder
