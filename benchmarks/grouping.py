"""What choosing the receiving tasks costs: nanoseconds per tuple, by grouping and chunk size.

`python -m benchmarks.grouping`. The words are new string objects, as a bolt that splits lines
emits them, and each has been seen before.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fulmen.engine.grouping.choosers import make_chooser

TASKS = range(11, 23)
VOCABULARY = 5_000
CHUNKS = (10, 1_000, 100_000)
SECONDS = 0.3


class Columns:
    """One column of values, in Arrow if asked for."""

    def __init__(self, values: list[str], arrow: bool) -> None:
        self._values = values
        self.arrow = pa.record_batch({"word": values}) if arrow else None

    def __len__(self) -> int:
        return len(self._values)

    def column(self, i: int) -> list[Any]:
        """The one column."""
        return self._values

    def row(self, k: int) -> Sequence[Any]:
        """One value."""
        return self._values[k : k + 1]


def words(count: int, rng: np.random.Generator) -> list[str]:
    """Words of 2 to 12 letters, few of them frequent, each a string of its own."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    vocabulary = ["".join(rng.choice(letters, rng.integers(2, 13))) for _ in range(VOCABULARY)]
    return ["".join(list(vocabulary[i])) for i in rng.zipf(1.3, count) % VOCABULARY]


def nanoseconds(kind: str, chunk: int, arrow: bool) -> float:
    """Per tuple: the best of the chunks that fit into SECONDS."""
    rng = np.random.default_rng(1)
    chooser = make_chooser(kind, targets=TASKS, fields=[0], rng=rng, source_task=1)
    data = words(max(chunk, 10_000), rng)
    chunks = [Columns(data[i : i + chunk], arrow) for i in range(0, len(data) - chunk + 1, chunk)]
    times = []
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
