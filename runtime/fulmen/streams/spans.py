"""Windows by name, for `window` and joins: each gives the `window` of YAML."""

from typing import Any

Window = dict[str, Any]


def tumbling(size: str, *, offset: str = "0") -> Window:
    """One window after the other: `tumbling("10m")`."""
    return _window("tumbling", size=size, offset=offset)


def sliding(size: str, every: str, *, offset: str = "0") -> Window:
    """Windows that begin more often than one ends: `sliding("1h", "10m")`."""
    return _window("sliding", size=size, every=every, offset=offset)


def cumulative(size: str, every: str, *, offset: str = "0") -> Window:
    """Windows that begin together and end one after the other: `cumulative("1d", "1h")`."""
    return _window("cumulative", size=size, every=every, offset=offset)


def session(gap: str) -> Window:
    """A window of each key, for as long as no gap is longer."""
    return _window("session", gap=gap)


def calendar(unit: str, *, timezone: str = "UTC") -> Window:
    """Hours, days, weeks, months or years, as people count them in a time zone."""
    return _window("calendar", unit=unit, timezone=timezone)


def counting(size: int) -> Window:
    """So many rows of a key, in the order in which they come."""
    return {"type": "count", "size": size}


def _window(kind: str, **options: str) -> Window:
    return {"type": kind, **{name: value for name, value in options.items() if value != "0"}}
