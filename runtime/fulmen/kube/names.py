"""The names of all objects that belong to a topology. Pure.

Objects on clusters have these names: with other names, an upgrade would leave objects behind, or
restart a driver because it finds none.
"""

import re
from typing import Final

_CODE: Final = "code"
_PODS: Final = {
    "driver": "-driver-(?P<attempt>[0-9]+)",
    "worker": "-(?P<attempt>[0-9]+)-exec-[0-9]+",
    "preflight": "-preflight-[0-9a-z]+",
}
"""Patterns of the ends of pods' names, by role. Spark names workers."""


def revision(topology: str) -> str:
    """The ConfigMap with what was accepted last, which the driver reads and watches."""
    return f"{topology}-revision"


def code(topology: str, digest: str) -> str:
    """The ConfigMap for code of that digest."""
    return f"{topology}-{_CODE}-{digest}"


def code_maps(code: str, parts: int) -> list[str]:
    """The ConfigMaps for code of that name: one, or if it has parts one for each."""
    return [f"{code}-{number}" for number in range(1, parts + 1)] or [code]


def code_digest(topology: str, config_map: str) -> str | None:
    """The digest in the name of a ConfigMap for code; None for any other ConfigMap."""
    start = code(topology, "")
    if not config_map.startswith(start):
        return None
    return config_map[len(start) :].partition("-")[0]  # a part's number is behind it


def candidate(topology: str) -> str:
    """The ConfigMap with what a preflight validates."""
    return f"{topology}-candidate"


def auth_secret(topology: str, attempt: int) -> str:
    """The Secret by which driver and workers of an attempt know each other."""
    return f"{topology}-auth-{attempt}"


def claim(topology: str) -> str:
    """The claim that is made for a topology that names none."""
    return f"{topology}-checkpoint"


def network_policy(topology: str) -> str:
    """The NetworkPolicy of a topology's pods."""
    return topology


def driver_network_policy(topology: str) -> str:
    """The NetworkPolicy of the driver alone. No topology is called so: names have no dots."""
    return f"{topology}.driver"


def clients_network_policy(topology: str) -> str:
    """The NetworkPolicy of those who may call the driver."""
    return f"{topology}.clients"


def service(topology: str) -> str:
    """The Service that leads to the driver."""
    return topology


def service_account(topology: str, component: str) -> str:
    """The ServiceAccount that is made for the driver, or for the workers."""
    return f"{topology}-{component}"


def driver_role(topology: str) -> str:
    """The Role of the driver, and its RoleBinding."""
    return f"{topology}-driver"


def driver_pod(topology: str, attempt: int) -> str:
    """The pod of the driver."""
    return f"{topology}-driver-{attempt}"


def worker_template(topology: str) -> str:
    """The name of the template of workers' pods; Spark names the pods."""
    return f"{topology}-worker"


def worker_probe(topology: str) -> str:
    """A worker's pod that is never made: the API server only says whether it would be."""
    return f"{topology}-worker-probe"


def preflight_pod(topology: str, trial: str) -> str:
    """The pod that validates a candidate with its own image and code."""
    return f"{topology}-preflight-{trial[:10]}"


def role_of_pod(topology: str, pod: str) -> tuple[str, str]:
    """A pod's role by its name, and its attempt; empty: not known."""
    for role, pattern in _PODS.items():
        if found := re.fullmatch(re.escape(topology) + pattern, pod):
            return role, found["attempt"] if "attempt" in found.groupdict() else ""
    return "", ""


def for_dry_run(name: str) -> str:
    """The name of a pod in a dry run. It can't be taken: an existing pod would hide mistakes."""
    return f"{name}-trial"


def app_id(topology: str, attempt: int) -> str:
    """Spark's id of the application, and what the names of worker pods begin with."""
    return f"{topology}-{attempt}"
