"""Keeps a table of a worker, and takes it anew when it has changed.

What holds, whatever becomes of the table meanwhile:

- All tuples that a worker has in one batch see the same table.
- A table is taken as a whole or not at all. While the new one can't be read, the old one counts.
- What has taken the place of another, as a rename does, is taken at the next look. What was written
  in its place may be half written: it is taken when two looks, one after the other, see it alike.
- What is to follow a table on disk is read beside the batches, which go on with the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import RLock, Thread

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.base.lookup.index import TableIndex
from fulmen.connectors.base.lookup.table import LookupTable, Seen, TableError
from fulmen.errors import text_of


class TableHolder:
    """One table, for all tasks of a component in a process.

    Attributes:
        loads: How often it was taken.
    """

    def __init__(
        self,
        table: LookupTable,
        index: Callable[[LookupTable], TableIndex],
        seconds: float,
        clock: Callable[[], float],
    ) -> None:
        """Nothing is read yet.

        Args:
            table: The table.
            index: Reads all of it. Raises TableError and OSError.
            seconds: How often it is looked at, at most.
            clock: In seconds.
        """
        self._table, self._index, self._seconds, self._clock = table, index, seconds, clock
        self._lock = RLock()
        self._held: TableIndex | None = None
        self._known: Seen | None = None
        self._last: Seen | None = None
        self._attempt: str | None = None
        self._due = 0.0
        self._trouble: str | None = None
        self._reading: Future[tuple[TableIndex, Seen]] | None = None
        self.loads = 0

    def begin(self) -> None:
        """A task begins: see that there is a table, and have it looked at in the next batch.

        Raises:
            ServiceUnavailable: There is none.
        """
        with self._lock:
            self._due, self._last, self._attempt = 0.0, None, None
            if self._held is None:
                self.of_batch("")
                self._attempt = None

    def of_batch(self, attempt: str) -> TableIndex:
        """The table, as all tuples of a batch see it.

        Args:
            attempt: Identifies the attempt of the batch.

        Raises:
            ServiceUnavailable: There was never one that could be read.
        """
        with self._lock:
            if self._attempt != attempt:
                self._take_what_was_read()
            if self._held is None or (self._attempt != attempt and self._clock() >= self._due):
                self._look()
            self._attempt = attempt
            assert self._held is not None
            return self._held

    def trouble(self) -> str | None:
        """What the last look has met, once."""
        with self._lock:
            said, self._trouble = self._trouble, None
            return said

    def _look(self) -> None:
        self._due = self._clock() + self._seconds
        if self._reading is not None:
            return
        with self._telling():
            seen = self._table.look()
            before, self._last = self._last, seen
            if not self._is_to_be_taken(seen, before):
                return
            if self._held is not None and self._held.is_on_disk:
                self._reading = self._read_beside(seen)
            else:
                self._take(self._read(seen), seen)

    def _take_what_was_read(self) -> None:
        if self._reading is not None and self._reading.done():
            done, self._reading = self._reading, None
            with self._telling():
                self._take(*done.result())

    def _read_beside(self, seen: Seen) -> Future[tuple[TableIndex, Seen]]:
        future: Future[tuple[TableIndex, Seen]] = Future()

        def read() -> None:
            try:
                future.set_result((self._read(seen), seen))
            except BaseException as error:  # noqa: BLE001 (the next batch raises it)
                future.set_exception(error)

        Thread(target=read, daemon=True).start()
        return future

    def _read(self, seen: Seen) -> TableIndex:
        held = self._index(self._table)
        if self._table.look()[:2] != seen[:2]:
            self._last = None
            raise TableError("it was written to while it was read")
        return held

    def _take(self, held: TableIndex, seen: Seen) -> None:
        self._held, self._known = held, seen
        self.loads += 1

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell why the table can't be used, if the block meets that."""
        try:
            yield
        except (TableError, OSError) as error:
            reason = text_of(error)
            if self._held is None:
                raise ServiceUnavailable(self._table.name, reason, "can't be used") from None
            self._trouble = (
                f"{self._table.name} can't be used: {reason}. What was read before still counts,"
                f" and it is tried again every {self._seconds:g} s"
            )

    def _is_to_be_taken(self, seen: Seen, before: Seen | None) -> bool:
        known = self._known
        if known is None or before is None or seen.place != known.place:
            return known is None or known.is_young or seen[:2] != known[:2]
        if seen.version != known.version:
            return seen[:2] == before[:2]
        return known.is_young
