"""The next step of the driver: start one, let it drain, wait, or leave it alone. Pure.

An attempt is a driver and its workers. Its number is raised in the status before anything of it is
made: so an operator that dies in between leaves a trace, and two operators can't make two drivers
of one number. Two drivers alive are harmless: the checkpoint lets only the newer commit.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from fulmen.kube import contract, names
from fulmen.kube.contract.reports import DriverPhase, Report
from fulmen.kube.contract.revisions import Directive, Revision
from fulmen.topology.resource.status import State, TopologyStatus
from fulmen_operator.model import (
    GENERATION_ANNOTATION,
    INPUT_ANNOTATION,
    Object,
    Observed,
    annotation,
    is_terminating,
    name_of,
    owners_of,
    phase_of,
    seconds_since,
    text_of,
    time_of,
)
from fulmen_operator.ownership import is_claim_going
from fulmen_operator.reasons import AnyReason, Foreign, Reason, Trouble
from fulmen_operator.reconcile.handover import hands_over
from fulmen_operator.reconcile.pod_states import (
    Ending,
    Next,
    driver_waits_for,
    ending_of,
    has_committed,
    is_ready,
    missing_worker,
    report_of,
    scheduled_at,
    waiting_for,
)
from fulmen_operator.reconcile.step import (
    AwaitDriver,
    Clear,
    Overdue,
    Stall,
    Start,
    StartEmpty,
    Step,
    StopDriver,
    queued,
)
from fulmen_operator.room import UNSCHEDULABLE

FIRST_DELAY: Final = 5
LONGEST_DELAY: Final = 300
MOST_FAILURES: Final = 3
"""Drivers of a version that never worked that may fail, one after another, until that is said."""
HEALTHY_AFTER: Final = 600
"""Seconds of being Active after which earlier failures don't count any more."""
WORDS: Final[dict[State, str]] = {
    "Starting": "Spark starts",
    "Active": contract.RUNNING,
    "Inactive": "spouts are off",
    "Draining": "what is pending ends",
    "Rebalancing": "executors are placed anew",
}
"""The message for a driver that reports none itself."""
ROOM_SECONDS: Final = 300
"""Seconds after which a topology that has given its room back tries again in any case."""
LOOK_SECONDS: Final = 10
"""Seconds between its looks whether others still wait; those look less often."""
DRAIN_MARGIN: Final = 30
"""Seconds that a driver gets to end, beyond what its pending trees and its grace period need."""


@dataclass(frozen=True)
class Situation:
    """The situation that decides a step.

    Attributes:
        seen: Everything.
        revision: The accepted revision.
        wanted: `spec.state`.
        status: The last written status.
        start_timeout: Seconds that a pod may take to start.
        message_timeout: Seconds that a tree may take.
    """

    seen: Observed
    revision: Revision
    wanted: str
    status: TopologyStatus
    start_timeout: int
    message_timeout: int

    @property
    def driver(self) -> Object | None:
        """The driver's pod of the present attempt."""
        return self.seen.driver(self.status.attempt)

    @property
    def had_to_go(self) -> bool:
        """Whether the spec required the driver to go, when the topology was last looked at."""
        return self.last_reason in ("Suspended", Reason.SUSPENDING, Reason.REPLACING)

    @property
    def last_reason(self) -> str:
        """The reason of the condition Ready, when the topology was last looked at."""
        return {c.type: c.reason for c in self.status.conditions}.get("Ready", "")

    @property
    def directive(self) -> Directive:
        """The instruction for a driver, unless it must go."""
        inactive = self.wanted == "Inactive"
        return Directive.INACTIVE if inactive else Directive.RUN


def next_step(now: Situation) -> Step:
    """Decide about the driver."""
    driver = now.driver
    ending = ending_of(driver, contract.DRIVER_CONTAINER, now.seen.now) if driver else None
    step = _next_step(now, driver, ending)
    if isinstance(step.does, Start) and now.seen.others_start:
        step = queued(step, step.does)
    return replace(step, hopeless=_hopeless(now, step, ending))


