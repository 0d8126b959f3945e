"""Marks: by which a store and a checkpoint know how far the other one is.

A store keeps, in the same transaction as what is written, which commit or transaction that was, and
a text at random that no other commit or transaction of that number has: a `Point`. The checkpoint
keeps the point that was written last. What comes next is written only where the store has exactly
that one. So it is noticed if one of both is set back, is another one, or has gone on without the
other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fulmen.errors import FulmenError

WHATEVER: str = "*"
"""The branch of a point in place of which a store may have any earlier one, or none."""


class Point(NamedTuple):
    """The last write.

    Attributes:
        number: Of the commit or the transaction. Rises.
        branch: Tells it from another one of the same number: of another checkpoint, or of one that
            was set back and has gone on from there.
    """

    number: int
    branch: str


@dataclass
class EngineMark:
    """What the checkpoint knows of the store of a bolt that writes rows of its own state.

    Attributes:
        sink: By which the store knows the task; "": the bolt keeps no mark.
        point: What the store has; None: nothing.
    """

    sink: str = ""
    point: Point | None = None


class StoreMismatch(FulmenError):
    """A store and the checkpoint do not fit: one of the two was set back, or is another one.

    Attributes:
        where: Whose store, such as "sink 't/rows/0'".
        kind: What is numbered: "commit" or "transaction".
        found: What the store has; None: nothing.
        wanted: What it should have; None: nothing.
        command: What makes the topology go on nevertheless.
        again: What has sources read again what an older store lacks.
        is_foreign: Whether it is known that another checkpoint has written to the store.
    """

    def __init__(
        self,
        where: str,
        kind: str,
        found: Point | None,
        wanted: Point | None,
        command: str,
        is_foreign: bool = False,
        again: str = "",
    ) -> None:
        super().__init__(where, kind, found, wanted, command, is_foreign, again)
        self.where, self.kind, self.command, self.again = where, kind, command, again
        self.found, self.wanted, self.is_foreign = found, wanted, is_foreign

    def __str__(self) -> str:
        has, should = self._told(self.found), self._told(self.wanted)
        restore = f"Restore the store as it was with {should}"
        added = (
            "or have what this checkpoint writes from here on added to what the store has, also if"
            " part of it is there already"
        )
        if self.is_foreign:
            cause = "another checkpoint has written to the store: this one was begun anew"
            choices = (
                f"Start with the checkpoint that has {has}; use a map of another name; {added}"
            )
        elif _number(self.found) < _number(self.wanted):
            cause = (
                "the store is older than the checkpoint: it was restored from a copy, is another"
                " one, or its marks are gone"
            )
            if self.kind == "transaction":
                cause += ", or the map was not made in `prepare`, but only for some transactions"
            again = (
                "have sources read again what the store lacks, if there is a savepoint of the same"
                f" age: {self.again}; "
            )
            choices = (
                f"{restore}, or the checkpoint as it was with {has}; {again if self.again else ''}"
                "or go on without what the store lacks"
            )
        else:
            cause = (
                "the checkpoint is older than the store: it was set back, or another driver has"
                " taken over"
            )
            copy = "use another store if this is a copy of a checkpoint that is in use"
            choices = (
                f"Start with the checkpoint that has {has}; {restore.lower()}; {copy}; {added}"
            )
        return (
            f"{self.where}: the store has {has}, and by the checkpoint it should have {should}:"
            f" {cause}. Nothing was written. {choices}: {self.command}"
        )

    def _told(self, point: Point | None) -> str:
        if point is None:
            return f"no {self.kind}"
        if point.branch == WHATEVER:
            return f"{self.kind} {point.number} or an earlier one"
        return f"{self.kind} {point.number} ({point.branch})"


@dataclass(frozen=True)
class CommitPhase:
    """The transaction that is being committed, and those before it, for stores of committers.

    Attributes:
        transaction: That one, whose earlier attempts may be there already. None: no transaction is
            in its commit phase, as far as this task is concerned.
        written: The last one before it that was committed; None: there was none.
        skipped: The branches of those that were given up since: parts of them may be there.
        known: The maps that this task has written to.
        source: A transactional spout, by which commands name the transactions.
        opaque: A transactional spout that may send other tuples in another attempt; empty: none.
        inherited: Maps that tasks of the bolt had written to when their number has changed, and
            this task has not since: the task that goes on with its mark, or None if there is none.
            This task's own mark is of when there was such a task, if ever.
    """

    transaction: Point | None = None
    written: Point | None = None
    skipped: Collection[str] = ()
    known: Collection[str] = ()
    source: str = ""
    opaque: str = ""
    inherited: Mapping[str, int | None] = field(default_factory=dict)

    def of_known(self, name: str) -> CommitPhase:
        """The phase for a task that goes on with its mark of a map."""
        return replace(self, known={name}, inherited={})

    def check(self, where: str, name: str, found: Point | None) -> None:
        """See that a map has what comes before the transaction, or an attempt of itself.

        Args:
            where: Which map, in which store.
            name: Of the map.
            found: What the store has for this task; None: nothing.

        Raises:
            StoreMismatch: It has something else.
        """
        if not self._may_have(name, found):
            branch = self.transaction.branch if self.transaction else ""
            is_foreign = found is not None and checkpoint_of(found.branch) != checkpoint_of(branch)
            command = f"fulmen state accept-store CHECKPOINT {self.source} --because TEXT"
            if found is not None and found.number >= _number(self.transaction):
                command += f" --above {found.number}"
            again = read_again(self.source, found)
            raise StoreMismatch(
                where, "transaction", found, self.written, command, is_foreign, again
            )

    def _may_have(self, name: str, found: Point | None) -> bool:
        if found is None and name in self.inherited:
            return True
        takes_any = self.written is not None and self.written.branch == WHATEVER
        if found is None:
            return takes_any or name not in self.known
        if found in (self.transaction, self.written):
            return True
        if found.number >= _number(self.transaction):
            return False
        if name in self.inherited:
            return True
        return takes_any or (found.number > _number(self.written) and found.branch in self.skipped)


def read_again(component: str, found: Point | None, task: str = "") -> str:
    """The command that has sources read again what a store lacks."""
    has = "none" if found is None else f"{found.number}:{found.branch}"
    of = f" --task {task}" if task else ""
    return f"fulmen state read-again CHECKPOINT {component}{of} --store-has {has} --because TEXT"


def checkpoint_of(branch: str) -> str:
    """The checkpoint of a transaction's branch: all drivers of one checkpoint have the same."""
    return branch.partition("-")[0]


def _number(point: Point | None) -> int:
    return 0 if point is None else point.number
