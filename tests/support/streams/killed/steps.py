"""All operators of `support.streams.operators` over two files, for a test that kills it."""

import json

from fulmen.connectors.files import FileLookup, FileSpout
from fulmen.connectors.sqlite import SqliteSink
from fulmen.streams import Streams
from support.streams.operators import KEEPING, TOGETHER

pipeline = Streams("operators", workers=2)
FORM = {"type": "json", "fields": {"user": "string", "n": "int64", "at": "int64"}}


def read(name):
    return pipeline.source(
        name, FileSpout, path=f"rows/{name}.jsonl", format=FORM,
        event_time={"field": "at", "unit": "ms"}, lag="20s",
    )  # fmt: skip


def written(stream, name, values):
    """Write what is compared of each row into a table of its own."""

    def as_text(row):
        one = row._asdict() if hasattr(row, "_asdict") else row
        return json.dumps(values(one)), bool(one.get("is_retraction"))

    stream.map(as_text, fields=["found", "is_retraction"], name=f"{name}-text").sink(
        f"{name}-table", SqliteSink, path="tables.db", table=name, guarantee="exactly-once",
        create={"found": "TEXT", "is_retraction": "INTEGER"},
    )  # fmt: skip


rows = read("rows")
others = read("others").select("user", "at", m="n")
for name, (build, _, values) in KEEPING.items():
    written(build(rows), name, values)
for name, (build, _, values) in TOGETHER.items():
    written(build(rows, others), name, values)
VERSIONS = {"type": "csv", "fields": {"user": "string", "version": "int64"}}
looked_up = rows.lookup_in(
    FileLookup, "user", path="versions.csv", format=VERSIONS, add=["version"], reload_seconds=0.1,
    memory_bytes=0, parallelism=2,
)  # fmt: skip
written(looked_up, "looked-up", lambda row: (row["user"], row["n"], row["version"]))
