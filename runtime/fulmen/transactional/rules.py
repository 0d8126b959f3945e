"""The changes of a key's row by a transaction: one that comes again counts once.

Two rules, with the names that Storm gives them:

- transactional: a row is (value, txid). For a source that sends a transaction again exactly as it
  was: a row that has the txid already stays as it is.
- opaque: a row is (value, txid, previous). For a source that may send other tuples in another
  attempt: a row that has the txid already is made anew from the value before it. A key that only
  the earlier attempt had gets that value back.

A row also says which task has had its key last, and in which attempt. So two tasks that have the
same key in one attempt are noticed, whichever attempt has written the row's value.

Values are as the store keeps them, so what an author's code does to a list that it was given
changes no row. Nothing here reads or writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple

from fulmen.api.transactions import TransactionAttempt

Rule = Literal["transactional", "opaque"]
Raw = Any
"""A key or a value as the store keeps it."""


class Absent(Enum):
    """The mark of a missing value; None is a value."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


class Row(NamedTuple):
    """A stored row of one key.

    Attributes:
        value: Its value, after transaction `txid`.
        txid: The transaction that changed it last.
        task: The number of the task that had the key last.
        attempt: The number of the attempt in which it did.
        previous: Its value before transaction `txid`; the opaque rule alone keeps it.
    """

    value: Raw
    txid: int
    task: int
    attempt: int
    previous: Raw | Absent = ABSENT


@dataclass
class Changes:
    """The changes that a store has to write.

    Attributes:
        rows: The new row of each key that changes.
        deleted: Keys whose rows go.
    """

    rows: dict[Raw, Row] = field(default_factory=dict)
    deleted: list[Raw] = field(default_factory=list)


class NewerRow(Exception):
    """A row is of a later transaction than the one that is to be written."""

    def __init__(self, key: Raw, txid: int) -> None:
        super().__init__(key, txid)
        self.key = key
        self.txid = txid


class SharedKey(Exception):
    """Another task has the same key in the same attempt."""

    def __init__(self, key: Raw, task: int) -> None:
        super().__init__(key, task)
        self.key = key
        self.task = task


def changes(
    rule: Rule,
    attempt: TransactionAttempt,
    task: int,
    rows: Mapping[Raw, Row],
    partials: Iterable[tuple[Raw, Any]],
    combine: Callable[[Raw | Absent, Any], Raw],
) -> Changes:
    """Compute the changes of a transaction.

    Args:
        rule: How.
        attempt: What is to be written.
        task: The number of the task that writes.
        rows: The rows of all keys of `partials`, as far as there are any. A row of the same txid
            and task whose key is not in `partials` is one that an earlier attempt has changed.
        partials: What the transaction has for each key.
        combine: Makes the new value of the old one and what the transaction has.

    Returns:
        What changes. Each key of `partials` has a new row, if only to say who had it last.

    Raises:
        NewerRow: A row is of a later transaction.
        SharedKey: Another task has one of the keys in this attempt.
    """
    made, left = Changes(), dict(rows)
    txid, number = attempt.txid, attempt.attempt
    for key, partial in partials:
        row = left.pop(key, None)
        if row is not None and row.txid >= txid:
            _refuse(key, row, attempt, task)
        if rule == "opaque":
            base = base_of(row, txid)
            made.rows[key] = Row(combine(base, partial), txid, task, number, base)
        elif row is None or row.txid < txid:
            value = combine(ABSENT if row is None else row.value, partial)
            made.rows[key] = Row(value, txid, task, number)
        else:
            made.rows[key] = Row(row.value, txid, task, number)
    if rule == "opaque":
        _take_back(made, left, txid, task)
    return made


def _refuse(key: Raw, row: Row, attempt: TransactionAttempt, task: int) -> None:
    if row.txid > attempt.txid:
        raise NewerRow(key, row.txid)
    if row.attempt == attempt.attempt and row.task != task:
        raise SharedKey(key, row.task)


def base_of(row: Row | None, txid: int) -> Raw | Absent:
    """The value of a key before transaction `txid`."""
    if row is None:
        return ABSENT
    return row.previous if row.txid == txid else row.value


def _take_back(made: Changes, left: Mapping[Raw, Row], txid: int, task: int) -> None:
    for key, row in left.items():
        if (row.txid, row.task) != (txid, task):
            continue
        if row.previous is ABSENT:
            made.deleted.append(key)
        else:
            made.rows[key] = Row(row.previous, txid, task, row.attempt, row.previous)
