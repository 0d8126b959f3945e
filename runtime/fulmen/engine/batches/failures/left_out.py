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
"""What is said of one that is not known: the file that names it is gone with its pod."""
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
        since: When it made the first of them fail, in steady seconds.
        again: When it is tried again, in steady seconds.
    """

    task: int
    callback: str
    hangs: bool
    since: float
    failures: int = 0
    pauses: int = 0
    again: float = 0.0

    @property
    def is_out(self) -> bool:
        """Whether batches leave it out, but to try it again."""
        return self.pauses > 0

    @property
    def is_certain(self) -> bool:
        """Whether nobody else can be to blame."""
        return self.hangs or self.failures >= CERTAIN_DEATHS

    @property
    def reason(self) -> str:
        """What it is left out for."""
        callback = method_of(self.callback) or OWN_CALL
        return f"{callback} does not end" if self.hangs else f"{callback} ends its process"

    def failed(self, now: float, *, hangs: bool, lost_seconds: float) -> None:
        """It made a batch fail. With the second one in a row, or if it hangs, it is left out."""
        self.hangs = hangs
        self.failures += 1
        if hangs or self.failures >= DEATHS:
            shortest = max(PAUSE_SECONDS, lost_seconds)
            self.again = now + min(LONGEST_PAUSE_SECONDS, shortest * 2**self.pauses)
            self.pauses = min(self.pauses + 1, 16)


@dataclass
class LeftOut:
    """All of them."""

    _suspects: dict[int, Suspect] = field(default_factory=dict)

    def __contains__(self, task: object) -> bool:
        return any(suspect.task == task for suspect in self)

    def __iter__(self) -> Iterator[Suspect]:
        """Suspects that are left out."""
        return (suspect for suspect in self._suspects.values() if suspect.is_out)

    def __bool__(self) -> bool:
        return any(True for _ in self)

    def blame(
        self,
        task: int,
        callback: str,
        now: float,
        *,
        hangs: bool = False,
        lost_seconds: float = 0.0,
        is_proven: bool = False,
    ) -> Suspect:
        """A call of this task's made a batch fail.

        Args:
            task: The spout task.
            callback: The method; "" if that is not known.
            now: Steady seconds.
            hangs: It did not end. Else it ended its process.
            lost_seconds: What that cost.
            is_proven: It can't have been anything else.
        """
        suspect = self._suspects.setdefault(task, Suspect(task, callback, hangs, now))
        suspect.callback = callback
        if is_proven:
            suspect.failures = CERTAIN_DEATHS - 1
        suspect.failed(now, hangs=hangs, lost_seconds=lost_seconds)
        return suspect

    def tasks(self, now: float, *, tries: bool) -> tuple[int, ...]:
        """The tasks that a batch is to do without.

        Args:
            now: Steady seconds.
            tries: Whether those whose pause is over are tried again.
        """
        return tuple(s.task for s in self if not tries or now < s.again)

    def succeeded(self, without: tuple[int, ...]) -> None:
        """A batch counted that had all tasks but these: nothing is held against any other."""
        self._suspects = {task: s for task, s in self._suspects.items() if task in without}


MAKING = frozenset(
    (
        "making its groupings",
        "reading its config",
        "making the instance",
        "restoring self.state",
        "restoring its fields",
        "looking at self.state",
        "prepare",
        "get_emitter",
    )
)
"""What is called to make the instance of a task that batches need: no tuple is to blame."""


@dataclass
class Unmade:
    """Tasks that batches can't do without, and whose instances could not be made."""

    _suspects: dict[int, Suspect] = field(default_factory=dict)

    def blame(self, task: int, callback: str, now: float, *, hangs: bool) -> None:
        """A call that makes this task's instance ended its process, or hangs.

        Args:
            task: The task.
            callback: The call.
            now: Steady seconds.
            hangs: It did not end. Else it ended its process.
        """
        suspect = self._suspects.setdefault(task, Suspect(task, callback, hangs, now))
        suspect.callback, suspect.hangs = callback, hangs
        suspect.failures += 1

    @property
    def certain(self) -> Suspect | None:
        """A task that will never be made, as far as can be known."""
        return next((s for s in self._suspects.values() if s.is_certain), None)

    def succeeded(self) -> None:
        """A batch counted, so all were made."""
        self._suspects = {}
