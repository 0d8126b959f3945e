"""Reports of the driver: an annotation of its own pod, and a label on each worker's pod."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from fulmen.checkpoint.savepoints.pins import PINS, pins_in
from fulmen.engine.driver.driver import RunningTopology
from fulmen.engine.totals.failures import is_error
from fulmen.engine.totals.kept_state import kept_sentences
from fulmen.engine.totals.totals import Totals
from fulmen.engine.totals.waits import WaitKind
from fulmen.kube.container.ending import MESSAGE_CHARACTERS
from fulmen.kube.contract import (
    FIGURES_SECONDS,
    REPORT_ANNOTATION,
    REPORT_BYTES,
    REPORT_SECONDS,
    WORKER_LABEL,
)
from fulmen.kube.contract.reports import (
    DriverPhase,
    Outage,
    OutageReason,
    Report,
    ReportedError,
    ReportedSavepoints,
)
from fulmen.kube.driver.api import Api, ApiError, Json
from fulmen.kube.placing import hosted, planned
from fulmen.plan.model import DRIVER

ERRORS_REPORTED = 10
ERROR_CHARACTERS = 500
HEAD_FAILURES = 5
"""Attempts of the same transaction that have failed: then it is said."""
LAST_REPORT_SECONDS = 5
"""Seconds that an ending driver waits for an API server that does not answer."""

_log = logging.getLogger(__name__)


class Reporter:
    """Writes reports when they change, from a thread of its own, at most every 5 seconds.

    Figures that change with every batch are written at most every 20 seconds: each report is a call
    of the API server, which tells it to the operator and to everybody else who watches pods.

    Args:
        api: The API server.
        pod: The driver's own pod. Another pod that gets its name later is never written to.
        report: Makes a report.
        clock: The time, in seconds; it never goes back.
    """

    def __init__(
        self,
        api: Api,
        pod: Json,
        report: Callable[[], Report],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._pod = pod
        self._report = report
        self._clock = clock
        self._written: Report | None = None
        self._written_at = clock()
        self._stopped = threading.Event()
        self._hurries = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fulmen-report", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def hurry(self) -> None:
        """Write what is new at once: somebody waits for it."""
        self._hurries.set()

    def stop(self) -> None:
        """Write what there is to say in the end."""
        self._stopped.set()
        self._hurries.set()
        self._thread.join(LAST_REPORT_SECONDS)

    def _run(self) -> None:
        while True:
            is_last = self._stopped.is_set()
            self.write(is_last)
            if is_last:
                return
            self._hurries.wait(REPORT_SECONDS)
            if not self._stopped.is_set():
                self._hurries.clear()

    def write(self, is_last: bool = False) -> None:
        """Write what there is to say, if it is due. `is_last`: it is, if it is new."""
        try:
            report = fitting(self._report())
            if is_last or self._is_due(report):
                self._patch(report)
        except ApiError as e:
            _log.warning("%s. The next report will include what this one said", e)
        except Exception:  # noqa: BLE001 (a thread that ended would leave the topology as it looks)
            _log.exception("A report could not be made")

    def _is_due(self, report: Report) -> bool:
        """Whether a report has urgent news, or has waited for long enough."""
        if self._written is None or _without_figures(report) != _without_figures(self._written):
            return True
        return self._clock() - self._written_at >= FIGURES_SECONDS

    def _patch(self, report: Report) -> None:
        if report == self._written:
            return
        annotations = {REPORT_ANNOTATION: report.to_json()}
        own = self._pod["metadata"]
        self._api.patch_pod(own["name"], own["uid"], {"annotations": annotations})
        self._written, self._written_at = report, self._clock()


def _without_figures(report: Report) -> Report:
    """The report without what changes all the time: batch, load, when errors were, how often."""
    errors = sorted({(error.component, error.task, error.message) for error in report.errors})
    untimed = tuple(
        ReportedError(component=component, task=task, message=message, time=0)
        for component, task, message in errors
    )
    update = {"batch": min(report.batch, 1), "errors": untimed, "load": None}
    return report.model_copy(update=update)


class WorkerPods:
    """Finds and labels each worker's pod: `2`, or `2-3` if workers share it."""

    def __init__(self, api: Api, app_id: str) -> None:
        self._api = api
        self._selector = f"spark-app-selector={app_id},spark-role=executor"
        self._hosts: tuple[str | None, ...] = ()
        self._names: dict[int, str] = {}

    def names(self, hosts: Sequence[str | None]) -> Mapping[int, str]:
        """The known names of workers' pods. `hosts`: the address of each worker."""
        if tuple(hosts) != self._hosts:
            try:
                self._look(hosts)
            except ApiError as e:
                _log.warning("%s. The workers' pods will be looked up later", e)
        return self._names

    def _look(self, hosts: Sequence[str | None]) -> None:
        pods = {
            pod["status"]["podIP"]: pod["metadata"]
            for pod in self._api.pods(self._selector)
            if pod.get("status", {}).get("podIP") and "deletionTimestamp" not in pod["metadata"]
        }
        addresses = [host and host.strip("[]") for host in hosts]  # IPv6
        found = {n: pods[address] for n, address in enumerate(addresses) if address in pods}
        numbers: dict[str, list[int]] = {}
        for number, metadata in found.items():
            numbers.setdefault(metadata["name"], []).append(number)
        by_name = {metadata["name"]: metadata for metadata in found.values()}
        for name, workers in numbers.items():
            label = "-".join(str(n) for n in dict.fromkeys((workers[0], workers[-1])))
            metadata = by_name[name]
            if metadata.get("labels", {}).get(WORKER_LABEL) != label:
                self._api.patch_pod(name, metadata["uid"], {"labels": {WORKER_LABEL: label}})
        self._names = {number: metadata["name"] for number, metadata in found.items()}
        self._hosts = tuple(hosts)


