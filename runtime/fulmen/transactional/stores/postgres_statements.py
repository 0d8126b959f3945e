"""The statements of a map in PostgreSQL, and what the server's errors mean to who uses it."""

from __future__ import annotations

import psycopg
from psycopg import errors

from fulmen.services.errors import StoreError, StoreRefused, StoreUnavailable
from fulmen.services.service import ErrorKind
from fulmen.services.sql.names import listed, qualified
from fulmen.services.sql.postgres import (
    CREATES_ONE_AT_A_TIME,
    IDLE_SECONDS,
    LET_IN,
    LOCK_SECONDS,
    NOT_LET_IN,
    UNWELCOME,
    Postgres,
)
from fulmen.transactional.owners import Owner
from fulmen.transactional.stores.sql import KEPT, MAPS, MARKS, OWNER_COLUMNS

__all__ = ["CREATES_ONE_AT_A_TIME", "POSTGRES_TYPES", "MapStatements", "meant"]
POSTGRES_TYPES = {
    "text": "text",
    "integer": "bigint",
    "float": "double precision",
    "bytes": "bytea",
    "json": "jsonb",
}
FILLED = 70
"""Per cent of a page. The rest is for changed rows: no index changes, so it is twice as fast."""
AGAIN = "The transaction is tried again."
MEANINGS: tuple[tuple[type[psycopg.Error], str, str], ...] = (
    (
        errors.InsufficientPrivilege,
        "a right is missing",
        "The first start needs USAGE and CREATE on the schema; later ones SELECT, INSERT, UPDATE"
        f" and DELETE on the table, {MAPS} and {MARKS}.",
    ),
    (
        errors.ReadOnlySqlTransaction,
        "the database or the role is read-only",
        "Connect to the primary instead of a standby, with a role that may write.",
    ),
    (
        errors.UndefinedTable,
        "a table that was there is gone",
        f"Restore it. To begin anew, delete the map's rows in {MAPS} and {MARKS}.",
    ),
    (errors.InvalidSchemaName, "there is no such schema", "Make it first: CREATE SCHEMA."),
    (
        errors.LockNotAvailable,
        f"another process has held this task's mark for {LOCK_SECONDS} seconds",
        "Look for it in pg_stat_activity, where application_name is 'fulmen'.",
    ),
    (errors.DiskFull, "the server's disk is full", "Make room: it goes on then."),
    (
        errors.IdleInTransactionSessionTimeout,
        f"this process did nothing for {IDLE_SECONDS} seconds in the middle of a commit phase",
        "It was stopped, or its machine is overloaded.",
    ),
)
"""Errors that are mended outside, or pass: no transaction is to blame."""


