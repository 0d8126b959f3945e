"""Why tuples failed, by component: reasons that differ in values alone count as one. Bounded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fulmen.secrets import masked
from fulmen.visible import visible

MOST_REASONS = 20
"""Kinds of reasons of one component; later ones count as `OTHER`."""
OTHER = "other reasons"
LONGEST_EXAMPLE = 500
_LONGEST_KIND = 200
_MOST_TEXTS = 1000
_VALUES = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")


class FailureCount(NamedTuple):
    """Tuples of one component that failed for reasons of one kind.

    Attributes:
        component: Where they failed; of those that timed out, or kill workers, the spout.
        kind: The reason without its values.
        number: How many there were.
        example: The reason of the last of them. Secrets are masked.
        task: Where that was.
    """

    component: str
    kind: str
    number: int
    example: str
    task: int


def kind_of(reason: str) -> str:
    """The reason without what differs from tuple to tuple."""
    return _VALUES.sub("…", reason)[:_LONGEST_KIND]


class FailureReasons:
    """Counts them in a worker, for one batch."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], list[object]] = {}  # component, kind -> as FailureCount
        self._kinds: dict[str, tuple[str, str]] = {}  # reason -> its kind, and what is shown of it
        self._number: dict[str, int] = {}

    def add(self, component: str, task: int, reason: str, n: int = 1) -> None:
        """So many tuples have failed for a reason."""
        found = self._kinds.get(reason)
        if found is None:
            shown = visible(masked(reason))[:LONGEST_EXAMPLE]
            if len(self._kinds) >= _MOST_TEXTS:
                self._kinds.clear()
            found = self._kinds[reason] = kind_of(shown), shown
        kind, shown = found
        entry = self._counts.get((component, kind))
        if entry is None:
            number = self._number[component] = self._number.get(component, 0) + 1
            key = component, kind if number <= MOST_REASONS else OTHER
            entry = self._counts.setdefault(key, [0, shown, task])
        entry[0] += n  # type: ignore[operator]
        entry[1:] = shown, task

    def add_all(self, component: str, task: int, reasons: Sequence[str]) -> None:
        """Add tuples that failed for a reason each."""
        numbers = Counter(reversed(reasons))
        for reason, n in reversed(numbers.items()):  # the last one is the example of its kind
            self.add(component, task, reason, n)

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __reduce__(self) -> Any:
        """Pickle as a list of the counts: nobody adds to it elsewhere."""
        return list, (list(self),)

    def __iter__(self) -> Iterator[FailureCount]:
        for (component, kind), (n, example, task) in self._counts.items():
            yield FailureCount(component, kind, n, example, task)  # type: ignore[arg-type]
