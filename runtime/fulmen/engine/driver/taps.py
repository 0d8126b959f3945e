"""The taps that are open: people who look at some of the tuples of a running topology.

The driver's thread asks what they want before each batch, and gives them what came back when the
batch counts. Whoever opened a tap waits for it in a thread of its own, and never holds a batch:
what nobody takes is dropped.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self

import orjson

from fulmen.engine.acking.root_ids import SEQUENCE_BITS, root_of, tree_id
from fulmen.engine.protocol.figures.taps import TappedTuple, TapRequest
from fulmen.engine.protocol.placed_topology import RESERVED, CurrentTopology, PlacedTopology
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.taps.condition import ConditionError, conditions_of
from fulmen.engine.taps.kept_lines import KeptLines
from fulmen.engine.taps.sampler import fields_of
from fulmen.errors import FulmenError
from fulmen.topology.problems import did_you_mean, there_are
from fulmen.topology.resource.spec import BoltSpec
from fulmen.topology.resource.tap import Tap

MOST_TAPS = 8
MOST_TUPLES, MOST_OF_A_TREE = 20, 200
"""Tuples of a batch that a tap is given, of each stage on each worker."""
MOST_TREES = 64
"""Trees that may become the next one: the first of each spout task."""
NEXT = "next"


class TapRefused(FulmenError):
    """A tap can't be opened.

    Attributes:
        reason: Why, and what to do about it.
        status: What HTTP calls it.
    """

    def __init__(self, reason: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(reason, status)
        self.reason, self.status = reason, status

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class WantedTap:
    """What somebody wants to see.

    Attributes:
        component: Whose tuples; "": those of all components, which takes a tree.
        stream: Of that stream alone; "": of all of them.
        where: What a tuple has to have: `FIELD=VALUE`, all of them.
        tree: Of that tree alone; "next": the one that begins next; "": of any.
        limit: The tap ends after so many; 0: it does not.
    """

    component: str = ""
    stream: str = ""
    where: tuple[str, ...] = ()
    tree: str = ""
    limit: int = 0


class Taps:
    """The open taps of one driver, whether its topology runs already or not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[int, OpenTap] = {}
        self._rules = Tap()
        self._current: CurrentTopology | None = None

    @property
    def is_allowed(self) -> bool:
        """Whether tuples may be shown."""
        return self._rules.allowed

    def begin(self, current: CurrentTopology, rules: Tap) -> None:
        """The topology runs."""
        self._current = current
        self.rule(rules)

    def rule(self, rules: Tap) -> None:
        """From the next batch on these rules are in force."""
        with self._lock:
            self._rules = rules
            if not rules.allowed:
                self._end("the topology does not allow taps any more")

    def end(self) -> None:
        """The topology ends."""
        with self._lock:
            self._current = None
            self._end("the topology has ended")

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
            root = _check(wanted, current.placed, rules)
            number = next(self._numbers)
            tap = self._open[number] = OpenTap(self, number, wanted, root)
            return tap

    def close(self, number: int) -> None:
        """Somebody looks no more."""
        with self._lock:
            self._open.pop(number, None)

    def requests(self) -> tuple[TapRequest, ...]:
        """What the tasks are asked in the next batch."""
        if not self._open:
            return ()
        with self._lock:
            mask = self._rules.mask
            return tuple(tap.request(mask) for tap in self._open.values())

    def committed(self, summaries: Sequence[Summary], batch: int, wall: float) -> None:
        """A batch has counted.

        Args:
            summaries: Of all its parts.
            batch: Its number.
            wall: The time, in seconds as of time.time().
        """
        if not self._open:
            return
        with self._lock:
            if self._current is None:
                return
            for tap in self._open.values():
                tap.committed(summaries, self._current.placed, batch, wall)


class OpenTap:
    """What one person looks at. Close it: it is a context."""

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
        """What tasks are asked in the next batch."""
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
        """A batch has counted."""
        tapped = [summary.tapped for summary in summaries if summary.tapped is not None]
        found = [one for part in tapped for one in part.tuples if one.tap == self._number]
        found = self._of_the_tree(found)
        lines = [_line(one, placed, batch, wall) for one in found]
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
        """There will be no more."""
        with self._new:
            self._why_ended = why
            self._new.notify_all()

    # Whoever has opened it

    def lines(self, wait_seconds: float) -> Iterator[bytes]:
        """Lines of JSON: tuples; now and then how many others there were; at last why it ends.

        The reason is "" if there were as many as were wanted. An empty line says that there was
        nothing for so many seconds.
        """
        while True:
            with self._new:
                if not self._lines and not self._others and self._why_ended is None:
                    self._new.wait(wait_seconds)
                lines, others, why = self._lines.take(), self._others, self._why_ended
                self._others = 0
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


