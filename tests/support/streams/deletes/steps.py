"""Changes of a regular join, in three tables that delete what is taken back."""

import os

from fulmen.connectors.files import FileSpout
from fulmen.connectors.kafka import KafkaSink
from fulmen.connectors.postgres import PostgresSink
from fulmen.connectors.redis import RedisSink
from fulmen.streams import Streams, agg

pipeline = Streams("deletes", workers=2)
rows = pipeline.source(
    "rows",
    FileSpout,
    path="rows/*.jsonl",
    format={"type": "json", "fields": {"user": "string", "n": "int64"}},
)
each = rows.key_by("user", "n").aggregate(
    name="each", parallelism=2, times=agg.count(), retract=True
)
alike = each.key_by("times").aggregate(name="alike", parallelism=2, alike=agg.count(), retract=True)
both = each.join(alike, on="times", retract=True, name="both", parallelism=2)
both = both.with_fields(id="user || ':' || n || ':' || times")
exact = {"guarantee": "exactly-once", "deleted_field": "is_retraction"}
both.sink(
    "postgres", PostgresSink, dsn="${DSN}", table="alike", mode="upsert", key=["id", "times"],
    columns={"id": "id", "times": "times", "alike": "alike"},
    create={"id": "TEXT", "times": "BIGINT", "alike": "BIGINT"}, **exact,
)  # fmt: skip
both.sink(
    "redis", RedisSink, url="${REDIS_URL}", type="hash", key="alike", field="{id}",
    format={"type": "text", "field": "alike"}, **exact,
)  # fmt: skip
both.sink(
    "kafka", KafkaSink, topic="alike", key_field="id", format={"type": "json"},
    config={"bootstrap.servers": os.environ["BROKER"]}, **exact,
)  # fmt: skip
