"""A system that components connect to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, ClassVar
from urllib.parse import unquote

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.errors import install
from fulmen.secrets import without


class ErrorKind(Enum):
    """Kinds of clients' errors, by what the caller can do. The value is said of the service."""

    AWAY = "is away"
    """No answer came. What was asked for may have been done, or not."""
    BUSY = "asks to try again"
    """Others are in the way, or the service is short of something. It passes."""
    LACKING = "can't be used"
    """A right, a table or a login is missing: somebody has to mend it outside."""
    ROW = "refuses a row"
    REFUSED = "refuses it"
    """Trying again is no use: the statement is wrong, or whoever made it."""


class Service(ABC):
    """How a system is described, and what its client's errors mean.

    Attributes:
        name: Which system and where, without its password: the first words of messages.
        errors: What its client raises.
    """

    errors: ClassVar[tuple[type[BaseException], ...]] = ()

    def __init__(self, name: str, *passwords: str) -> None:
        """Remember what is never told.

        Args:
            name: Which system and where.
            passwords: As they are, or as a URL has them.
        """
        self.name = name
        self._passwords = [form for one in passwords for form in (one, unquote(one))]

    @abstractmethod
    def kind_of(self, error: Any) -> ErrorKind:
        """Classify an error of the client."""

    def said(self, error: Any) -> str:
        """Describe an error in one line without the password."""
        return self.masked(" ".join(str(error).split()))

    def masked(self, text: str) -> str:
        """The text with `***` in place of the password."""
        for password in self._passwords:
            text = without(text, password)
        return text

    def unavailable(self, error: Any) -> ServiceUnavailable:
        """The error that a sink or a source raises: it is tried again until the service is back."""
        kind = self.kind_of(error)
        state = kind if kind in (ErrorKind.AWAY, ErrorKind.BUSY) else ErrorKind.LACKING
        return ServiceUnavailable(self.name, self.said(error), state.value)

    def unusable(self, reason: str) -> ServiceUnavailable:
        """The error to raise while something is missing or is not as it must be."""
        return ServiceUnavailable(self.name, reason, ErrorKind.LACKING.value)

    @contextmanager
    def told(self, meant: Callable[[Any], Exception] | None = None) -> Iterator[None]:
        """Turn errors of the client into what is meant: ServiceUnavailable by default.

        Their cause is the client's error, unless that has the password in it.
        """
        try:
            yield
        except self.errors as error:
            text = str(error)
            cause = error if self.masked(text) == text else None
            raise (meant or self.unavailable)(error) from cause


def no_client(error: ImportError, system: str, extra: str) -> ImportError:
    """The error to raise if a system's client is not installed. Its cause is the error itself."""
    return ImportError(f"{error}. The client of {system} is an extra: {install(extra)}")
