"""The states of pods: whether they live, how they ended, what they wait for. Pure.

The container counts, not the pod: a sidecar may outlive it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import Final

from pydantic import ValidationError

from fulmen.kube import contract
from fulmen.kube.contract.endings import Ended, ExitCode, Mistake
from fulmen.kube.contract.reports import Report
from fulmen_operator.model import (
    UID_ANNOTATION,
    Object,
    Observed,
    annotation,
    attempt_of,
    condition_of,
    is_terminating,
    name_of,
    phase_of,
    seconds_since,
    status_of,
    time_of,
)
from fulmen_operator.reasons import AnyReason, Foreign, Reason, Trouble
from fulmen_operator.room import UNSCHEDULABLE

GONE_AFTER: Final = 30
"""Seconds beyond its grace period after which a pod that should end is on a dead node."""
GATED: Final = "SchedulingGated"
"""The state of a driver's pod until its secret is made: nothing to tell anybody."""
ONE_NODE: Final = (
    " (It has to be on the driver's node: the checkpoint's claim can be mounted by one node only. A"
    " claim that is ReadWriteMany, or an object store, spreads the pods.)"
)
CONTAINERS: Final = "containerStatuses"
NODE_TROUBLE: Final = ("DeletionByTaintManager", "DeletionByPodGC")
FALLEN_SECONDS: Final = 600
"""Seconds for which a worker's pod that has failed is the reason for missing workers."""
MOUNT_SECONDS: Final = 10
"""Seconds that mounts of volumes may take before a problem is told."""
PULL_FAILED: Final = "ErrImagePull"
PULL_WAITS: Final = "ImagePullBackOff"
NAMED_BY_VOLUMES: Final = {
    "secret": "Secret",
    "configMap": "ConfigMap",
    "persistentVolumeClaim": "claim",
}
NAME_FIELDS: Final = ("name", "secretName", "claimName")
"""The fields of a volume that hold a name."""
POD_TROUBLE: Final = ("Evicted", "Preempting", "NodeLost", "NodeShutdown", "Terminated", "Shutdown")
"""The kubelet's reasons for ending a pod because of its node."""


class Next(Enum):
    """The consequence of a driver's end.

    AT_ONCE: a new one, whatever happened before. LATER: a new one, after a while that grows. NEVER:
    nothing until the user changes something.
    """

    AT_ONCE = auto()
    LATER = auto()
    NEVER = auto()


@dataclass(frozen=True)
class Ending:
    """The end of a container.

    Attributes:
        next: The consequence.
        reason: For programs.
        message: For people.
        at: The time; None if it is not known.
        errors: All mistakes that it found.
        where: A prefix of the message, if it is about another container than the default one.
    """

    next: Next
    reason: AnyReason
    message: str
    at: datetime | None = None
    errors: tuple[Mistake, ...] = ()
    where: str = ""

    @property
    def is_valid(self) -> bool:
        """Whether a preflight found no mistake."""
        return self.reason in ("Valid", "Finished")


def ending_of(pod: Object, container: str, now: datetime) -> Ending | None:
    """The end of a pod's container; None if it has not ended, and may still go on."""
    state = _container_state(pod, container)
    terminated = state.get("terminated")
    if terminated is None:
        return _ended_without_container(pod, now)
    finished = terminated.get("finishedAt")
    at = _by_our_clock(pod, time_of(finished), now) if finished else None
    trouble = _disruption(pod)
    if trouble and terminated["exitCode"] != ExitCode.FINISHED:
        return Ending(Next.AT_ONCE, trouble[0], trouble[1], at)
    return _of_exit(pod, terminated, at)


