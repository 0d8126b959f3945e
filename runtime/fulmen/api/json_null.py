"""JSON's null, where it is told from a value that is missing."""

from __future__ import annotations

from enum import Enum


class JsonNull(Enum):
    """The class of `JSON_NULL`, which is false, and written as null, as None is."""

    JSON_NULL = None

    def __bool__(self) -> bool:
        return False


JSON_NULL = JsonNull.JSON_NULL
"""The value `null` of a field that is JSON, such as a column `jsonb`. None: it has no value."""
