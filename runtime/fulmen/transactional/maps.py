"""A map in a database, which a committer changes once per transaction, and exactly once.

`TransactionalMap` is what a committer uses, and what a store of one's own implements
(conformance.py tests it). `StoredMap` has what the stores of this package have in common.

What makes a map exact:

- Rows carry the txid, so that a transaction that comes again counts once: rules.py.
- For each task the store keeps a mark, the last attempt that the task has written. It changes in
  the same transaction of the database as the rows. An attempt below the mark is refused: it comes
  from a process that was believed dead.
- A mark names its transaction's branch, too, and must be of the transaction before, or an earlier
  attempt of the same one: api/marks.py. A store, or a checkpoint, that was set back is noticed.
- Equal keys go to the same task. Then a mark guards all rows that its task writes.
- The mark moves with every transaction, also with one that has nothing for the task.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, get_args

from fulmen.api.context import TopologyContext
from fulmen.api.marks import Point
from fulmen.api.transactions import TransactionAttempt
from fulmen.transactional.columns import KINDS, DoesNotFit, Kind, decoder, encoder
from fulmen.transactional.errors import StaleAttempt, StoreRefused
from fulmen.transactional.rules import (
    ABSENT,
    Absent,
    Changes,
    NewerRow,
    Raw,
    Row,
    Rule,
    SharedKey,
    changes,
)

LAYOUT = 3
"""Of tables and keys. A store of another one is refused."""
NAME = re.compile(r"[a-z_][a-z0-9_]{0,49}")

Combine = Callable[[Any, Any], Any]
"""Makes a key's new value of the old one, which is None if there is none, and of a partial."""


def plus(old: Any, partial: Any) -> Any:
    """The sum of both: to count, to add up, and to append to text or lists."""
    return partial if old is None else old + partial


def _replace(_old: Any, new: Any) -> Any:
    return new


class TransactionalMap(ABC):
    """A map that a committer changes in `finish_batch`, with one call per transaction."""

    @abstractmethod
    def update(
        self, attempt: TransactionAttempt, partials: Mapping[Any, Any], combine: Combine
    ) -> None:
        """Change the values of keys by what a transaction has for them.

        To be called exactly once in each `finish_batch`, also with no partials. Either all of it
        is written or nothing.

        Args:
            attempt: What `finish_batch` is for.
            partials: What this task has for each key in the whole transaction.
            combine: Makes the new value: `combine(old, partial)`, where `old` is None if there is
                none. It must have no effects, as it may be called again.

        Raises:
            StaleAttempt: A later attempt was written.
            StoreUnavailable: The store is away or locked; the transaction fails and comes again.
            StoreRefused: The store will never take it: the text says why.
        """

    @abstractmethod
    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of keys, without those that have none.

        Raises:
            StoreUnavailable: The store is away or locked.
            StoreRefused: The map can't be used: the text says why.
        """

    def put(self, attempt: TransactionAttempt, values: Mapping[Any, Any]) -> None:
        """Set the values of keys, whatever they were. The rest is as for `update`."""
        self.update(attempt, values, _replace)


@dataclass(frozen=True)
class Owner:
    """Whose a map is, and how it is kept. A store has it written down, and refuses any other.

    Attributes:
        topology: The name of the topology.
        component: The name of the bolt.
        rule: How rows change.
        key: The type of keys.
        value: The type of values.
        layout: Of tables and keys.
    """

    topology: str
    component: str
    rule: str
    key: str
    value: str
    layout: int = LAYOUT

    def refuse_other(self, where: str, found: Owner) -> None:
        """Raise StoreRefused unless the owner that was found is this one.

        Args:
            where: Which map.
            found: What is written down in the store.
        """
        if found == self:
            return
        kept = "Nothing was changed."
        other = f"{kept} Use another name for this bolt's map."
        if found.layout != self.layout:
            raise StoreRefused(
                where,
                f"it has layout {found.layout}, but this version of Fulmen knows {self.layout}",
                f"{kept} Use the version that made it.",
            )
        if (found.topology, found.component) != (self.topology, self.component):
            raise StoreRefused(
                where,
                f"it belongs to bolt {found.component!r} of topology {found.topology!r}, not to"
                f" bolt {self.component!r} of topology {self.topology!r}",
                other,
            )
        for name in ("rule", "key", "value"):
            was, now = getattr(found, name), getattr(self, name)
            if was != now:
                raise StoreRefused(
                    where,
                    f"it was made with {name}={was!r}, and is opened with {name}={now!r}",
                    f"{kept} Write {name}={was!r}, or use another name.",
                )


class MapMark(NamedTuple):
    """The last attempt that a task has written to a map.

    Attributes:
        txid: The number of its transaction.
        attempt: The number of the attempt.
        branch: What tells the transaction from others of the same number.
    """

    txid: int
    attempt: int
    branch: str = ""

    def is_of(self, attempt: TransactionAttempt) -> bool:
        """Whether it is this attempt's."""
        return self[:2] == (attempt.txid, attempt.attempt)


Decide = Callable[[Mapping[Raw, Row]], Changes]
"""Says what is to be written, of rows as a store has found them."""


