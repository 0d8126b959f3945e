"""Errors of a committer's store, beside those of `services.errors`."""

from fulmen.services.errors import StoreError


class StaleAttempt(StoreError):
    """A later attempt was written before this one. Nothing was changed.

    Attributes:
        where: Which map, and in which store.
        attempt: The attempt that came too late.
        newer: What was found in the store.
    """

    def __init__(self, where: str, attempt: str, newer: str) -> None:
        super().__init__(where, f"attempt {attempt} comes too late")
        self.args = (where, attempt, newer)
        self.attempt = attempt
        self.newer = newer

    def __str__(self) -> str:
        return (
            f"{self.where}: attempt {self.attempt} comes too late: {self.newer}. Nothing was"
            " changed. Another driver has taken over: this process is to be stopped."
        )
