"""Accounts of driver and workers, and the driver's rights."""

from collections.abc import Sequence
from typing import Final

from fulmen.kube import contract, names
from fulmen.kube.contract.revisions import Revision
from fulmen_operator.manifests.common import metadata
from fulmen_operator.manifests.pods import service_account
from fulmen_operator.model import Manifest, Observed, phase_of

OF_WORKERS: Final = ("list", "watch", "create", "delete", "deletecollection")
"""Spark's rights on workers' pods, if there are any."""


def driver_role(topology: str, of_workers: Sequence[str] = OF_WORKERS) -> list[Manifest]:
    """The rights of a topology's driver. It labels workers' pods, and reports in its own."""
    return [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", *of_workers, "patch"]},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [names.revision(topology)],
            "verbs": ["get", "watch"],
        },
        {
            "apiGroups": [contract.GROUP],
            "resources": [contract.PLURAL],
            "resourceNames": [topology],
            "verbs": ["get"],
        },
    ]


def rights(seen: Observed, revision: Revision) -> list[Manifest]:
    """The ServiceAccounts of driver and workers, and the driver's Role with its binding.

    The accounts are made even if the user names others: a change that goes back to them is tried
    before it is accepted.
    """
    return [
        _account(seen, contract.DRIVER),
        _account(seen, contract.WORKER),
        _role(seen, revision),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata(seen, names.driver_role(seen.name)),
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": names.driver_role(seen.name),
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": name, "namespace": seen.namespace}
                for name in _drivers(seen, revision)
            ],
        },
    ]


def _drivers(seen: Observed, revision: Revision) -> list[str]:
    """The accounts of the driver to come, and of one that still has to drain."""
    wanted = service_account(seen.name, contract.DRIVER, revision.running.spec.driver)
    running = {
        str(pod["spec"]["serviceAccountName"])
        for pod in seen.pods_of(contract.DRIVER)
        if phase_of(pod) not in ("Succeeded", "Failed")
    }
    return sorted(running | {wanted})


def _account(seen: Observed, role: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(seen, names.service_account(seen.name, role)),
        "automountServiceAccountToken": False,
    }


def _role(seen: Observed, revision: Revision) -> Manifest:
    """The rights of the next driver, and of one that still has workers' pods to end."""
    with_workers = seen.pods_of(contract.WORKER) or not revision.running.spec.is_single_pod
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata(seen, names.driver_role(seen.name)),
        "rules": driver_role(seen.name, OF_WORKERS if with_workers else ()),
    }
