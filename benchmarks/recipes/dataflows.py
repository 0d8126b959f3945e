"""Jobs of the recipes in Bytewax, where it has what they need: for `benchmarks.recipes`.

Each reads and writes with the clients and in the way of the plain loops.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.recipes.loops import (
    Delays,
    Loop,
    Packages,
    Write,
    changelog_lines,
    chunks,
    flights_parsed,
    log_lines,
    words,
)


def bytewax(rows: Iterable[Any], steps: Callable[[Any, Any], Any], write: Write) -> int:
    """Rows through a dataflow of one worker, without recovery. Returns how many there were.

    Args:
        rows: What is read.
        steps: Makes a stream of a stream, with bytewax's operators.
        write: Writes some of what comes of it.
    """
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import DynamicSource, StatelessSourcePartition
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.testing import run_main

    number = 0
    left = chunks(rows)

    class Source(DynamicSource[Any], StatelessSourcePartition[Any]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Source:
            del step_id, worker_index, worker_count
            return self

        def next_batch(self) -> list[Any]:
            nonlocal number
            some = next(left)
            number += len(some)
            return some

    class Sink(DynamicSink[Any], StatelessSinkPartition[Any]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Sink:
            del step_id, worker_index, worker_count
            return self

        def write_batch(self, items: list[Any]) -> None:
            write(items)

    flow = Dataflow("recipe")
    op.output("out", steps(op, op.input("in", flow, Source())), Sink())
    run_main(flow)
    return number


def bytewax_flights() -> int:
    """CSV to counts in SQLite."""
    delays = Delays("bytewax.db")

    def count(state: list[int] | None, delay: int | None) -> tuple[list[int], list[int]]:
        found = [0, 0, 0] if state is None else state
        found[delay is None] += 1
        found[2] += delay or 0
        return found, list(found)

    def steps(op: Any, stream: Any) -> Any:
        keyed = op.map("airline", stream, lambda row: (delays.names[row[0]], row[1]))
        return op.stateful_map("count", keyed, count)

    def write(items: list[tuple[str, list[int]]]) -> None:
        values = [[airline, *found] for airline, found in dict(items).items()]
        delays.db.executemany("INSERT OR REPLACE INTO delays VALUES (?, ?, ?, ?)", values)
        delays.db.commit()

    return bytewax(flights_parsed(), steps, write)


def bytewax_changelogs() -> int:
    """Compressed lines to counts in Redis."""
    import redis

    client = redis.Redis.from_url(os.environ["REDIS_URL"])

    def count(state: int | None, _: str) -> tuple[int, int]:
        number = (state or 0) + 1
        return number, number

    def steps(op: Any, stream: Any) -> Any:
        keyed = op.key_on("word", op.flat_map("words", stream, words), lambda word: word)
        return op.stateful_map("count", keyed, count)

    def write(items: list[tuple[str, int]]) -> None:
        client.hset("bytewax-words", mapping=dict(items))

    return bytewax(changelog_lines(), steps, write)


def bytewax_packages() -> int:
    """A log to PostgreSQL."""
    packages = Packages("bytewax_packages")

    def write(rows: list[Any]) -> None:
        with packages.db.cursor() as cursor, cursor.copy(packages.copy) as copy:
            for row in rows:
                copy.write_row(row)

    def steps(op: Any, stream: Any) -> Any:
        return op.filter_map("parse", stream, packages.parsed)

    return bytewax(log_lines(), steps, write)


BYTEWAX: dict[str, Loop] = {
    "flights": bytewax_flights,
    "changelogs": bytewax_changelogs,
    "packages": bytewax_packages,
}
