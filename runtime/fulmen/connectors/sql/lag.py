"""What sources of tables tell of their lag."""

from __future__ import annotations

from datetime import datetime
from typing import Any

LAG_SECONDS = 5.0
"""So often the lag is told."""
MOST_COUNTED = 100_000
"""Rows for the lag: counting takes as long as there are rows."""


def seconds_since(value: Any, now: float) -> float | None:
    """How old a row is, if a column says when it was written; else None.

    Args:
        value: Of the column: of use if it is a time that knows its time zone.
        now: In seconds since 1970.
    """
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return now - value.timestamp()
