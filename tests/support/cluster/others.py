"""Objects of others, of each kind that a topology has."""

RBAC = "rbac.authorization.k8s.io"
CONTAINER = {
    "name": "theirs",
    "image": "nowhere.invalid/theirs:1",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
CONTENT = {
    "ServiceAccount": {"apiVersion": "v1"},
    "Role": {"apiVersion": f"{RBAC}/v1", "rules": []},
    "RoleBinding": {
        "apiVersion": f"{RBAC}/v1",
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "theirs"},
        "subjects": [{"kind": "ServiceAccount", "name": "theirs"}],
    },
    "NetworkPolicy": {
        "apiVersion": "networking.k8s.io/v1",
        "spec": {"podSelector": {"matchLabels": {"app": "theirs"}}},
    },
    "Service": {"apiVersion": "v1", "spec": {"ports": [{"port": 80}]}},
    "PersistentVolumeClaim": {
        "apiVersion": "v1",
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    },
    "ConfigMap": {"apiVersion": "v1", "data": {"theirs": "yes"}},
    "Pod": {  # which never runs
        "apiVersion": "v1",
        "spec": {
            "schedulingGates": [{"name": "example.com/never"}],
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [CONTAINER],
        },
    },
    "Secret": {"apiVersion": "v1", "data": {"theirs": "eWVz"}},
}


def theirs(kind, name, **metadata):
    """An object of that kind and name."""
    return {**CONTENT[kind], "kind": kind, "metadata": {"name": name, **metadata}}


def left(kube, kind, name):
    """What only its maker may change of an object; its uid; whether it is being deleted."""
    found = kube.get(kind.lower(), name)
    fields = ("uid", "labels", "ownerReferences", "deletionTimestamp")
    kept = {field: found["metadata"].get(field) for field in fields}
    content = {field: found.get(field) for field in ("data", "rules", "roleRef", "subjects")}
    spec = found.get("spec") or {}
    return kept, content, spec.get("schedulingGates"), spec.get("podSelector")