def _of_exit(pod: Object, terminated: Object, at: datetime | None) -> Ending:
    code, said = terminated["exitCode"], _said(terminated)
    message = said.message if said else _last_words(terminated)
    errors = said.errors if said else ()
    reason: AnyReason = said.reason if said else "Error"
    match code:
        case ExitCode.FINISHED:
            return Ending(Next.AT_ONCE, said.reason if said else "Finished", message, at)
        case ExitCode.TERMINATED if not is_terminating(pod):
            text = (
                f"{name_of(pod)} was ended by its node, as its startup or liveness probe got no"
                " answer for as long as startTimeoutSeconds allows"
            )
            return Ending(Next.LATER, Reason.PROBE_FAILED, text, at)
        case ExitCode.TERMINATED:
            return Ending(Next.AT_ONCE, said.reason if said else "Terminated", message, at)
        case ExitCode.MISTAKE:
            reason = said.reason if said else Reason.INVALID_SPEC
            return Ending(Next.NEVER, reason, message, at, errors)
        case ExitCode.CHECKPOINT if reason in ("CheckpointLost", "CheckpointMismatch"):
            return Ending(Next.NEVER, reason, message, at, errors)
        case _ if terminated.get("reason") == "OOMKilled":
            text = f"{name_of(pod)} ran out of memory. If it repeats, raise its memory limit."
            return Ending(Next.LATER, Reason.OOM_KILLED, text, at)
        case _:
            text = message or f"{name_of(pod)} ended with exit code {code}"
            return Ending(Next.LATER, reason, text, at, errors)


def _ended_without_container(pod: Object, now: datetime) -> Ending | None:
    status = status_of(pod)
    lost = _is_lost(pod, now)
    if phase_of(pod) not in ("Failed", "Succeeded") and not lost:
        return None
    trouble = _disruption(pod)
    given = status.get("reason")
    unknown = Foreign(str(given)) if given else Reason.POD_LOST
    reason, message = trouble or (unknown, status.get("message", ""))
    text = message or _failed_container(pod) or f"{name_of(pod)} is gone without a word"
    known = trouble is not None or lost or reason in POD_TROUBLE
    return Ending(Next.AT_ONCE if known else Next.LATER, reason, text, last_seen(pod, now))


def death_of(pod: Object) -> str:
    """Why a pod has failed: who ended it, or which container, and its last words."""
    status, trouble = status_of(pod), _disruption(pod)
    given = trouble[1] or trouble[0] if trouble else status.get("message") or status.get("reason")
    return f"{name_of(pod)}: {given}" if given else _failed_container(pod)


def _failed_container(pod: Object) -> str:
    """The container that failed first, and its last words; empty: none."""
    for kind, field in (("init container", "initContainerStatuses"), ("container", CONTAINERS)):
        failed = [
            (str(terminated.get("finishedAt", "")), found["name"], terminated)
            for found in _all(pod, field)
            if (terminated := (found.get("state") or {}).get("terminated") or {}).get("exitCode")
        ]
        if failed:
            _, name, terminated = min(failed, key=lambda entry: entry[:2])
            return f"{name_of(pod)}: its {kind} {name!r} {_how(terminated)}"
    return ""


def _how(terminated: Object) -> str:
    said, reason = _said(terminated), terminated.get("reason")
    words = said.message if said else _last_words(terminated)
    if reason == "OOMKilled":
        words = "it ran out of memory. If it repeats, raise its memory limit"
    return f"ended with exit code {terminated['exitCode']}: {words or reason or 'no last words'}"


def _is_lost(pod: Object, now: datetime) -> bool:
    """Whether a pod is to end, but on a node that does not answer."""
    deletion = pod["metadata"].get("deletionTimestamp")
    if deletion is None:
        return bool(status_of(pod).get("reason") == "NodeLost")
    trouble = _disruption(pod)
    by_node = trouble is not None and trouble[0] in NODE_TROUBLE
    return by_node or seconds_since(deletion, now) > GONE_AFTER


def _disruption(pod: Object) -> Trouble | None:
    """Who ended a pod for outside reasons, and in which words."""
    condition, status = condition_of(pod, "DisruptionTarget"), status_of(pod)
    if condition.get("status") == "True":
        reason = Foreign(str(condition.get("reason", "Evicted")))
        return reason, str(condition.get("message", ""))
    if status.get("reason") in POD_TROUBLE:
        return Foreign(str(status["reason"])), str(status.get("message", ""))
    return None


