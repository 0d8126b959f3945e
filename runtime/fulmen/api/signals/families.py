"""Names of authors' metrics, and what all series of one have in common."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from fulmen.errors import MetricError

Kind = Literal["counter", "gauge", "histogram"]
MOST_SERIES = 100
"""Series of one component: metrics, each with one set of label values."""
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Upper bounds of a histogram that names none: those of Prometheus' own clients."""
RESERVED_LABELS = ("topology", "component", "task", "le", "quantile", "instance", "job")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
_ENDINGS = ("_total", "_count", "_sum", "_bucket", "_created", "_info")
_LONGEST_TEXT = 200
_MOST_BUCKETS = 50


@dataclass(frozen=True)
class Family:
    """A metric, with what all its series have in common.

    Attributes:
        kind: How it is counted.
        name: Its name, without `fulmen_user_`.
        help: What it is, in one line.
        labels: The names of its own labels, ascending.
        buckets: Upper bounds of a histogram's buckets, ascending, without the infinite one.
    """

    kind: Kind
    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def family_of(
    kind: Kind,
    name: str,
    text: str,
    labels: Mapping[str, str] | None,
    buckets: Sequence[float] = (),
) -> tuple[Family, tuple[str, ...]]:
    """A metric and the values of its labels, as an author names them.

    Raises:
        MetricError: One of the names can't be used, or the buckets can't.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise MetricError(
            f"metric {name!r}: a name has at most 60 small letters, digits and '_', and begins with"
            " a letter"
        )
    for ending in _ENDINGS:
        if name.endswith(ending):
            raise MetricError(
                f"metric {name!r}: a name can't end in {ending!r}, which Prometheus adds itself or"
                f" uses otherwise. Call it {name.removesuffix(ending)!r}"
            )
    pairs = sorted((labels or {}).items())
    for label, value in pairs:
        if not _NAME.fullmatch(label) or label in RESERVED_LABELS or label.startswith("__"):
            raise MetricError(
                f"metric {name!r}, label {label!r}: a label has small letters, digits and '_',"
                f" begins with a letter, and is none of {', '.join(RESERVED_LABELS)}"
            )
        if not isinstance(value, str):
            raise MetricError(f"metric {name!r}, label {label!r}: {value!r} is not a text")
    bounds = tuple(float(bound) for bound in buckets)
    if kind == "histogram":
        _check_buckets(name, bounds)
    family = Family(kind, name, str(text)[:_LONGEST_TEXT], tuple(k for k, _ in pairs), bounds)
    return _shared(family), tuple(value[:_LONGEST_TEXT] for _, value in pairs)


@lru_cache(maxsize=10_000)
def _shared(family: Family) -> Family:
    """Share one object among equal ones: pickle writes it once for all tasks of a process."""
    return family


def _check_buckets(name: str, bounds: tuple[float, ...]) -> None:
    rises = all(low < high for low, high in pairwise(bounds))
    if not 0 < len(bounds) <= _MOST_BUCKETS or not rises or not all(map(math.isfinite, bounds)):
        raise MetricError(
            f"histogram {name!r}: buckets are 1 to {_MOST_BUCKETS} finite numbers, each greater"
            f" than the one before, and not {list(bounds)}"
        )


def differs(family: Family, known: Family, where: str) -> str:
    """A message: a name means two things."""
    parts = [
        (family.kind, known.kind, "a {}"),
        (family.labels, known.labels, "with the labels {}"),
        (family.buckets, known.buckets, "with the buckets {}"),
        (family.help, known.help, "with the help {!r}"),
    ]
    here, there, text = next(part for part in parts if part[0] != part[1])
    shown = [list(x) if isinstance(x, tuple) else x for x in (here, there)]
    return (
        f"metric {family.name!r} is {text.format(shown[0])} here, and {text.format(shown[1])} in"
        f" {where}: use one meaning, or another name"
    )


def too_many(name: str) -> str:
    """A message: a component has as many series as it may have."""
    return (
        f"metric {name!r} would be series {MOST_SERIES + 1} of its component, and at most"
        f" {MOST_SERIES} are kept: use fewer values of labels"
    )
