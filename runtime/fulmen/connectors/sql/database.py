"""A database as sinks and sources of tables use it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, TypeVar

from fulmen.services.service import Service

S = TypeVar("S", bound=Service)
Db = TypeVar("Db")


class SqlDatabase(ABC, Generic[S, Db]):
    """One database, for one component.

    Attributes:
        where: Which table or query, and where: the first words of messages that are no outage.
    """

    def __init__(self, what: str, service: S) -> None:
        self.service = service
        self.where = f"{what} in {service.name}"

    @contextmanager
    def transaction(self) -> Iterator[Db]:
        """A transaction, whose constraints are checked by each statement.

        Raises:
            ServiceUnavailable: Whatever the database says. Nothing is wrong with the rows, so it is
                tried again until it is mended.
        """
        with self.service.told(), self.begun() as db:
            yield db

    @contextmanager
    def opening(self) -> Iterator[Db]:
        """Begin a transaction for `open` or `prepare`, where a mistake ends the topology.

        Raises:
            ServiceUnavailable: It is away, or locked or full.
            StoreRefused: A name, a right or the password is wrong.
        """
        with self.service.told(self.meant), self.begun() as db:
            yield db

    @abstractmethod
    def begun(self) -> AbstractContextManager[Db]:
        """A transaction of a connection that is lent. Raises what the client raises."""

    @abstractmethod
    def meant(self, error: Any) -> Exception:
        """The error to raise in `opening`."""
