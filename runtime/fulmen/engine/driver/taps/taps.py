"""The taps that are open: people who look at some of the tuples of a running topology.

The driver's thread asks what they want before each batch, and gives them what came back when the
batch counts. Whoever opened a tap waits for it in a thread of its own, and never holds a batch:
what nobody takes is dropped.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Self

import orjson

from fulmen.checkpoint import Store
from fulmen.engine.acking.root_ids import SEQUENCE_BITS, tree_id
from fulmen.engine.driver.taps.letter_requests import ENDED, LetterRequests
from fulmen.engine.driver.taps.wanted_tap import NEXT, TapRefused, WantedTap, root_wanted
from fulmen.engine.protocol.figures.taps import TappedTuple, TapRequest
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import CurrentTopology, PlacedTopology
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.taps.kept_lines import KeptLines
from fulmen.topology.resource.spec.tap import Tap

MOST_TAPS = 8
MOST_TUPLES, MOST_OF_A_TREE = 20, 200
"""Tuples of a batch that a tap is given, of each stage on each worker."""
MOST_TREES = 64
"""Trees that may become the next one: the first of each spout task."""


class Taps:
    """The open taps of one driver, whether its topology runs already or not.

    Attributes:
        letters: What people want done with dead letters.
    """

    def __init__(self) -> None:
        self.letters = LetterRequests()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[int, OpenTap] = {}
        self._rules = Tap()
        self._current: CurrentTopology | None = None

    @property
    def is_allowed(self) -> bool:
        """Whether tuples may be shown."""
        return self._rules.allowed

    def begin(self, current: CurrentTopology, rules: Tap, store: Store) -> None:
        """The topology runs."""
        self._current = current
        self.letters.begin(store)
        self.rule(rules)

    def rule(self, rules: Tap) -> None:
        """Use these rules from the next batch on."""
        with self._lock:
            self._rules = rules
            if not rules.allowed:
                self._end("the topology does not allow taps any more")

    def end(self) -> None:
        """End all taps with the topology."""
        with self._lock:
            self._current = None
            self._end(ENDED)
        self.letters.end()

    def _end(self, why: str) -> None:
        for tap in self._open.values():
            tap.end(why)
        self._open = {}

    def open(self, wanted: WantedTap) -> OpenTap:
        """Look at tuples from the next batch on, until the tap is closed.

        Raises:
            TapRefused: That can't be.
        """
        with self._lock:
            current, rules = self._current, self._rules
            if current is None:
                raise TapRefused(
                    "the topology has not started yet.", HTTPStatus.SERVICE_UNAVAILABLE
                )
            if not rules.allowed:
                raise TapRefused(
                    "the topology does not allow to look at its tuples. Write"
                    " `tap: {allowed: true}` into its spec, or run it with"
                    " `--set spec.tap.allowed=true`.",
                    HTTPStatus.FORBIDDEN,
                )
            if len(self._open) >= MOST_TAPS:
                raise TapRefused(
                    f"{MOST_TAPS} taps are open already. Close one of them.",
                    HTTPStatus.SERVICE_UNAVAILABLE,
                )
            return self._opened(wanted, current)

    def open_own(self, wanted: WantedTap) -> OpenTap:
        """Open a tap for whoever runs the topology: neither rules nor their number limit it.

        Fields of `tap.mask` are hidden nevertheless.

        Raises:
            TapRefused: There is nothing like what is wanted.
        """
        with self._lock:
            assert self._current is not None
            return self._opened(wanted, self._current)

    def _opened(self, wanted: WantedTap, current: CurrentTopology) -> OpenTap:
        root = root_wanted(wanted, current.placed, self._rules)
        number = next(self._numbers)
        tap = self._open[number] = OpenTap(self, number, wanted, root)
        return tap

    def close(self, number: int) -> None:
        """Close a tap: nobody looks any more."""
        with self._lock:
            self._open.pop(number, None)

    def asking(self, header: Header) -> Header:
        """The header of the next batch with what is asked of tasks."""
        if self._open:
            with self._lock:
                mask = self._rules.mask
                header = replace(header, taps=tuple(t.request(mask) for t in self._open.values()))
        orders = self.letters.orders()
        return replace(header, letters=orders) if orders else header

    @property
    def mask(self) -> tuple[str, ...]:
        """The fields whose values are not shown."""
        return self._rules.mask

    def committed(self, summaries: Sequence[Summary], batch: int, wall: float) -> None:
        """Give the tuples of a batch that has counted to the taps."""
        if (current := self._current) is not None:
            self.letters.committed(summaries, current.placed.tasks_by_key.keys())
        if not self._open:
            return
        with self._lock:
            if self._current is None:
                return
            for tap in self._open.values():
                tap.committed(summaries, self._current.placed, batch, wall)


class OpenTap:
    """One person's tap. Close it: it is a context."""

    def __init__(self, taps: Taps, number: int, wanted: WantedTap, root: int | None) -> None:
        self._taps = taps
        self._number = number
        self._wanted = wanted
        self._roots: tuple[int, ...] = () if root is None else (root,)
        self._is_found = wanted.tree != NEXT
        self._left = wanted.limit
        self._new = threading.Condition()
        self._lines = KeptLines()
        self._others = 0
        self._why_ended: str | None = None

    # The driver's thread

    def request(self, mask: tuple[str, ...]) -> TapRequest:
        """The request to tasks for the next batch."""
        wanted = self._wanted
        asks = not self._roots and wanted.tree == NEXT
        most = MOST_OF_A_TREE if wanted.tree else MOST_TUPLES
        return TapRequest(
            self._number,
            "" if wanted.tree == NEXT else wanted.component,
            wanted.stream,
            wanted.where,
            mask,
            0 if asks else most,
            self._roots,
            asks,
        )

    def committed(
        self, summaries: Sequence[Summary], placed: PlacedTopology, batch: int, wall: float
    ) -> None:
        """Take the tap's tuples of a batch that has counted."""
        tapped = [summary.tapped for summary in summaries if summary.tapped is not None]
        tuples = [one for part in tapped for one in part.tuples if one.tap == self._number]
        tuples = self._of_the_tree(tuples)
        lines = [_line(one, placed, batch, wall) for one in tuples]
        others = sum(part.others[self._number] for part in tapped)
        if self._wanted.tree == NEXT and not self._roots:
            roots = (root for part in tapped for root in part.next_roots)
            self._roots = self._next_of(roots, placed)
            others = 0
        with self._new:
            if self._wanted.limit:
                lines = lines[: self._left]
                self._left -= len(lines)
            self._others += others + self._lines.add(lines)
            if self._wanted.limit and not self._left:
                self._why_ended = ""
            self._new.notify_all()

    def _of_the_tree(self, found: list[TappedTuple]) -> list[TappedTuple]:
        """Tuples of the tapped tree; for a tap of the next tree, the first tree that shows up."""
        if not self._is_found:
            for one in found:
                common = [root for root in one.roots if root in self._roots]
                if common:
                    self._roots, self._is_found = (common[0],), True
                    break
        if self._wanted.tree != NEXT:
            return found
        return [one for one in found if not set(self._roots).isdisjoint(one.roots)]

    def _next_of(self, roots: Iterable[int], placed: PlacedTopology) -> tuple[int, ...]:
        name = self._wanted.component
        if name:
            roots = (r for r in roots if placed.component_of_origin(r >> SEQUENCE_BITS) == name)
        return tuple(itertools.islice(roots, MOST_TREES))

    def end(self, why: str) -> None:
        """End it."""
        with self._new:
            self._why_ended = why
            self._new.notify_all()

    # Whoever has opened it

    def taken(self) -> tuple[list[bytes], int, str | None]:
        """The tuples that are new, how many others there were, and why the tap has ended."""
        with self._new:
            lines, others = self._lines.take(), self._others
            self._others = 0
            return lines, others, self._why_ended

    def lines(self, wait_seconds: float) -> Iterator[bytes]:
        """Lines of JSON: tuples; now and then how many others there were; at last why it ends.

        The reason is "" if there were as many as were wanted. An empty line says that there was
        nothing for so many seconds.
        """
        while True:
            with self._new:
                if not self._lines and not self._others and self._why_ended is None:
                    self._new.wait(wait_seconds)
            lines, others, why = self.taken()
            yield from lines
            if others:
                yield _dumps({"others": others})
            if why is not None:
                yield _dumps({"ended": why})
                return
            if not lines and not others:
                yield b"\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._taps.close(self._number)


def _line(one: TappedTuple, placed: PlacedTopology, batch: int, wall: float) -> bytes:
    return _dumps(
        {
            "time": round(wall, 3),
            "batch": batch,
            "component": placed.plan.component_of(one.task),
            "stream": one.stream,
            "task": one.task,
            "trees": [tree_id(root) for root in one.roots],
            "values": orjson.Fragment(one.values),
        }
    )


def _dumps(line: Mapping[str, Any]) -> bytes:
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