def _by_our_clock(pod: Object, at: datetime, now: datetime) -> datetime:
    """A time that a node has told, by the control plane's clock: the node's may be minutes off.

    Both have noted when the pod came to the node: one with its condition, the other as `startTime`.
    """
    scheduled, begun = scheduled_at(pod), status_of(pod).get("startTime")
    if scheduled and begun:
        at += time_of(scheduled) - time_of(begun)
    return min(at, now)


def last_seen(pod: Object, now: datetime) -> datetime | None:
    """The time of a pod's last change; None if it has no time."""
    times = [
        condition["lastTransitionTime"]
        for condition in status_of(pod).get("conditions") or ()
        if condition.get("lastTransitionTime")
    ]
    return _by_our_clock(pod, time_of(max(times)), now) if times else None


def preflight_ending_of(pod: Object, now: datetime) -> Ending | None:
    """The end of a preflight: with the image of the workers, if they have their own, or at last."""
    firsts = [container["name"] for container in pod["spec"].get("initContainers") or ()]
    if contract.WORKER_PREFLIGHT_CONTAINER in firsts:
        first = ending_of(pod, contract.WORKER_PREFLIGHT_CONTAINER, now)
        if first is None:
            return None
        if not first.is_valid:
            return replace(first, where="in the workers' image:")
    return ending_of(pod, contract.PREFLIGHT_CONTAINER, now)


def _container_state(pod: Object, container: str) -> Object:
    for found in _containers(pod):
        if found["name"] == container:
            state: Object = found.get("state") or {}
            return state
    return {}


def _said(terminated: Object) -> Ended | None:
    """The termination message, if the container left one."""
    try:
        return Ended.from_json(terminated.get("message") or "")
    except ValidationError:
        return None