def _hopeless(now: Situation, step: Step, ending: Ending | None) -> Trouble | None:
    """The reason why a version that never worked fails again and again."""
    if now.revision.worked or now.revision.previous or step.state not in ("Pending", "Starting"):
        return None
    last = now.status.restarts
    failures, message = last.failures, last.message
    reason: AnyReason = Foreign(last.cause)
    if step.cause is not None:
        failures, reason, message = step.failures, step.cause.reason, step.cause.message
    elif ending is not None and ending.next is Next.LATER:
        failures = failures_after(now.status, ending, now.seen.now)
        reason, message = ending.reason, ending.message
    return (reason, message) if failures >= MOST_FAILURES else None


def _next_step(now: Situation, driver: Object | None, ending: Ending | None) -> Step:
    if now.wanted == "Suspended":
        return _suspend(now, driver if ending is None else None)
    if now.last_reason == Reason.WAITS_FOR_ROOM:
        return _wait_for_room(now, driver if ending is None else None)
    if driver is None:
        return _without_driver(now)
    if ending is not None:
        return _after(now, driver, ending)
    is_adopted = not owners_of(driver)  # it would outlive the topology
    is_other = is_adopted or annotation(driver, INPUT_ANNOTATION) != now.revision.input_hash
    if is_other and not is_claim_going(now.seen):
        if hands_over(driver):
            return _start(now, now.status.attempt + 1)
        message = f"{name_of(driver)} drains, to be replaced"
        return _drain(now, driver, Reason.REPLACING, message)
    if is_terminating(driver):
        message = f"{name_of(driver)} was told to end; the next driver starts when it has"
        return _stay(now, "Draining", Reason.DRIVER_ENDING, message, driver)
    return _live(now, driver)


# ---- no driver is alive


def _suspend(now: Situation, alive: Object | None) -> Step:
    if alive is not None:
        return _drain(now, alive, Reason.SUSPENDING, f"{name_of(alive)} drains, to be suspended")
    if now.seen.pods_of(contract.DRIVER, contract.WORKER):
        step = _stay(now, "Draining", Reason.SUSPENDING, "drained; the pods are removed")
    else:
        step = _stay(now, "Suspended", "Suspended", "suspended: no pods, state is kept")
    return replace(step, directive=Directive.DRAIN, does=Clear())


def _wait_for_room(now: Situation, alive: Object | None) -> Step:
    """Give back what the driver has, until an older topology has its room, or for some minutes."""
    is_new = now.last_reason != Reason.WAITS_FOR_ROOM
    waited = 0.0 if is_new else seconds_since(now.status.state_since, now.seen.now)
    left = ROOM_SECONDS - waited if now.seen.older_waits else 0
    if left <= 0 and alive is None:
        return _start(now, now.status.attempt + 1, failures=now.status.restarts.failures)
    message = (
        f"no node has room for its workers, and none for those of {now.seen.older_waits}, which is"
        " older: its driver has given its room back, and comes again when the other has found some,"
        f" at the latest after {ROOM_SECONDS} s"
    )
    step = _stay(now, "Pending", Reason.WAITS_FOR_ROOM, message if left > 0 else now.status.message)
    step = replace(step, again_in=min(max(left, 1), LOOK_SECONDS))
    return (
        replace(step, does=StopDriver())
        if alive is not None and not is_terminating(alive)
        else step
    )


def _without_driver(now: Situation) -> Step:
    attempt = now.status.attempt
    name = names.driver_pod(now.seen.name, attempt)
    if attempt == 0 or now.had_to_go:
        return _start(now, attempt + 1)
    if now.status.driver_pod == name or now.seen.pods_of(contract.WORKER, attempt=attempt):
        gone = Ending(Next.AT_ONCE, Reason.DRIVER_GONE, f"pod {name} was deleted")
        return _start(now, attempt + 1, gone, now.status.restarts.failures)
    return _start(now, attempt, failures=now.status.restarts.failures)  # raised, but not made


