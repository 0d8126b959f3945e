"""Reads values, also those that Python's types can't hold."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.types.multirange import MultirangeInfo
from psycopg.types.range import RangeInfo
from psycopg.types.string import TextLoader

OUT_OF_RANGE = ("date", "timestamp", "timestamptz", "time", "timetz", "interval")
"""Types with values that Python's have not, such as infinity."""


def cursor_of(db: psycopg.Connection[Any]) -> psycopg.Cursor[Any]:
    """One that gives the text of a value that Python can't hold, since no row may stop a source."""
    cursor = db.cursor()
    for kind in (RangeInfo, MultirangeInfo):  # psycopg's own classes, which nothing else can write
        for info in psycopg.adapters.types:
            if isinstance(info, kind):
                cursor.adapters.register_loader(info.oid, TextLoader)
    for name in OUT_OF_RANGE:
        oid = psycopg.adapters.types[name].oid
        loader = psycopg.adapters.get_loader(oid, psycopg.pq.Format.TEXT)
        if loader is not None:
            cursor.adapters.register_loader(oid, _lenient(loader))
    return cursor


def _lenient(exact: type[Any]) -> type[Loader]:
    class Lenient(Loader):
        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self._load = exact(oid, context).load

        def load(self, data: Buffer) -> Any:
            try:
                return self._load(data)
            except psycopg.DataError:
                return bytes(data).decode()

    return Lenient
