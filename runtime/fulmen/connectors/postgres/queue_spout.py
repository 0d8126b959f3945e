"""A table as a queue: rows are claimed, emitted, and deleted when they are acked.

- A claim is a name in a column of the row, with a time until which it counts. So it is there after
  the process that made it has died, and no other task takes the row meanwhile.
- A claim is committed in the database before the batch is committed. After a restore the spout asks
  for rows with its own name that its state does not know, and emits them. So it does after a claim
  of which it is not known whether it was committed. Otherwise it does not ask for such rows.
- A row is deleted after the commit that has its ack. Until then the state has its values, so a
  batch that is run again with another outcome finds them.
- The name is drawn at random and committed before the first claim, so that it is known after a
  restore.
- A claim that has run out is anybody's, as of a topology that was deleted. The spout renews its
  claims at the start, and then in time. After each renewal it claims no row before a batch is
  committed: then all tasks have renewed theirs, also after a time in which none of them ran.
- A task that takes over from one that is no more claims its rows, by the name of that one.
- A row is known by the text of its key: values of some types, such as NaN or a JSON object, equal
  nothing in Python, or can't be a key of the state.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from psycopg import Error
from psycopg.errors import UndefinedColumn
from pydantic import BaseModel
from typing_extensions import override

from fulmen.api.collector import MessageId
from fulmen.api.components.kept import Kept
from fulmen.connectors.base.blocks import EmittedBlocks
from fulmen.connectors.base.redealing import heir_of, refuse_own_fields, waiting
from fulmen.connectors.postgres.database import PostgresDatabase, escaped
from fulmen.connectors.postgres.loading import TimeFields, check_types, cursor_of, rows_of
from fulmen.connectors.postgres.options import PostgresQueueOptions
from fulmen.connectors.sql.source import MOST_COUNTED, SqlSource
from fulmen.services.sql.arrays import array
from fulmen.services.sql.names import listed, qualified, quoted

_CURES: Mapping[type[Error], str] = {
    UndefinedColumn: "Correct the name in key, fields or order, or add the column. A queue needs"
    " two columns for claims, claimedBy and claimedUntil: see docs/connectors/postgres.md."
}
RENEWALS = 3
"""In the time for which a claim counts."""


class PostgresQueueSpout(SqlSource):
    """Takes rows out of a table. Several tasks and topologies may share one."""

    config_model: ClassVar[type[BaseModel] | None] = PostgresQueueOptions
    durable = ("name", "acked", "failed", "in_blocks", "adopted")
    options: PostgresQueueOptions

    def __init__(self) -> None:
        super().__init__()
        self.name = ""
        self.acked: list[str] = []
        self.in_blocks: dict[int, int] = {}
        self.adopted: list[str] = []

    @override
    @classmethod
    def redistribute(cls, kept: Sequence[Kept], tasks: int) -> Sequence[Kept]:
        refuse_own_fields(cls, kept, PostgresQueueSpout.durable)
        dealt = [
            Kept({"name": "", "acked": [], "failed": {}, "in_blocks": {}, "adopted": []})
            for _ in range(tasks)
        ]
        for task, one in enumerate(kept):
            heir, fields = dealt[heir_of(task, tasks)], one.fields
            name = fields.get("name", "")
            if task < tasks:
                heir.fields["name"] = name
            elif name:
                heir.fields["adopted"].append(name)
            heir.fields["adopted"] += fields.get("adopted", ())
            heir.fields["acked"] += fields.get("acked", ())
            heir.fields["failed"] |= fields.get("failed", {})
            heir.state |= waiting(one)
            heir.failed += one.failed
        return dealt

    def connect(self) -> None:
        """Look at the table.

        Raises:
            ServiceUnavailable: The database is away.
            StoreRefused: A name, a type or a right is wrong: the text says which.
        """
        options = self.options
        self._queue = _Queue(options)
        self._blocks = EmittedBlocks(self.state, self.in_blocks)
        self._times = TimeFields(options.fields)
        self._rows: deque[Sequence[Any]] = deque()
        self._gone: list[str] = []
        self._poll, self._retry = self.due(options.poll_seconds), self.due(options.poll_seconds)
        self._renewal = self.due(options.claim_seconds / RENEWALS)
        self._is_new, self._is_empty = True, False
        self._is_named, self._may_claim = bool(self.name), False

    def begin_turn(self) -> bool:
        """Keep its claims."""
        if not self.name:
            self.name = f"{self.context.label}/{secrets.token_hex(6)}"
            self._renewal.later()  # there is none in this name
        self._keep_claims()
        return True

    def emit_next(self) -> bool:
        """Emit rows that are claimed, as many as there is room for."""
        left = self._rows
        if not left and self._is_named and self._poll.take():
            self._claim()
        if not left:
            return False
        taken = [left.popleft() for _ in range(min(len(left), max(1, self.collector.room)))]
        keys = [key for key, *_ in taken]
        rows = self.kept_each([values for _, *values in taken], keys)
        self._blocks.add(keys, rows)
        self.emit_rows(rows, keys)
        return True

    def emit_again(self, msg_id: str) -> None:
        """Emit a row that is kept."""
        self.emit_row(self._blocks[msg_id], msg_id)

    def position_of(self, place: str) -> str:
        """The key of a row."""
        return f"{self.options.table}.{self.options.key}={place}"

    def check(self, values: list[Any]) -> list[Any]:
        """Check the times alone: the types of columns were compared at the start."""
        self._times.check(values)
        return values

    def check_each(self, rows: Sequence[list[Any]]) -> Sequence[list[Any]]:
        """Check the times alone."""
        return self._times.check_each(rows)

    def _claim(self) -> None:
        is_first = self.context.task_index == 0  # it tells the lag for all of them
        if is_first and self.lag_due.take():
            length, first = self._queue.waiting()
            self.context.lag(messages=length, seconds=self.age_of(first) if length else 0.0)
        if self._is_new:
            self._rows.extend(self._queue.claimed(self.name, self._known()))
        if not self._rows:
            if not self._may_claim:
                self._poll.soon()
                return
            self._is_new = True  # until the answer is here
            self._rows.extend(self._queue.claim(self.name))
        self._is_new = False
        if len(self._rows) >= self.options.fetch_size:
            self._poll.soon()
        self._is_empty = not self._rows
        if self._is_empty and is_first:  # it may end before the next look
            self.context.lag(messages=0, seconds=0.0)

    def _known(self) -> list[str]:
        return [*self._blocks.ids(), *self.acked]

    def _keep_claims(self) -> None:
        if self.adopted and self._is_named:
            self._queue.adopt(self.name, self.adopted)
            self.adopted = []
            self._renewal.soon()
        if self._gone and not self.adopted and self._retry.take():  # else it is not in its name yet
            self._queue.delete(self.name, self._gone)
            gone, self._gone = set(self._gone), []
            self._retry.soon()
            self.acked = [key for key in self.acked if key not in gone]
        if self._is_named and self._renewal.take():
            self._queue.renew(self.name)
            self._is_new = True  # a process that was superseded may have claimed some in its name
            self._may_claim = False

    def ack_batch(self, msg_ids: Sequence[Any]) -> None:
        """Note that rows are done. They are deleted when that is committed."""
        self.acked += self._blocks.end(msg_ids)

    def ack(self, msg_id: MessageId) -> None:
        """Note that one is."""
        self.ack_batch([msg_id])

    def fail(self, msg_id: Any, reason: str) -> None:
        """Emit the row again."""
        if self._blocks.fail(msg_id):
            super().fail(msg_id, reason)

    def committed(self, number: int) -> None:  # noqa: ARG002
        """Delete what was acked before the commit."""
        self._is_named = self._may_claim = bool(self.name)
        self._gone = list(self.acked)
        self._keep_claims()

    def part_of(self, msg_id: MessageId) -> str:  # noqa: ARG002
        """The rows that this task claims: those of another one may be older or newer."""
        return f"{self.options.table} of task {self.context.task_index}"

    def unread_parts(self) -> Sequence[str]:
        """The task's part, while rows are left. A task without rows waits for nothing."""
        return [self.part_of(None)] if self._rows or self._is_new else []

    def is_exhausted(self) -> bool:
        """Whether all rows were acked and deleted, and no more are waited for."""
        return not self.options.follow and self._is_empty and not self.state and not self.acked