def _after(now: Situation, driver: Object, ending: Ending) -> Step:
    attempt, status = now.status.attempt, now.status
    asked_for = ending.reason in ("Drained", "Finished")
    if _is_outdated(now, driver) or (asked_for and status.state == "Draining"):
        return _start(now, attempt + 1, None if asked_for else ending)
    if ending.next is Next.NEVER:
        accepted = now.seen.annotation(contract.ACCEPT_LOSS_ANNOTATION) == "true"
        if ending.reason == "CheckpointLost" and accepted:
            return replace(_start(now, attempt + 1, ending), does=StartEmpty(ending))
        message = _with_errors(ending)
        return replace(_stay(now, "Failed", ending.reason, message), does=Stall())
    if ending.next is Next.AT_ONCE:
        return _start(now, attempt + 1, ending, status.restarts.failures)
    return _later(now, ending)


def _later(now: Situation, ending: Ending) -> Step:
    ended = ending.at or now.seen.now
    failures = failures_after(now.status, ending, now.seen.now)
    delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(failures - 1, 20))
    left = (ended + timedelta(seconds=delay) - now.seen.now).total_seconds()
    if left <= 0:
        return _start(now, now.status.attempt + 1, ending, failures)
    what = ending.message.rstrip(".")
    message = f"{what}; the next driver starts {delay} s after the end of the last"
    return replace(_stay(now, "Pending", ending.reason, message), again_in=left)


def failures_after(status: TopologyStatus, ending: Ending, now: datetime) -> int:
    """The number of failures in a row, including that of the driver which has just ended."""
    return 1 + _failures_that_count(status, ending.at or now)


def _failures_that_count(status: TopologyStatus, ended: datetime) -> int:
    if status.active_since and (ended - time_of(status.active_since)).total_seconds() >= (
        HEALTHY_AFTER
    ):
        return 0
    return status.restarts.failures


def _is_outdated(now: Situation, driver: Object) -> bool:
    """Whether an ended driver ran another revision than the accepted one."""
    report = report_of(driver)
    text = annotation(driver, GENERATION_ANNOTATION)
    made_from = int(text) if text.isdecimal() else 0
    applied = max(made_from, report.generation if report else 0)
    other = annotation(driver, INPUT_ANNOTATION) != now.revision.input_hash
    return other or now.revision.generation > applied


def _with_errors(ending: Ending) -> str:
    """Every mistake in an ending, or its message if it names none."""
    texts = [
        f"{mistake.path}: {mistake.reason}. {mistake.cure}".strip(": ").strip()
        for mistake in ending.errors
    ]
    return " ".join(texts) or ending.message


def _start(now: Situation, attempt: int, cause: Ending | None = None, failures: int = 0) -> Step:
    message = f"driver {attempt} starts" + (f": {cause.message}" if cause else "")
    return Step(
        "Starting",
        "Starting",
        message,
        now.directive,
        attempt,
        Start(cause),
        failures=failures,
        again_in=now.start_timeout,
    )


def _stay(
    now: Situation, state: State, reason: AnyReason, message: str, driver: Object | None = None
) -> Step:
    return Step(
        state,
        reason,
        message,
        now.directive,
        now.status.attempt,
        failures=now.status.restarts.failures,
        report=report_of(driver),
        again_in=60 if driver and is_terminating(driver) else None,
    )


# ---- a driver is alive


def _drain(now: Situation, driver: Object, reason: AnyReason, message: str) -> Step:
    """Let the driver end its trees; if that lasts too long, end it."""
    most = now.message_timeout + contract.GRACE_SECONDS + DRAIN_MARGIN
    since = now.status.state_since if now.status.state == "Draining" else ""
    left = most - (seconds_since(since, now.seen.now) if since else 0)
    step = _stay(now, "Draining", reason, message, driver)
    # what has committed nothing has begun no trees, and what waits to start does not listen
    is_idle = step.report is None or (reason == Reason.REPLACING and not has_committed(driver))
    is_over = left <= 0 or waiting_for(driver, now.seen.now) is not None or is_idle
    step = replace(step, directive=Directive.DRAIN, again_in=max(left, 1))
    return replace(step, does=StopDriver()) if is_over and not is_terminating(driver) else step


