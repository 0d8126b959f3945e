"""Notes about traced trees by the tasks of one stage in one worker in one batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fulmen.engine.protocol.sampling import TraceContext
from fulmen.secrets import masked

MOST_BEGUN = 20
"""So many trees begin to be traced in a batch of one stage and worker: a sampler may want more."""
MOST_NOTES = 5_000
LONGEST_REASON = 500


class Begun(NamedTuple):
    """A tree that is traced has begun.

    Attributes:
        root: Its root id.
        component: Where.
        task: In which task.
        stream: On which stream it was emitted.
        born: When, in seconds of time.time().
        parent: The place in a trace that the message came with, or that of the tree that failed
            before; None: a trace of its own.
        failures: How many times its message has failed before.
        reason: Why the last time.
    """

    root: int
    component: str
    task: int
    stream: str
    born: float
    parent: TraceContext | None = None
    failures: int = 0
    reason: str = ""


@dataclass
class Ran:
    """The work of one component with the tuples of one tree.

    Attributes:
        began: When it began with the first of the chunks that they were in, seconds of time.time().
        ended: When it had done with the last of them.
        tuples: How many of them were executed.
        beside: How many other tuples there were in the same chunks: they had the same time.
        acked_late: How many that it had kept were acked or failed.
        failed: Why one failed; "": none did.
    """

    began: float
    ended: float
    tuples: int = 0
    beside: int = 0
    acked_late: int = 0
    failed: str = ""

    def add(self, other: Ran) -> None:
        """Take in what was done besides, or later."""
        self.began, self.ended = min(self.began, other.began), max(self.ended, other.ended)
        self.tuples += other.tuples
        self.beside += other.beside
        self.acked_late += other.acked_late
        self.failed = self.failed or other.failed


@dataclass
class TraceNotes:
    """The notes.

    Attributes:
        begun: Trees that have begun.
        ran: (root, component) -> what it did.
    """

    begun: list[Begun] = field(default_factory=list)
    ran: dict[tuple[int, str], Ran] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.begun or self.ran)

    @property
    def room(self) -> int:
        """How many trees may begin to be traced."""
        return max(0, MOST_BEGUN - len(self.begun))

    def executed(
        self,
        component: str,
        roots: Iterable[int],
        began: float,
        ended: float,
        size: int,
        failed: Mapping[int, str],
    ) -> None:
        """Note that a component has executed a chunk.

        Args:
            component: Which.
            roots: The root of each tuple that belongs to a traced tree.
            began: When.
            ended: When it had done with all of it.
            size: How many tuples the chunk has.
            failed: Root -> why a tuple of it failed.
        """
        counts: dict[int, int] = {}
        for root in roots:
            counts[root] = counts.get(root, 0) + 1
        for root, n in counts.items():
            why = failed.get(root, "")
            self.add(root, component, Ran(began, ended, n, max(0, size - n), failed=why))

    def add(self, root: int, component: str, ran: Ran) -> None:
        """Note what a component did with tuples of a tree."""
        ran.failed = masked(ran.failed)[:LONGEST_REASON]
        known = self.ran.get((root, component))
        if known is not None:
            known.add(ran)
        elif len(self.ran) < MOST_NOTES:
            self.ran[root, component] = ran
