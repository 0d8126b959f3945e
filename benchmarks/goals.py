"""What the figures are to be, and a table of what they are.

`python -m benchmarks.goals FILE ...` makes the table of what earlier runs have printed. Of figures
that were measured more than once, the first counts.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.shapes import FIRST_SECONDS

Result = dict[str, Any]

NOTE = (
    "bare: of a rate, its share of what one core does in a bare Python loop; of a time, the"
    " thousands of sentences that this loop does meanwhile."
)

OF_BYTEWAX = {"execute": 0.6, "lists": 1.0, "config": 1.0, "keyed": 2.0, "keyed-lists": 2.0}
"""What a query of Nexmark is to reach, times Bytewax, by the form in which it is written.

execute: a `BasicBolt`, called for each row. lists: a `ManyBolt`. config: no code.
keyed: windows, joins, or state by key. keyed-lists: the same as a `ManyBolt`.
"""

OF_FLINK: Mapping[str, int] = {
    "q0": 155_000,
    "q1": 158_000,
    "q2": 175_000,
    "q3": 152_000,
    "q4": 34_000,
    "q5": 22_000,
    "q7": 12_000,
    "q8": 146_000,
    "q9": 14_000,
    "q11": 40_000,
    "q12": 76_000,
    "q14": 161_000,
    "q15": 72_000,
    "q16": 19_000,
    "q17": 117_000,
    "q18": 54_000,
    "q19": 44_000,
    "q20": 19_000,
    "q21": 98_000,
    "q22": 130_000,
}
"""Events a second and core that Flink has published: with RocksDB, checkpoints and the
making of events, on other machines. They tell orders of magnitude."""
OF_LOOP = 0.5
"""What a recipe is to reach, times a plain loop with the same clients, where its server is not the
limit."""


class Results:
    """The figures of a run."""

    def __init__(self) -> None:
        self._found: list[Result] = []

    def add(self, benchmark: str, result: Result) -> None:
        """One more."""
        self._found.append({"benchmark": benchmark, **result})

    def get(self, benchmark: str, field: str, **which: Any) -> float:
        """A figure. LookupError if it was not measured."""
        for result in self._found:
            wanted = {"benchmark": benchmark, **which}
            if wanted.items() <= result.items():
                value = result[field]
                if value is None:  # nothing has come: it takes longer than was measured
                    return math.inf
                return float(sum(value.values()) if isinstance(value, dict) else value)
        raise LookupError(f"{benchmark} {which}")


Figure = Callable[[Results], float]


@dataclass(frozen=True)
class Goal:
    """A figure that is to be reached.

    Attributes:
        name: What it is.
        unit: Of the figure.
        figure: From the results.
        at_least: The least that it is to be; None: there is none.
        at_most: The most that it is to be; None: there is none.
        aim: What it would better be; None: there is no aim beside the goal.
    """

    name: str
    unit: str
    figure: Figure
    at_least: float | None = None
    at_most: float | None = None
    aim: float | None = None

    @property
    def wanted(self) -> str:
        """The goal in words."""
        if self.at_least is not None:
            return f"at least {self.at_least:,.10g}"
        return "" if self.at_most is None else f"at most {self.at_most:,.10g}"

    @property
    def wished(self) -> str:
        """The aim in words."""
        return "" if self.aim is None else f"aim {self.aim:,.10g}"

    def verdict(self, value: float) -> str:
        """Whether that is good enough."""
        too_low = self.at_least is not None and value < self.at_least
        too_high = self.at_most is not None and value > self.at_most
        if too_low or too_high:
            return "missed"
        if self.aim is None:
            return "reached"
        has_aim = value >= self.aim if self.at_least is not None else value <= self.aim
        if has_aim:
            return "aim reached"
        return "aim missed" if self.at_least is None and self.at_most is None else "reached"

    def in_bare(self, value: float, bare: float) -> str:
        """The figure in what one core does in a bare loop. Empty: it is neither rate nor time.

        Args:
            value: The figure.
            bare: Sentences a second of that loop.
        """
        match self.unit:
            case "sentences/s":
                return f"{value / bare:.2f}"
            case "ms":
                return f"{value / 1e6 * bare:,.0f}k"
            case "s":
                return f"{value / 1e3 * bare:,.0f}k"
        return ""


def _of(benchmark: str, field: str, **which: Any) -> Figure:
    return lambda results: results.get(benchmark, field, **which)


def _ratio(above: Figure, below: Figure) -> Figure:
    return lambda results: above(results) / below(results)


BARE = _of("bare", "sentences_per_second")
ONE = _of("throughput", "sentences_per_second", workers=1)
TWO = _of("throughput", "sentences_per_second", workers=2)
BYTEWAX = _of("bytewax", "sentences_per_second", threads=2)


def _latency(field: str, workers: int, rate: int = 1000) -> Figure:
    return _of("latency", field, workers=workers, rate=rate)


def _overhead(field: str, workers: int) -> Figure:
    return _of("overhead", field, workers=workers)


def _pods(field: str, rate: int) -> Figure:
    return _of("pods", field, workers=2, slots=2, rate=rate)


def _count(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers} workers"


def _throughputs() -> Iterator[Goal]:
    rate = "sentences/s"
    yield Goal("2 workers", rate, TWO, at_least=210_000, aim=250_000)
    yield Goal("2 workers, of 1 worker", "times", _ratio(TWO, ONE), at_least=1.0)
    bytewax = _ratio(TWO, BYTEWAX)
    yield Goal("2 workers, of Bytewax with 2 threads", "times", bytewax, at_least=2.0, aim=2.5)
    yield Goal("1 worker", rate, ONE, at_least=200_000)
    arrow = _of("arrow", "sentences_per_second", workers=2)
    yield Goal("2 workers, Arrow", rate, arrow, at_least=500_000)


def _latencies() -> Iterator[Goal]:
    for workers, p50, p99, aims in ((2, 55, 150, (40, 100)), (1, 10, 40, (None, None))):
        who = _count(workers)
        for field, goal, aim in (("p50_ms", p50, aims[0]), ("p99_ms", p99, aims[1])):
            name, at = field.removesuffix("_ms"), _latency(field, workers)
            yield Goal(f"{who}, 1,000/s, {name}", "ms", at, at_most=goal, aim=aim)
            more = _ratio(_latency(field, workers, 10_000), at)
            yield Goal(f"{who}, 10,000/s, {name}, of that", "times", more, at_most=1.3)
        cores = _latency("cores", workers)
        yield Goal(f"{who}, 1,000/s", "cores", cores, at_most=1.0)
    row = _of("row", "p50_ms", workers=2)
    yield Goal("ten bolts in a row, 1,000/s, p50", "ms", row, at_most=150)
    trees = _of("row", "first_trees", workers=2)
    yield Goal("ten bolts in a row, the first 40 s", "trees", trees, at_least=1_700_000)


def _overheads() -> Iterator[Goal]:
    for workers, most in ((4, 1.6), (8, 2.5)):
        ratio = _ratio(_overhead("batch_p50_ms", workers), _overhead("batch_p50_ms", 2))
        yield Goal(f"batch of {workers} workers, of that of 2", "times", ratio, at_most=most)
    yield Goal("2 workers, memory", "MB", _overhead("megabytes", 2), at_most=1100)
    yield Goal(
        "each worker more, memory",
        "MB",
        lambda r: (_overhead("megabytes", 8)(r) - _overhead("megabytes", 2)(r)) / 6,
        at_most=200,
    )


def _starts() -> Iterator[Goal]:
    for has_archive, how in ((True, ""), (False, ", no class archive")):
        for workers, most in ((1, 5), (2, 6), (4, 8), (8, None)):
            seconds = _of("start", "seconds", workers=workers, class_archive=has_archive)
            name = f"{_count(workers)}, start to the first ack{how}"
            yield Goal(name, "s", seconds, at_most=most)
    cold = _of("cold", "share", workers=2)
    yield Goal("2 workers, the first 30 s, of warm", "times", cold, at_least=0.6)
    yield Goal("make run", "s", _of("example", "seconds"), aim=10)


def _first_seconds() -> Iterator[Goal]:
    for workers in (1, 2):
        yield Goal(
            f"{_count(workers)}, 1,000/s from Kafka, p99 from the third second on",
            "ms",
            partial(_slowest_after_two_seconds, workers=workers),
            at_most=1000,
        )


def _slowest_after_two_seconds(results: Results, workers: int) -> float:
    later = [f"{since} to {end}" for since, end in pairwise(FIRST_SECONDS) if since >= 2]
    return max(
        results.get("kafka-first", "p99_ms", workers=workers, seconds=seconds) for seconds in later
    )


def _on_pods() -> Iterator[Goal]:
    one = "1 pod of 2 slots"
    yield Goal(f"{one}, 1,000/s, p50", "ms", _pods("p50_ms", 1000), at_most=90)
    yield Goal(f"{one}, 1,000/s, p99", "ms", _pods("p99_ms", 1000), at_most=250)
    yield Goal(one, "sentences/s", _pods("sentences_per_second", 0), at_least=110_000)
    start = _of("pods-start", "seconds", workers=2, slots=2)
    yield Goal(f"{one}, apply to the first ack", "s", start, at_most=20)
    back = _of("pods-loss", "seconds", workers=2, slots=2, lost="driver")
    yield Goal(f"{one}, a deleted driver is back", "s", back, at_most=20)


def _from_kafka() -> Iterator[Goal]:
    rate = "messages/s"
    bare = _of("kafka-bare", "messages_per_second")
    yield Goal("Kafka to PostgreSQL, bare loop", rate, bare)
    for workers in (1, 2):
        who = f"Kafka to PostgreSQL, {_count(workers)}"
        exact, loose = (
            _of("kafka", "messages_per_second", workers=workers, guarantee=guarantee)
            for guarantee in ("exactly-once", "at-least-once")
        )
        least = 1 if workers == 1 else None
        yield Goal(who, rate, exact, at_least=least and 80_000)
        yield Goal(f"{who}, of bare", "times", _ratio(exact, bare), at_least=least and 0.6)
        yield Goal(f"{who}, of at least once", "times", _ratio(exact, loose), at_least=0.75)
        bytewax = _of("kafka-bytewax", "messages_per_second", workers=workers)
        yield Goal(f"{who}, of Bytewax", "times", _ratio(exact, bytewax), at_least=1.0)
        for p, most in (("p50", None), ("p99", 500)):
            which = {"workers": workers, "guarantee": "exactly-once"}
            figure = _of("kafka-latency", f"{p}_ms", **which)
            yield Goal(f"{who}, 1,000/s, {p}", "ms", figure, at_most=most)


def _busiest(hot: bool, partial: bool | str) -> Figure:
    return _of("windows", "of_the_busiest", hot=hot, partial=partial)


def _in_windows() -> Iterator[Goal]:
    def rate(how: str, keys: int) -> Figure:
        return _of("windows", "clicks_per_cpu_second", windows=how, keys=keys)

    for keys in (1_000, 100_000):
        ratio = _ratio(rate("tumbling", keys), rate("none", keys))
        yield Goal(f"windows, {keys:,} keys, of none", "times", ratio, at_least=0.6)
    yield Goal("windows of Arrow, 1,000 keys", "clicks/s", rate("arrow", 1_000), at_least=1_000_000)
    bytewax = _ratio(rate("tumbling", 1_000), rate("bytewax", 1_000))
    for how, name in (("auto", "auto"), (True, "true")):
        busiest = _ratio(_busiest(hot=True, partial=how), _busiest(hot=True, partial=False))
        yield Goal(f"a hot key, partial: {name}, of without", "times", busiest, at_least=1.0)
    yield Goal("windows, 1,000 keys, of Bytewax", "times", bytewax, at_least=5.0)
    many = {"windows": "tumbling", "keys": 100_000}
    last, usual = (_of("windows", f"batch_{name}_ms", **many) for name in ("most", "p50"))
    yield Goal(
        "100,000 windows end at once, their batch longer by",
        "ms",
        lambda results: last(results) - usual(results),
        at_most=500,
    )
    for workers in (1, 2):
        for p, most_ms in (("p50", 300), ("p99", 1000)):
            name = f"{_count(workers)}, 10,000/s from Kafka, end of a window to its row, {p}"
            late = _of("windows-latency", f"{p}_ms", workers=workers)
            yield Goal(name, "ms", late, at_most=most_ms)


GOALS: Sequence[Goal] = (
    *_throughputs(),
    *_latencies(),
    *_overheads(),
    *_starts(),
    *_first_seconds(),
    *_on_pods(),
    *_from_kafka(),
    *_in_windows(),
)


def table(results: Results) -> Iterator[str]:
    """The goals whose figures were measured, line by line."""
    try:
        bare = BARE(results)
    except LookupError:
        bare = 0.0
    rows = list(_rows(results, bare))
    if bare and rows:
        yield _line("", "", "", "bare", "", "", "").rstrip()
    yield from rows
    if bare and rows:
        yield NOTE


def _rows(results: Results, bare: float) -> Iterator[str]:
    for goal in GOALS:
        try:
            value = goal.figure(results)
        except LookupError:
            continue
        ratio = goal.in_bare(value, bare) if bare else ""
        number = f"{value:,.0f}" if value >= 1000 else f"{value:,.3g}"
        has_goal = (goal.at_least, goal.at_most, goal.aim) != (None, None, None)
        verdict = goal.verdict(value) if has_goal else ""
        cells = (goal.name, number, goal.unit, ratio, goal.wanted, goal.wished, verdict)
        yield _line(*cells).rstrip()


def _line(*cells: str) -> str:
    name, number, unit, ratio, wanted, wished, verdict = cells
    return f"{name:<50} {number:>9} {unit:<11} {ratio:>8}  {wanted:<18} {wished:<11} {verdict}"


def read(files: Sequence[Path]) -> Results:
    """The figures that runs have printed into these files."""
    results = Results()
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("{"):
                found = json.loads(line)
                results.add(found.pop("benchmark"), found)
    return results


if __name__ == "__main__":
    print("\n".join(table(read([Path(name) for name in sys.argv[1:]]))))
