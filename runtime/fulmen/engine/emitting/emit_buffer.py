"""Emits of a task on one stream, until they are sent.

Emits that are all lists, or all tuples, are kept as their values alone, one after another. The
lists and tuples themselves are then gone at once, and cost the garbage collector nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fulmen.api.collector import Values
from fulmen.engine.emitting.routes import Routes
from fulmen.engine.tuples.sizes import rows_bytes, sample_bytes
from fulmen.engine.tuples.tuple_rows import TupleRows


class Buffer:
    """Emits on one stream, in their order.

    A collector adds an emit by itself if its type is `kind`, and it has `width` values: to `flat`
    and to `origins`. Any other one comes by `append`.

    Attributes:
        flat: The values of all emits, one after another; empty if `kind` is None.
        kind: The type of all emits, list or tuple. None: the emits are of several types.
        origins: For each emit the message id (spouts), or what it is anchored to (bolts): one tuple
            of the chunk at hand by its position, anything else as it was given.
        chosen: Emits whose tasks are known already: emit number -> (subscription number, tasks).
    """

    __slots__ = ("_mixed", "chosen", "flat", "kind", "origins", "routes", "width")

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        # -1 is never right: then the slow way explains what is wrong
        self.width = -1 if routes.direct else len(routes.fields)
        self.flat: list[Any] = []
        self.kind: type | None = list
        self.origins: list[Any] = []
        self.chosen: dict[int, list[tuple[int, list[int]]]] = {}
        self._mixed: list[Values] = []

    def __len__(self) -> int:
        return len(self.origins)

    def append(self, values: Values, origin: Any) -> None:
        """Add an emit of any type, which has as many values as the stream has fields."""
        kind = type(values)
        if not self.origins and kind is tuple:
            self.kind = tuple
        if kind is self.kind:
            self.flat.extend(values)
        else:
            self._mix()
            self._mixed.append(values)
        self.origins.append(origin)

    def _mix(self) -> None:
        """Keep the emits as they are, from now on."""
        if self.kind is not None:
            self._mixed, self.flat, self.kind = list(self.rows()), [], None

    def rows(self) -> TupleRows:
        """The values of each emit."""
        if self.kind is None:
            return TupleRows(self._mixed)
        width = len(self.routes.fields)
        columns = [self.flat] if width == 1 else [self.flat[k::width] for k in range(width)]
        return TupleRows.of_columns(columns, "l" if self.kind is list else "t", len(self))

    def about_bytes(self, start: int) -> int:
        """About how many bytes the emits from number `start` on take."""
        if self.kind is None:
            return rows_bytes(self._mixed, start)
        width = len(self.routes.fields)
        return sample_bytes(lambda i: self.flat[i * width : (i + 1) * width], start, len(self))

    def wrong(self) -> list[int]:
        """Emits whose values are no sequence; collectors look at their length only."""
        return [
            i
            for i, values in enumerate(self._mixed)
            if isinstance(values, str | bytes) or not isinstance(values, Sequence)
        ]

    def parts(self, kind: Callable[[Any], bool]) -> list[Buffer]:
        """The emits as parts, in their order: the origins of each are all of the kind, or none."""
        kinds = [kind(origin) for origin in self.origins]
        if len(set(kinds)) == 1:
            return [self]
        parts: list[Buffer] = []
        for i, values in enumerate(self.rows()):
            if not i or kinds[i] != kinds[i - 1]:
                parts.append(Buffer(self.routes))
            if i in self.chosen:
                parts[-1].chosen[len(parts[-1])] = self.chosen[i]
            parts[-1].append(values, self.origins[i])
        return parts

    def remove(self, i: int) -> None:
        """Take emit number `i` out."""
        self._mix()
        del self._mixed[i], self.origins[i]
        self.chosen = {k - (k > i): v for k, v in self.chosen.items() if k != i}
