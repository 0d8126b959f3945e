"""Errors of a table or map, or of the database that has it.

Each text names the table or map and where it is, and never contains a password.
"""

from fulmen.api.components import ReportedFailedException
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.errors import FulmenError


class StoreError(FulmenError):
    """A table or map can't be read or written. Nothing was changed, unless its text says so.

    Attributes:
        where: Which table or map, and in which store.
        reason: What is wrong, without a full stop.
        cure: What to do about it, a sentence or nothing.
    """

    def __init__(self, where: str, reason: str, cure: str = "") -> None:
        Exception.__init__(self, where, reason, cure)
        self.where = where
        self.reason = reason
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}. {self.cure}".rstrip()


class StoreUnavailable(StoreError, ReportedFailedException, ServiceUnavailable):
    """The store does not answer, is locked or full, or lacks a right or a table.

    It fails the attempt. The transaction is tried again, also with `onError: crash`, and is never
    given up because of it.
    """

    def __init__(self, where: str, reason: str, cure: str = "") -> None:
        super().__init__(where, reason, cure)
        self.service = where
        self.state = "can't be used"


class StoreRefused(StoreError):
    """Trying again is no use: the map is not ours, or a value does not fit."""
