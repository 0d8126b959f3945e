"""Bolts' calls that are for no tuple, and end their process or hang: batches leave them out. Pure.

A window, a timer, a tick, the end of a batch: no batch with that call succeeds, and no tuple is to
blame. Timers and windows are called in one go, so at first it is only known that it was one of a
task's. From then on the task notes each of them by itself. One that has ended its process again and
again is over, as if it had raised an exception. Other calls come in each batch, or every few
seconds: they are left out for a pause, as spouts are, and tried again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fulmen.engine.batches.failures.suspects import DEATHS, Suspect
from fulmen.engine.protocol.callbacks.call_names import OF_A_KEY, is_whole, method_of, of_the_key
from fulmen.engine.protocol.summary import Summary


@dataclass
class OwnCalls:
    """The suspected calls of all tasks."""

    _suspects: dict[tuple[int, str], Suspect] = field(default_factory=dict)
    _one_by_one: set[int] = field(default_factory=set)
    _deadly: set[tuple[int, str]] = field(default_factory=set)  # by task and key

    def blame(self, task: int, name: str, now: float, hung_seconds: float = 0.0) -> None:
        """A bolt's call of this name made a batch fail: see `Suspect.failed`."""
        if _is_of_a_key(name):
            self._one_by_one.add(task)
        if not is_whole(name):
            return
        suspect = self._suspects.setdefault((task, name), Suspect(task, name))
        if (task, of_the_key(name)) in self._deadly:  # the key has been so before
            suspect.failures = max(suspect.failures, DEATHS - 1)
        suspect.failed(now, hung_seconds)
        if suspect.is_out and _is_of_a_key(name):
            self._deadly.add((task, of_the_key(name)))

    @property
    def one_by_one(self) -> tuple[int, ...]:
        """Tasks that note each timer and window by itself, and say which calls have ended."""
        return tuple(sorted(self._one_by_one | {task for task, _ in self._suspects}))

    def without(self, now: float) -> Mapping[int, Mapping[str, str]]:
        """Task -> the calls that a batch does without, by name -> why."""
        calls: dict[int, dict[str, str]] = {}
        for (task, name), suspect in self._suspects.items():
            if suspect.is_out and (_is_of_a_key(name) or now < suspect.again):
                calls.setdefault(task, {})[name] = suspect.reason
        return calls

    @property
    def out(self) -> list[Suspect]:
        """Suspects that batches leave out."""
        return [s for s in self._suspects.values() if s.is_out]

    @property
    def paused(self) -> list[Suspect]:
        """Suspects that are tried again later."""
        return [s for s in self.out if not _is_of_a_key(s.callback)]

    def succeeded(self, summaries: Sequence[Summary]) -> None:
        """A batch counted: nothing is held against calls that have ended in it.

        Nor against timers and windows: those that it left out are over.
        """
        if not self._suspects:
            return
        ended = {(task, name) for s in summaries for task, n in s.own_calls.items() for name in n}
        self._suspects = {
            (task, name): suspect
            for (task, name), suspect in self._suspects.items()
            if (task, name) not in ended and not _is_of_a_key(name)
        }


def _is_of_a_key(name: str) -> bool:
    return method_of(name) in OF_A_KEY
