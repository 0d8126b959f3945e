"""`driver`: what the driver's pod runs, from its revision to its end.

Threads: the main one runs batches. Beside it, one watches the revision, one writes reports, one
waits for SIGTERM, one serves metrics and probes. They change nothing but `Stop`, which the main
thread reads between two batches.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fulmen.engine.driver.driver import Driver, RunningTopology
from fulmen.engine.spark.jobs import SparkJobs
from fulmen.engine.spark.session import SessionSettings
from fulmen.engine.totals.totals import Totals
from fulmen.errors import FulmenError
from fulmen.kube.container.ending import MESSAGE_CHARACTERS, of_error, write_ended
from fulmen.kube.container.preparation import prepare
from fulmen.kube.contract import (
    GRACE_SECONDS,
    HEALTH_PATH,
    LOG_FILE,
    METRICS_PORT,
    READY_PATH,
    WORK_FOLDER,
)
from fulmen.kube.contract.endings import Ended, ExitCode
from fulmen.kube.contract.reports import DriverPhase, Report
from fulmen.kube.contract.revisions import Directive, Revision
from fulmen.kube.driver.api import Api, ApiError
from fulmen.kube.driver.event_log import EventLog
from fulmen.kube.driver.instructions import Instructions
from fulmen.kube.driver.load_meter import LoadMeter
from fulmen.kube.driver.pod_settings import (
    TEMPLATE_FILE,
    Surroundings,
    pod_settings,
    single_pod_settings,
)
from fulmen.kube.driver.reporting import Reporter, WorkerPods, report_of
from fulmen.kube.driver.revisions import Revisions
from fulmen.kube.driver.scaling import ScalingStatus
from fulmen.kube.driver.successor import Successor
from fulmen.kube.driver.termination import Terminated, Termination
from fulmen.kube.names import driver_pod
from fulmen.metrics import AccessRules, MetricsServer
from fulmen.services.http.handover import HANDOVER
from fulmen.topology.code.packages import import_path
from fulmen.topology.validation.check import Runnable
from fulmen.tracing import tracer_of

FIRST_WORKER_SECONDS = 1800.0
"""The least wait for a first worker: images are pulled, nodes are added. The operator tells why."""
OTHER_WORKERS_SECONDS = 60.0
STUCK_SECONDS = 120
"""Seconds that recovery from a failed attempt may take without a sign of life."""
QUIET_SECONDS = 10
"""After so many seconds without a batch, Spark is asked which workers are there. An idle topology
has some batches meanwhile."""
PATIENCE_SECONDS = 5
"""Seconds to wait without any worker for the end after SIGTERM."""
MARGIN_SECONDS = 10
"""Seconds before the kubelet kills the pod, for the last writes."""
LOG_LINES = 40

_log = logging.getLogger(__name__)


def drive(environ: Mapping[str, str]) -> tuple[int, Ended]:
    """Run a topology until it is drained, or ended.

    Returns:
        The exit code, and why it ended.
    """
    where = Surroundings.of(environ)
    with Termination() as termination:
        try:
            api = Api.of_pod(where.namespace)
            revisions = Revisions(api, where.topology)
            revision = revisions.first()
            return DriverPod(where, api, revisions, revision, termination).run()
        except Terminated:
            return ExitCode.TERMINATED, Ended(
                reason="Terminated", message="SIGTERM ended the driver before its first batch"
            )
        except Exception as e:  # noqa: BLE001 (whatever it is, the pod ends and says why)
            code, ended = of_error(e)
            if code == ExitCode.FAILED:
                _show_end_of(Path(LOG_FILE))
            else:
                _log.error("%s", e)
            return code, ended


class DriverPod:
    """The driver of a topology in its pod."""

    def __init__(
        self,
        where: Surroundings,
        api: Api,
        revisions: Revisions,
        revision: Revision,
        end: Termination,
    ) -> None:
        self._where = where
        self._api = api
        self._revisions = revisions
        self._revision = revision
        self._instructions = Instructions(revision)
        self._stop, self._taps = self._instructions.stop, self._instructions.taps
        self._termination = end
        self._running: RunningTopology | None = None
        self._jobs: SparkJobs | None = None
        self._phase = DriverPhase.STARTING
        self._ended = threading.Event()
        self._grace = GRACE_SECONDS
        self._pods = WorkerPods(api, where.app_id)
        self._event_log = EventLog()
        self._load = LoadMeter()
        self._scaling = ScalingStatus(api, where.topology)
        self._next_attempt = 0
        self._successor: Successor | None = None

    def run(self) -> tuple[int, Ended]:
        """Run it to its end. Raises what makes it impossible."""
        if self._is_being_deleted():
            name = self._where.topology
            message = (
                f"topology {name!r} is not the one that this pod was made for (uid"
                f" {self._where.uid}): it was deleted, or it is another one of that name, such as"
                " after a restore from a backup, which has a driver of its own"
            )
            _log.error("%s", message)
            return ExitCode.FENCED, Ended(reason="Fenced", message=message)
        host = "::" if ":" in self._where.pod_ip else "0.0.0.0"
        self._own_pod = self._api.pod(self._where.pod_name)
        reporter = Reporter(self._api, self._own_pod, self.report)
        probes = {HEALTH_PATH: self.is_healthy, READY_PATH: self.is_ready}
        access = AccessRules.of(os.environ)
        said = probes, access, self._taps, self.scaling
        with MetricsServer(host, METRICS_PORT, self.totals, *said):
            reporter.start()
            try:
                end = self._run()
                self._hand_over(reporter)
                return end
            finally:
                self._ended.set()
                self._revisions.stop()
                reporter.stop()

    def _run(self) -> tuple[int, Ended]:
        runnable = prepare(self._revision)
        topology = runnable.topology
        checkpoint = str(topology.spec.checkpoint.uri)
        _log.info(
            "Starting topology %r: generation %d, attempt %d, checkpoint %s",
            topology.name,
            self._revision.generation,
            self._where.attempt,
            checkpoint,
        )
        self._jobs = self._spark(runnable)
        observer = self._event_log
        tracer = tracer_of(os.environ, topology.name, observer.note)
        driver = Driver(
            runnable,
            self._jobs,
            checkpoint,
            observer=observer,
            taps=self._taps,
            tracer=tracer,
            keeps_tasks=True,  # what a driver before refused must not end the next one
        )
        running = self._running = driver.start()
        self._instructions.stop.refused = running.planner.refused
        try:
            self._instructions.follow(self._revision)
            self._termination.raise_no_more()
            self._event_log.heard = time.monotonic()  # starting may have taken long
            self._phase = DriverPhase.ACTIVE
            self._revisions.watch(self._follow)
            threading.Thread(target=self._await_end, name="fulmen-end", daemon=True).start()
            running.run(self._stop)
            if not self._stop.now:
                self._phase = DriverPhase.FINISHED
            return self._instructions.ended(running.coordinator.last.number)
        finally:
            self._ended.set()
            running.close()
            if tracer is not None:
                tracer.close()

    def _follow(self, revision: Revision) -> None:
        """Do what a revision says. Who hands clients over has to know it before it stops."""
        if revision.directive is Directive.DRAIN and revision.successor:
            self._next_attempt = revision.successor
            HANDOVER.to_next_process = True
        self._instructions.follow(revision)

    def _hand_over(self, reporter: Reporter) -> None:
        """Keep clients until the driver that replaces this one has them, if there are any."""
        if not (HANDOVER.to_next_process and HANDOVER.has_servers):
            return
        pod = driver_pod(self._where.topology, self._next_attempt)
        self._successor = Successor(self._api, pod, HANDOVER)
        reporter.hurry()
        self._successor.hand_over(self._grace - MARGIN_SECONDS)

    def _spark(self, runnable: Runnable) -> SparkJobs:
        """Spark with workers in pods, or in this one; started by the first batch."""
        spec, own_pod = runnable.topology.spec, self._own_pod
        self._grace = own_pod["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS)
        settings = SessionSettings(
            workers=spec.workers,
            slots=spec.slots,
            conf=spec.spark.conf,
            code_path=_import_path(runnable.code_folder),
            work_dir=Path(WORK_FOLDER),
            log_file=Path(LOG_FILE),
            start_timeout_seconds=max(FIRST_WORKER_SECONDS, spec.start_timeout_seconds),
            tell=partial(_log.info, "%s"),
        )
        if spec.is_single_pod:
            return SparkJobs(self._in_this_pod(settings))
        return SparkJobs(self._in_pods(settings))

    def _in_pods(self, settings: SessionSettings) -> SessionSettings:
        revision = self._revision
        Path(TEMPLATE_FILE).write_text(json.dumps(revision.worker_pod), encoding="utf-8")
        image, template = revision.images.worker, revision.worker_pod
        conf = pod_settings(self._where, self._api.url, image, template, self._own_pod)
        return replace(
            settings,
            conf={**settings.conf, **conf},
            least_workers=1,
            patience_seconds=OTHER_WORKERS_SECONDS,
        )

    def _in_this_pod(self, settings: SessionSettings) -> SessionSettings:
        """A worker for each slot: how many of them take part may change while it runs."""
        conf = single_pod_settings(self._where, self._own_pod)
        return replace(
            settings,
            workers=settings.slots,
            conf={**settings.conf, **conf},
            worker_log=Path(f"/proc/{os.getpid()}/fd/{sys.stderr.fileno()}"),  # the container's log
        )

    # What others ask

    def totals(self) -> Totals | None:
        """The counts; None before the start."""
        return self._running.totals if self._running is not None else None

    def scaling(self) -> Mapping[str, Any] | None:
        """The operator's choice of the number of workers; None if it does not choose."""
        chosen = self._instructions.latest.topology["spec"].get("autoscale")
        return self._scaling.latest() if chosen else None

    def is_ready(self) -> bool:
        """Whether batches run, or clients are kept for the next driver, which is not ready."""
        if self._successor is not None and self._successor.is_ready:
            return False
        totals = self.totals()
        return self._phase is not DriverPhase.STARTING and totals is not None and totals.batches > 0

    def is_healthy(self) -> bool:
        """Whether batches end or fail in time. An idle topology has some every few seconds."""
        if self._running is None or self._phase is not DriverPhase.ACTIVE:
            return True
        making = 0.0 if self._jobs is None else self._jobs.making_seconds
        limit = max(self._running.topology.spec.batch_timeout_seconds, making) + STUCK_SECONDS
        return time.monotonic() - self._event_log.heard < limit

    def report(self) -> Report:
        """The report for the operator."""
        running, jobs = self._running, self._jobs
        phase = self._phase_now()
        if running is None or jobs is None or phase is DriverPhase.STARTING:
            return Report(phase=phase, generation=self._revision.generation, message="starting")
        where = self._where.pod_name
        if running.topology.spec.is_single_pod:
            pods: Mapping[int, str] = dict.fromkeys(range(running.topology.spec.slots), where)
        else:
            pods = self._pods.names(jobs.hosts)
        message = self._event_log.latest
        present = self._present(running, jobs)
        generation, latest = self._instructions.generation, self._instructions.latest
        said = report_of(running, phase, generation, present, pods, where, message)
        if refused := self._instructions.stop.refused:
            said = said.model_copy(update={"refused": refused[:MESSAGE_CHARACTERS]})
        if latest.topology["spec"].get("autoscale") and phase is DriverPhase.ACTIVE:
            said = said.model_copy(update={"load": self._load.measure(running.totals)})
        else:
            self._load.forget()
        return said.model_copy(update={"hands_over": self._successor is not None})

    def _present(self, running: RunningTopology, jobs: SparkJobs) -> Sequence[int]:
        """Numbers of the workers that are there: those of the last batch, if it was not long ago.

        The next one waits for as long as no worker is there.
        """
        workers = running.placed.workers
        if time.monotonic() - self._event_log.counted < QUIET_SECONDS:
            return workers
        try:
            alive = jobs.alive()
        except FulmenError:  # Spark is gone, which ends the driver
            return ()
        return [worker for worker in workers if worker in alive]

    def _phase_now(self) -> DriverPhase:
        return self._instructions.phase if self._phase is DriverPhase.ACTIVE else self._phase

    # The end

    def _await_end(self) -> None:
        """After SIGTERM, drain if the topology is deleted, else end with the current batch."""
        self._termination.wait()
        assert self._running is not None
        told = time.monotonic()
        is_deleted = self._is_being_deleted()
        asked = time.monotonic() - told  # long, if the API server is away
        # a timeout that was raised since does not give the pod more time
        timeout = self._running.topology.spec.message_timeout_seconds
        seconds = min(timeout, self._grace - GRACE_SECONDS) - asked
        if is_deleted:
            _log.info(
                "Got SIGTERM, and the topology is deleted: draining for at most %d s", seconds
            )
            self._stop.drain = True
            if self._ends_within(seconds):
                return
            self._stop.now = True
            left = GRACE_SECONDS - MARGIN_SECONDS if self._has_workers() else 0.0
        else:
            _log.info("Got SIGTERM: the driver ends after the current batch")
            self._stop.now = True
            if self._ends_within(seconds + GRACE_SECONDS - MARGIN_SECONDS):
                return
            left = 0.0
        if not self._ended.wait(left):
            self._give_up()

    def _ends_within(self, seconds: float) -> bool:
        """Wait for the end. Without workers it never comes: all pods of a namespace may go at once.

        Of a namespace that is deleted the pods go first, and the topology only after them.
        """
        deadline = time.monotonic() + seconds
        without_workers = 0
        while not self._ended.wait(1.0):
            without_workers = 0 if self._has_workers() else without_workers + 1
            if without_workers > PATIENCE_SECONDS or time.monotonic() > deadline:
                reason = "no worker is left" if without_workers else "its time is over"
                _log.warning("The topology has not come to its end: %s", reason)
                return False
        return True

    def _has_workers(self) -> bool:
        try:
            return self._jobs is not None and bool(self._jobs.alive())
        except FulmenError:  # Spark itself is gone
            return False

    def _is_being_deleted(self) -> bool:
        """Whether the topology is gone, replaced, or being deleted. Its rights may go before it."""
        try:
            metadata = self._api.topology(self._where.topology)["metadata"]
        except ApiError as e:
            return e.status in (401, 403, 404)
        return metadata["uid"] != self._where.uid or "deletionTimestamp" in metadata

    def _give_up(self) -> None:
        """End at once: a batch hangs, or no worker is left. What is committed stays."""
        message = "SIGTERM ended the driver in the middle of a batch. The next driver runs it again"
        _log.warning("%s", message)
        write_ended(Ended(reason="Terminated", message=message))
        os._exit(ExitCode.TERMINATED)


def _import_path(folder: Path | None) -> str | None:
    """The folders of the author's code and of its packages, as in PYTHONPATH."""
    return os.pathsep.join(map(str, import_path(folder))) if folder else None


def _show_end_of(file: Path) -> None:
    """Spark's log goes with the pod: its end belongs into the container's log."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    if lines:
        print(f"The end of {file}:", *lines[-LOG_LINES:], sep="\n", file=sys.stderr)  # noqa: T201
