"""The records of one task in the checkpoint, and when a log of changes is written anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Journals = Mapping[str, Sequence[bytes]]
"""A task's part of the checkpoint: journal -> its payloads, in the order of their commits."""
Update = tuple[bytes | None, int]
"""A record, and the commit from which on the journal's records are still needed."""
FEW = 64
"""A state of hardly more entries than that is written as a whole each time."""
_LOG_RECORDS = 128


class RewritePolicy:
    """Says when a log of changes is written anew: as soon as it is larger than what it describes.

    So what is written stays in proportion to what changed, and the log in proportion to what is
    alive.
    """

    def __init__(self, records: int = 0) -> None:
        """`records` are in the log already: restarts, however many, let no log grow."""
        self._logged = 0
        self._records = records

    def rewrite(self, alive: int, changed: int) -> bool:
        """Whether the next record is to be the whole state.

        Args:
            alive: How many entries that would be.
            changed: How many entries it would be otherwise.
        """
        self._records += 1
        self._logged += changed
        if alive <= 2 * changed + FEW or self._logged > 2 * alive or self._records > _LOG_RECORDS:
            self._records = self._logged = 0
            return True
        return False
