"""Tasks whose own calls end their process, or hang: batches leave out those of spouts. Pure.

Such a call is no tuple's fault, and no batch with that task succeeds. So batches go on without the
task, and all others emit. It is tried again after a pause, as the reason may be gone: a source that
did not answer, a machine without memory. The pause doubles each time, and is never shorter than
what the call cost: others have half of the time at least.

No batch can do without a task of a bolt. So a topology ends if one of them can't be made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fulmen.engine.protocol.callbacks.call_names import method_of

DEATHS = 2
"""So often in a row a task's call ends its process before the task is left out: processes are lost
for other reasons too, and some call is always under way."""
CERTAIN_DEATHS = 3
"""So often before nobody but the task can be to blame."""
OWN_CALL = "a call of its own"
"""The name of an unknown call: the file that names it is gone with its pod."""
PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 3600.0


@dataclass
class Suspect:
    """A call of a task's own that made batches fail, the last of them in a row.

    Attributes:
        task: Which.
        callback: The name of what was called; "" if that is not known.
        hangs: Whether the call did not end, instead of ending its process.
        failures: How many batches failed of it in a row.
        pauses: How many times it was left out.
        again: When it is tried again, in steady seconds.
    """

    task: int
    callback: str
    hangs: bool = False
    failures: int = 0
    pauses: int = 0
    again: float = 0.0

    @property
    def is_out(self) -> bool:
        """Whether batches leave it out, but to try it again."""
        return self.pauses > 0

    @property
    def is_certain(self) -> bool:
        """Whether only this one can be to blame."""
        return self.hangs or self.failures >= CERTAIN_DEATHS

    @property
    def reason(self) -> str:
        """Why it is left out."""
        callback = method_of(self.callback) or OWN_CALL
        return f"{callback} does not end" if self.hangs else f"{callback} ends its process"

    def failed(self, now: float, hung_seconds: float = 0.0) -> None:
        """Note that it made a batch fail. With the second in a row, or if it hangs, it is left out.

        Args:
            now: Steady seconds.
            hung_seconds: How long it was given, if it did not end. 0: it ended its process.
        """
        self.hangs = hung_seconds > 0
        self.failures += 1
        if self.hangs or self.failures >= DEATHS:
            shortest = max(PAUSE_SECONDS, hung_seconds)
            self.again = now + min(LONGEST_PAUSE_SECONDS, shortest * 2**self.pauses)
            self.pauses = min(self.pauses + 1, 16)


@dataclass
class Suspects:
    """Tasks that are suspected. Iterating gives those that batches leave out."""

    _by_task: dict[int, Suspect] = field(default_factory=dict)

    def __contains__(self, task: object) -> bool:
        return any(suspect.task == task for suspect in self)

    def __iter__(self) -> Iterator[Suspect]:
        return (suspect for suspect in self._by_task.values() if suspect.is_out)

    def __bool__(self) -> bool:
        return any(True for _ in self)

    def blame(self, task: int, callback: str, now: float, hung_seconds: float = 0.0) -> Suspect:
        """A call of this task's made a batch fail: see `Suspect.failed`."""
        suspect = self._by_task.setdefault(task, Suspect(task, callback))
        suspect.callback = callback
        suspect.failed(now, hung_seconds)
        return suspect

    def prove(self, task: int, now: float) -> Suspect:
        """Note a failed batch that only a call of this task's can have caused."""
        self._by_task.setdefault(task, Suspect(task, "")).failures = CERTAIN_DEATHS - 1
        return self.blame(task, "", now)

    @property
    def certain(self) -> Suspect | None:
        """A suspect that makes batches fail for ever, as far as can be known."""
        return next((s for s in self._by_task.values() if s.is_certain), None)

    @property
    def tasks(self) -> tuple[int, ...]:
        """The tasks of all of them."""
        return tuple(s.task for s in self)

    def paused(self, now: float) -> tuple[int, ...]:
        """The tasks whose pause is not over; the others are tried again. `now`: steady seconds."""
        return tuple(s.task for s in self if now < s.again)

    def succeeded(self, without: tuple[int, ...] = ()) -> None:
        """A batch counted that had all tasks but these: nothing is held against any other."""
        self._by_task = {task: s for task, s in self._by_task.items() if task in without}
