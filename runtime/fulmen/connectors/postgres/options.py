"""Options for PostgreSQL."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fulmen.connectors.options import Options, Zone
from fulmen.connectors.sql.options import Fields, GrowingOptions, Name, TableSinkOptions

Dsn = Annotated[str, Field(min_length=1, repr=False)]


class PostgresSinkOptions(TableSinkOptions):
    """Options of a PostgresSink."""

    dsn: Dsn
    """How to connect, as libpq takes it: `postgresql://user:password@host/database`. What it leaves
    out is in PGHOST, PGPASSWORD and the other variables of libpq."""
    mode: Literal["insert", "upsert", "copy"] = "insert"
    """`insert` adds rows. `upsert` adds a row, or replaces the one with the same key; of several
    rows with one key in a batch the last counts. `copy` adds rows by COPY, which is faster for
    thousands of rows."""
    timezone: Zone | None = None
    """The name of a time zone, such as `Europe/Berlin`. Dates and times without a time zone are of
    it, and columns of type `timestamp`, which have none, get the times of it. Default: UTC for the
    first, and a time that has a time zone is refused in such a column."""
    round: bool = False
    """Whether numbers and times with more digits than their column keeps, such as `numeric(6,2)`,
    are rounded. Default: their row is refused."""


class PostgresQueryOptions(GrowingOptions):
    """Options of a PostgresQuerySpout."""

    dsn: Dsn
    """How to connect, as libpq takes it: `postgresql://user:password@host/database`."""
    delay_seconds: float = Field(5.0, ge=0)
    """Rows are emitted when a value at least as high as theirs has been there for so long. A row
    that is committed later than that, with a lower value, is missed: make it longer than any
    transaction that writes to the table. 0: for a table with one writer."""


class PostgresQueueOptions(Options):
    """Options of a PostgresQueueSpout."""

    dsn: Dsn
    """How to connect, as libpq takes it: `postgresql://user:password@host/database`."""
    table: Name
    """The table, as the database spells it."""
    key: Name = "id"
    """A column that identifies a row: the primary key."""
    fields: Fields
    """The columns to emit. They are the fields of the stream. A list, or a mapping to their types,
    such as `{id: int64}`, which are compared with what sinks write."""
    order: Name | None = None
    """The column by whose order rows are claimed. Default: `key`. An index on it helps."""
    claimed_by: Name = "claimed_by"
    """The column, of type text, for the name of the task that has claimed a row."""
    claimed_until: Name = "claimed_until"
    """The column, of type timestamptz, for the time until which the claim counts."""
    claim_seconds: float = Field(900.0, ge=1)
    """For how long a claim counts. The topology renews its claims; when it is down for longer,
    others may take its rows, and then they are processed twice."""
    fetch_size: int = Field(1000, ge=1)
    """How many rows to claim at once."""
    poll_seconds: float = Field(1.0, ge=0)
    """How long to wait before it looks for new rows when there were none."""
    follow: bool = True
    """Whether to wait for more rows. False: the source ends when the queue is empty."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if len({self.key, self.claimed_by, self.claimed_until}) < 3:
            raise ValueError("key, claimedBy and claimedUntil must be three columns")
        return self
