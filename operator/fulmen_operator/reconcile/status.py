"""The topology's status: states, counts, placement, all of it below 100 KiB. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from fulmen.kube import contract
from fulmen.kube.contract.reports import Hosted, Report
from fulmen.kube.contract.revisions import Revision
from fulmen.kube.placing import planned
from fulmen.topology.reading.field_problems import repair
from fulmen.topology.resource.spec import ACKER, Topology
from fulmen.topology.resource.status import (
    MAX_ERRORS,
    MAX_MESSAGE,
    ComponentError,
    ComponentStatus,
    Condition,
    Placement,
    Restarts,
    SavepointStatus,
    TopologyStatus,
    WorkerCounts,
)
from fulmen.topology.validation.check import with_checkpoint_tasks
from fulmen_operator.manifests.common import selector
from fulmen_operator.model import (
    Manifest,
    Observed,
    attempt_of,
    clipped,
    is_terminating,
    name_of,
    text_of,
)
from fulmen_operator.reasons import Reason, Trouble
from fulmen_operator.reconcile.conditions import Facts, conditions
from fulmen_operator.reconcile.pod_states import (
    is_ready,
    missing_worker,
    report_of,
    waiting_worker,
)
from fulmen_operator.reconcile.rollout import Verdict
from fulmen_operator.reconcile.step import WITH_WORKERS, StartEmpty, Step

ROOM: Final = 90_000
"""Bytes of JSON that the whole may have."""


def read_status(raw: Mapping[str, Any] | None) -> TopologyStatus:
    """The last written status; fields that another version of the operator wrote are left out."""
    known = {f.alias for f in TopologyStatus.model_fields.values()}
    status, _ = repair(TopologyStatus, {k: v for k, v in (raw or {}).items() if k in known})
    return status or TopologyStatus()


def recovered(before: TopologyStatus, seen: Observed, held: Revision | None) -> TopologyStatus:
    """The last written status, with corrections where there is proof of more.

    A status may be lost: by restoring a topology from a backup, or by a write to its status. The
    revision and the pods tell nearly all of it. The number of the driver never goes backwards:
    pods, secrets and Spark's ids have it.

    Args:
        before: The status as it was read.
        seen: Everything.
        held: The revision that holds.
    """
    attempts = [attempt_of(pod) for pod in seen.pods_of(contract.DRIVER, contract.WORKER)]
    if held is not None:
        attempts.append(attempt_of(held.worker_pod) if held.worker_pod else 0)
    reports = [report for pod in seen.pods if (report := report_of(pod)) is not None]
    batch = max([before.last_batch, *(report.batch for report in reports)])
    if before.attempt == 0 and held is not None:
        batch = max(batch, held.last_batch, int(held.worked))
    return before.model_copy(
        update={
            "attempt": max([before.attempt, *attempts]),
            "epoch": max([before.epoch, *(report.epoch for report in reports)]),
            "last_batch": batch,
        }
    )


def written(status: TopologyStatus) -> Manifest:
    """The status as it is sent: no longer than there is room for."""
    fitted = _fitted(status)
    content = fitted.model_dump(mode="json", by_alias=True)
    if content["autoscale"] is None:  # the API server would leave it out, too
        del content["autoscale"]
    for row in content["assignment"]:
        if not row["planned"]:
            del row["planned"]
    return content


def new_status(
    seen: Observed,
    before: TopologyStatus,
    verdict: Verdict,
    step: Step | None,
    topology: Topology | None,
) -> TopologyStatus:
    """The status of the topology after a step.

    Args:
        seen: Everything.
        before: The last written status.
        verdict: The verdict on the spec.
        step: The step of the driver; None if nothing was ever accepted.
        topology: The accepted topology, if it is known.
    """
    if step is None or topology is None:
        return _without_revision(seen, before, verdict)
    topology = _as_reported(topology, before, step.report)
    generation = verdict.revision.generation if verdict.revision else seen.generation
    rows = _rows(topology, step.report, generation)
    facts = _facts(seen, verdict, step, topology, rows)
    state_since = before.state_since if before.state == step.state else text_of(seen.now)
    return TopologyStatus(
        observed_generation=seen.generation,
        state=step.state,
        state_since=state_since or text_of(seen.now),
        message=clipped(seen.refusal.message if seen.refusal else step.message, MAX_MESSAGE),
        attempt=step.attempt,
        driver_pod=_driver_pod(seen, before, step),
        active_since=_active_since(seen, before, step),
        epoch=max(before.epoch, step.report.epoch if step.report else 0),
        last_batch=_last_batch(before, step),
        workers=WorkerCounts(desired=facts.desired, ready=facts.ready),
        selector=_selector(seen.name),
        executors=sum(len(row.planned) for row in rows),
        ackers=topology.spec.acker_tasks,
        assignment=rows,
        restarts=_restarts(seen, before, step),
        errors=_errors(seen, before, step),
        savepoints=_savepoints(before, step),
        conditions=conditions(before.conditions, facts, seen.now, seen.refusal),
        **_components(topology),
    )


def paused(seen: Observed, before: TopologyStatus) -> TopologyStatus:
    """The status of a topology that is not to be touched: it says so, the rest stays."""
    message = f"paused by the annotation {contract.PAUSED_ANNOTATION}: changes are not acted upon"
    same = {c.type: c for c in before.conditions}.get("Reconciling")
    keeps = same is not None and same.status == "False"
    condition = Condition(
        type="Reconciling",
        status="False",
        reason=Reason.PAUSED,
        message=message,
        observed_generation=seen.generation,
        last_transition_time=(
            same.last_transition_time if same is not None and keeps else text_of(seen.now)
        ),
    )
    others = tuple(c for c in before.conditions if c.type != "Reconciling")
    return before.model_copy(update={"message": message, "conditions": (*others, condition)})


# ---- parts


def _facts(
    seen: Observed, verdict: Verdict, step: Step, topology: Topology, rows: Sequence[Placement]
) -> Facts:
    single = topology.spec.is_single_pod
    pods = seen.pods_of(contract.DRIVER if single else contract.WORKER, attempt=step.attempt)
    ready_pods = sum(is_ready(pod) and not is_terminating(pod) for pod in pods)
    return Facts(
        generation=seen.generation,
        verdict=verdict,
        step=step,
        desired=topology.spec.workers,
        # the last pod may have slots that are nobody's
        ready=min(ready_pods * topology.spec.slots, topology.spec.workers),
        rows=rows,
        waiting=_waiting_worker(seen, step),
    )


def _without_revision(seen: Observed, before: TopologyStatus, verdict: Verdict) -> TopologyStatus:
    facts = Facts(seen.generation, verdict, None, 0, 0, ())
    now = text_of(seen.now)
    return before.model_copy(  # the rest: one that was lost had attempts, tasks and commits
        update={
            "observed_generation": seen.generation,
            "state": "Failed",
            "state_since": before.state_since if before.state == "Failed" else now,
            "message": clipped(verdict.message, MAX_MESSAGE),
            "selector": _selector(seen.name),
            "conditions": conditions(before.conditions, facts, seen.now, seen.refusal),
        }
    )


def _selector(name: str) -> str:
    wanted = selector(name, contract.WORKER)
    return ",".join(f"{key}={value}" for key, value in wanted.items())


def _as_reported(topology: Topology, before: TopologyStatus, report: Report | None) -> Topology:
    """The topology with the numbers of tasks that its components have.

    A driver that starts or is gone reports none: then those that the status had stay. The spec may
    ask for others, until the driver has taken them over.
    """
    found = {**before.kept_tasks, **(report.tasks if report else {})}
    topology = with_checkpoint_tasks(topology, found)
    return topology.with_each(lambda one: {"num_tasks": found.get(one.name, one.tasks)})


def _components(topology: Topology) -> dict[str, Any]:
    rows = [
        ComponentStatus(name=c.name, tasks=c.tasks, executors=c.executors)
        for c in topology.spec.components
    ]
    if ackers := topology.spec.acker_tasks:
        rows.append(ComponentStatus(name=ACKER, tasks=ackers, executors=ackers))
    return {"components": tuple(rows), "tasks": sum(row.tasks for row in rows)}


def _rows(topology: Topology, report: Report | None, generation: int) -> tuple[Placement, ...]:
    """The wanted and the actual work of each worker.

    The driver plans, as it knows which spouts are pinned; the operator plans only until the driver
    has reported on the accepted revision.
    """
    observed = {hosted.worker: hosted for hosted in report.workers} if report else {}
    said = (report.planned or report.workers) if report else ()
    is_new = report is not None and report.generation >= generation
    plan = said if said and is_new else planned(topology, _pinned(topology, observed))
    wanted = {hosted.worker: hosted for hosted in plan}
    nobody = Hosted(worker=0)
    return tuple(
        Placement(
            worker=number,
            pod=observed.get(number, nobody).pod,
            slot=max(number, 0) % topology.spec.slots,
            planned=wanted.get(number, nobody).executors,
            executors=observed.get(number, nobody).executors,
        )
        for number in sorted(wanted.keys() | observed.keys())
    )


def _pinned(topology: Topology, observed: Mapping[int, Hosted]) -> frozenset[str]:
    """The spouts that the driver hosts."""
    on_driver = observed.get(-1, Hosted(worker=-1)).executors
    known = frozenset(spout.name for spout in topology.spec.spouts)
    return frozenset(name.rpartition("[")[0] for name in on_driver) & known


def _waiting_worker(seen: Observed, step: Step) -> Trouble | None:
    """Why workers don't start: of pods that exist, else of missing ones."""
    found = waiting_worker(seen, step.attempt)
    if found is None and step.state in WITH_WORKERS:
        return missing_worker(seen, step.attempt)
    return found


