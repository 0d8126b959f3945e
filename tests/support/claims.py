"""Checkpoints on claims, read on this machine when no driver has them any more."""

from support import cluster_images
from support.spark_topologies import Committed

READER = "reader"


def committed(kube, claim, folder):
    """What the newest commit on a claim says.

    Args:
        kube: Where the claim is.
        claim: Its name.
        folder: Where it is copied to; not there yet.
    """
    kube.apply(reader(claim))
    try:
        kube.wait("pod", READER, lambda pod: pod["status"]["phase"] == "Running", 60, "running")
        kube.copy(READER, "/checkpoint", folder)
    finally:
        kube.delete("pod", READER)
    return Committed(folder.as_uri())


def reader(claim):
    """A pod that does nothing but have the claim mounted."""
    container = {
        "name": READER,
        "image": cluster_images.RUNTIME,
        "command": ["sleep", "600"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "checkpoint", "mountPath": "/checkpoint", "readOnly": True}],
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 185,
            "runAsGroup": 0,
            "fsGroup": 185,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "checkpoint", "persistentVolumeClaim": {"claimName": claim}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": READER}, "spec": spec}