def _last_words(terminated: Object) -> str:
    """The last line of its log, which the kubelet takes when there is no message."""
    lines = [line for line in (terminated.get("message") or "").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


# ---- what has not ended


def is_ready(pod: Object) -> bool:
    """Whether the kubelet reports a pod as ready."""
    return str(condition_of(pod, "Ready").get("status")) == "True"


def scheduled_at(pod: Object) -> str:
    """The time when a pod got a node, by the control plane's clock; empty: it has none."""
    placed = condition_of(pod, "PodScheduled")
    is_placed = placed.get("status") == "True"
    return str(placed.get("lastTransitionTime") or "") if is_placed else ""


def waiting_for(pod: Object, now: datetime) -> Trouble | None:
    """Why a pod does not start, in Kubernetes' words; None if it runs or has just begun."""
    if phase_of(pod) != "Pending":
        return None
    placed = condition_of(pod, "PodScheduled")
    if placed.get("status") == "False":
        reason = placed.get("reason", UNSCHEDULABLE)
        if reason == GATED:
            return None
        where = ONE_NODE if _is_bound(pod) else ""
        return Foreign(str(reason)), f"{name_of(pod)}: {placed.get('message', '')}{where}"
    for container in _containers(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            reason, words = waiting["reason"], str(waiting.get("message") or waiting["reason"])
            if reason == PULL_FAILED:  # the kubelet says one and the other in turn
                reason = PULL_WAITS
            words = f"{name_of(pod)}: {words.split(f'{PULL_FAILED}: ')[-1]}"
            last = (container.get("lastState") or {}).get("terminated")
            return Foreign(str(reason)), f"{words}; it {_how(last)}" if last else words
    left = mounting_for(pod, now)
    if left is None or left > 0:
        return None
    needed = ", ".join(_volumes(pod)) or "none that could be missing"
    return Reason.VOLUMES_NOT_MOUNTED, (
        f"{name_of(pod)} has a node, but its volumes are not mounted after {MOUNT_SECONDS} s. What"
        f" they need: {needed}. Is all of it there? `kubectl describe pod {name_of(pod)}` shows"
        " why, as the events of the kubelet say it"
    )


def waiting_worker(seen: Observed, attempt: int) -> Trouble | None:
    """Why the first of the waiting workers does not start."""
    troubles = (
        waiting_for(pod, seen.now) for pod in seen.pods_of(contract.WORKER, attempt=attempt)
    )
    return next(filter(None, troubles), None)


def missing_worker(seen: Observed, attempt: int) -> Trouble | None:
    """Why a worker is missing: the reason and words of whoever refuses or has ended it."""
    if seen.missing:
        return Reason.WORKER_REFUSED, f"no further worker is taken: {seen.missing}"
    if seen.fallen is None or annotation(seen.fallen, UID_ANNOTATION) != seen.uid:
        return None
    since = last_seen(seen.fallen, seen.now)
    is_old = since is None or (seen.now - since).total_seconds() > FALLEN_SECONDS
    if is_old or attempt_of(seen.fallen) != attempt:
        return None
    return Reason.WORKER_FAILED, death_of(seen.fallen)


def _is_bound(pod: Object) -> bool:
    """Whether a worker may only run on its driver's node."""
    affinity = (pod.get("spec") or {}).get("affinity") or {}
    required = (affinity.get("podAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    labels = [near.get("labelSelector", {}).get("matchLabels", {}) for near in required or ()]
    return any(found.get(contract.COMPONENT_LABEL) == contract.DRIVER for found in labels)


def mounting_for(pod: Object, now: datetime) -> float | None:
    """Seconds that the kubelet is still given for a pod's volumes; None: they are mounted.

    It says only when they are, and the sandbox is made. Images are pulled after that.
    """
    since = scheduled_at(pod)
    ready = condition_of(pod, "PodReadyToStartContainers").get("status")
    if phase_of(pod) != "Pending" or ready != "False" or not since:
        return None
    return MOUNT_SECONDS - seconds_since(since, now)


def driver_waits_for(driver: Object, pods: Iterable[Object], now: datetime) -> Trouble | None:
    """Why a driver does not start, as `waiting_for`, and which pods may hold it up."""
    trouble = waiting_for(driver, now)
    if trouble is None or trouble[0] != Reason.VOLUMES_NOT_MOUNTED:
        return trouble
    claims = {volume for volume in _volumes(driver) if volume.startswith("claim ")}
    for other in pods:
        node = (other.get("spec") or {}).get("nodeName")
        elsewhere = node not in (None, driver["spec"].get("nodeName"))
        if elsewhere and claims & {*_volumes(other)} and _is_lost(other, now):
            return trouble[0], (
                f"{trouble[1]}. {name_of(other)} was told to end, but its node {node} does not"
                " answer: a claim that only one node can mount stays there until the node is back,"
                f" or `kubectl taint node {node}"
                " node.kubernetes.io/out-of-service=nodeshutdown:NoExecute` says that it is off"
            )
    return trouble


def _volumes(pod: Object) -> list[str]:
    """The objects that a pod's volumes name and that must exist, in words."""
    found = []
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume, *(volume.get("projected") or {}).get("sources", ())):
            for kind, word in NAMED_BY_VOLUMES.items():
                named = source.get(kind) or {}
                names = [named[field] for field in NAME_FIELDS if field in named]
                found += [f"{word} {name!r}" for name in names if not named.get("optional")]
    return sorted(set(found) - {"ConfigMap 'kube-root-ca.crt'"})  # Kubernetes' own


def _all(pod: Object, field: str) -> list[Object]:
    return status_of(pod).get(field) or []


def _containers(pod: Object) -> list[Object]:
    return [*_all(pod, "initContainerStatuses"), *_all(pod, CONTAINERS)]


def report_of(driver: Object | None) -> Report | None:
    """A driver's report; None if there is none yet, or no driver."""
    text = annotation(driver, contract.REPORT_ANNOTATION) if driver is not None else ""
    try:
        return Report.from_json(text) if text else None
    except ValidationError:
        return None


def has_committed(driver: Object | None) -> bool:
    """Whether a driver has run a batch to its end."""
    report = report_of(driver)
    return report is not None and report.committed
