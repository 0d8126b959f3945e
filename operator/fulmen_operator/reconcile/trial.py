"""Decides whether a new version works, and when the one before it comes back. Pure.

A version has proven itself when a driver of it has committed a batch. Until then it keeps the
revision before it.
"""

from typing import Final

from fulmen.kube import contract
from fulmen.kube.contract.revisions import Revision, RolledBack
from fulmen.topology.resource.status import TopologyStatus
from fulmen_operator.model import (
    INPUT_ANNOTATION,
    Object,
    Observed,
    annotation,
    name_of,
    seconds_since,
    text_of,
)
from fulmen_operator.reconcile.next_step import MOST_FAILURES, failures_after
from fulmen_operator.reconcile.pod_states import (
    Ending,
    Next,
    ending_of,
    has_committed,
    report_of,
    waiting_for,
    waiting_worker,
)

OF_THE_STORE: Final = "CheckpointUnreachable"


def tried(held: Revision, seen: Observed, before: TopologyStatus) -> Revision:
    """The revision that holds now: the present one, or the one before if that is given up.

    Args:
        held: The revision that was accepted last.
        seen: Everything.
        before: The last written status.
    """
    driver = seen.driver(before.attempt)
    if driver is not None and annotation(driver, INPUT_ANNOTATION) != held.input_hash:
        return held  # it is still the old one, which drains
    if has_committed(driver):
        return held.model_copy(update={"worked": True, "previous": None, "tried_since": ""})
    if held.previous is None:
        return held
    if seen.topology["spec"].get("state") == "Suspended":
        return held.model_copy(update={"tried_since": ""})
    reason = _why_given_up(held, seen, before, driver)
    if not reason:
        return held
    rolled_back = RolledBack(
        generation=held.generation,
        input_hash=held.input_hash,
        code=held.mounts.code,
        message=reason,
    )
    return held.previous.model_copy(
        update={"rolled_back": rolled_back, "last_batch": held.last_batch}
    )


def begun(revision: Revision, seen: Observed, last_batch: int) -> Revision:
    """The revision when a driver is started with it: its time begins with the first."""
    revision = revision.model_copy(update={"last_batch": last_batch})
    if revision.previous is None or revision.tried_since:
        return revision
    return revision.model_copy(update={"tried_since": text_of(seen.now)})


def seconds_left(revision: Revision, seen: Observed) -> float | None:
    """Seconds until the next look at a version on trial; None: there is none."""
    if revision.previous is None or not revision.tried_since:
        return None
    left = revision.resolved.spec.start_timeout_seconds - seconds_since(
        revision.tried_since, seen.now
    )
    return max(left, 0) + 1


def _why_given_up(
    held: Revision, seen: Observed, before: TopologyStatus, driver: Object | None
) -> str:
    """Why a version that has committed nothing is given up; empty if it goes on."""
    ending = ending_of(driver, contract.DRIVER_CONTAINER, seen.now) if driver else None
    if ending is not None and _is_outage(held, ending):
        return ""
    if ending is not None and ending.next is Next.NEVER:
        return ending.message if not ending.errors else _mistakes(ending)
    if ending is not None and ending.next is Next.LATER:
        failures = failures_after(before, ending, seen.now)
        if failures >= MOST_FAILURES:
            return f"{failures} drivers of it ended before their first commit: {ending.message}"
    limit = held.resolved.spec.start_timeout_seconds
    if not held.tried_since or seconds_since(held.tried_since, seen.now) < limit:
        return ""
    words = ending.message if ending else _words(seen, before, driver)
    return f"it made no commit within startTimeoutSeconds ({limit} s){words and ': '}{words}"


def _is_outage(held: Revision, ending: Ending) -> bool:
    """Whether a store is away that the version before needs as well."""
    if ending.reason != OF_THE_STORE or held.previous is None:
        return False
    both = (held, held.previous)
    stores = {(one.topology["spec"]["checkpoint"]["uri"], one.mounts.claim) for one in both}
    return len(stores) == 1


def _words(seen: Observed, before: TopologyStatus, driver: Object | None) -> str:
    """The known words about its wait."""
    of_driver = waiting_for(driver, seen.now) if driver is not None else None
    if trouble := of_driver or waiting_worker(seen, before.attempt):
        return trouble[1]
    report = report_of(driver)
    if report is not None and report.errors:
        return report.errors[0].message
    if report is not None and report.message:
        return report.message
    if before.restarts.failures:
        return before.restarts.message
    return f"{name_of(driver)} starts" if driver is not None else ""


def _mistakes(ending: Ending) -> str:
    return " ".join([ending.message, *(f"{m.path}: {m.reason}." for m in ending.errors)])
