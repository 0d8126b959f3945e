"""Rows and marks in one transaction of a database.

The store's mark decides: it is read under a lock, so that a driver that was superseded and writes
late waits for its successor, and then sees that its rows are written. It keeps which rows the
database refused, since a repetition has to fail the same ones without writing anything.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar

from fulmen.api.components.sinks import Guarantee, Mark, Rows, Sink
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.connectors.formats import Malformed
from fulmen.connectors.formats.base import is_deletion
from fulmen.connectors.formats.types import samples_of
from fulmen.connectors.sql.options import TableSinkOptions
from fulmen.connectors.sql.tables import SqlTable, SqlTransaction
from fulmen.services.errors import StoreRefused

LONGEST_REASON = 500


class Deletion(tuple[Any, ...]):
    """A row whose key is deleted."""


class SqlSink(Sink):
    """Writes each row of a batch to a table, all in one transaction."""

    guarantees: ClassVar[Sequence[Guarantee]] = ("at-least-once", "exactly-once")
    durable = ("has_table",)
    _mode: str
    _table: SqlTable
    _fields: tuple[str, ...]
    _names: tuple[str, ...]
    _key: frozenset[str]
    _deleted: str | None

    def __init__(self) -> None:
        self.has_table = False

    def check_input(self, options: Any, stream: Stream) -> Iterable[str | Warning]:
        """The mistakes of the fields, by the options of the table."""
        mistakes: Iterable[str | Warning] = options.mistakes(stream)
        return mistakes

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:  # noqa: ARG002
        """Look at the table, and make it and the table of marks if that is to be done.

        A table that was there once is not made anew: it may have been renamed for a while.

        Raises:
            ServiceUnavailable: The database is away.
            StoreRefused: A name, a type or a right is wrong: the text says which.
        """
        options: TableSinkOptions = context.options
        self._mode = options.mode
        columns = self._columns(context)
        self._fields, self._names = tuple(columns), tuple(columns.values())
        self._key, self._deleted = frozenset(options.key), options.deleted_field
        task = context.label
        if self.has_table:
            options = options.model_copy(update={"create": {}})
        self._table = self.look_at_table(options, self._names, task)
        for (component, _), stream in context.inputs.items():
            self._refuse_types(f"table {options.table!r}", component, stream.types)
        self.has_table = True

    def _refuse_types(self, where: str, component: str, types: Mapping[str, str]) -> None:
        """Refuse an input whose every row the table would refuse, by what is known of its types."""
        row = [self._sample(i, types.get(name, "")) for i, name in enumerate(self._fields)]
        rows = self._tried(row)
        if rows.failed:
            told = ", ".join(f"{name} {types[name]}" for name in self._fields if name in types)
            raise StoreRefused(
                where,
                f"{component!r} emits {told}, and the table takes no such values: such as"
                f" {rows.failed[0]}",
                "Give fields other types where they are read, or columns.",
            )

    def _sample(self, column: int, kind: str) -> Any:
        """A value of a type: one that the column takes, if there is any."""
        samples = samples_of(kind)
        others = [None] * len(self._fields)
        rows = ([*others[:column], value, *others[column + 1 :]] for value in samples)
        return next((row[column] for row in rows if not self._tried(row).failed), samples[0])

    def _tried(self, row: list[Any]) -> Rows:
        """Encode a row, to see whether it is refused. It is not written."""
        rows = Rows(self._fields, [row])
        self._table.encode([[value] for value in row], rows)
        return rows

    @abstractmethod
    def look_at_table(self, options: Any, columns: tuple[str, ...], task: str) -> SqlTable:
        """Find the table and see that it takes these columns.

        Args:
            options: Of the sink.
            columns: Those that are written.
            task: Whose it is: the same for each instance of the task.
        """

    def encode(self, rows: Rows) -> Sequence[Any]:
        """The values of each row's columns, as the database takes them."""
        try:
            positions = [rows.fields.index(name) for name in self._fields]
        except ValueError:
            missing = next(name for name in self._fields if name not in rows.fields)
            rows.fail_all(f"there is no field {missing!r}, only {list(rows.fields)}")
            return rows
        values: list[Sequence[Any]] = list(zip(*rows, strict=True))
        if not values:
            return rows
        columns = [values[i] for i in positions]
        if self._deleted is not None:
            return self._encode_deletions(columns, rows)
        return self._table.encode(columns, rows)

    def _encode_deletions(self, columns: Sequence[Sequence[Any]], rows: Rows) -> Sequence[Any]:
        """Encode rows of which some are deletions, as a field says."""
        assert self._deleted is not None
        at, gone = rows.fields.index(self._deleted), set[int]()
        for i, row in enumerate(rows):
            try:
                if is_deletion(self._deleted, row[at]):
                    gone.add(i)
            except Malformed as error:
                rows.fail(i, str(error))
        kept = [
            column
            if name in self._key
            else [None if i in gone else value for i, value in enumerate(column)]
            for name, column in zip(self._names, columns, strict=True)
        ]
        items = list(self._table.encode(kept, rows))
        for i in gone:
            items[i] = Deletion(items[i])
            for name, column in zip(self._names, kept, strict=True):
                if name in self._key and column[i] is None:
                    rows.fail(i, f"the row deletes a key whose column {name!r} is null")
        return items

    @property
    def appends(self) -> bool:
        """Whether no row replaces another one."""
        return self._mode != "upsert"

    @property
    def key_fields(self) -> Sequence[str]:
        """The fields of the key's columns, if rows of the table may be deleted."""
        if self.appends or not self._table.may_delete:
            return ()
        columns = zip(self._fields, self._names, strict=True)
        return [field for field, name in columns if name in self._key]

    def deletion(self, item: Any) -> Any:
        """The row, as one to be deleted."""
        return Deletion(item)

    def describe(self, item: Any) -> Any:
        """The value of each column."""
        return dict(zip(self._names, item, strict=True))

    def write(self, rows: Rows, mark: Mark | None) -> None:
        """Write all rows and the mark, in one transaction."""
        with self._table.transaction() as transaction:
            refused = _written(transaction, rows, mark)
        for position, reason in refused.items():
            rows.fail(position, reason)

    def _columns(self, context: TopologyContext) -> dict[str, str]:
        """The column of each field. All inputs have the same fields."""
        options: TableSinkOptions = context.options
        where = f"table {options.table!r}"
        for (component, _), stream in context.inputs.items():
            try:
                return options.columns_of(stream.fields)
            except Malformed as error:
                said = f"in what {context.component!r} receives from {component!r}, {error}"
                raise StoreRefused(where, said) from None
        if options.columns is None:
            raise StoreRefused(where, "the sink has no input, and no columns", "Give it an input.")
        return dict(options.columns)