# What can be wanted


def _check(wanted: WantedTap, placed: PlacedTopology, rules: Tap) -> int | None:
    """The root id that is wanted, if one is. Raises TapRefused if something is wrong."""
    if not (wanted.component or wanted.tree):
        raise TapRefused("name a component whose tuples are to be shown, or a tree.")
    if wanted.tree and not placed.acking:
        raise TapRefused("the topology has no trees: it is transactional, or has no ackers.")
    streams = _streams(wanted, placed)
    if wanted.where:
        _check_conditions(wanted.where, streams, rules.mask)
    if wanted.tree == NEXT:
        _check_next(wanted, placed)
    if wanted.tree in ("", NEXT):
        return None
    root = root_of(wanted.tree)
    if root is None:
        raise TapRefused(
            f"{wanted.tree!r} is not a tree's id: ids look like 3-2591, as in a tuple's `trees`;"
            f" or write {NEXT}."
        )
    return root


def _check_next(wanted: WantedTap, placed: PlacedTopology) -> None:
    names = sorted(placed.spouts)
    if wanted.component and wanted.component not in names:
        raise TapRefused(
            f"the next tree can't be one of {wanted.component!r}: trees begin at spouts. There are:"
            f" {', '.join(names)}."
        )
    if wanted.stream:
        raise TapRefused("a tree is followed through all streams: leave the stream out.")


def _streams(wanted: WantedTap, placed: PlacedTopology) -> Sequence[tuple[str, ...]]:
    """The fields of each stream that is wanted."""
    names = sorted(placed.streams)
    if wanted.component and wanted.component not in names:
        raise _no_such("component", wanted.component, names)
    is_one = wanted.component and wanted.tree != NEXT
    components = [wanted.component] if is_one else names
    found = {name: _streams_of(name, placed) for name in components}
    if wanted.stream:
        of = found.get(wanted.component, {})
        if wanted.stream not in of:
            raise _no_such(f"stream of {wanted.component!r}", wanted.stream, of)
        return [of[wanted.stream]]
    fields = [some for of in found.values() for some in of.values()]
    if is_one and not fields:
        raise TapRefused(
            f"{wanted.component!r} emits nothing: it declares no stream.{_instead(wanted, placed)}"
        )
    return fields


def _streams_of(component: str, placed: PlacedTopology) -> dict[str, tuple[str, ...]]:
    declared = placed.streams[component]
    names = [*declared, *(RESERVED if _begins_trees(component, placed) else ())]
    return {name: tuple(fields_of(declared, name)) for name in names}


def _begins_trees(component: str, placed: PlacedTopology) -> bool:
    """Whether it may have dead letters, or late tuples."""
    origins = {placed.plan.key_of(task) for task in placed.plan.tasks(component)}
    return bool(origins & placed.origins.keys()) or component in placed.event_times


def _instead(wanted: WantedTap, placed: PlacedTopology) -> str:
    spec = placed.component(wanted.component)
    if not isinstance(spec, BoltSpec):
        return ""
    names = ", ".join(f"{one.from_}:{one.stream}" for one in spec.inputs)
    return f" What it receives comes from {names}."


def _no_such(kind: str, name: str, names: Collection[str]) -> TapRefused:
    cure = did_you_mean(name, names) or there_are(names or ["none"])
    return TapRefused(f"there is no {kind} {name!r}. {cure}", HTTPStatus.NOT_FOUND)


def _check_conditions(
    texts: Sequence[str], streams: Sequence[tuple[str, ...]], mask: Sequence[str]
) -> None:
    try:
        conditions = conditions_of(texts)
    except ConditionError as error:
        raise TapRefused(str(error)) from None
    if hidden := {name for one in conditions for name in one.path} & set(mask):
        raise TapRefused(f"--where asks for {min(hidden)!r}, which `tap.mask` hides.")
    asked = {one.path[0] for one in conditions}
    if not any(asked <= set(fields) for fields in streams):
        known = {name: None for fields in streams for name in fields}
        if unknown := sorted(asked - known.keys()):
            raise _no_such("field", unknown[0], known)
        raise TapRefused("no stream has all fields that --where asks for.")
