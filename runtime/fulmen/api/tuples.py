"""The tuple as an author sees it: values, and where they came from.

A tuple is made for every message that a bolt receives, so it is three slots and nothing more. All
else that is known about it is kept once for the chunk that it came in, as columns. A tuple that its
bolt keeps beyond the chunk is given a `Held` of its own, which is small and can be pickled with the
bolt's fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

HELD = 1 << 62
"""The position of a tuple that is no longer part of a chunk."""

TICK_COMPONENT = "__system"
TICK_STREAM = "__tick"
DRAIN_STREAM = "__drain"
FINISH_STREAM = "__finish"
END_STREAM = "__end"
TIMER_STREAM = "__timer"


class Origin(Protocol):
    """The source of a tuple: a chunk or `Held`."""

    component: str
    stream: str
    fields: tuple[str, ...]

    def source_task(self, i: int) -> int:
        """The id of the task that emitted tuple `i`."""
        ...

    def lineage(self, i: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """The trees that tuple `i` belongs to: `roots`, `edges` and `xor` as in `Held`."""
        ...

    def began_at(self, i: int) -> float:
        """About when `execute` was called with tuple `i`: wall clock seconds; 0: not known."""
        ...


class Held:
    """The origin of one tuple that outlives its chunk.

    Attributes:
        roots: Ids of the tuple trees that the tuple belongs to.
        edges: The tuple's own id in each of those trees.
        xor: XOR of the ids of all tuples that were anchored to it and not yet told to the ackers
            (Storm's ackVal).
        began: When `execute` was called with it: wall clock seconds; 0: not known.
    """

    __slots__ = ("began", "component", "edges", "fields", "roots", "stream", "task", "xor")

    def __init__(  # noqa: PLR0913 (all that a tuple is)
        self,
        component: str,
        stream: str,
        fields: tuple[str, ...],
        task: int,
        roots: tuple[int, ...] = (),
        edges: tuple[int, ...] = (),
        xor: int = 0,
        began: float = 0.0,
    ) -> None:
        self.component = component
        self.stream = stream
        self.fields = fields
        self.task = task
        self.roots = roots
        self.edges = edges
        self.xor = xor
        self.began = began

    def source_task(self, i: int) -> int:  # noqa: ARG002 (one tuple: its own)
        """The id of the task that emitted the tuple, whatever `i`."""
        return self.task

    def lineage(self, i: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:  # noqa: ARG002 (one tuple: its own)
        """Roots, edges and xor of the tuple, whatever `i`."""
        return self.roots, self.edges, self.xor

    def began_at(self, i: int) -> float:  # noqa: ARG002 (one tuple: its own)
        """The time at which `execute` was called with the tuple, whatever `i`."""
        return self.began


class _Places(dict[tuple[str, ...], dict[int | str, int]]):
    """By the fields of a stream: the place of each value, by its field's name or its number.

    To look there takes a third of the time that it takes to look through the names.
    """

    def __missing__(self, fields: tuple[str, ...]) -> dict[int | str, int]:
        width = len(fields)
        places: dict[int | str, int] = {i: i for i in range(-width, width)}
        places.update((name, i) for i, name in reversed([*enumerate(fields)]))
        self[fields] = places
        return places


_PLACES = _Places()


class Tuple:
    """One message that a bolt receives.

    `tuple.values[0]` is the fastest access; `tuple["word"]` and `tuple[0]` are there as well. The
    values are the very objects that were emitted when both ends run in one worker: don't change
    them.

    A tuple may be kept in a field of its bolt and acked later, also batches later: it is pickled
    with the bolt.
    """

    __slots__ = ("_i", "_origin", "values")

    def __init__(self, values: Sequence[Any], origin: Origin, i: int) -> None:
        self.values = values
        self._origin = origin
        self._i = i

    @property
    def component(self) -> str:
        """Name of the component that emitted it."""
        return self._origin.component

    @property
    def stream(self) -> str:
        """Name of the stream that it was emitted on."""
        return self._origin.stream

    @property
    def task(self) -> int:
        """Id of the task that emitted it; -1 for ticks."""
        return self._origin.source_task(self._position)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the values, in their order."""
        return self._origin.fields

    def is_tick(self) -> bool:
        """Whether this is a tick (spec: `tickSeconds`) instead of a message."""
        return self._origin.component == TICK_COMPONENT and self._origin.stream == TICK_STREAM

    def as_dict(self) -> dict[str, Any]:
        """The values by the names of their fields."""
        return dict(zip(self.fields, self.values, strict=True))

    @property
    def _position(self) -> int:
        """The place in the chunk, also after it was acked or failed (which turns the sign)."""
        return self._i if self._i >= 0 else ~self._i

    def __getitem__(self, key: int | str) -> Any:
        """A value, by the name of its field or by its number, from 0.

        Raises:
            KeyError: The stream has no field of that name. The message lists those that it has.
        """
        try:
            return self.values[_PLACES[self._origin.fields][key]]
        except (KeyError, TypeError):  # a slice can't be a key before Python 3.12
            if isinstance(key, str):
                raise KeyError(
                    f"no field {key!r} in stream {self.stream!r} of {self.component!r}, which has"
                    f" {list(self.fields)}"
                ) from None
        return self.values[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Tuple({self.component}:{self.stream}, task {self.task}, {self.values!r})"

    def __reduce__(self) -> Any:
        roots, edges, xor = self._origin.lineage(self._position)
        began = self._origin.began_at(self._position)
        state = (self.component, self.stream, self.fields, self.task, roots, edges, xor, began)
        return _restore, (self.values, self._i < 0, state)


def _restore(values: Sequence[Any], ended: bool, state: Any) -> Tuple:
    return Tuple(values, Held(*state), ~HELD if ended else HELD)
