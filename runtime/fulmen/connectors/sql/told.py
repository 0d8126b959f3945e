"""Rows that are told on the stream `errors`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fulmen.connectors.formats import DEFAULT
from fulmen.errors import PASSED_ON, repr_of

_LONGEST_DATA = 1 << 16


def as_data(fields: Iterable[str], values: Sequence[Any]) -> bytes:
    """A row as JSON, so that nothing of it is lost."""
    row = dict(zip(fields, values, strict=True))
    try:
        return DEFAULT.text(row).encode()
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (of a row that nothing may be able to read)
        return repr_of(row, _LONGEST_DATA).encode(errors="backslashreplace")
