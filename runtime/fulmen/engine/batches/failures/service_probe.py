"""After an outage the next attempt emits nothing: it asks whether the service is back. Pure.

Without that, every attempt would have tuples, and sinks beside the one whose store is away would
write them in each. An attempt makes all instances anew, so whatever connects in `open` or `prepare`
fails it as long as its service is away. What connects later lets it count: then the next attempts
have tuples again, until one of these counts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ServiceProbe:
    """Whether the next attempt asks for a service that was away.

    Attributes:
        is_next: It does, and emits nothing.
        was_answered: The last batch that counted did so.
    """

    is_next: bool = False
    was_answered: bool = False

    def failed(self, *, is_service_away: bool) -> None:
        """Note a failed attempt, and whether a service was the reason."""
        self.is_next = is_service_away and not self.was_answered

    def committed(self) -> bool:
        """A batch counted. Returns whether it was such an attempt."""
        self.was_answered, self.is_next = self.is_next, False
        return self.was_answered
