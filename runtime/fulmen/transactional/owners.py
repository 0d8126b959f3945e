"""The records that a store has about a map: its owner, and what was written last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fulmen.api.marks import CommitPhase, Point
from fulmen.api.transactions import TransactionAttempt
from fulmen.services.errors import StoreRefused, StoreUnavailable
from fulmen.transactional.columns import DoesNotFit
from fulmen.transactional.errors import StaleAttempt
from fulmen.transactional.rules import ABSENT, Raw, Row, base_of

LAYOUT = 3
"""The layout of tables and keys. A store of another one is refused."""


@dataclass(frozen=True)
class Owner:
    """The owner of a map, and how it is kept. A store keeps it, and refuses any other.

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

    def is_of(self, other: Owner) -> bool:
        """Whether the map belongs to the same bolt."""
        return (self.topology, self.component) == (other.topology, other.component)

    def refuse_other(self, where: str, found: Owner) -> None:
        """Raise StoreRefused unless the owner that was found is this one.

        Args:
            where: Which map.
            found: What is written down in the store.
        """
        if found == self:
            return
        self._refuse_layout(where, found)
        if not self.is_of(found):
            raise StoreRefused(
                where,
                f"it belongs to bolt {found.component!r} of topology {found.topology!r}, not to"
                f" bolt {self.component!r} of topology {self.topology!r}",
                "Nothing was changed. Use another name for this bolt's map.",
            )
        self._refuse_kinds(where, found, "rule", "key", "value")

    def refuse_unreadable(self, where: str, found: Owner) -> None:
        """Raise StoreRefused if a map was made with other types. Any bolt may read any map.

        Args:
            where: Which map.
            found: What is written down in the store.
        """
        if self.is_of(found):
            self.refuse_other(where, found)
        self._refuse_layout(where, found)
        self._refuse_kinds(where, found, "key", "value")

    def _refuse_layout(self, where: str, found: Owner) -> None:
        if found.layout != self.layout:
            raise StoreRefused(
                where,
                f"it has layout {found.layout}, but this version of Fulmen knows {self.layout}",
                "Nothing was changed. Use the version that made it.",
            )

    def _refuse_kinds(self, where: str, found: Owner, *names: str) -> None:
        for name in names:
            was, now = getattr(found, name), getattr(self, name)
            if was != now:
                raise StoreRefused(
                    where,
                    f"it was made with {name}={was!r}, and is opened with {name}={now!r}",
                    f"Nothing was changed. Write {name}={was!r}, or use another name.",
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


@dataclass(frozen=True)
class FoundMap:
    """A map as a store has it, all at one moment.

    Attributes:
        owner: Whose it is.
        rows: The rows of the keys that were asked for, as far as there are any.
        marks: The mark of each task that has written, if they were asked for.
    """

    owner: Owner
    rows: Mapping[Raw, Row]
    marks: Mapping[int, MapMark] = field(default_factory=dict)

    def after(self, where: str, attempt: TransactionAttempt, tasks: int) -> Mapping[Raw, Raw]:
        """The values after a transaction, and before any later one.

        Args:
            where: Which map.
            attempt: Of the transaction.
            tasks: How many tasks write to the map.

        Raises:
            StaleAttempt: A later attempt was written.
            StoreUnavailable: A task has not written yet.
            StoreRefused: The same, and it has written earlier transactions.
        """
        self._refuse_stale(where, attempt)
        bolt = self.owner.component
        for task in range(tasks):
            mark = self.marks.get(task)
            if mark is None or not mark.is_of(attempt):
                kind = StoreUnavailable if mark is None else StoreRefused
                raise kind(
                    where,
                    f"task {task} of {bolt!r} has not written attempt {attempt}",
                    f"Read its values in finish_batch of a BatchBolt behind {bolt!r}.",
                )
        return {key: row.value for key, row in self.rows.items()}

    def before(self, where: str, attempt: TransactionAttempt) -> Mapping[Raw, Raw]:
        """The values before a transaction, and after all earlier ones.

        Raises:
            StaleAttempt: A later attempt was written.
            StoreRefused: The map does not keep them.
        """
        self._refuse_stale(where, attempt)
        if self.owner.rule != "opaque":
            raise StoreRefused(
                where,
                f"it keeps no values of before transaction {attempt.txid}",
                "Make it with rule='opaque', in a table of its own.",
            )
        values = {key: base_of(row, attempt.txid) for key, row in self.rows.items()}
        return {key: value for key, value in values.items() if value is not ABSENT}

    def _refuse_stale(self, where: str, attempt: TransactionAttempt) -> None:
        for mark in self.marks.values():
            written = TransactionAttempt(mark.txid, mark.attempt)
            if written > attempt:
                raise StaleAttempt(where, str(attempt), f"attempt {written} was written")


class NewValues(Mapping[Any, Any]):
    """New values by their keys: made only as they are asked for, as most callers ask for none."""

    def __init__(
        self,
        keys: Mapping[Raw, Any],
        rows: Mapping[Raw, Row],
        encode: Callable[[Any], Raw],
        decode: Callable[[Raw], Any],
    ) -> None:
        """Wrap the rows as a store keeps them.

        Args:
            keys: What each key is, by what is kept for it.
            rows: What was written.
            encode: Makes what is kept for a key.
            decode: Makes a value of what is kept.
        """
        self._keys, self._rows, self._encode, self._decode = keys, rows, encode, decode

    def __getitem__(self, key: Any) -> Any:
        try:
            raw = self._encode(key)
        except DoesNotFit:
            raise KeyError(key) from None
        if raw not in self._keys:
            raise KeyError(key)
        return self._decode(self._rows[raw].value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return repr(dict(self))


def check_inherited(
    phase: CommitPhase, heir: int, where: str, name: str, found: FoundMap | None
) -> None:
    """Check the mark of another task, for one whose own mark does not go on.

    That is so when the number of tasks has changed, until the task has written.

    Args:
        phase: Of the task that is to write.
        heir: The task that goes on with its mark.
        where: Which map, in which store.
        name: Of the map.
        found: The map, with its marks; None: there is none.

    Raises:
        StoreMismatch: The store or the checkpoint was set back.
    """
    mark = None if found is None else found.marks.get(heir)
    phase.of_known(name).check(where, name, mark and Point(mark.txid, mark.branch))
