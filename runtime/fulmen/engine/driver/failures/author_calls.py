"""Calls of authors' code that end their process, or hang: they are named, and what follows is told.

Who is left out of batches because of them, the coordinator decides.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from fulmen.engine.batches.coordinator import Coordinator
from fulmen.engine.batches.failures.suspects import Suspect
from fulmen.engine.driver.clocks import Clocks
from fulmen.engine.driver.observer import Observer
from fulmen.engine.driver.replanning import Planner
from fulmen.engine.driver.stop import Stop
from fulmen.engine.protocol.callbacks.call_names import method_of, progress_of
from fulmen.engine.protocol.callbacks.calls import CALLS, Call
from fulmen.engine.protocol.jobs import Jobs
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.engine.totals.totals import Totals
from fulmen.engine.totals.waits import Wait, WaitKind, utc
from fulmen.errors import JobFailed, JobTimedOut, TopologyFailed

HANG_SHARE = 0.5
"""The share of a job's time after which a call counts as hung."""
LOOK_SECONDS = 1.0
TOLD_AGAIN_SECONDS = 60.0


@dataclass
class AuthorCalls:
    """Tells of such calls.

    Attributes:
        jobs: Know which calls were under way.
        planner: Knows whose they are.
        totals: Show who is left out, and count the errors.
        observer: Is told.
        clocks: How time passes.
        given_up: Calls that a topology which is to end does not wait for any more.
    """

    jobs: Jobs
    planner: Planner
    totals: Totals
    observer: Observer
    clocks: Clocks
    given_up: Sequence[Call] = ()
    _told: dict[tuple[int, str], float] = field(default_factory=dict)  # call -> when, monotonic

    # While jobs run

    @contextmanager
    def watched(self, stop: Stop) -> Iterator[None]:
        """In the block, tell of calls that last long, from a thread beside the driver's.

        Args:
            stop: If somebody has interrupted the topology, jobs with such a call are cancelled.
        """
        CALLS.end()  # if something of before was left in this thread, that has raised
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(stop, ended), name="fulmen-calls")
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join()

    def _watch(self, stop: Stop, ended: threading.Event) -> None:
        while not ended.wait(LOOK_SECONDS):
            placed = self.planner.current.placed
            own = list(CALLS.under_way())
            long_calls = [
                call
                for call in (*self.jobs.calls_under_way(), *own)
                if call.seconds >= placed.limits.hang_seconds and self._may_hang(call)
            ]
            waits = [self._wait_of(call) for call in long_calls]
            with self.totals.lock:
                self.totals.waits.long_calls = waits
            for call, wait in zip(long_calls, waits, strict=True):
                self._tell(call, wait)
            self.given_up = long_calls if stop.interrupted else ()
            if self.given_up:
                self.jobs.cancel()
                if stop.cut_off is not None and any(call in own for call in long_calls):
                    stop.cut_off()

    def _wait_of(self, call: Call) -> Wait:
        component = self.planner.current.placed.plan.component_of(call.task)
        since = self.clocks.wall() - call.seconds
        text = f"{self._who(call.task)}: {method_of(call.callback)} runs since {utc(since)}"
        if progress := progress_of(call.callback):
            text += f", {progress}"
        return Wait(WaitKind.LONG_CALL, component, text, since)

    def _tell(self, call: Call, wait: Wait) -> None:
        """Tell of a call that goes on, once a minute."""
        which = call.callback.removesuffix(progress_of(call.callback))  # that changes all the time
        key, now = (call.task, which), time.monotonic()
        if now - self._told.get(key, -TOLD_AGAIN_SECONDS) < TOLD_AGAIN_SECONDS:
            return
        self._told[key] = now
        self.observer.note(f"{wait.sentence}, for {call.seconds:.0f} s")

    def _may_hang(self, call: Call) -> bool:
        """Whether a call that lasts long is worth a word: a pinned spout may wait for messages."""
        if not self._is_known(call):
            return False
        plan = self.planner.current.placed.plan
        is_pinned = plan.component_of(call.task) in plan.pinned
        return not (is_pinned and call.callback == "next_tuple")

    def _is_known(self, call: Call) -> bool:
        return call.task < len(self.planner.current.placed.plan.task_workers)

    # When an attempt has failed

    def end_if_given_up(self) -> None:
        """End a topology that was interrupted while it waits for a call that does not end.

        Raises:
            TopologyFailed: That is so.
        """
        if text := self.hung:
            raise TopologyFailed(text)

    @property
    def hung(self) -> str:
        """Say which call the end of an interrupted topology waits for in vain; none: nothing."""
        for call in self.given_up:
            return (
                f"{self._who(call.task)}: {method_of(call.callback)} did not end for"
                f" {call.seconds:.0f} s, so the topology can't be drained. What is committed stays"
            )
        return ""

    def blamed(self, job: JobFailed | None) -> Sequence[Call]:
        """The calls that an attempt came to nothing in, if that is known; after `Jobs.recover`.

        Args:
            job: How the attempt failed; None: no job did.
        """
        left, plan = self.jobs.left_calls(), self.planner.current.placed.plan
        left = [call for call in left if self._is_known(call)]
        if isinstance(job, JobTimedOut):
            return [call for call in left if call.seconds >= HANG_SHARE * job.seconds]
        if job is None or job.worker is None:
            return []
        return [call for call in left if plan.worker_of(call.task) == job.worker]

    def name(self, calls: Sequence[Call], job: JobFailed | None, reason: str) -> str:
        """Report these calls as errors of their components. Returns the reason with their names."""
        if not calls:
            return reason
        hangs = isinstance(job, JobTimedOut)
        what = "the process ended in this call"
        if isinstance(job, JobTimedOut):
            what = f"it did not end within {job.seconds:g} s"
        for call in calls:
            method = method_of(call.callback)
            if method == "execute":  # a tuple is to blame, which is told when it is found
                continue
            component = self.planner.current.placed.plan.component_of(call.task)
            error = ErrorReport(component, call.task, f"{method}: {what}")
            for told in self.totals.note([error], self.clocks.wall()):
                self.observer.error(told)
        names = ", ".join(f"{method_of(c.callback)} of {self._who(c.task)}" for c in calls)
        if hangs:
            return f"{reason}: {names}, did not end"
        return f"{reason}, in {names}".removeprefix(", ")

    def failed(self, coordinator: Coordinator) -> None:
        """Note a failed attempt whose cause the coordinator knows.

        Raises:
            TopologyFailed: A task can't be made that batches need. Or the topology has
                `onError: crash`, and a spout task is to blame.
        """
        if (unmade := coordinator.blame.unmade.certain) is not None:
            raise TopologyFailed(
                f"{self._who(unmade.task)}: {unmade.reason}. Batches can't do without this task"
            )
        spec = self.planner.current.placed.topology.spec
        if spec.on_error == "crash":
            self.refuse(coordinator)
            for suspect in coordinator.blame.own_calls.out:
                raise TopologyFailed(f"{self._who(suspect.task)}: {suspect.reason}")
        with self.totals.lock:
            shown = self.totals.waits.left_out
            out = [*coordinator.blame.left_out, *coordinator.blame.own_calls.paused]
            new = {s.task: self._left_out(s) for s in out if s.task not in shown}
            shown |= new
        for wait in new.values():
            self.observer.note(
                f"{wait.sentence}. Everything else goes on, and it is tried again now and then"
            )

    def _left_out(self, suspect: Suspect) -> Wait:
        component = self.planner.current.placed.plan.component_of(suspect.task)
        since = self.clocks.wall()
        who = f"{self._who(suspect.task)}, is left out since {utc(since)}"
        return Wait(WaitKind.LEFT_OUT, component, f"{who}: {suspect.reason}", since)

    def succeeded(self, coordinator: Coordinator) -> None:
        """A batch counted."""
        if not self.totals.waits.left_out:
            return
        with self.totals.lock:
            shown = self.totals.waits.left_out
            out = {
                s.task for s in (*coordinator.blame.left_out, *coordinator.blame.own_calls.paused)
            }
            back = [task for task in shown if task not in out]
            for task in back:
                del shown[task]
        for task in back:
            self.observer.note(f"{self._who(task)}, is back")

    def refuse(self, coordinator: Coordinator) -> None:
        """End the topology if a spout task is left out for certain.

        Raises:
            TopologyFailed: One is.
        """
        for suspect in coordinator.blame.left_out:
            if suspect.is_certain:
                raise TopologyFailed(f"{self._who(suspect.task)}: {suspect.reason}")

    def _who(self, task: int) -> str:
        placed = self.planner.current.placed
        return placed.who(placed.plan.component_of(task), task)
