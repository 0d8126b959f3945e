"""Bytewax's count_window of clicks by user, to compare with: clicks a CPU second.

python -m benchmarks.dataflow_windows KEYS CLICKS
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, TumblingWindower, count_window
from bytewax.testing import TestingSource, run_main

from benchmarks import running
from benchmarks.dataflow import _Nowhere

sys.path.insert(0, str(running.TOPOLOGIES))
from clicks import EVENTS_PER_MS, users

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def main(keys: int, events: int) -> None:
    """Run it, and print the figure."""
    drawn = users(keys, 0.0)

    def clicks() -> Iterator[tuple[str, datetime]]:
        for k in range(events):
            yield drawn[k % len(drawn)], EPOCH + timedelta(milliseconds=k // EVENTS_PER_MS)

    flow = Dataflow("clicks")
    source: Any = TestingSource(clicks(), 1000)
    found = op.input("clicks", flow, source)
    clock: Any = EventClock(lambda one: one[1], timedelta(0))
    windower = TumblingWindower(timedelta(seconds=10), EPOCH)
    counts = count_window("count", found, clock, windower, lambda one: one[0])
    op.output("out", counts.down, _Nowhere())
    began = time.process_time()
    run_main(flow)
    rate = events / (time.process_time() - began)
    print(json.dumps({"keys": keys, "clicks_per_cpu_second": round(rate)}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