class _Queue:
    """The statements. They raise ServiceUnavailable if the database is away."""

    def __init__(self, options: PostgresQueueOptions) -> None:
        self._database = PostgresDatabase(
            f"queue {options.table!r}", options.dsn, reads=True, cures=_CURES
        )
        parts = {
            "table": escaped(qualified(options.table)),
            "key": escaped(quoted(options.key)),
            "order": escaped(quoted(options.order or options.key)),
            "fields": escaped(listed(options.fields)),
            "by": escaped(quoted(options.claimed_by)),
            "until": escaped(quoted(options.claimed_until)),
        }

        def made(statement: str) -> str:
            return statement.format(**parts)

        self._lease, self._most = options.claim_seconds, options.fetch_size
        with self._database.opening() as db:
            [key] = db.execute(made("SELECT {key} FROM {table} LIMIT 0"), []).description or []
            [[kind]] = db.execute("SELECT format_type(%s, NULL)", [key.type_code])
            parts["keys"] = f"%s::text[]::{escaped(kind)}[]"
            self._claim = made(
                "WITH free AS MATERIALIZED (SELECT {key} AS k FROM {table}"
                " WHERE ({until} IS NULL OR {until} < now()) AND {by} IS DISTINCT FROM %s"
                " ORDER BY {order} LIMIT %s FOR UPDATE SKIP LOCKED),"
                " claimed AS (UPDATE {table} t SET {by} = %s,"
                " {until} = now() + %s * interval '1 second' FROM free WHERE t.{key} = free.k"
                " RETURNING t.*)"
                ' SELECT {key}::text AS "fulmen key", {fields} FROM claimed ORDER BY {order}'
            )
            self._claimed = made(
                'SELECT {key}::text AS "fulmen key", {fields} FROM {table}'
                " WHERE {by} = %s AND NOT {key} = ANY({keys}) ORDER BY {order}"
            )
            self._renew = made(
                "UPDATE {table} SET {until} = now() + %s * interval '1 second' WHERE {by} = %s"
            )
            self._waiting = made(
                "SELECT (SELECT count(*) FROM (SELECT FROM {table}"
                " WHERE {until} IS NULL OR {until} < now() LIMIT %s) AS counted),"
                " (SELECT {order} FROM {table}"
                " WHERE {until} IS NULL OR {until} < now() ORDER BY {order} LIMIT 1)"
            )
            self._adopt = made("UPDATE {table} SET {by} = %s WHERE {by} = ANY(%s::text[])")
            self._delete = made("DELETE FROM {table} WHERE {by} = %s AND {key} = ANY({keys})")
            db.execute(f"EXPLAIN {self._claim}", ["", 0, "", 1.0])
            db.execute(f"EXPLAIN {self._delete}", ["", "{}"])
            check_types(
                db, self._database.where, made("SELECT {fields} FROM {table}"), options.fields
            )

    def claim(self, name: str) -> list[Any]:
        """Claim rows that nobody has claimed, and none of one's own: key and fields."""
        return self._run(self._claim, [name, self._most, name, self._lease])

    def claimed(self, name: str, known: Sequence[str]) -> list[Any]:
        """Rows that were claimed under a name, but for those that are known."""
        return self._run(self._claimed, [name, array(known)])

    def waiting(self) -> tuple[int, Any]:
        """Count unclaimed rows, up to a limit, and give the first one's value of `order`."""
        [(length, first, *_)] = self._run(self._waiting, [MOST_COUNTED])
        return length, first

    def adopt(self, name: str, others: Sequence[str]) -> None:
        """Claim, under a name, what is claimed under others."""
        with self._database.transaction() as db:
            db.execute(self._adopt, [name, array(others)])

    def renew(self, name: str) -> None:
        """Let all claims under a name count from now on."""
        with self._database.transaction() as db:
            db.execute(self._renew, [self._lease, name])

    def delete(self, name: str, keys: Sequence[str]) -> None:
        """Delete those of these rows that are claimed under a name."""
        with self._database.transaction() as db:
            db.execute(self._delete, [name, array(keys)])

    def _run(self, statement: str, values: Sequence[Any]) -> list[Any]:
        with self._database.transaction() as db:
            return rows_of(cursor_of(db).execute(statement, values))
