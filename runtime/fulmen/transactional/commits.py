"""Several maps of one store in one commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fulmen.transactional.maps import StoredMap


@contextmanager
def together(*maps: StoredMap) -> Iterator[Any]:
    """Have what is written to several maps of one store in one commit: all of it, or nothing.

        with together(self.counts, self.totals):
            self.counts.update(self.attempt, self.partials, plus)
            self.totals.update(self.attempt, {"all": self.partials.total()}, plus)

    Args:
        maps: Of one store.

    Yields:
        The connection to the database, in whose open transaction statements of one's own run as
        well; None with Redis.

    Raises:
        StoreRefused: The maps are of several stores.
        StoreError: As by `update`: what of it only the end can show is raised at the end.
    """
    first = maps[0]
    for other in maps:
        if other.store != first.store:
            other.refuse(
                f"it can't be written together with one in {first.store}",
                "Only maps of one store have one commit.",
            )
    with first.one_commit(maps) as connection:
        yield connection
