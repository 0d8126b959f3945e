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
BY_STEPS = ("q0", "q1", "q2", "q10", "q13", "q14", "q21", "q22")
"""Those that only change and choose single events."""
STEPS: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "steps.yaml").read_text("utf-8"))
"""Those of them that need no bolt: `where` and `select` of what the sink receives of bids."""
ROUNDS = 10
"""So many times these get the events: they are through with 400,000 in a tenth of a second, which
would be a single batch. None of them looks at when events are."""
KEYED_LISTS = ("q18", "q19")
"""Those that keep something, and are written by the list as well."""
Rows = Sequence[tuple[Any, ...]]


def forms(query: str) -> Sequence[str]:
    """The ways in which a query is written, see `benchmarks.goals.OF_BYTEWAX`."""
    if query in KEYED_LISTS:
        return ("keyed", "keyed-lists")
    if query not in BY_STEPS:
        return ("keyed",)
    return ("execute", "lists", "config") if query in STEPS else ("execute", "lists")


def rounds_of(query: str) -> int:
    """How many times a query gets the events when it is measured."""
    return ROUNDS if query in BY_STEPS else 1


def topology(
    query: str,
    count: int,
    form: str = "",
    *,
    rate: int = events.EVENTS_PER_SECOND,
    size: int = events.LIST,
    only_counts: bool = False,
    rounds: int = 1,
) -> dict[str, Any]:
    """The document of a query.

    Args:
        query: Its name.
        count: How many events there are.
        form: One of its `forms`; "": the first.
        rate: Events in a second of event time.
        size: Events in a list of the source.
        only_counts: Whether the sink counts rows, and nothing else.
        rounds: So many times the events are emitted, see `ROUNDS`.
    """
    assert form in {"", *forms(query)}
    content: dict[str, Any] = yaml.safe_load((FOLDER / f"{query}.yaml").read_text(encoding="utf-8"))
    spec = content["spec"]
    spec["code"]["folder"] = str(FOLDER)
    spec["spouts"][0]["config"] = {"events": count, "rate": rate, "list": size, "rounds": rounds}
    if form in ("lists", "keyed-lists"):
        spec["bolts"][0]["class"] = spec["bolts"][0]["class"].replace("nexmark.", "nexmark_lists.")
    if form == "config":
        bids = {"from": "events", "stream": "bids", "grouping": {"type": "shuffle"}}
        spec["bolts"] = [{**spec["bolts"][-1], "inputs": [{**bids, **STEPS[query]}]}]
    if only_counts:
        spec["bolts"][-1].update({"class": "nexmark.Count", "config": {}})
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
