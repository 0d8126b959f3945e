"""What choosing the receiving tasks costs: nanoseconds per tuple, by grouping and chunk size.

`python -m benchmarks.grouping`. The words are new string objects, as a bolt that splits lines
emits them, and each has been seen before.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from fulmen.engine.grouping.choosers import make_chooser
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.topology.resource.spec import GroupingType

TASKS = range(11, 23)
VOCABULARY = 5_000
CHUNKS = (10, 1_000, 100_000)
SECONDS = 0.3


def words(count: int, rng: np.random.Generator) -> list[str]:
    """Words of 2 to 12 letters, few of them frequent, each a string of its own."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    vocabulary = ["".join(rng.choice(letters, rng.integers(2, 13))) for _ in range(VOCABULARY)]
    return ["".join(list(vocabulary[i])) for i in rng.zipf(1.3, count) % VOCABULARY]


def nanoseconds(kind: GroupingType, chunk: int, arrow: bool) -> float:
    """Per tuple: the best of the chunks that fit into SECONDS."""
    rng = np.random.default_rng(1)
    chooser = make_chooser(kind, targets=TASKS, fields=[0], rng=rng, source_task=1)
    data = words(max(chunk, 10_000), rng)
    parts = (data[i : i + chunk] for i in range(0, len(data) - chunk + 1, chunk))
    chunks = [
        TupleRows.of_arrow(pa.record_batch({"word": part}))
        if arrow
        else TupleRows.of_columns([part], "l")
        for part in parts
    ]
    times: list[float] = []
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until or len(times) < 3:
        began = time.perf_counter_ns()
        for rows in chunks:
            chooser.choose(rows)
        times.append(time.perf_counter_ns() - began)
    return min(times) / (chunk * len(chunks))


def main() -> None:
    """Print the table."""
    print(f"{len(TASKS)} tasks, ns per tuple" + "".join(f"{f'chunk of {n:,}':>18}" for n in CHUNKS))
    for kind in ("shuffle", "fields", "partial-key"):
        for arrow in (False, True) if kind != "shuffle" else (False,):
            figures = "".join(f"{nanoseconds(kind, n, arrow):18.1f}" for n in CHUNKS)
            print(f"{kind + (', Arrow' if arrow else ''):22}{figures}")


if __name__ == "__main__":
    main()
