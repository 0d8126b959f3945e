"""Bolts that receive and emit tuples by the list."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from fulmen.api.collector import BasicOutputCollector, ErrorCollector, Values
from fulmen.api.components.bolts import BasicBolt
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.tuples import Tuple


class Tuples(Sequence[Values]):
    """Tuples of one stream of one component, in their order: a sequence of their values.

    Don't change the values.
    """

    @property
    @abstractmethod
    def component(self) -> str:
        """Name of the component that emitted them."""

    @property
    @abstractmethod
    def stream(self) -> str:
        """Name of the stream that they were emitted on."""

    @property
    @abstractmethod
    def fields(self) -> Sequence[str]:
        """Names of the values, in their order."""

    @abstractmethod
    def column(self, name: str) -> Sequence[Any]:
        """The values of one field.

        Raises:
            KeyError: The stream has no field of that name.
        """

    @abstractmethod
    def tuple(self, i: int) -> Tuple:
        """One of them as `execute` would get it."""


class ManyCollector(ErrorCollector):
    """Given to `ManyBolt.execute_many`. Usable until that returns."""

    @abstractmethod
    def emit_many(
        self,
        rows: Iterable[Values],
        stream: str = DEFAULT_STREAM,
        parents: Iterable[int] | None = None,
    ) -> None:
        """Send a tuple for each row, in their order.

        Args:
            rows: The values of each, a list or a tuple. They are not copied: don't change them
                afterwards.
            stream: A stream that this component declares, and not a direct one.
            parents: For each row the number, from 0, of the input tuple that it is anchored to.
                None: row i is anchored to tuple i, and there must be as many.

        Raises:
            StreamError: `stream` is not declared or is direct, a row has another number of values,
                or `parents` does not fit. Nothing of this call is sent then.
            CollectorError: Not in `execute_many`.
        """

    @abstractmethod
    def fail(self, i: int, reason: str | BaseException | None = None) -> None:
        """Fail one of the tuples; the others are acked.

        Args:
            i: Its number, from 0. If it is failed twice, the first reason counts.
            reason: What the spout gets, at most 500 characters, or the exception. Default: "failed
                by the bolt".

        Raises:
            StreamError: There is no tuple of that number.
            CollectorError: Not in `execute_many`.
        """


class ManyBolt(BasicBolt):
    """A BasicBolt that receives many tuples in one call, and emits by the list: much faster."""

    @abstractmethod
    def execute_many(self, tuples: Tuples, collector: ManyCollector) -> Sequence[int] | None:
        """Process the tuples that one task received together, of one stream of one component.

        How many there are differs from run to run: results must not depend on it. Ticks never come
        here, but to `execute`.

        All are acked when this returns, except those given to `collector.fail`. An exception fails
        all of them, and is reported unless it is a FailedException; with `onError: crash` it stops
        the topology. What was emitted until then is sent.

        Returns:
            The numbers of those that `execute` is to be called for, ascending. None: of none.
        """

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:  # noqa: ARG002
        """Process a tick, or a tuple that `execute_many` has left. Default: ticks do nothing."""
        if not tup.is_tick():
            raise NotImplementedError("execute_many left a tuple, but the class has no execute")
