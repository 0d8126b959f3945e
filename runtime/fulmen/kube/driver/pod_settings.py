"""The settings of Spark for workers that are pods. Pure.

Fulmen decides where the workers are, what they may use, and how they are told apart; the user's own
settings come on top of all else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fulmen.kube import names
from fulmen.kube.contract import (
    ATTEMPT_ENV,
    BLOCK_MANAGER_PORT,
    DRIVER_CONTAINER,
    NAMESPACE_ENV,
    POD_IP_ENV,
    POD_NAME_ENV,
    SECRET_FILE,
    SPARK_FOLDER,
    SPARK_PORT,
    TOPOLOGY_ENV,
    UID_ENV,
    WORK_FOLDER,
    WORKER_CONTAINER,
)
from fulmen.topology.resource.quantity import mebibytes
from fulmen.topology.resource.spec.pods import LEAST_MEBIBYTES

TEMPLATE_FILE = f"{WORK_FOLDER}/worker-pod.json"
HEAP_SHARE = 0.4
"""The heap's share of a container's memory limit. The rest is for Python and other JVM memory."""
RESERVED_MEBIBYTES = 100


@dataclass(frozen=True)
class Surroundings:
    """A driver's pod as its environment describes it.

    Attributes:
        namespace: The driver's namespace.
        topology: The name of its Topology.
        uid: The UID of its Topology.
        attempt: The number of this start.
        pod_name: The name of the driver's pod.
        pod_ip: The address of the driver's pod.
    """

    namespace: str
    topology: str
    uid: str
    attempt: int
    pod_name: str
    pod_ip: str

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Surroundings:
        """Read the environment. KeyError names a missing variable."""
        return cls(
            namespace=environ[NAMESPACE_ENV],
            topology=environ[TOPOLOGY_ENV],
            uid=environ[UID_ENV],
            attempt=int(environ[ATTEMPT_ENV]),
            pod_name=environ[POD_NAME_ENV],
            pod_ip=environ[POD_IP_ENV],
        )

    @property
    def app_id(self) -> str:
        """Spark's id of this attempt."""
        return names.app_id(self.topology, self.attempt)


def pod_settings(
    where: Surroundings,
    api_url: str,
    worker_image: str,
    worker_pod: Mapping[str, Any],
    driver_pod: Mapping[str, Any],
) -> dict[str, str]:
    """All Spark settings about pods.

    Args:
        where: The driver's pod.
        api_url: The address of the API server.
        worker_image: The image of worker pods.
        worker_pod: The template of worker pods.
        driver_pod: The manifest of the driver's pod.
    """
    container = container_of(worker_pod, WORKER_CONTAINER)
    host = f"[{where.pod_ip}]" if ":" in where.pod_ip else where.pod_ip
    settings = {
        "spark.master": f"k8s://{api_url}",
        "spark.app.name": where.topology,
        "spark.app.id": where.app_id,
        "spark.driver.bindAddress": host,
        "spark.driver.host": host,
        "spark.driver.port": str(SPARK_PORT),
        "spark.driver.blockManager.port": str(BLOCK_MANAGER_PORT),
        "spark.blockManager.port": str(BLOCK_MANAGER_PORT),
        "spark.driver.memory": _heap(limit(driver_pod, DRIVER_CONTAINER) or LEAST_MEBIBYTES),
        "spark.local.dir": SPARK_FOLDER,
        # Paths of sockets may have 108 characters.
        "spark.python.unix.domain.socket.dir": WORK_FOLDER,
        "spark.kubernetes.namespace": where.namespace,
        "spark.kubernetes.driver.pod.name": where.pod_name,
        "spark.kubernetes.executor.podNamePrefix": where.app_id,
        "spark.kubernetes.executor.podTemplateFile": TEMPLATE_FILE,
        "spark.kubernetes.executor.podTemplateContainerName": WORKER_CONTAINER,
        "spark.kubernetes.executor.container.image": worker_image,
        "spark.ui.killEnabled": "false",
        # SparkContext need not wait for all workers: a start needs one.
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "1s",
    }
    if policy := container.get("imagePullPolicy"):
        settings["spark.kubernetes.container.image.pullPolicy"] = policy
    return settings | _RIGHTS | _ENCRYPTION | _LOSSES | _resources(worker_pod)


def single_pod_settings(where: Surroundings, driver_pod: Mapping[str, Any]) -> dict[str, str]:
    """The settings for workers in the driver's own pod and JVM."""
    total = limit(driver_pod, DRIVER_CONTAINER) or LEAST_MEBIBYTES
    return {
        "spark.app.name": where.topology,
        "spark.driver.memory": _heap(total),
        # Spark sets 300 MiB of the heap aside, and wants half as much again. Batches need less.
        "spark.testing.reservedMemory": str(RESERVED_MEBIBYTES << 20),
    }


_RIGHTS = {
    # What would need rights beyond pods: the driver's Role has none.
    "spark.kubernetes.executor.disableConfigMap": "true",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
}

_ENCRYPTION = {
    # By file: otherwise Spark puts the secret into every worker's environment.
    "spark.authenticate": "true",
    "spark.authenticate.secret.file": SECRET_FILE,
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.io.encryption.enabled": "true",
}


_LOSSES = {"spark.executor.failuresValidityInterval": "10m"}  # that many minutes are "lately"


def _resources(worker_pod: Mapping[str, Any]) -> dict[str, str]:
    total = limit(worker_pod, WORKER_CONTAINER) or LEAST_MEBIBYTES
    heap = int(total * HEAP_SHARE)
    resources = container_of(worker_pod, WORKER_CONTAINER).get("resources", {})
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    settings = {
        "spark.executor.memory": f"{heap}m",
        "spark.executor.memoryOverhead": f"{total - heap}m",
        "spark.kubernetes.executor.request.cores": str(
            requests.get("cpu") or limits.get("cpu") or "1"
        ),
    }
    if "cpu" in limits:
        settings["spark.kubernetes.executor.limit.cores"] = str(limits["cpu"])
    return settings


def _heap(total: int) -> str:
    return f"{int(total * HEAP_SHARE)}m"


def container_of(pod: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The container of that name; an empty one if there is none."""
    containers = pod.get("spec", {}).get("containers", [])
    found: Mapping[str, Any] = next((c for c in containers if c.get("name") == name), {})
    return found


def limit(pod: Mapping[str, Any], container: str) -> int | None:
    """The memory limit of a container, in MiB."""
    memory = container_of(pod, container).get("resources", {}).get("limits", {}).get("memory")
    return None if memory is None else mebibytes(memory)