class StoredMap(TransactionalMap):
    """What the stores of this package have in common. Making one does not touch the store.

    Attributes:
        name: Of the map.
        where: Which map, and in which store: the first words of each message.
        owner: Whose it is.
        task: The number of the task that writes.
    """

    def __init__(
        self,
        name: str,
        store: str,
        context: TopologyContext,
        rule: Rule,
        key: Kind,
        value: Kind,
    ) -> None:
        self.name = name
        self.where = f"map {name!r} in {store}"
        self.owner = Owner(context.topology, context.component, rule, key, value)
        self.task = context.task_index
        self._batch, self._written = context.batch, context.signals.maps
        self._written.setdefault(name, False)
        self._rule = rule
        if rule not in get_args(Rule):
            self.refuse(f"rule is {rule!r}", "Write 'transactional' or 'opaque'.")
        for what, kind in (("key", key), ("value", value)):
            if kind not in KINDS:
                self.refuse(f"{what} is {kind!r}", f"Write one of {', '.join(map(repr, KINDS))}.")
        self._encode_key, self._encode = encoder(key, is_key=True), encoder(value)
        self._decode = decoder(value)

    def refuse(self, reason: str, cure: str = "") -> NoReturn:
        """Raise StoreRefused."""
        raise StoreRefused(self.where, reason, cure)

    def update(
        self, attempt: TransactionAttempt, partials: Mapping[Any, Any], combine: Combine
    ) -> None:
        """Change the values of keys; see `TransactionalMap.update`."""
        if not isinstance(attempt, TransactionAttempt):
            self.refuse(
                f"the attempt is {attempt!r}",
                "Give the TransactionAttempt of `prepare`, unchanged.",
            )
        phase = self._batch.commits
        if phase is not None and attempt.txid != (phase.transaction and phase.transaction.number):
            self.refuse(
                f"transaction {attempt.txid} is not being committed",
                "Make the bolt a Committer, and call update or put in finish_batch.",
            )
        by_raw = self._raw_keys(partials)

        def raw_combine(base: Raw | Absent, key: Any) -> Raw:
            old = None if base is ABSENT else self._decode(base)
            try:
                return self._encode(combine(old, partials[key]))
            except DoesNotFit as error:
                raise StoreRefused(self.where, f"the value of key {key!r}: {error}") from None

        def decide(rows: Mapping[Raw, Row]) -> Changes:
            try:
                return changes(self._rule, attempt, self.task, rows, by_raw.items(), raw_combine)
            except SharedKey as shared:
                self.refuse(
                    f"key {by_raw[shared.key]!r} was changed by task {shared.task} of"
                    f" {self.owner.component!r} in the same attempt, {attempt}, as by task"
                    f" {self.task}",
                    "Equal keys must go to the same task: use fields grouping on what keys are made"
                    " of.",
                )
            except NewerRow as newer:
                key = by_raw[newer.key]
                raise StaleAttempt(
                    self.where,
                    str(attempt),
                    f"the row of key {key!r} is of transaction {newer.txid}",
                ) from None

        self.commit_phase(attempt, list(by_raw), decide)
        self._written[self.name] = True

    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of keys; see `TransactionalMap.get_many`."""
        by_raw = self._raw_keys(keys)
        found = self.read_values(list(by_raw))
        return {by_raw[raw]: self._decode(value) for raw, value in found.items()}

    @abstractmethod
    def commit_phase(
        self, attempt: TransactionAttempt, keys: Sequence[Raw], decide: Decide
    ) -> None:
        """Check and move the task's mark, and write what `decide` says, all of it or nothing.

        Args:
            attempt: What is to be written.
            keys: Those that it has something for.
            decide: To be called with the rows of these keys; and, if `must_take_back` says so, with
                the other rows that this task had last in the transaction. A row that is not as it
                was given may not be written: another one was faster.
        """

    @abstractmethod
    def read_values(self, keys: Sequence[Raw]) -> Mapping[Raw, Raw]:
        """The values of keys."""

    def mark_of(self, attempt: TransactionAttempt) -> MapMark:
        """What is to become the task's mark."""
        phase = self._batch.commits
        branch = phase.transaction.branch if phase and phase.transaction else ""
        return MapMark(attempt.txid, attempt.attempt, branch)

    def must_take_back(self, attempt: TransactionAttempt, mark: MapMark | None) -> bool:
        """Check the task's mark before a write.

        Args:
            attempt: What is to be written.
            mark: The last attempt that was; None: none was.

        Returns:
            Whether rows that an earlier attempt has changed are to be looked for.

        Raises:
            StaleAttempt: The mark is a later attempt.
            StoreMismatch: The store or the checkpoint was set back.
            StoreRefused: The mark is the attempt itself.
        """
        if self._batch.commits is not None:
            found = mark and Point(mark.txid, mark.branch)
            self._batch.commits.check(self.where, self.name, found)
        if mark is None:
            return False
        written = TransactionAttempt(mark.txid, mark.attempt)
        if attempt < written:
            raise StaleAttempt(self.where, str(attempt), f"attempt {written} was written")
        if attempt == written:
            self.refuse(
                f"attempt {attempt} was written already",
                "Call update or put once in finish_batch, with all partials of the transaction.",
            )
        return self._rule == "opaque" and mark.txid == attempt.txid

    def _raw_keys(self, keys: Iterable[Any]) -> dict[Raw, Any]:
        by_raw: dict[Raw, Any] = {}
        for key in keys:
            try:
                raw = self._encode_key(key)
            except DoesNotFit as error:
                raise StoreRefused(self.where, f"a key: {error}") from None
            if by_raw.setdefault(raw, key) != key:
                self.refuse(f"the keys {by_raw[raw]!r} and {key!r} are one and the same there")
        return by_raw
