"""The queries: their topologies, and what DuckDB says of the same events."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import yaml

sys.path.insert(0, str(Path(__file__).parent / "topologies"))
import nexmark_events as events

import nexmark

__all__ = ["events", "expected", "fingerprint", "nexmark", "plain", "tables", "topology"]
fingerprint, plain = nexmark.fingerprint, nexmark.plain
FOLDER = Path(__file__).parent / "topologies"
QUERIES = (*(f"q{n}" for n in range(23)), "yahoo")
Rows = Sequence[tuple[Any, ...]]


def topology(query: str, count: int, rate: int = events.EVENTS_PER_SECOND) -> dict[str, Any]:
    """The document of a query over so many events."""
    content: dict[str, Any] = yaml.safe_load((FOLDER / f"{query}.yaml").read_text(encoding="utf-8"))
    content["spec"]["code"]["folder"] = str(FOLDER)
    content["spec"]["spouts"][0]["config"] = {"events": count, "rate": rate}
    return content


def tables(query: str, count: int, rate: int = events.EVENTS_PER_SECOND) -> dict[str, pa.Table]:
    """The events as tables."""
    is_nexmark = query != "yahoo"
    fields = events.STREAMS if is_nexmark else {"ads": events.ADS, "events": events.AD_EVENTS}
    chunk = events.chunk if is_nexmark else events.ad_chunk
    rows: dict[str, list[Any]] = {name: [] for name in fields}
    for stream, values in [] if is_nexmark else events.ads():
        rows[stream].append(values)
    for number in range(-(-count // events.CHUNK)):
        for stream, values in chunk(number, rate)[: count - number * events.CHUNK]:
            rows[stream].append(values)
    found = {
        name: pa.table(list(map(list, zip(*rows[name], strict=True))), fields[name])
        for name in fields
    }
    side = events.side_input()
    found["side_input"] = pa.table({"key": list(side), "value": list(side.values())})
    return found


def expected(query: str, given: dict[str, pa.Table]) -> Rows:
    """What SQL finds in these tables."""
    with duckdb.connect() as database:
        for name, table in given.items():
            database.register(name, table)
        text = (FOLDER / f"{query}.sql").read_text(encoding="utf-8")
        return database.execute(text).fetchall()
