"""How long to wait for workers that start, and when those that fail may come again. Pure."""

from collections.abc import Collection

TELL_SECONDS = 10.0
FIRST_PAUSE = 5
LONGEST_PAUSE = 300


class Arrivals:
    """Waits as long as workers keep coming: the time begins anew with each of them.

    Attributes:
        alive: How many are there.
    """

    def __init__(self, wanted: int, count: int, seconds: float, now: float) -> None:
        """Begin to wait.

        Args:
            wanted: The number of workers that is enough.
            count: The number of workers that are wanted.
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
        """The message if workers are late."""
        return (
            f"{self.alive} of {self._count} workers started within {self._seconds:g} seconds. The "
            f"reason may be in '{log_file}'. On a busy machine, raise spec.startTimeoutSeconds."
        )


class Replacements:
    """Lets JVMs that fail before they are there come later and later: Spark makes them at once.

    The first failure costs no pause. Nor does the loss of those that were there, however many they
    are: what comes for them may be well, and a batch that ends them finds its tuple the sooner.

    Attributes:
        in_a_row: How many times those that were to come have failed, one after another.
        pause: Seconds between the last of these failures and the next that may come.
    """

    def __init__(self) -> None:
        """Begin without failures."""
        self.in_a_row = 0
        self.pause = 0
        self._failed = 0
        self._failed_at = 0.0
        self._there: set[str] = set()
        self._lost = 0

    def may_come(self, failed: int, there: Collection[str], missing: int, now: float) -> bool:
        """Whether those that are missing may come.

        Args:
            failed: How many have failed lately, whether they had been there or not.
            there: The ids of those that are there.
            missing: How many more there should be.
            now: Steady time, in seconds.
        """
        if failed == 0 or not self._there.issuperset(there):
            self.in_a_row = self.pause = 0
        self._lost = min(missing, self._lost + len(self._there.difference(there)))
        self._there = set(there)
        new, self._failed = max(0, failed - self._failed), failed
        if new > self._lost:
            self._failed_at = now
            self.in_a_row += 1
            row = min(self.in_a_row - 2, 10)
            self.pause = 0 if row < 0 else min(LONGEST_PAUSE, FIRST_PAUSE * 2**row)
        self._lost -= min(new, self._lost)
        return now >= self._failed_at + self.pause
