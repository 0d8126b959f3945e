"""The queries of Nexmark that can be said in Bytewax, to compare with.

`python -m benchmarks.nexmark.dataflow QUERY EVENTS` prints events a second, and a second of CPU.
The events are in memory before the clock starts, and the sink only counts.

Bytewax has a watermark for each key, and results of a window carry none: what takes windows of the
results of windows, as q5 does in its second step, can't be said exactly. Neither can q4, whose
intervals differ.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from bisect import bisect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.operators import windowing as w
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

from benchmarks.nexmark.queries import events, nexmark, rounds_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ROWS = [0]
"""How many came out."""


class _Counted(DynamicSink[Any], StatelessSinkPartition[Any]):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Counted:
        del step_id, worker_index, worker_count
        return self

    def write_batch(self, items: list[Any]) -> None:
        ROWS[0] += len(items)


def _clock(place: int) -> Any:
    """By the time that is so far behind in a row."""
    lag = timedelta(milliseconds=events.DISORDER_MS)
    return w.EventClock(lambda row: EPOCH + timedelta(milliseconds=row[place]), lag)


def _tumbling() -> Any:
    return w.TumblingWindower(timedelta(seconds=10), EPOCH)


def _only(stream: str) -> Callable[[Any], Any]:
    return lambda event: event[1] if event[0] == stream else None


def _q0(bids: Any) -> Any:
    return op.map("same", bids, lambda b: (b[0], b[1], b[2], b[5], b[6]))


def _q1(bids: Any) -> Any:
    return op.map("euros", bids, lambda b: (b[0], b[1], 0.908 * b[2], b[5], b[6]))


def _q2(bids: Any) -> Any:
    return op.filter_map("chosen", bids, lambda b: (b[0], b[2]) if b[0] % 123 == 0 else None)


def _q7(bids: Any) -> Any:
    keyed = op.key_on("key", bids, lambda _: "all")
    return w.max_window("highest", keyed, _clock(5), _tumbling(), by=lambda b: b[2]).down


def _q10(bids: Any) -> Any:
    def dated(bid: Any) -> Any:
        at = datetime.fromtimestamp(bid[5] / 1_000, UTC)
        return (*bid[:3], *bid[5:], *at.strftime("%Y-%m-%d %H:%M").split())

    return op.map("dated", bids, dated)


def _q14(bids: Any) -> Any:
    def calculated(bid: Any) -> Any:
        auction, bidder, price, _, url, at, extra = bid
        if not 1_000_000 < 0.908 * price < 50_000_000:
            return None
        hour = at // 3_600_000 % 24
        when = "day" if 8 <= hour <= 18 else "night" if hour <= 6 or hour >= 20 else "other"
        return auction, bidder, 0.908 * price, when, at, extra, url.count("c")

    return op.filter_map("calculated", bids, calculated)


def _q19(bids: Any) -> Any:
    def ranked(best: Any, bid: Any) -> Any:
        best = best or []
        new = (-bid[2], bid[5], bid[1], bid[6])
        place = bisect(best, new)
        best = [*best[:place], new, *best[place:9]] if place < 10 else best
        return best, [(bid[0], n, *row) for n, row in enumerate(best[place:], place + 1)]

    keyed = op.key_on("key", bids, lambda b: str(b[0]))
    return op.stateful_flat_map("top", keyed, ranked)


def _q21(bids: Any) -> Any:
    def with_id(bid: Any) -> Any:
        number = nexmark.KNOWN_CHANNELS.get(bid[3].lower())
        if number is None:
            found = nexmark.IN_URL.search(bid[4])
            number = found and found[1]
        return (*bid[:4], number) if number else None

    return op.filter_map("channels", bids, with_id)


def _q22(bids: Any) -> Any:
    return op.map("parts", bids, lambda b: (*b[:4], *b[4].split("/")[3:6]))


def _q11(bids: Any) -> Any:
    session = w.SessionWindower(timedelta(seconds=10))
    return w.count_window("sessions", bids, _clock(5), session, lambda b: str(b[1])).down


def _q13(bids: Any) -> Any:
    table = events.side_input()
    size = events.SIDE_INPUT
    return op.map("join", bids, lambda b: (b[0], b[1], b[2], b[5], table[b[0] % size]))


def _q18(bids: Any) -> Any:
    def last(state: Any, bid: Any) -> Any:
        new = bid[5], bid[2]
        return (state, ()) if state is not None and state >= new else (new, (bid,))

    keyed = op.key_on("key", bids, lambda b: f"{b[0]} {b[1]}")
    return op.stateful_flat_map("last", keyed, last)


def _q3(found: Any) -> Any:
    def matches(state: Any, event: Any) -> Any:
        person, waiting = state or (cast(Any, None), [])
        kind, row = event
        if kind == "auctions" and person is None:
            return (None, [*waiting, row[0]]), ()
        if kind == "auctions":
            return state, ((*person, row[0]),)
        person = row[1], row[3], row[4]
        return (person, []), [(*person, one) for one in waiting]

    def chosen(event: Any) -> Any:
        kind, row = event
        if kind == "persons" and row[4] in {"OR", "ID", "CA"}:
            return str(row[0]), event
        return (str(row[4]), event) if kind == "auctions" and row[5] == 10 else None

    return op.stateful_flat_map("join", op.filter_map("chosen", found, chosen), matches)


def _q8(found: Any) -> Any:
    sides = [
        op.filter_map("p", found, lambda e: (str(e[1][0]), e[1]) if e[0] == "persons" else None),
        op.filter_map("a", found, lambda e: (str(e[1][4]), e[1]) if e[0] == "auctions" else None),
    ]
    clock: Any = w.EventClock(
        lambda row: EPOCH + timedelta(milliseconds=row[-2]),
        timedelta(milliseconds=events.DISORDER_MS),
    )
    pairs = w.join_window("join", clock, _tumbling(), *sides).down
    return op.filter("both", pairs, lambda pair: None not in pair[1][1])


def _yahoo(seen: Any) -> Any:
    campaigns = dict(row for _, row in events.ads())
    views = op.filter_map(
        "views", seen, lambda e: (campaigns[e[2]], e[5]) if e[4] == "view" else None
    )
    return w.count_window("counts", views, _clock(1), _tumbling(), lambda v: v[0]).down


def _q20(found: Any) -> Any:
    def matches(state: Any, event: Any) -> Any:
        auction, waiting = state or (cast(Any, None), [])
        kind, row = event
        if kind == "bids" and auction is None:
            return (None, [*waiting, row]), ()
        if kind == "bids":
            return state, ((*auction, *row),)
        auction = row[1], row[4], row[5], row[7]
        return (auction, []), [(*auction, *bid) for bid in waiting]

    def chosen(event: Any) -> Any:
        kind, row = event
        if kind == "auctions" and row[5] == 10:
            return str(row[0]), event
        return (str(row[0]), event) if kind == "bids" else None

    return op.stateful_flat_map("join", op.filter_map("chosen", found, chosen), matches)


OF_ALL = {"q3": _q3, "q8": _q8, "q20": _q20}
OF_BIDS = {
    "q0": _q0,
    "q1": _q1,
    "q2": _q2,
    "q7": _q7,
    "q10": _q10,
    "q11": _q11,
    "q13": _q13,
    "q14": _q14,
    "q18": _q18,
    "q19": _q19,
    "q21": _q21,
    "q22": _q22,
}
QUERIES = (*OF_ALL, *OF_BIDS, "yahoo")


class _Lists(StatelessSourcePartition[Any]):
    """Events that are in memory, by the list."""

    def __init__(self, lists: list[Any]) -> None:
        self.lists = iter(lists)

    def next_batch(self) -> list[Any]:
        return next(self.lists)  # the end is StopIteration here, too


class _Source(DynamicSource[Any]):
    def __init__(self, lists: list[Any]) -> None:
        self.lists = lists

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Lists:
        del step_id, worker_index, worker_count
        return _Lists(self.lists)


def main(query: str, count: int) -> None:
    """Run it, and print the figures."""
    made = events.ad_chunk if query == "yahoo" else events.chunk
    lists = events.lists(count, made=made) * rounds_of(query)
    count *= rounds_of(query)
    flow = Dataflow(query)
    found = op.input("events", flow, _Source(lists))
    if query in OF_ALL:
        out = OF_ALL[query](found)
    elif query == "yahoo":
        out = _yahoo(op.filter_map("only", found, _only("events")))
    else:
        out = OF_BIDS[query](op.filter_map("only", found, _only("bids")))
    op.output("out", out, _Counted())
    gc.collect()
    gc.freeze()  # no collection looks at the events
    began, cpu = time.monotonic(), time.process_time()
    run_main(flow)
    figures = {
        "query": query,
        "events_per_second": round(count / (time.monotonic() - began)),
        "events_per_cpu_second": round(count / (time.process_time() - cpu)),
        "rows": ROWS[0],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
