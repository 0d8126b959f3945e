"""Metrics of authors, added up from what committed batches say of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from fulmen.api.signals import MOST_SERIES, Family, Sample, Value, differs, too_many

Series = tuple[str, tuple[str, ...]]
"""The name of a metric, and the values of its labels."""


class AuthorMetrics:
    """All series of a topology, by the number of a task among its component's.

    Attributes:
        families: What each name means.
    """

    def __init__(self) -> None:
        self.families: dict[str, Family] = {}
        self._values: dict[tuple[str, int], dict[Series, Value]] = defaultdict(dict)
        self._series: dict[str, set[Series]] = defaultdict(set)
        self._meant_by: dict[str, str] = {}  # name -> the component that it came from first
        self._may_change: set[str] = set()
        self._refused: set[tuple[str, str]] = set()

    def add(self, component: str, index: int, samples: Iterable[Sample]) -> list[str]:
        """Add what a task has counted and measured in a batch that was committed.

        Args:
            component: The task's.
            index: The task's number among those of its component, from 0.
            samples: What it says.

        Returns:
            What could not be added, and why: once for each metric of a component.
        """
        refused = []
        for family, labels, value in samples:
            key = family.name, labels
            reason = self._reason_against(component, family, key)
            if reason is None:
                values = self._values[component, index]
                values[key] = _sum(family, values.get(key), value)
            elif (component, family.name) not in self._refused:
                self._refused.add((component, family.name))
                refused.append(reason)
        return refused

    def _reason_against(self, component: str, family: Family, key: Series) -> str | None:
        name = family.name
        known = self.families.get(name)
        if known is not None and known != family and name in self._may_change:
            self._forget(name)
            known = None
        if known is None:
            self.families[name], self._meant_by[name] = family, component
        elif known != family:
            return differs(family, known, repr(self._meant_by[name]))
        self._may_change.discard(name)
        series = self._series[component]
        if key not in series and len(series) >= MOST_SERIES:
            return too_many(name)
        series.add(key)
        return None

    def _forget(self, name: str) -> None:
        for values in self._values.values():
            for key in [key for key in values if key[0] == name]:
                del values[key]
        for series in self._series.values():
            series -= {key for key in series if key[0] == name}

    def renumber(self) -> None:
        """Begin a changed topology: tasks are others, and a name may have another meaning."""
        self._may_change = set(self.families)
        self._refused.clear()
        for values in self._values.values():
            for key in [key for key in values if self.families[key[0]].kind == "gauge"]:
                del values[key]

    def of_tasks(self, name: str) -> Iterator[tuple[str, int, tuple[str, ...], Value]]:
        """All series of a metric: component, number of the task, values of labels, value."""
        for (component, index), values in self._values.items():
            for (of, labels), value in values.items():
                if of == name:
                    yield component, index, labels, value

    def of_component(self, component: str) -> dict[str, Any]:
        """The metrics of a component over all its tasks, by name, as plain values.

        A name with labels is written as Prometheus does. A counter and a gauge are a number, the
        sum of all tasks; a histogram is its count, its sum and its buckets.
        """
        sums: dict[Series, Value] = {}
        for (of, _), values in self._values.items():
            if of == component:
                for key, value in values.items():
                    before = sums.get(key)
                    sums[key] = value if before is None else _plus(before, value)
        return {self._title(key): self._plain(key, sums[key]) for key in sorted(sums)}

    def _title(self, key: Series) -> str:
        names = self.families[key[0]].labels
        labels = ",".join(f'{n}="{value}"' for n, value in zip(names, key[1], strict=True))
        return f"{key[0]}{{{labels}}}" if labels else key[0]

    def _plain(self, key: Series, value: Value) -> Any:
        if not isinstance(value, tuple):
            return value
        buckets = dict(cumulative(self.families[key[0]], value))
        return {"count": sum(value[0]), "sum": value[1], "buckets": buckets}

    def copy(self) -> AuthorMetrics:
        """Copy it, to be read while this one changes."""
        same = AuthorMetrics()
        same.families = dict(self.families)
        same._values.update({task: dict(values) for task, values in self._values.items()})
        return same


def cumulative(family: Family, value: tuple[tuple[int, ...], float]) -> Iterator[tuple[str, int]]:
    """Each bound of a histogram, as Prometheus writes it, with the events that stayed within it."""
    bounds = [*map(str, family.buckets), "+Inf"]
    yield from zip(bounds, accumulate(value[0]), strict=True)


def _sum(family: Family, before: Value | None, value: Value) -> Value:
    return value if before is None or family.kind == "gauge" else _plus(before, value)


def _plus(one: Value, other: Value) -> Value:
    if isinstance(one, tuple) and isinstance(other, tuple):
        counts = tuple(a + b for a, b in zip(one[0], other[0], strict=True))
        return counts, one[1] + other[1]
    assert not isinstance(one, tuple)
    assert not isinstance(other, tuple)
    return one + other
