"""Requests to tasks so that people can look at tuples, and the answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class TapRequest(NamedTuple):
    """The request of one open tap in a batch.

    Attributes:
        number: The tap's. Its tuples come back with it.
        component: Whose tuples; "": those of all components.
        stream: Of that stream alone; "": of all of them.
        where: What a tuple has to have: `FIELD=VALUE`, all of them.
        mask: The fields whose values are not shown.
        most: How many tuples each stage may give on each worker.
        roots: The trees that a tuple has to be part of one of; none: it may be of any, or of none.
        asks_next: Whether spout tasks are to say which tree they begin next.
    """

    number: int
    component: str
    stream: str
    where: tuple[str, ...]
    mask: tuple[str, ...]
    most: int
    roots: tuple[int, ...] = ()
    asks_next: bool = False


class TappedTuple(NamedTuple):
    """A tuple for a tap.

    Attributes:
        tap: The tap's number.
        task: The task that emitted it.
        stream: On which stream.
        roots: The trees that it is part of.
        values: JSON: the values by field, as people may see them.
    """

    tap: int
    task: int
    stream: str
    roots: tuple[int, ...]
    values: bytes


@dataclass
class Tapped:
    """The answer of a stage to taps.

    Attributes:
        tuples: Some of those that were emitted.
        others: Tap -> how many there were besides that it might have wanted.
        next_roots: The trees that spout tasks begin next, if they were asked.
    """

    tuples: list[TappedTuple] = field(default_factory=list)
    others: Counter[int] = field(default_factory=Counter)
    next_roots: list[int] = field(default_factory=list)
