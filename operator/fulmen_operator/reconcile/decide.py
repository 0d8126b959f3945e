"""The decision: everything observed goes in, everything to do comes out. Pure.

It may be cut off after any of its actions, and made anew by another operator: each time everything
is decided again from the present state.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pydantic import ValidationError

from fulmen.kube import contract, names
from fulmen.kube.contract.revisions import Revision
from fulmen.kube.load import Load
from fulmen.topology.resource.status import SavepointStatus, TopologyStatus
from fulmen_operator.manifests.common import marked, owner
from fulmen_operator.manifests.network import network_policies, services
from fulmen_operator.manifests.revisions import for_attempt
from fulmen_operator.manifests.rights import rights
from fulmen_operator.manifests.storage import (
    auth_secret,
    checkpoint_claim,
    revision_map,
)
from fulmen_operator.model import (
    APPLIED_ANNOTATION,
    Action,
    Adopt,
    Apply,
    Decision,
    Delete,
    Event,
    Manifest,
    Object,
    Observed,
    StartDriver,
    Trial,
    annotation,
    is_terminating,
    owners_of,
    phase_of,
    uid_of,
)
from fulmen_operator.ownership import CLAIM, endangered
from fulmen_operator.reasons import News, Reason, news_of
from fulmen_operator.reconcile.garbage import leftovers
from fulmen_operator.reconcile.handover import successor_of
from fulmen_operator.reconcile.next_step import Situation, next_step
from fulmen_operator.reconcile.pod_states import Next, mounting_for
from fulmen_operator.reconcile.rollout import Verdict, consider
from fulmen_operator.reconcile.scaling.autoscaling import (
    autoscaled,
    scaling_events,
    seconds_to_decision,
)
from fulmen_operator.reconcile.status import (
    new_status,
    paused,
    read_status,
    recovered,
    written,
)
from fulmen_operator.reconcile.step import WITH_WORKERS, Start, Step, StopDriver
from fulmen_operator.reconcile.trial import begun, seconds_left, tried
from fulmen_operator.settings import Settings

CLAIMS_SECONDS: Final = 60
"""Seconds between two looks at claims that are not watched."""
LOOK_AGAIN: Final = 10
"""Seconds after which to look again while workers are missing."""


def decide(seen: Observed, settings: Settings) -> Decision:
    """Decide about a topology."""
    if is_terminating(seen.topology):
        return Decision()  # the garbage collector ends everything, and nothing may be made anew
    if (danger := endangered(seen)) is not None:
        seen = replace(seen, refusal=danger)
    held = revision_of(seen.revision)
    before = recovered(read_status(seen.topology.get("status")), seen, held)
    if seen.annotation(contract.PAUSED_ANNOTATION) == "true":
        return _told(seen, before, paused(seen, before), Decision())
    if held is not None:
        held = tried(held, seen, before)
    proven = before.epoch > 0 and before.state not in ("Failed", "Suspended")
    verdict = consider(seen, held, before.kept_tasks, before.attempt, proven, settings)
    if verdict.trial is not None:
        return Decision(trial=verdict.trial)
    if verdict.revision is None:
        status = new_status(seen, before, verdict, None, None)
        return _told(seen, before, status, Decision(again_in=verdict.again_in))
    return _with_revision(seen, before, verdict, verdict.revision, settings)


def revision_of(revision: Object | None) -> Revision | None:
    """The accepted revision, if it can still be read; if not, the spec is accepted anew."""
    if revision is None:
        return None
    text = (revision.get("data") or {}).get(contract.REVISION_KEY, "")
    try:
        found = Revision.from_json(text)
        found.resolved  # noqa: B018 (a topology that can't be read is found here)
    except ValidationError:
        return None
    return found


def _with_revision(
    seen: Observed,
    before: TopologyStatus,
    verdict: Verdict,
    revision: Revision,
    settings: Settings,
) -> Decision:
    spec = revision.resolved.spec
    step = next_step(
        Situation(
            seen=seen,
            revision=revision,
            wanted=str(seen.topology["spec"].get("state", "Active")),
            status=before,
            start_timeout=spec.start_timeout_seconds,
            message_timeout=spec.message_timeout_seconds,
        )
    )
    scaling = autoscaled(spec, before.autoscale, *_load_of(step), seen.now)
    chosen = scaling.workers if scaling else None
    update = {
        "directive": step.directive,
        "workers": chosen,
        "successor": successor_of(step, spec),
    }
    revision = revision.model_copy(update=update)
    topology = revision.running
    status = new_status(seen, before, verdict, step, topology)
    status = status.model_copy(update={"autoscale": scaling})
    driver: list[Action] = []
    if isinstance(step.does, StopDriver) and (last := seen.driver(step.attempt)) is not None:
        driver = [Delete.pod(last)]
    if isinstance(step.does, Start):
        revision, pod = for_attempt(seen, revision, step.attempt, settings)
        revision = begun(revision, seen, status.last_batch)
        driver = [StartDriver(pod, auth_secret(seen, step.attempt), contract.SECRET_KEY)]
    actions = (
        *seen.mends,
        *_objects(seen, revision, verdict, settings),
        *driver,
        *leftovers(seen, step, verdict, revision, settings),
    )
    probe = _probe(seen, revision, step, topology.spec.pods)
    limits = (
        *(step.again_in, verdict.again_in, seconds_left(revision, seen)),
        LOOK_AGAIN if probe is not None else None,
        *_until_mounted(seen),
        CLAIMS_SECONDS if _has_unwatched(seen) else None,
        seconds_to_decision(scaling, spec.autoscale, seen.now)
        if scaling and spec.autoscale
        else None,
    )
    waits = [wait for wait in limits if wait is not None]
    again_in = min(waits) if waits else None
    events = (
        *_restart_event(step),
        *_savepoint_events(before.savepoints, status.savepoints),
        *scaling_events(before.autoscale, scaling),
    )
    decision = Decision(actions=actions, events=events, probe=probe, again_in=again_in)
    return _told(seen, before, status, decision)


def _load_of(step: Step) -> tuple[Load | None, int]:
    """The load of a driver that runs batches, and the number of its workers."""
    report = step.report
    if report is None or step.state != "Active" or report.outage is not None:
        return None, 0
    return report.load, sum(hosted.worker >= 0 for hosted in report.workers)


def _until_mounted(seen: Observed) -> list[float]:
    """Seconds until pods must have their volumes: mounts cause no event."""
    waits = [mounting_for(pod, seen.now) for pod in seen.pods]
    return [wait + 1 for wait in waits if wait is not None and wait > 0]


def _has_unwatched(seen: Observed) -> bool:
    """Whether there are claims that are not watched."""
    own = names.claim(seen.name)
    return any(kind == CLAIM and name != own for kind, name in seen.children)


def _probe(seen: Observed, revision: Revision, step: Step, desired: int) -> Trial | None:
    """The trial that asks the API server whether it would take a missing worker."""
    driver = seen.driver(step.attempt)
    if driver is None or phase_of(driver) != "Running":
        return None
    if isinstance(step.does, Start) or step.state not in WITH_WORKERS:
        return None
    if len(seen.pods_of(contract.WORKER, attempt=step.attempt)) >= desired:
        return None
    meta = {**revision.worker_pod["metadata"], "name": names.worker_probe(seen.name)}
    return Trial(f"workers-{step.attempt}", ({**revision.worker_pod, "metadata": meta},))


# ---- objects


def _objects(
    seen: Observed, revision: Revision, verdict: Verdict, settings: Settings
) -> list[Action]:
    """Actions that create or correct the objects that the driver needs; not the others."""
    wanted = rights(seen, revision)
    if revision.mounts.owns_claim and _named_claim(seen) != revision.mounts.claim:
        wanted.append(checkpoint_claim(seen, revision, settings))
    wanted += network_policies(seen, revision, settings.network_policies)
    wanted += services(seen, revision)
    return [
        *_applied(seen, wanted),
        *_adopted_code(seen),
        *(action for action in verdict.actions if _is_needed(seen, action)),
        *_revision(seen, revision),
    ]


def _adopted_code(seen: Observed) -> list[Action]:
    """Code that has lost its owner, of a topology that adopts what is left."""
    return [
        Adopt(name, uid_of(thing), owner(seen))
        for (kind, name), thing in seen.children.items()
        if kind == "ConfigMap"
        and names.code_digest(seen.name, name) is not None
        and not owners_of(thing)
    ]


def _named_claim(seen: Observed) -> str:
    """The claim that the user names: it may have the name that the operator would give."""
    checkpoint = seen.topology["spec"].get("checkpoint") or {}
    return str(checkpoint.get("persistentVolumeClaim", ""))


def _applied(seen: Observed, wanted: list[Manifest]) -> list[Action]:
    actions: list[Action] = []
    for manifest in map(marked, wanted):
        found = seen.children.get((manifest["kind"], manifest["metadata"]["name"]))
        if found is None or not is_as_wanted(found, manifest):
            actions.append(Apply(manifest))
    return actions


def is_as_wanted(found: Object, manifest: Manifest) -> bool:
    """Whether an object is as it was applied, its mark included, and unchanged since.

    Both are of one kind: objects in lists don't have the kind.
    """
    wanted = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind")}
    return _covers(found, wanted)


def _covers(found: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            key in found and _covers(found[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(_covers, found, wanted))
    return found == wanted


def _is_needed(seen: Observed, action: Action) -> bool:
    """Whether an action of a trial must still be done: the candidate may exist already."""
    if not isinstance(action, Apply) or action.manifest["kind"] != "ConfigMap":
        return True
    found = seen.children.get(("ConfigMap", action.manifest["metadata"]["name"]))
    mark = annotation(marked(action.manifest), APPLIED_ANNOTATION)
    return found is None or annotation(found, APPLIED_ANNOTATION) != mark


def _revision(seen: Observed, revision: Revision) -> list[Action]:
    manifest = marked(revision_map(seen, revision))
    same = seen.revision is not None and is_as_wanted(seen.revision, manifest)
    return [] if same else [Apply(manifest)]


# ---- telling


def _restart_event(step: Step) -> tuple[Event, ...]:
    if step.cause is None or step.cause.next is not Next.AT_ONCE:
        return ()  # other ends were told when they came
    message = f"driver {step.attempt} is started, since the last one ended: {step.cause.message}"
    return (Event("Warning", step.cause.reason, message),)


def _savepoint_events(before: SavepointStatus, after: SavepointStatus) -> Iterator[Event]:
    """A savepoint that is new, and what is newly wrong."""
    if after.commit > before.commit:
        why = f" ({after.why})" if after.why else ""
        message = f"savepoint {after.newest!r} is made: the state of commit {after.commit}{why}"
        yield Event("Normal", Reason.SAVEPOINT_MADE, message)
    if after.trouble and after.trouble != before.trouble:
        yield Event("Warning", Reason.SAVEPOINT_FAILED, after.trouble)


def _told(
    seen: Observed, before: TopologyStatus, status: TopologyStatus, decision: Decision
) -> Decision:
    """The decision with the status, if that says anything new, and with what people are told."""
    content = written(status)
    changed = content != seen.topology.get("status")
    events = (*decision.events, *_transitions(before, status))
    return replace(decision, status=content if changed else None, events=events)


def _transitions(before: TopologyStatus, status: TopologyStatus) -> list[Event]:
    """An event for each condition that people care about and that is another one now."""
    last = {condition.type: condition for condition in before.conditions}
    events = []
    for condition in status.conditions:
        old = last.get(condition.type)
        same_words = condition.type != "SpecAccepted" or (old and condition.message == old.message)
        if old and same_words and (condition.status, condition.reason) == (old.status, old.reason):
            continue
        match condition.type, condition.status:
            case ("SpecAccepted", "False") | ("Stalled", "True") if (
                condition.type != "Stalled" or condition.reason == Reason.BEING_DELETED
            ):
                events.append(Event("Warning", condition.reason, condition.message))
            case "Placed", "False" if condition.reason == _reason(status, "Ready"):
                pass  # Ready tells it
            case "Placed", "False" if news_of(condition.reason) is News.TROUBLE:
                events.append(Event("Warning", condition.reason, condition.message))
            case "Ready", "True":
                events.append(Event("Normal", condition.reason, condition.message))
            case "Ready", "False" if news_of(condition.reason) is News.PASSING:
                if old is not None and old.status == "True":
                    events.append(Event("Normal", condition.reason, condition.message))
            case "Ready", "False" if condition.reason not in (
                _reason(status, "SpecAccepted"),
                Reason.BEING_DELETED,  # Stalled tells it
            ):
                events.append(Event("Warning", condition.reason, condition.message))
            case _:
                pass
    return events


def _reason(status: TopologyStatus, kind: str) -> str:
    return next((c.reason for c in status.conditions if c.type == kind), "")
