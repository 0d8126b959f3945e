"""Word count of the same sentences with Bytewax, to compare with: sentences a second.

python -m benchmarks.dataflow THREADS SECONDS
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main

from benchmarks import running

sys.path.insert(0, str(running.TOPOLOGIES))
from sentences import SENTENCES

EMITTED: list[int] = []


class _Sentences(StatelessSourcePartition[str]):
    """All sentences again and again, until the time is over."""

    def __init__(self, until: float) -> None:
        self.until = until

    def next_batch(self) -> list[str]:
        if time.monotonic() > self.until:
            raise StopIteration
        EMITTED.append(len(SENTENCES))
        return SENTENCES


class _Source(DynamicSource[str]):
    def __init__(self, until: float) -> None:
        self.until = until

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Sentences:
        del step_id, worker_index, worker_count
        return _Sentences(self.until)


class _Nowhere(DynamicSink[Any], StatelessSinkPartition[Any]):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Nowhere:
        del step_id, worker_index, worker_count
        return self

    def write_batch(self, items: list[Any]) -> None:
        del items


def _count(state: int | None, _word: str) -> tuple[int, int]:
    number = (state or 0) + 1
    return number, number


def main(threads: int, seconds: float) -> None:
    """Run it, and print the figure."""
    began = time.monotonic()
    flow = Dataflow("words")
    sentences = op.input("sentences", flow, _Source(time.monotonic() + seconds))
    words = op.flat_map("split", sentences, lambda sentence: sentence.split(" "))
    keyed = op.key_on("key", words, lambda word: word)
    counts = op.stateful_map("count", keyed, _count)
    op.output("out", counts, _Nowhere())
    cluster_main(flow, [], 0, worker_count_per_proc=threads)
    rate = sum(EMITTED) / (time.monotonic() - began)
    print(json.dumps({"threads": threads, "sentences_per_second": round(rate)}))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