def _driver_pod(seen: Observed, before: TopologyStatus, step: Step) -> str:
    driver = seen.driver(step.attempt)
    if driver is not None:
        return name_of(driver)
    return before.driver_pod if before.attempt == step.attempt else ""


def _active_since(seen: Observed, before: TopologyStatus, step: Step) -> str:
    same = before.active_since if before.attempt == step.attempt else ""
    return same or (text_of(seen.now) if step.state in ("Active", "Inactive") else "")


def _last_batch(before: TopologyStatus, step: Step) -> int:
    """The last known batch, kept so that an empty checkpoint is known to be a lost one."""
    if isinstance(step.start, StartEmpty):
        return 0
    return (step.report.batch if step.report else 0) or before.last_batch


def _restarts(seen: Observed, before: TopologyStatus, step: Step) -> Restarts:
    cause, restarts = step.cause, before.restarts
    if cause is None:
        return restarts.model_copy(update={"failures": step.failures})
    return Restarts(
        count=restarts.count + 1,
        failures=step.failures,
        cause=clipped(cause.reason, 63),
        message=clipped(cause.message, MAX_MESSAGE),
        time=text_of(cause.at or seen.now),
    )


def _errors(seen: Observed, before: TopologyStatus, step: Step) -> tuple[ComponentError, ...]:
    """The last errors: of a driver that has ended as well, until a batch of the next counts."""
    report = step.report or report_of(seen.driver(before.attempt))
    if report is None or not (report.errors or report.committed):
        return before.errors
    return tuple(
        ComponentError(
            component=error.component,
            task=max(error.task, 0),
            message=clipped(error.message, MAX_MESSAGE),
            time=text_of(datetime.fromtimestamp(error.time, UTC)),
            count=error.count,
        )
        for error in report.errors[-MAX_ERRORS:]
    )


def _savepoints(before: TopologyStatus, step: Step) -> SavepointStatus:
    """The savepoints; those that were there last, while no driver tells."""
    found = step.report.savepoints if step.report else None
    if found is None:
        return before.savepoints
    made = text_of(datetime.fromtimestamp(found.time, UTC)) if found.name else ""
    return SavepointStatus(
        count=found.count,
        newest=found.name,
        commit=found.commit,
        time=made,
        why=clipped(found.why, MAX_MESSAGE),
        trouble=clipped(found.trouble, MAX_MESSAGE),
    )


# ---- size


def _fitted(status: TopologyStatus) -> TopologyStatus:
    """Leave out first what is told twice, then the last rows."""
    if _size(status) <= ROOM:
        return status
    rows = tuple(
        row.model_copy(update={"planned": ()}) if row.planned == row.executors else row
        for row in status.assignment
    )
    fewer = status.model_copy(update={"assignment": rows})
    while _size(fewer) > ROOM and fewer.assignment:
        most = fewer.assignment[: len(fewer.assignment) * 9 // 10]
        fewer = fewer.model_copy(update={"assignment": most, "assignment_truncated": True})
    return fewer


def _size(status: TopologyStatus) -> int:
    return len(status.model_dump_json(by_alias=True).encode())