def _live(now: Situation, driver: Object) -> Step:
    report = report_of(driver)
    state, message = _state_of(driver, report)
    said = report.message if report and state == "Active" else ""
    if state == "Active" and not (now.status.active_since or is_ready(driver)):
        state, message = "Starting", said or "the first batch is under way"
    trouble, since = _what_is_waited_for(now, driver)
    # while executors are placed anew there may be none for a moment
    is_deserted = not _hosts_anything(report) and (
        state in ("Active", "Inactive") or (state == "Rebalancing" and trouble is not None)
    )
    if is_deserted:
        state, message = "Starting", "no worker is left: the topology waits for one"
    step = _stay(now, state, state, message, driver)
    if state not in ("Pending", "Starting"):
        return step
    if is_deserted:
        since = now.status.state_since if now.status.state == state else text_of(now.seen.now)
    waited = seconds_since(since, now.seen.now)
    if waited > now.start_timeout:
        who = "no worker is" if is_deserted else f"{name_of(driver)} is not"
        why = f": {said}" if said else ""
        trouble = trouble or (Reason.START_TIMEOUT, f"{who} ready after {now.start_timeout} s{why}")
        if trouble[0] == UNSCHEDULABLE and now.seen.older_waits and state == "Starting":
            return _wait_for_room(now, driver)
        again_in = 3 * LOOK_SECONDS if trouble[0] == UNSCHEDULABLE else None
        return replace(step, does=Overdue(trouble), message=trouble[1], again_in=again_in)
    return replace(
        step,
        does=AwaitDriver(trouble),
        message=trouble[1] if trouble else _after_failures(now, message),
        again_in=now.start_timeout - waited + 1,
    )


def _after_failures(now: Situation, message: str) -> str:
    """The message, with why the last driver ended, as long as this one has done no better."""
    last = now.status.restarts
    return f"{message}; the last driver ended: {last.message}" if last.failures else message


def _hosts_anything(report: Report | None) -> bool:
    """Whether a driver has workers. The driver, which hosts pinned spouts, does not count."""
    return report is not None and any(hosted.worker >= 0 for hosted in report.workers)


def _state_of(driver: Object, report: Report | None) -> tuple[State, str]:
    if phase_of(driver) == "Pending":
        return "Pending", f"{name_of(driver)} is about to be started"
    if report is None:
        return "Starting", f"{name_of(driver)} starts"
    states: dict[DriverPhase, State] = {
        DriverPhase.STARTING: "Starting",
        DriverPhase.ACTIVE: "Active",
        DriverPhase.INACTIVE: "Inactive",
        DriverPhase.DRAINING: "Draining",
        DriverPhase.REBALANCING: "Rebalancing",
        DriverPhase.FINISHED: "Draining",
    }
    state = states[report.phase]
    return state, report.message or WORDS[state]


def _what_is_waited_for(now: Situation, driver: Object) -> tuple[Trouble | None, str]:
    """Why the driver or else its workers don't start; and since when."""
    since = scheduled_at(driver) or str(driver["metadata"]["creationTimestamp"])
    if trouble := driver_waits_for(driver, now.seen.pods, now.seen.now):
        return trouble, since
    workers = now.seen.pods_of(contract.WORKER, attempt=now.status.attempt)
    troubles = [waiting_for(pod, now.seen.now) for pod in workers]
    if workers and all(troubles):  # one worker that runs is enough to start
        return troubles[0], since
    is_served = any(is_ready(pod) for pod in workers)
    return None if is_served else missing_worker(now.seen, now.status.attempt), since
