"""Aggregates by name, for `aggregate`: `agg.sum("euros")` is the text `sum(euros)` of YAML.

Each function gives that text, so `fulmen plan` and the file show the same.
"""

from typing import TYPE_CHECKING, NoReturn

from fulmen.windows.functions.wanted import no_aggregate


def count(field: str | None = None) -> str:
    """How many rows; or how many with a value of the field."""
    return "count" if field is None else f"count({field})"


def sum(field: str) -> str:
    """The sum of a field's numbers."""
    return f"sum({field})"


def mean(field: str) -> str:
    """The mean of a field's numbers."""
    return f"mean({field})"


def min(field: str) -> str:
    """The least value of a field."""
    return f"min({field})"


def max(field: str) -> str:
    """The greatest value of a field."""
    return f"max({field})"


def min_by(field: str, by: str, count: int | None = None, *, ties: bool = False) -> str:
    """A field of the row that has the least `by`; with `count` a list of those of so many rows."""
    return _best("min_by", field, by, count, ties)


def max_by(field: str, by: str, count: int | None = None, *, ties: bool = False) -> str:
    """A field of the row that has the greatest `by`; with `count` a list of those of so many."""
    return _best("max_by", field, by, count, ties)


def _best(name: str, field: str, by: str, count: int | None, ties: bool) -> str:
    more = "" if count is None else f", {count}{', ties' * ties}"
    return f"{name}({field}, {by}{more})"


def first(field: str) -> str:
    """The value with the earliest event time."""
    return f"first({field})"


def last(field: str) -> str:
    """The value with the latest event time."""
    return f"last({field})"


def list(field: str) -> str:
    """All values by their event times."""
    return f"list({field})"


def set(field: str) -> str:
    """The different values."""
    return f"set({field})"


def distinct(field: str, *, approximate: bool = False) -> str:
    """How many different values; approximately, in 2 kB."""
    return f"distinct({field}, approximate)" if approximate else f"distinct({field})"


def quantile(field: str, share: float) -> str:
    """About the number that such a share of all are not above."""
    return f"quantile({field}, {share})"


def top(field: str, count: int) -> str:
    """The most frequent values, with how often they occur."""
    return f"top({field}, {count})"


if not TYPE_CHECKING:  # for which any name would be one

    def __getattr__(name: str) -> NoReturn:
        """Say which aggregate is meant by a name that others use, such as `avg`."""
        raise AttributeError(no_aggregate(name), name=name)
