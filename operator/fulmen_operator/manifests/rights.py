"""Who driver and workers are, and what the driver may do."""

from fulmen.kube import contract
from fulmen.topology.pods import Pod
from fulmen_operator.acceptance import Accepted
from fulmen_operator.manifests.common import metadata
from fulmen_operator.manifests.pods import service_account
from fulmen_operator.model import Manifest, Observed

DRIVER_RULES = [
    {  # Spark makes workers, watches and deletes them; the driver labels them and reports.
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["get", "list", "watch", "create", "delete", "deletecollection", "patch"],
    },
]


def rights(seen: Observed, accepted: Accepted) -> list[Manifest]:
    """ServiceAccounts that the user has not named, and the driver's Role with its binding."""
    driver = service_account(seen.name, contract.DRIVER, accepted.topology.spec.driver)
    return [
        *_accounts(seen, contract.DRIVER, accepted.topology.spec.driver),
        *_accounts(seen, contract.WORKER, accepted.topology.spec.worker),
        _role(seen),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata(seen, f"{seen.name}-driver"),
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": f"{seen.name}-driver",
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": driver, "namespace": seen.namespace},
            ],
        },
    ]


def _accounts(seen: Observed, role: str, pod: Pod) -> list[Manifest]:
    if pod.service_account_name:
        return []
    account: Manifest = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(seen, f"{seen.name}-{role}"),
        "automountServiceAccountToken": False,
    }
    return [account]


def _role(seen: Observed) -> Manifest:
    plan = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [contract.plan_name(seen.name)],
        "verbs": ["get", "watch"],
    }
    own = {
        "apiGroups": [contract.GROUP],
        "resources": [contract.PLURAL],
        "resourceNames": [seen.name],
        "verbs": ["get"],
    }
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata(seen, f"{seen.name}-driver"),
        "rules": [*DRIVER_RULES, plan, own],
    }
