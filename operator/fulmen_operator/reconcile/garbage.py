"""Finds objects that are no longer needed. Pure."""

from fulmen.kube import contract, names
from fulmen.kube.contract.revisions import Revision
from fulmen_operator.manifests.network import network_policies, policy_names, services
from fulmen_operator.model import (
    CODE_ANNOTATION,
    Action,
    Delete,
    Object,
    Observed,
    annotation,
    attempt_of,
    is_terminating,
    name_of,
    phase_of,
    uid_of,
)
from fulmen_operator.reconcile.handover import is_needed
from fulmen_operator.reconcile.pod_states import ending_of
from fulmen_operator.reconcile.rollout import Verdict
from fulmen_operator.reconcile.step import Clear, Step
from fulmen_operator.settings import Settings


def leftovers(
    seen: Observed, step: Step, verdict: Verdict, revision: Revision, settings: Settings
) -> list[Action]:
    """Delete objects of earlier attempts, of finished trials, of other code.

    The driver that failed last is kept for its log.
    """
    return [
        *(Delete.pod(pod) for pod in _drivers(seen, step)),
        *(Delete.pod(pod) for pod in _workers(seen, step)),
        *(Delete.pod(pod) for pod in _preflights(seen, verdict)),
        *_config_maps(seen, verdict, revision),
        *_network(seen, revision, settings),
    ]


def _of(seen: Observed, component: str) -> list[Object]:
    return [pod for pod in seen.pods_of(component) if not is_terminating(pod)]


def _has_ended(seen: Observed, pod: Object) -> bool:
    return ending_of(pod, contract.DRIVER_CONTAINER, seen.now) is not None


def _drivers(seen: Observed, step: Step) -> list[Object]:
    """Drivers that can go, and their secrets with them.

    One that hands its clients over stays until the next one is ready. It ends by itself.
    """
    drivers = _of(seen, contract.DRIVER)
    if isinstance(step.does, Clear):
        return drivers
    failed = [pod for pod in drivers if phase_of(pod) == "Failed" and _has_ended(seen, pod)]
    last = max(map(attempt_of, failed), default=0)
    return [
        pod
        for pod in drivers
        if attempt_of(pod) < step.attempt
        and attempt_of(pod) != last
        and not is_needed(pod, seen, step)
    ]


def _workers(seen: Observed, step: Step) -> list[Object]:
    """Workers whose driver is not the present one, or has ended."""
    alive = {attempt_of(pod) for pod in seen.pods_of(contract.DRIVER) if not _has_ended(seen, pod)}
    return [
        pod
        for pod in _of(seen, contract.WORKER)
        if attempt_of(pod) < step.attempt or attempt_of(pod) not in alive
    ]


def _preflights(seen: Observed, verdict: Verdict) -> list[Object]:
    return [pod for pod in _of(seen, contract.PREFLIGHT) if name_of(pod) != verdict.preflight]


def _config_maps(seen: Observed, verdict: Verdict, revision: Revision) -> list[Action]:
    """The candidate when there is none, and code that no pod has mounted and no revision names."""
    mounted = {annotation(pod, CODE_ANNOTATION) for pod in seen.pods}
    returning = revision.previous.mounts.code if revision.previous else ""
    kept = {revision.mounts.code, verdict.code_name, returning, *mounted}
    found = [name for kind, name in seen.children if kind == "ConfigMap"]
    code = {name: names.code_digest(seen.name, name) for name in found}
    gone = [
        name
        for name, digest in code.items()
        if digest is not None and names.code(seen.name, digest) not in kept
    ]
    candidate = names.candidate(seen.name)
    if candidate in found and not verdict.preflight:
        gone.append(candidate)
    return [Delete("ConfigMap", name, uid_of(seen.children["ConfigMap", name])) for name in gone]


def _network(seen: Observed, revision: Revision, settings: Settings) -> list[Action]:
    policies = network_policies(seen, revision, settings.network_policies)
    wanted = [name_of(policy) for policy in policies]
    gone: list[Action] = [
        Delete("NetworkPolicy", name, uid_of(seen.children["NetworkPolicy", name]))
        for name in policy_names(seen.name)
        if name not in wanted and ("NetworkPolicy", name) in seen.children
    ]
    service = names.service(seen.name)
    if ("Service", service) in seen.children and not services(seen, revision):
        gone.append(Delete("Service", service, uid_of(seen.children["Service", service])))
    return gone
