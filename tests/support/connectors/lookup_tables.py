"""The same small table as a file of each kind, and in SQLite."""

import json
import sqlite3
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq

from fulmen.connectors.files import FileLookup
from fulmen.connectors.sqlite import SqliteLookup

TYPES = {"code": "string", "zone": "int64", "label": "string", "most": "int64"}
COLUMNS = tuple(TYPES)
SQL = "code TEXT, zone BIGINT, label TEXT, most BIGINT"


def csv_text(rows):
    def cell(value):
        return "NA" if value is None else f'"{value}"' if isinstance(value, str) else str(value)

    return "".join(",".join(map(cell, row)) + "\n" for row in [COLUMNS, *rows])


def written(kind, folder, rows):
    """Write the table into a folder.

    Returns:
        The class that looks it up, and the options that say where it is.
    """
    path = str(folder / f"table.{kind}")
    if kind == "csv":
        (folder / "table.csv").write_text(csv_text(rows))
        form = {"type": "csv", "fields": TYPES, "nulls": ["NA"]}
        return FileLookup, {"path": path, "format": form, "header": True}
    if kind == "json":
        lines = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in rows]
        (folder / "table.json").write_text("\n".join(lines))
        return FileLookup, {"path": path, "format": {"type": "json", "fields": TYPES}}
    if kind == "parquet":
        schema = pa.schema([(n, getattr(pa, t)()) for n, t in TYPES.items()])
        columns = [*zip(*rows, strict=True)] or [[]] * len(COLUMNS)
        arrays = [pa.array(list(c), t) for c, t in zip(columns, schema.types, strict=True)]
        pq.write_table(pa.table(arrays, schema=schema), path, row_group_size=3)
        return FileLookup, {"path": path, "format": {"type": "parquet", "fields": TYPES}}
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"CREATE TABLE prices ({SQL})")
        db.executemany("INSERT INTO prices VALUES (?, ?, ?, ?)", rows)
        for key in ("code", "code, zone", "label, most"):
            db.execute(f'CREATE INDEX "by {key}" ON prices ({key})')
    options = {"path": path, "table": "prices", "columns": TYPES}
    return SqliteLookup, options | ({"read": "keys"} if kind == "keys" else {})