class MapStatements:
    """The statements of a map. JSON is read and written as text.

    Attributes:
        names: Of the tables: `table`, `maps` and `marks`.
    """

    def __init__(self, owner: Owner, schema: str, table: str) -> None:
        kinds = (owner.key, owner.value)
        is_opaque = owner.rule == "opaque"
        text = "::text" if kinds[1] == "json" else ""
        keys = f"%s::{'text' if kinds[0] == 'json' else POSTGRES_TYPES[kinds[0]]}[]"
        values = "%s::text[]::jsonb[]" if text else f"%s::{POSTGRES_TYPES[kinds[1]]}[]"
        row = f"key, value{text}, txid, task, attempt"
        row += f", previous{text}" if is_opaque else ""
        written = "attempt, key, value" + (", previous" if is_opaque else "")
        arrays = f"%s::bigint[], {keys}, {values}" + (f", {values}" if is_opaque else "")
        tables = {"table": table, "maps": MAPS, "marks": MARKS}
        self.names = {
            what: qualified(f"{schema}.{name}" if schema else name) for what, name in tables.items()
        }
        parts = {**self.names, "owner": listed(OWNER_COLUMNS)}

        def made(statement: str) -> str:
            return statement.format(**parts)

        self.of_keys = made(f"SELECT {row} FROM {{table}} WHERE key = ANY({keys})")
        self.of_transaction = made(f"SELECT {row} FROM {{table}} WHERE txid = %s AND task = %s")
        self.insert = made(
            f"INSERT INTO {{table}} (txid, task, {written})"
            f" SELECT %s::bigint, %s::integer, * FROM unnest({arrays}) ON CONFLICT DO NOTHING"
        )
        self.change = made(
            "UPDATE {table} t"
            " SET txid = own.txid, task = own.task, attempt = n.attempt, value = n.value"
            + (", previous = n.previous" if is_opaque else "")
            + " FROM (SELECT %s::bigint AS txid, %s::integer AS task) own,"
            f" unnest({arrays}, %s::bigint[], %s::bigint[]) AS n ({written}, was, was_had)"
            " WHERE t.key = n.key AND t.txid = n.was AND t.attempt = n.was_had"
        )
        self.delete = made(f"DELETE FROM {{table}} WHERE key = ANY({keys})")
        self.marks = made(
            "SELECT task, txid, attempt, branch FROM {marks} WHERE map = %s AND txid > 0"
        )
        self.lock_mark = made(
            "SELECT txid, attempt, branch FROM {marks} WHERE map = %s AND task = %s FOR UPDATE"
        )
        self.first_mark = made(
            "INSERT INTO {marks} VALUES (%s, %s, 0, 0, '') ON CONFLICT DO NOTHING"
        )
        self.move_mark = made(
            "UPDATE {marks} SET txid = %s, attempt = %s, branch = %s WHERE map = %s AND task = %s"
        )
        self.owner = made("SELECT {owner} FROM {maps} WHERE map = %s")
        self.claim = made("INSERT INTO {maps} VALUES (%s, %s, %s, %s, %s, %s, %s)")
        key, value = (POSTGRES_TYPES[kind] for kind in kinds)
        if owner.key in ("text", "json"):
            key = 'text COLLATE "C"'  # compared as bytes: faster, and the same everywhere
        previous = f", previous {value}" if is_opaque else ""
        self.making = (
            made(
                "CREATE TABLE IF NOT EXISTS {maps} (map text PRIMARY KEY, topology text NOT NULL,"
                " component text NOT NULL, rule text NOT NULL, key text NOT NULL,"
                " value text NOT NULL, layout integer NOT NULL)"
            ),
            made(
                "CREATE TABLE IF NOT EXISTS {marks} (map text REFERENCES {maps} ON DELETE CASCADE,"
                " task integer, txid bigint NOT NULL, attempt bigint NOT NULL,"
                " branch text NOT NULL, PRIMARY KEY (map, task))"
            ),
            made(
                f"CREATE TABLE {{table}} (key {key} PRIMARY KEY, value {value} NOT NULL,"
                " txid bigint NOT NULL, task integer NOT NULL, attempt bigint NOT NULL"
                f"{previous}) WITH (fillfactor = {FILLED})"
            ),
        )


def meant(service: Postgres, where: str, error: psycopg.Error) -> StoreError:
    """The error that the user of a map gets."""
    text, kind = service.said(error), service.kind_of(error)
    for of, reason, cure in MEANINGS:
        if isinstance(error, of):
            return StoreUnavailable(where, f"{reason} ({text})", f"{KEPT} {cure}")
    if error.sqlstate is None and UNWELCOME.search(text):
        return StoreUnavailable(where, NOT_LET_IN.format(text), LET_IN)
    if kind not in (ErrorKind.AWAY, ErrorKind.BUSY):
        return StoreRefused(where, f"PostgreSQL refuses it ({text})", KEPT)
    if (error.sqlstate or "").startswith("40"):
        return StoreUnavailable(where, f"others were in the way ({text})", f"{KEPT} {AGAIN}")
    return StoreUnavailable(
        where,
        f"PostgreSQL is away ({text})",
        f"{AGAIN} Whether this attempt was written shows then.",
    )
