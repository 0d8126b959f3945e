"""How long to wait for workers that start. Pure."""

TELL_SECONDS = 10.0


class Arrivals:
    """Waits as long as workers keep coming: the time begins anew with each of them.

    Attributes:
        alive: How many are there.
    """

    def __init__(self, wanted: int, count: int, seconds: float, now: float) -> None:
        """Begin to wait.

        Args:
            wanted: The number of workers that is enough.
            count: The number of workers that there are to be.
            seconds: How long to wait for another one.
            now: Steady time, in seconds.
        """
        self.alive = 0
        self._wanted = wanted
        self._count = count
        self._seconds = seconds
        self._began = self._newest = now
        self._next_line = now + TELL_SECONDS

    def see(self, alive: int, now: float) -> str | None:
        """Note how many are there now. Returns a line about what is waited for, now and then."""
        if alive > self.alive:
            self._newest = now
        self.alive = alive
        if self.is_over or now < self._next_line:
            return None
        self._next_line = now + TELL_SECONDS
        return (
            f"waiting for workers: {alive} of {self._count} are there after {now - self._began:.0f}"
            f" s, and up to {self._seconds:g} s are allowed for the next"
        )

    @property
    def is_over(self) -> bool:
        """Whether enough of them are there."""
        return self.alive >= self._wanted

    def is_late(self, now: float) -> bool:
        """Whether none has come for too long."""
        return not self.is_over and now - self._newest > self._seconds

    def failure(self, log_file: object) -> str:
        """What went wrong when it is late."""
        return (
            f"{self.alive} of {self._count} workers started within {self._seconds:g} seconds. The "
            f"reason may be in '{log_file}'. On a busy machine, raise spec.startTimeoutSeconds."
        )
