"""The tuples of a chunk for a bolt that takes many at once, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from typing_extensions import override

from fulmen.api.collector import Values
from fulmen.api.components import FailedException
from fulmen.api.components.many import ManyCollector, Tuples
from fulmen.api.components.returned import refuse_unrun
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.tuples import Tuple
from fulmen.engine.emitting.collectors.bolt_collectors import BasicCollector, reason_text
from fulmen.engine.emitting.collectors.emitter import outside, shown
from fulmen.engine.tuples.chunk import Chunk
from fulmen.errors import CollectorError, StreamError


class ChunkTuples(Tuples):
    """The tuples of a chunk."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk

    @property
    @override
    def component(self) -> str:
        return self._chunk.component

    @property
    @override
    def stream(self) -> str:
        return self._chunk.stream

    @property
    @override
    def fields(self) -> Sequence[str]:
        return self._chunk.fields

    @override
    def __len__(self) -> int:
        return len(self._chunk)

    @override
    def __iter__(self) -> Iterator[Values]:
        return iter(self._chunk.rows)

    @override
    def __getitem__(self, i: Any) -> Any:
        """The values of one tuple; or a list of those of a slice."""
        return list(self._chunk.rows[i]) if isinstance(i, slice) else self._chunk.rows[i]

    @override
    def column(self, name: str) -> Sequence[Any]:
        fields = self._chunk.fields
        if name not in fields:
            raise KeyError(
                f"no field {name!r} in stream {self.stream!r} of {self.component!r}, which has"
                f" {list(fields)}"
            )
        return self._chunk.rows.values(fields.index(name))

    @override
    def tuple(self, i: int) -> Tuple:
        return Tuple(self._chunk.rows[i], self._chunk, range(len(self._chunk))[i])


class ChunkCollector(ManyCollector):
    """Takes what becomes of the tuples of one chunk."""

    def __init__(
        self, collector: BasicCollector, n: int, note_failure: Callable[[int, BaseException], None]
    ) -> None:
        """Make it for one call.

        Args:
            collector: The task's own.
            n: How many tuples there are.
            note_failure: Takes the position of a tuple, and why it fails.
        """
        self._collector, self._n, self._note_failure = collector, n, note_failure
        self._failed: set[int] = set()
        self._is_open = True

    def close(self) -> None:
        """Forbid to use it: the call is over."""
        self._is_open = False

    @override
    def report_error(self, error: BaseException | str) -> None:
        self._collector.report_error(error)

    @override
    def emit_many(
        self,
        rows: Iterable[Values],
        stream: str = DEFAULT_STREAM,
        parents: Iterable[int] | None = None,
    ) -> None:
        self._check_open()
        given = rows if isinstance(rows, list) else list(rows)
        places = range(self._n) if parents is None else self._places(parents)
        if len(places) != len(given):
            how = f" for {self._n} tuples without `parents`" if parents is None else ""
            raise StreamError(
                f"{self._collector.who}: emit_many of {len(given)} rows{how}. Give `parents`: for"
                " each row, the number of the tuple that it is anchored to"
            )
        self._collector.emit_rows(given, stream, places)

    def _places(self, parents: Iterable[int]) -> Sequence[int]:
        places = parents if isinstance(parents, list | range) else list(parents)
        if not places:
            return places
        if set(map(type, places)) != {int}:
            places = [int(place) for place in places]  # those of NumPy
        if min(places) < 0 or max(places) >= self._n:
            raise StreamError(
                f"{self._collector.who}: `parents` must be numbers from 0 to {self._n - 1}"
            )
        return places

    @override
    def fail(self, i: int, reason: str | BaseException | None = None) -> None:
        self._check_open()
        if not 0 <= i < self._n:
            raise StreamError(
                f"{self._collector.who}: fail of tuple {shown(i)}, but there are {self._n},"
                " numbered from 0"
            )
        if i in self._failed:
            return
        self._failed.add(i)
        if not isinstance(reason, FailedException):
            reason = FailedException(reason_text(reason))
        self._note_failure(i, reason)

    def _check_open(self) -> None:
        if not self._is_open:
            raise CollectorError(outside(self._collector.who))


def positions_of(returned: Any, n: int) -> Sequence[int]:
    """The positions of the tuples that `execute_many` has left, of so many.

    Raises:
        TypeError: They are none.
    """
    if returned is None:
        return ()
    refuse_unrun(returned)
    if not isinstance(returned, range | list | tuple) or any(
        not isinstance(i, int) or not before < i < n
        for before, i in zip((-1, *returned), returned, strict=False)
    ):
        raise TypeError(
            "execute_many must return nothing, or ascending numbers of tuples that `execute` is to"
            f" be called for; it returned {shown(returned)}"
        )
    places: Sequence[int] = returned
    return places