def report_of(
    running: RunningTopology,
    phase: DriverPhase,
    generation: int,
    present: Sequence[int],
    pods: Mapping[int, str],
    own_pod: str,
    message: str,
) -> Report:
    """The report of a driver that has started.

    Args:
        running: The topology.
        phase: The driver's phase.
        generation: The generation of the plan that it runs.
        present: Numbers of the workers that are there.
        pods: The name of each worker's pod.
        own_pod: The driver's own pod, which hosts pinned spouts.
        message: What a person should know.
    """
    plan, topology = running.placed.plan, running.topology
    hosting = [DRIVER, *present] if plan.pinned else present
    is_whole = set(present) == set(running.placed.workers) == set(range(plan.workers))
    names = {worker: own_pod if worker == DRIVER else pods.get(worker, "") for worker in hosting}
    return Report(
        phase=phase,
        generation=generation,
        epoch=running.log.epoch,
        batch=running.coordinator.last.number,
        committed=running.totals.batches > 0,
        workers=hosted(plan, names),
        planned=() if is_whole else planned(topology, running.runnable.pinned),
        tasks={name: len(tasks) for name, tasks in plan.component_tasks.items()},
        errors=errors_of(running.totals),
        message=message
        or left_out(running.totals)
        or failing_head(running.totals)
        or "; ".join(kept_sentences(running.placed.kept))[:MESSAGE_CHARACTERS],
        outage=_outage_of(running),
        savepoints=savepoints_of(running),
    )


def savepoints_of(running: RunningTopology) -> ReportedSavepoints:
    """The newest savepoint, and what is wrong with any."""
    committer = running.committer
    trouble = committer.savepoints.trouble or committer.uncollected
    pins = pins_in(running.log.manifest.sections.get(PINS))
    if not pins:
        return ReportedSavepoints(trouble=trouble[:MESSAGE_CHARACTERS])
    name, pin = max(pins.items(), key=lambda one: one[1].commit)
    return ReportedSavepoints(
        count=len(pins),
        name=name,
        commit=pin.number,
        time=round(pin.time, 3),
        why=pin.why[:ERROR_CHARACTERS],
        trouble=trouble[:MESSAGE_CHARACTERS],
    )


def left_out(totals: Totals) -> str:
    """About tasks that batches do without, or without a call of theirs; "" if there are none."""
    with totals.lock:
        said = [wait.sentence for wait in totals.waits.left_out.values()]
    return "; ".join(said)[:MESSAGE_CHARACTERS]


def failing_head(totals: Totals) -> str:
    """About the transaction that holds up all others; "" if none does.

    It has no count, or it would be another message every few seconds.
    """
    with totals.lock:
        transactions = totals.transactions
        if transactions is None or transactions.head_failures < HEAD_FAILURES:
            return ""
        reason = transactions.head_reason[:ERROR_CHARACTERS]
        return f"transaction {transactions.ledger.head} fails again and again: {reason}"


def _outage_of(running: RunningTopology) -> Outage | None:
    """The checkpoint's, or else that of a service that a component needs."""
    if (wait := running.recovery.outage) is None:
        return None
    is_checkpoint = wait.kind is WaitKind.CHECKPOINT
    reason: OutageReason = "CheckpointUnreachable" if is_checkpoint else "ServiceUnavailable"
    return Outage(reason=reason, message=wait.sentence[:MESSAGE_CHARACTERS])


def errors_of(totals: Totals) -> tuple[ReportedError, ...]:
    """The newest errors of all components."""
    with totals.lock:
        errors = [
            ReportedError(
                component=component,
                task=error["task"],
                message=error["message"][:ERROR_CHARACTERS],
                time=round(error["time"], 3),
                count=error["count"],
            )
            for component, kept in totals.errors.items()
            for error in kept
        ]
        errors += [
            ReportedError(
                component=component,
                task=reason.task,
                message=f"failed: {reason.example}"[:ERROR_CHARACTERS],
                time=round(reason.time, 3),
                count=reason.count,
            )
            for component, kinds in totals.failures.items()
            for reason in kinds.values()
            if not is_error(component, reason, totals.errors.get(component, ()))
        ]
    return tuple(sorted(errors, key=lambda error: -error.time)[:ERRORS_REPORTED])


def fitting(report: Report) -> Report:
    """The report, without what there is no room for: errors first, then load, then executors."""
    shorter = (
        report,
        report.model_copy(update={"errors": report.errors[:1]}),
        report.model_copy(update={"errors": ()}),
        report.model_copy(update={"errors": (), "load": None}),
        report.model_copy(update={"errors": (), "load": None, "planned": ()}),
    )
    for candidate in shorter:
        if len(candidate.to_json().encode()) <= REPORT_BYTES:
            return candidate
    workers = tuple(h.model_copy(update={"executors": ()}) for h in report.workers)
    return report.model_copy(update={"errors": (), "load": None, "workers": workers})
