"""What the figures are to be, and a table of what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Result = dict[str, Any]


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
                return float(sum(value.values()) if isinstance(value, dict) else value)
        raise LookupError(f"{benchmark} {which}")


@dataclass(frozen=True)
class Goal:
    """A figure that is to be reached.

    Attributes:
        name: What it is.
        figure: From the results.
        at_least: The least that it is to be; None: there is none.
        at_most: The most that it is to be; None: there is none.
    """

    name: str
    figure: Callable[[Results], float]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def wanted(self) -> str:
        """The goal in words."""
        if self.at_least is not None:
            return f"at least {self.at_least:,.10g}"
        return f"at most {self.at_most:,.10g}"

    def is_met(self, value: float) -> bool:
        """Whether that is good enough."""
        too_low = self.at_least is not None and value < self.at_least
        return not too_low and (self.at_most is None or value <= self.at_most)


def _of(benchmark: str, field: str, **which: Any) -> Callable[[Results], float]:
    return lambda results: results.get(benchmark, field, **which)


def _ratio(
    above: Callable[[Results], float], below: Callable[[Results], float]
) -> Callable[[Results], float]:
    return lambda results: above(results) / below(results)


ONE = _of("throughput", "sentences_per_second", workers=1)
TWO = _of("throughput", "sentences_per_second", workers=2)
BYTEWAX = _of("bytewax", "sentences_per_second", threads=2)


def _latency(field: str, workers: int, rate: int = 1000) -> Callable[[Results], float]:
    return _of("latency", field, workers=workers, rate=rate)


def _overhead(field: str, workers: int) -> Callable[[Results], float]:
    return _of("overhead", field, workers=workers)


GOALS: Sequence[Goal] = (
    Goal("2 workers, sentences/s", TWO, at_least=210_000),
    Goal("2 workers, times 1 worker", _ratio(TWO, ONE), at_least=1.0),
    Goal("2 workers, times Bytewax with 2 threads", _ratio(TWO, BYTEWAX), at_least=2.0),
    Goal("1 worker, sentences/s", ONE, at_least=200_000),
    Goal(
        "2 workers, Arrow, sentences/s",
        _of("arrow", "sentences_per_second", workers=2),
        at_least=500_000,
    ),
    Goal("2 workers, 1,000/s, p50 in ms", _latency("p50_ms", 2), at_most=55),
    Goal("2 workers, 1,000/s, p99 in ms", _latency("p99_ms", 2), at_most=150),
    Goal("1 worker, 1,000/s, p50 in ms", _latency("p50_ms", 1), at_most=10),
    Goal("1 worker, 1,000/s, p99 in ms", _latency("p99_ms", 1), at_most=40),
    Goal(
        "2 workers, p50 at 10,000/s, times that at 1,000/s",
        _ratio(_latency("p50_ms", 2, 10_000), _latency("p50_ms", 2)),
        at_most=1.3,
    ),
    Goal("2 workers, 1,000/s, cores", _latency("cores", 2), at_most=1.0),
    Goal(
        "batch of 4 workers, times that of 2",
        _ratio(_overhead("batch_p50_ms", 4), _overhead("batch_p50_ms", 2)),
        at_most=1.6,
    ),
    Goal(
        "batch of 8 workers, times that of 2",
        _ratio(_overhead("batch_p50_ms", 8), _overhead("batch_p50_ms", 2)),
        at_most=2.5,
    ),
    Goal("2 workers, memory in MB", _overhead("megabytes", 2), at_most=1100),
    Goal(
        "another worker, memory in MB",
        lambda r: (_overhead("megabytes", 8)(r) - _overhead("megabytes", 2)(r)) / 6,
        at_most=200,
    ),
    Goal("start to the first ack, 1 worker, in s", _of("start", "seconds", workers=1), at_most=5),
    Goal("start to the first ack, 2 workers, in s", _of("start", "seconds", workers=2), at_most=6),
    Goal("start to the first ack, 4 workers, in s", _of("start", "seconds", workers=4), at_most=8),
    Goal("the first 30 s, share of warm", _of("cold", "share", workers=2), at_least=0.6),
    Goal("ten bolts, 1,000/s, p50 in ms", _of("row", "p50_ms", workers=2), at_most=150),
    Goal("ten bolts, trees in 40 s", _of("row", "first_trees", workers=2), at_least=1_700_000),
)


def table(results: Results) -> Iterator[str]:
    """The goals whose figures were measured, line by line."""
    for goal in GOALS:
        try:
            value = goal.figure(results)
        except LookupError:
            continue
        verdict = "reached" if goal.is_met(value) else "missed"
        yield f"{goal.name:<52} {value:>13,.4g}   {goal.wanted:<20} {verdict}"
