"""Tuples on their way to other workers or stages, until there are enough of them for a row."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fulmen.engine.acking.root_ids import traced_among
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.tuples import wire
from fulmen.engine.tuples.chunk import Lineage, Positions, Tasks
from fulmen.engine.tuples.salvage import deeply
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import PASSED_ON, text_of

HELD_BYTES = 8 << 20
"""Bytes for one worker at which they become rows, however few tuples they are."""
_NARROW = 64
"""Keys that lie so close together are counted to see which there are."""
_FEW_GROUPS = 6
"""To compare all keys with each of so many is quicker than to sort them."""
Index = npt.NDArray[np.integer[Any]]
"""Which of the emitted rows are meant; None in its place: all."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of emits on their way to the tasks of one subscription.

    Attributes:
        task: The task that emitted them.
        emitted: The values of the emits.
        index: The emit that each is a copy of; None: there is one of each.
        targets: The task that each goes to.
        lineage: Theirs; None: they are not tracked.
    """

    task: int
    emitted: TupleRows
    index: Index | None
    targets: Tasks
    lineage: Lineage | None

    def take(self, at: Positions | None) -> Copies:
        """Take the copies at some positions; None: all."""
        if at is None:
            return self
        lineage = None if self.lineage is None else self.lineage.take(at)
        return Copies(self.task, self.emitted, compose(self.index, at), self.targets[at], lineage)

    def rows(self) -> TupleRows:
        """The values of each copy."""
        return self.emitted if self.index is None else self.emitted.take(self.index)


class Parcels:
    """The tuples of one stage in one worker that are for others, by whom they are for."""

    def __init__(
        self,
        placed: PlacedTopology,
        rows: list[tuple[int, bytes]],
        refuse: Callable[[int, Sequence[int], str, Sequence[Any]], None],
    ) -> None:
        """Begin without tuples.

        Args:
            placed: The topology.
            rows: Takes (worker, row) of what is ready to leave.
            refuse: Is told of each tuple that can't leave: its task, roots, why, and its values.
        """
        self._placed = placed
        self._rows = rows
        self._refuse = refuse
        self._row_tuples = placed.limits.row_tuples
        self._waiting: dict[tuple[int, int], list[wire.Parcel]] = defaultdict(list)
        self._held: Counter[tuple[int, int]] = Counter()
        self._held_bytes: Counter[tuple[int, int]] = Counter()

    def add(self, subscription: int, copies: Copies) -> None:
        """Add emitted tuples; when there are enough for a worker, they become rows.

        Args:
            subscription: The number of the subscription that they are for.
            copies: The tuples.
        """
        if not len(copies.targets):
            return
        sent = replace(copies, emitted=copies.emitted.encoded())
        size = sent.emitted.about_bytes
        for worker, at in groups(self._placed.task_worker[copies.targets]):
            key, some = (subscription, worker), sent.take(at)
            n = len(some.targets)
            sources = np.full(n, some.task, np.int32)
            self._waiting[key].append(
                wire.Parcel(subscription, some.targets, sources, some.lineage, some.rows())
            )
            self._held[key] += n
            self._held_bytes[key] += size * n // max(1, len(sent.emitted))
            if self._held[key] >= self._row_tuples or self._held_bytes[key] >= HELD_BYTES:
                self._pack(key)

    @property
    def waiting_bytes(self) -> int:
        """About how many bytes wait for more tuples."""
        return self._held_bytes.total()

    def pack_all(self) -> None:
        """Make rows of all that wait for more tuples."""
        for key in list(self._waiting):
            self._pack(key)

    def pack_of(self, subscription: int) -> None:
        """Pack the parcels of one subscription."""
        for key in [key for key in self._waiting if key[0] == subscription]:
            self._pack(key)

    def _pack(self, key: tuple[int, int]) -> None:
        worker, parts = key[1], self._waiting.pop(key)
        del self._held[key], self._held_bytes[key]
        # Arrow: one batch each, since their schemas may differ
        is_arrow = any(part.rows.arrow is not None for part in parts)
        for parcel in parts if is_arrow else (wire.concat(parts),):
            parcel = replace(parcel, parents=self._parents_of(parcel.lineage))
            try:
                packed = list(wire.pack_tuples(parcel, self._row_tuples))
            except PASSED_ON:
                raise
            except BaseException:  # noqa: BLE001 (an author's __reduce__ may raise anything)
                left = self._without_unpicklable(parcel)
                packed = list(wire.pack_tuples(left, self._row_tuples)) if len(left) else []
            self._rows += [(worker, row) for row in packed]

    def _parents_of(self, lineage: Lineage | None) -> Mapping[int, Any]:
        """The traces that these tuples' messages came with: of those that are traced."""
        sampling = self._placed.sampling
        if sampling is None or lineage is None:
            return {}
        return sampling.parents.among(traced_among(lineage.roots).tolist())

    def _without_unpicklable(self, parcel: wire.Parcel) -> wire.Parcel:
        """The tuples of a parcel that can leave their worker. The trees of the others fail."""
        subscription = self._placed.sent[parcel.subscription]
        kept = []
        for i, row in enumerate(parcel.rows):
            try:  # as it is sent: a value that is nested deeply may be pickled alone, but not there
                list(wire.pack_tuples(parcel.take(np.array([i], np.int64))))
            except PASSED_ON:
                raise
            except BaseException as error:  # noqa: BLE001 (an author's __reduce__ may raise anything)
                field, cause = _unpicklable(row) or (None, error)
            else:
                kept.append(i)
                continue
            which = (
                "a value" if field is None else f"the value of field {subscription.fields[field]!r}"
            )
            message = (
                f"emit on stream {subscription.stream!r}: {which} can't be pickled"
                f" ({text_of(cause)}), so it can't go to another worker or stage, where"
                f" {subscription.target!r} is"
            )
            roots = () if parcel.lineage is None else parcel.lineage.of(i)[0]
            self._refuse(int(parcel.sources[i]), roots, message, row)
        return parcel.take(np.array(kept, np.int64))


def _unpicklable(row: Sequence[Any]) -> tuple[int, BaseException] | None:
    """The number of the first value that can't be pickled, and why."""
    for i, value in enumerate(row):
        try:
            deeply(partial(pickle.dumps, value, 5))
        except PASSED_ON:
            raise
        except BaseException as e:  # noqa: BLE001 (an author's __reduce__ may raise anything)
            return i, e
    return None


def groups(keys: npt.NDArray[np.int32]) -> list[tuple[int, Positions | None]]:
    """Each distinct key with the positions that have it, in their order; None for all positions."""
    first = int(keys[0])
    if len(keys) == 1 or (keys == first).all():
        return [(first, None)]
    low = int(keys.min())
    if int(keys.max()) - low < _NARROW:
        present = np.flatnonzero(np.bincount(keys - low)) + low
        if len(present) <= _FEW_GROUPS:
            return [(key, np.flatnonzero(keys == key)) for key in present.tolist()]
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    cuts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    starts = [0, *cuts.tolist(), len(keys)]
    return [(int(ordered[a]), order[a:b]) for a, b in pairwise(starts)]


def compose(index: Index | None, at: Index | None) -> Index | None:
    """`index[at]`, where None stands for all."""
    if at is None:
        return index
    return at if index is None else index[at]
