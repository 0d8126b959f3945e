"""Traced trees, and the names of their traces: the same in each process that asks.

A task decides where a tree begins. Trace ids follow from root ids, so whoever deals with a tuple
can name its trace. If a message came with a trace, its tuples are sent with that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fulmen.engine.tuples.chunk import Ids

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1
MOST_PARENTS = 10_000
_ALL = 1 << 64


class TraceContext(NamedTuple):
    """A place in a trace.

    Attributes:
        trace_id: Of the trace.
        span_id: Of the span that others are below.
        is_sampled: Whether the trace is recorded.
    """

    trace_id: int
    span_id: int
    is_sampled: bool = True

    @staticmethod
    def parsed(traceparent: object) -> TraceContext | None:
        """Parse the W3C header `traceparent`; None: nothing in it can be used."""
        if not isinstance(traceparent, str):  # it comes from an author's code
            return None
        found = _TRACEPARENT.fullmatch(traceparent.strip())
        if found is None:
            return None
        version, trace_id, span_id, flags, more = found.groups()
        if version == "ff" or (version == "00" and more) or not int(trace_id, 16):
            return None
        if not int(span_id, 16):
            return None
        return TraceContext(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & _SAMPLED))

    def at(self, span_id: int) -> TraceContext:
        """Another span of the same trace."""
        return TraceContext(self.trace_id, span_id, self.is_sampled)

    @property
    def traceparent(self) -> str:
        """Format the W3C header."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.is_sampled):02x}"


class Parents:
    """The places in traces that messages have come with, as far as a process knows them.

    Rows between stages have them beside the tuples. Of too many, the oldest are forgotten.
    """

    def __init__(self, most: int = MOST_PARENTS) -> None:
        self._most = most
        self._parents: dict[int, TraceContext] = {}

    def __reduce__(self) -> Any:  # another process is told what it needs
        return Parents, ()

    def add(self, parents: Mapping[int, TraceContext]) -> None:
        """Add those of some trees, by their roots."""
        self._parents.update(parents)
        for root in list(islice(self._parents, max(0, len(self._parents) - self._most))):
            del self._parents[root]

    def get(self, root: int) -> TraceContext | None:
        """The trace of one tree; None: it has none, or it is not known."""
        return self._parents.get(root)

    def among(self, roots: Iterable[int]) -> dict[int, TraceContext]:
        """The known traces among some trees."""
        known = self._parents
        return {root: known[root] for root in roots if root in known} if known else {}


@dataclass(frozen=True)
class Sampling:
    """How a task decides which trees are traced.

    Attributes:
        ratio: The share of trees that begin a trace, from 0 to 1.
        salt: The first half of trace ids: random, another one for each driver.
        follows_parents: Whether a message that came with a trace is traced exactly if that is
            recorded.
        parents: What this process knows of messages that came with a trace.
    """

    ratio: float
    salt: int
    follows_parents: bool = True
    parents: Parents = field(default_factory=Parents, repr=False, compare=False)

    def chosen(self, roots: Ids) -> npt.NDArray[np.bool_]:
        """Which of some trees are traced, as far as the ratio says."""
        bound = int(self.ratio * _ALL)
        if bound >= _ALL:
            return np.ones(len(roots), np.bool_)
        return self._halves(roots) < np.uint64(bound)

    def trace_id(self, root: int) -> int:
        """The id of the trace that begins with a tree."""
        half = int(self._halves(np.array([root], np.uint64))[0])
        return self.salt << 64 | half

    def span_id(self, root: int, *what: str | int) -> int:
        """The id of a span of a tree: of the message itself, or of what is named behind it."""
        data = repr((self.salt, root, *what)).encode()
        return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") or 1

    def context_of(self, root: int, parent: TraceContext | None) -> TraceContext:
        """The context of a message's span; `parent` is the place in a trace that it came with."""
        trace_id = self.trace_id(root) if parent is None else parent.trace_id
        return TraceContext(trace_id, self.span_id(root))

    def context_in(
        self, root: int, component: str, number: int, parent: TraceContext | None
    ) -> TraceContext:
        """The context of a component's span, for a message in a batch."""
        message = self.context_of(root, parent)
        return message.at(self.span_id(root, "component", component, number))

    def _halves(self, roots: Ids) -> Ids:
        """The second halves of trace ids. Equally likely all of them, so samplers may use them.

        It is the finalizer of SplitMix64, which gives different numbers for different numbers.
        """
        x = roots ^ np.uint64(self.salt)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
