"""A pod as the user's `podTemplate` and Fulmen together make it.

Who decides what, from the weakest to the strongest: Fulmen's defaults (security context, tolerated
outages), the user's `podTemplate`, the user's other fields (image, resources, env …), and what
Fulmen's guarantees rest on (names, commands, mounts, probes, how a pod ends).
"""

from typing import Any, Final

from fulmen.kube import contract
from fulmen.topology.resource.spec.pods import Pod
from fulmen_operator.manifests.merge import merged
from fulmen_operator.model import Manifest

CONTAINER_SECURITY: Final[Manifest] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
SIDECAR_SECURITY: Final[Manifest] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
"""The security that namespaces of the level restricted require, unless a sidecar has its own."""
LAST_WORDS: Final[Manifest] = {"terminationMessagePolicy": "FallbackToLogsOnError"}
"""The end of a failed container's log is told, if it has left no message."""
OUTAGE_SECONDS: Final = 30
"""Seconds for which a node may not answer before its driver is started elsewhere."""
_USERS_METADATA: Final = ("labels", "annotations")


def with_template(pod: Pod, container: str) -> Manifest:
    """The pod as far as the user decides about it: Fulmen's defaults, and the template."""
    return whole_pod({}, {"containers": [{"name": container}]}, pod, container)


def whole_pod(meta: Manifest, forced: Manifest, pod: Pod, container: str) -> Manifest:
    """Merge a whole pod, from the weakest to the strongest part.

    Args:
        meta: Metadata that Fulmen needs.
        forced: The parts of the pod's spec that Fulmen needs.
        pod: The user's part.
        container: The name of Fulmen's own container.
    """
    template = dict(pod.pod_template)
    defaults = {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": contract.USER_ID,
            "runAsGroup": 0,
            "fsGroup": contract.USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{trouble}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": OUTAGE_SECONDS,
            }
            for trouble in ("not-ready", "unreachable")
        ],
        "enableServiceLinks": False,
        "containers": [
            {"name": container, "securityContext": CONTAINER_SECURITY},
            *_sidecars(template, "containers", but=container),
        ],
    }
    if firsts := _sidecars(template, "initContainers"):
        defaults["initContainers"] = firsts
    fixed: Manifest = {"restartPolicy": "Never"}
    if pod.image_pull_secrets:
        fixed["imagePullSecrets"] = [{"name": secret.name} for secret in pod.image_pull_secrets]
    spec = merged(merged(defaults, _template_spec(template, container)), forced | fixed)
    user_meta = {k: v for k, v in (template.get("metadata") or {}).items() if k in _USERS_METADATA}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": merged(user_meta, meta),
        "spec": spec,
    }


def _sidecars(template: dict[str, Any], field: str, but: str = "") -> list[Manifest]:
    """Defaults of the user's own containers. A privileged one can't be restricted."""
    own = {but, contract.DRIVER_CONTAINER, contract.WORKER_CONTAINER}
    return [
        {"name": entry["name"], **LAST_WORDS}
        | (
            {}
            if (entry.get("securityContext") or {}).get("privileged")
            else {"securityContext": SIDECAR_SECURITY}
        )
        for entry in (template.get("spec") or {}).get(field) or ()
        if entry.get("name") and entry["name"] not in own
    ]


def _template_spec(template: dict[str, Any], container: str) -> Manifest:
    """The user's pod spec. In a preflight its driver's container means the preflight's."""
    spec = dict(template.get("spec") or {})
    if container == contract.PREFLIGHT_CONTAINER:
        spec["containers"] = [
            {**entry, "name": container}
            for entry in spec.get("containers") or []
            if entry.get("name") == contract.DRIVER_CONTAINER
        ]
    return spec
