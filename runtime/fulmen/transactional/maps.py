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
- When the number of tasks has changed, a task may have no mark, or one from when there was such a
  task. Until it has written, the mark of a task that goes on stands for its own. Marks of tasks
  that are gone stay: they still refuse attempts of processes that were believed dead.
- The mark moves with every transaction, also with one that has nothing for the task: if the
  committer does not call `update` then, the engine calls `take_nothing`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, get_args

from fulmen.api.context import TopologyContext
from fulmen.api.marks import Point
from fulmen.api.transactions import TransactionAttempt
from fulmen.errors import repr_of
from fulmen.services.errors import StoreRefused, StoreUnavailable
from fulmen.transactional.columns import KINDS, DoesNotFit, Kind, decoder, encoder
from fulmen.transactional.errors import StaleAttempt
from fulmen.transactional.owners import FoundMap, MapMark, NewValues, Owner, check_inherited
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

NAME = re.compile(r"[a-z_][a-z0-9_]{0,49}")

LONGEST_KEY = 2_600
"""Bytes: PostgreSQL's indexes take no more, so a map in another store does not either."""

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
    ) -> Mapping[Any, Any]:
        """Change the values of keys by what a transaction has for them.

        To be called once in a `finish_batch`, or not at all if there is nothing to write. Either
        all of it is written or nothing.

        Args:
            attempt: What `finish_batch` is for.
            partials: What this task has for each key in the whole transaction.
            combine: Makes the new value: `combine(old, partial)`, where `old` is None if there is
                none. It must have no effects, as it may be called again.

        Returns:
            The new value of each key of `partials`: the same in each attempt that had the same.

        Raises:
            StaleAttempt: A later attempt was written.
            StoreUnavailable: The store can't be used; the transaction fails and comes again.
            StoreRefused: The store will never take it: the text says why.
        """

    @abstractmethod
    def get_many(
        self,
        keys: Iterable[Any],
        *,
        before: TransactionAttempt | None = None,
        after: TransactionAttempt | None = None,
    ) -> dict[Any, Any]:
        """The values of keys, without those that have none.

        Any bolt may read any map, and claims nothing by it: a map that is not there has no values.
        With `before` or `after`, values are those of one moment between two transactions, and the
        same in each attempt. Without, they are as they are now.

        Args:
            keys: Which.
            before: Read what the transactions before this one have made. In `finish_batch` of a
                committer, or of a bolt behind one; the map needs the opaque rule.
            after: Read what this transaction has made as well. In `finish_batch` of a BatchBolt
                behind the map's bolt.

        Raises:
            StaleAttempt: A later attempt was written.
            StoreUnavailable: The store can't be used.
            StoreRefused: The map can't be used: the text says why.
        """

    def put(self, attempt: TransactionAttempt, values: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Set the values of keys, whatever they were. The rest is as for `update`."""
        return self.update(attempt, values, _replace)


Decide = Callable[[Mapping[Raw, Row]], Changes]
"""Says what is to be written, of rows as a store has found them."""


class StoredMap(TransactionalMap):
    """The base of all maps of this package. Making one does not touch the store.

    Attributes:
        name: Of the map.
        where: Which map, and in which store: the first words of each message.
        store: Which store.
        owner: Whose it is.
        task: The number of the task that writes.
        joined: What it writes by while `together` has several maps written; None: by itself.
    """

    joined: Any = None

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
        self.store = store
        self.owner = Owner(context.topology, context.known_as, rule, key, value)
        self.task = context.task_index
        self._context, self._batch, self._made = context, context.batch, context.signals.maps
        self._made.setdefault(name, self.take_nothing)
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
    ) -> Mapping[Any, Any]:
        """Change the values of keys; see `TransactionalMap.update`."""
        self._check(attempt, "Make the bolt a Committer, and call update or put in finish_batch.")
        phase = self._batch.commits
        if phase is not None and phase.opaque and self._rule != "opaque":
            self.refuse(
                f"its rule is {self._rule!r}, but source {phase.opaque!r} is opaque: what it sends"
                " in another attempt would be counted beside what it has sent before",
                "Write rule='opaque'.",
            )
        by_raw = self._raw_keys(partials)
        self._refuse_long(by_raw)
        if phase is not None and (heir := phase.inherited.get(self.name)) is not None:
            check_inherited(phase, heir, self.where, self.name, self.read((), with_marks=True))
        made = Changes()

        def raw_combine(base: Raw | Absent, key: Any) -> Raw:
            old = None if base is ABSENT else self._decode(base)
            try:
                return self._encode(combine(old, partials[key]))
            except DoesNotFit as error:
                raise StoreRefused(self.where, f"the value of key {key!r}: {error}") from None

        def decide(rows: Mapping[Raw, Row]) -> Changes:
            nonlocal made
            try:
                made = changes(self._rule, attempt, self.task, rows, by_raw.items(), raw_combine)
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
            return made

        self.commit_phase(attempt, list(by_raw), decide)
        self._made[self.name] = None
        return NewValues(by_raw, made.rows, self._encode_key, self._decode)

    def take_nothing(self, attempt: TransactionAttempt) -> bool:
        """The transaction has nothing for the map. Returns whether the map is this bolt's.

        The engine calls it in place of `update` if `finish_batch` has not called that.
        """
        found = self.read((), with_marks=False)
        if found is None or not found.owner.is_of(self.owner):
            return False
        self.update(attempt, {}, plus)
        return True

    def get_many(
        self,
        keys: Iterable[Any],
        *,
        before: TransactionAttempt | None = None,
        after: TransactionAttempt | None = None,
    ) -> dict[Any, Any]:
        """The values of keys; see `TransactionalMap.get_many`."""
        by_raw = self._raw_keys(keys)
        attempt = before or after
        found = self.read(list(by_raw), with_marks=attempt is not None)
        if found is not None:
            self.owner.refuse_unreadable(self.where, found.owner)
        values: Mapping[Raw, Raw] = {}
        if attempt is not None:
            values = self._values_at(attempt, found, is_after=before is None)
        elif found is not None:
            values = {raw: row.value for raw, row in found.rows.items()}
        return {by_raw[raw]: self._decode(value) for raw, value in values.items()}

    def _values_at(
        self, attempt: TransactionAttempt, found: FoundMap | None, *, is_after: bool
    ) -> Mapping[Raw, Raw]:
        self._check(attempt, "Read it in finish_batch of a committer, or of a bolt behind one.")
        if found is None and not is_after:
            return {}
        if found is None:
            raise StoreUnavailable(
                self.where,
                f"it is not there yet, so attempt {attempt} has not written it",
                "Read its values in finish_batch of a BatchBolt behind the map's bolt.",
            )
        if found.owner.topology != self.owner.topology:
            self.refuse(
                f"it belongs to topology {found.owner.topology!r}, whose transactions are others",
                "Read it without before and after.",
            )
        if is_after:
            tasks = len(self._context.tasks(self._context.named(found.owner.component)))
            return found.after(self.where, attempt, tasks)
        return found.before(self.where, attempt)

    def _check(self, attempt: TransactionAttempt, cure: str) -> None:
        if not isinstance(attempt, TransactionAttempt):
            self.refuse(
                f"the attempt is {attempt!r}",
                "Give the TransactionAttempt of `prepare`, unchanged.",
            )
        phase = self._batch.commits
        if phase is not None and attempt.txid != (phase.transaction and phase.transaction.number):
            self.refuse(f"transaction {attempt.txid} is not being committed", cure)

    def one_commit(self, maps: Sequence[StoredMap]) -> AbstractContextManager[Any]:
        """Have what is written to maps of this store in one commit; see `together`.

        Gives the connection with the open transaction, for an author's own statements; None: there
        is no such thing.
        """
        self.refuse(f"no store of {type(maps[0]).__name__} writes several maps in one commit")

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
    def read(self, keys: Sequence[Raw], *, with_marks: bool) -> FoundMap | None:
        """Read the rows of these keys, all at one moment. It makes nothing, and claims nothing.

        Args:
            keys: Which rows.
            with_marks: Whether the marks of all tasks are wanted.

        Returns:
            It, whoever the map belongs to. None: there is no such map.
        """

    def mark_of(self, attempt: TransactionAttempt) -> MapMark:
        """The mark that the task is to get."""
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
            point = mark and Point(mark.txid, mark.branch)
            self._batch.commits.check(self.where, self.name, point)
        if mark is None:
            return False
        written = TransactionAttempt(mark.txid, mark.attempt)
        if attempt < written:
            raise StaleAttempt(self.where, str(attempt), f"attempt {written} was written")
        if attempt == written:
            self.refuse_twice(attempt)
        return self._rule == "opaque" and mark.txid == attempt.txid

    def refuse_twice(self, attempt: TransactionAttempt) -> NoReturn:
        """Refuse a second call for an attempt."""
        self.refuse(
            f"attempt {attempt} was written already",
            "Call update or put once in finish_batch, with all partials of the transaction.",
        )

    def stored_key(self, key: Any) -> Raw:
        """A key as the store has it.

        Raises:
            StoreRefused: The map takes no such key.
        """
        raw = self._raw_key(key)
        self._refuse_long({raw: key})
        return raw

    def _raw_key(self, key: Any) -> Raw:
        try:
            return self._encode_key(key)
        except DoesNotFit as error:
            raise StoreRefused(self.where, f"a key: {error}") from None

    def _raw_keys(self, keys: Iterable[Any]) -> dict[Raw, Any]:
        by_raw: dict[Raw, Any] = {}
        for key in keys:
            raw = self._raw_key(key)
            if by_raw.setdefault(raw, key) != key:
                self.refuse(f"the keys {by_raw[raw]!r} and {key!r} are one and the same there")
        return by_raw

    def _refuse_long(self, by_raw: Mapping[Raw, Any]) -> None:
        if self.owner.key in ("integer", "float") or not by_raw:
            return
        if max(map(len, by_raw)) * 4 <= LONGEST_KEY:  # bytes of a character
            return
        for raw, key in by_raw.items():
            size = len(raw if isinstance(raw, bytes) else raw.encode())
            if size > LONGEST_KEY:
                self.refuse(
                    f"the key {repr_of(key)[:80]} has {size:,} bytes: a key has at most"
                    f" {LONGEST_KEY:,}",
                    "Use a hash of it as the key, such as hashlib.sha256(...).hexdigest(), and keep"
                    " it in the value.",
                )
