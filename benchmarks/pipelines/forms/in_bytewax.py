"""Cents by user in ten minutes, in Bytewax."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.files import FileSink, FileSource
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, TumblingWindower, fold_window
from bytewax.testing import run_main

EPOCH, SIZE = datetime(1970, 1, 1, tzinfo=UTC), timedelta(minutes=10)


def read(line):
    click = json.loads(line)
    return click | {"at": datetime.fromisoformat(click["at"])}


def line_of(result):
    user, (window, (n, cents)) = result
    row = {"user": user, "start": (EPOCH + window * SIZE).isoformat(), "n": n, "cents": cents}
    return user, json.dumps(row)


Path("out").mkdir(exist_ok=True)
flow = Dataflow("totals")
clicks = op.map("read", op.input("clicks", flow, FileSource("clicks/a.jsonl", 1000)), read)
buys = op.filter("buys", clicks, lambda click: click["kind"] == "buy")
keyed = op.map("cents", buys, lambda click: (click["user"], (click["at"], click["price"] * 100)))
clock = EventClock(lambda value: value[0], wait_for_system_duration=timedelta(0))
windows = fold_window(
    "totals",
    keyed,
    clock,
    TumblingWindower(length=SIZE, align_to=EPOCH),
    lambda: (0, 0),
    lambda sofar, value: (sofar[0] + 1, sofar[1] + value[1]),
    lambda one, other: (one[0] + other[0], one[1] + other[1]),
)
op.output("out", op.map("line", windows.down, line_of), FileSink(Path("out/rows.json")))
run_main(flow)
