"""The API server's clock, by what its answers say. Pure: the clock of this machine is an argument.

Nearly all times that a decision compares are the API server's, such as when a pod was made or told
to end. The clock of the operator's node may be minutes off: a driver that has just been made would
be overdue, and a pod that was just told to end would be on a lost node.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

DATE: Final = "Date"
"""The header of an answer that says when it was made, in whole seconds."""
SAME: Final = timedelta(seconds=2)
"""Clocks that differ by less are taken for the same: the header is no more exact than that."""


class ServerClock:
    """Tells the API server's time, learned from its answers.

    Args:
        local: The time by the clock of this machine.
    """

    def __init__(self, local: Callable[[], datetime]) -> None:
        self._local = local
        self._ahead = timedelta(0)

    def now(self) -> datetime:
        """The server's time."""
        return self._local() + self._ahead

    def hear(self, date: str | None, sent: datetime) -> None:
        """Learn the time from an answer that has just come.

        Args:
            date: The header; None: there is none.
            sent: The server's time at the request, as it was known then. The answer was made
                between that and now, however long it was on its way.
        """
        try:
            said = parsedate_to_datetime(date or "")
        except ValueError:
            return
        if said.tzinfo is None:
            said = said.replace(tzinfo=UTC)
        if said < sent - SAME:
            self._ahead += said - sent
        elif said > (now := self.now()) + SAME:
            self._ahead += said - now