def _written(transaction: SqlTransaction, rows: Rows, mark: Mark | None) -> Mapping[int, str]:
    if mark is None:
        return _carried_out(transaction, rows)
    kept = transaction.locked_mark(mark)
    if mark.is_written(kept.number, kept.tag):
        return unpack_refused(kept.refused or "[]")
    refused = _carried_out(transaction, rows)
    transaction.keep(mark, pack_refused(refused))
    return refused


def _carried_out(transaction: SqlTransaction, items: Sequence[Any]) -> Mapping[int, str]:
    """Write and delete rows in their order. Returns why some are refused, by position."""
    if Deletion not in set(map(type, items)):
        return transaction.write(items)
    refused: dict[int, str] = {}
    for deletes, group in groupby(range(len(items)), lambda i: type(items[i]) is Deletion):
        at = list(group)
        do = transaction.delete if deletes else transaction.write
        refused |= {at[i]: reason for i, reason in do([items[i] for i in at]).items()}
    return refused


def pack_refused(refused: Mapping[int, str]) -> str:
    """Pack which rows were refused, and why, for the table of marks."""
    return json.dumps([[at, reason[:LONGEST_REASON]] for at, reason in sorted(refused.items())])


def unpack_refused(text: str) -> dict[int, str]:
    """Read what `pack_refused` made."""
    return dict(json.loads(text))
