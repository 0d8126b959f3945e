"""The pods of driver, workers and preflight.

Who decides what, from the weakest to the strongest: Fulmen's defaults (security context, tolerated
outages), the user's `podTemplate`, the user's other fields (image, resources, env …), and what
Fulmen's guarantees rest on (names, commands, mounts, probes, how a pod ends).
"""

from typing import Any

from fulmen.kube import contract
from fulmen.topology.resource.pods import Pod
from fulmen.topology.resource.quantity import times
from fulmen_operator.acceptance.verdict import Accepted
from fulmen_operator.manifests.common import metadata, selector
from fulmen_operator.manifests.merge import merged
from fulmen_operator.model import (
    CODE_ANNOTATION,
    GENERATION_ANNOTATION,
    INPUT_ANNOTATION,
    UID_ANNOTATION,
    Manifest,
    Observed,
)

DRIVER_RESOURCES = {"cpu": "500m", "memory": "2Gi"}
PREFLIGHT_RESOURCES = {**DRIVER_RESOURCES, "cpu": "100m"}
"""It runs beside driver and workers, where a node may have little left."""
WORKER_RESOURCES = {"cpu": "500m", "memory": "1536Mi"}
CONTAINER_SECURITY: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
SIDECAR_SECURITY: Manifest = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
"""What namespaces ask for that enforce the level restricted, unless a sidecar says otherwise."""
OUTAGE_SECONDS = 30
"""How long a node may not answer before its driver is started elsewhere."""

SECRET_MODE = 0o440
"""For the user of the containers, by way of `fsGroup`."""
SECRET_VOLUME = "fulmen-auth"
CODE_VOLUME = "fulmen-code"
CHECKPOINT_VOLUME = "fulmen-checkpoint"
CANDIDATE_VOLUME = "fulmen-candidate"
TEMP_VOLUME = "fulmen-tmp"
WORK_VOLUME = "fulmen-work"


def service_account(topology: str, role: str, pod: Pod) -> str:
    """The ServiceAccount that driver or workers run as."""
    return pod.service_account_name or f"{topology}-{role}"


def secret_name(topology: str, attempt: int) -> str:
    """The Secret by which driver and workers of an attempt know each other."""
    return f"{topology}-auth-{attempt}"


def driver_pod(
    seen: Observed, accepted: Accepted, plan: contract.DriverPlan, attempt: int, policy: str
) -> Manifest:
    """The pod of the Spark driver. The Topology owns it: deleting the Topology deletes it.

    Args:
        seen: The topology.
        accepted: What the driver is to run.
        plan: The same as it was written down, which the driver reads.
        attempt: The number of the driver.
        policy: When to pull the operator's own image.
    """
    pod = accepted.topology.spec.driver
    annotations = {INPUT_ANNOTATION: accepted.hash, GENERATION_ANNOTATION: str(plan.generation)}
    meta = metadata(
        seen,
        contract.driver_pod_name(seen.name, attempt),
        contract.DRIVER,
        annotations=annotations | _code_annotation(accepted),
    )
    meta["labels"][contract.ATTEMPT_LABEL] = str(attempt)
    container = {
        **_container(contract.DRIVER_CONTAINER, plan.images.driver, pod, DRIVER_RESOURCES, policy),
        "args": [contract.DRIVER_COMMAND],
        "env": _env(pod, _own_env(seen, attempt)),
        "ports": [
            {"name": contract.METRICS_PORT_NAME, "containerPort": contract.METRICS_PORT},
            {"name": "spark", "containerPort": contract.SPARK_PORT},
            {"name": "blockmanager", "containerPort": contract.BLOCK_MANAGER_PORT},
        ],
        **_probes(),
        "volumeMounts": _mounts(accepted),
    }
    spec = {
        "serviceAccountName": service_account(seen.name, contract.DRIVER, pod),
        "automountServiceAccountToken": True,
        "terminationGracePeriodSeconds": accepted.topology.spec.message_timeout_seconds
        + contract.GRACE_SECONDS,
        "volumes": _volumes(accepted, secret_name(seen.name, attempt)),
        "containers": [container],
    }
    return _pod(meta, spec, pod, contract.DRIVER_CONTAINER)


def worker_pod(
    seen: Observed, accepted: Accepted, image: str, attempt: int, together: bool, policy: str
) -> Manifest:
    """What Spark makes each worker's pod from. It adds the name and the driver as the owner.

    Args:
        seen: The topology.
        accepted: What the workers are to run.
        image: The image.
        attempt: The number of their driver.
        together: Whether all pods must be on the driver's node.
        policy: When to pull the operator's own image.
    """
    topology = accepted.topology.spec
    pod = topology.worker
    uid = {UID_ANNOTATION: seen.topology["metadata"]["uid"]}
    meta = metadata(seen, f"{seen.name}-worker", contract.WORKER, annotations=uid, owned=False)
    container = {
        **_container(
            contract.WORKER_CONTAINER, image, pod, WORKER_RESOURCES, policy, topology.slots
        ),
        "args": [contract.EXECUTOR_COMMAND],
        "env": _env(pod, []),
        "volumeMounts": _mounts(accepted, contract.SPARK_VOLUME),
    }
    spec: Manifest = {
        "serviceAccountName": service_account(seen.name, contract.WORKER, pod),
        "automountServiceAccountToken": False,
        "volumes": [
            *_volumes(accepted, secret_name(seen.name, attempt)),
            {"name": contract.SPARK_VOLUME, "emptyDir": {"sizeLimit": "4Gi"}},
        ],
        "containers": [container],
    }
    if together:
        near = {
            "labelSelector": {"matchLabels": selector(seen.name, contract.DRIVER)},
            "topologyKey": "kubernetes.io/hostname",
        }
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [near]}
        spec["affinity"] = {"podAffinity": required}
    return of_attempt(_pod(meta, spec, pod, contract.WORKER_CONTAINER), seen.name, attempt)


def of_attempt(worker: Manifest, topology: str, attempt: int) -> Manifest:
    """The same worker pod for another driver: with its number and its secret."""
    meta, spec = worker["metadata"], worker["spec"]
    labels = {**meta["labels"], contract.ATTEMPT_LABEL: str(attempt)}
    auth = {"secretName": secret_name(topology, attempt), "defaultMode": SECRET_MODE}
    volumes = [
        {**volume, "secret": auth} if volume["name"] == SECRET_VOLUME else volume
        for volume in spec["volumes"]
    ]
    return {
        **worker,
        "metadata": {**meta, "labels": labels},
        "spec": {**spec, "volumes": volumes},
    }


def preflight_name(topology: str, input_hash: str) -> str:
    """The pod that validates a candidate with its own image and code."""
    return f"{topology}-preflight-{input_hash[:10]}"


def preflight_pod(
    seen: Observed, accepted: Accepted, images: contract.Images, policy: str
) -> Manifest:
    """The pod that validates a candidate with its own images and code, before it replaces anything.

    It runs as the workers do: the author's code is imported there, without a token. An image that
    only the workers have comes first, as an init container: so the pod needs no more than with one.
    """
    driver, worker = accepted.topology.spec.driver, accepted.topology.spec.worker
    meta = metadata(
        seen,
        preflight_name(seen.name, accepted.hash),
        contract.PREFLIGHT,
        annotations={INPUT_ANNOTATION: accepted.hash} | _code_annotation(accepted),
    )
    candidate = {"name": CANDIDATE_VOLUME, "configMap": {"name": f"{seen.name}-candidate"}}
    mounts = [_mount(TEMP_VOLUME, contract.TEMP_FOLDER), _mount(WORK_VOLUME, contract.WORK_FOLDER)]
    mounts.append(
        _mount(CANDIDATE_VOLUME, contract.CANDIDATE_FILE.rsplit("/", 1)[0], read_only=True)
    )
    if accepted.code_name:
        mounts.append(_mount(CODE_VOLUME, contract.CODE_FOLDER, read_only=True))

    def container(name: str, image: str, pod: Pod) -> Manifest:
        return {
            **_container(name, image, pod, PREFLIGHT_RESOURCES, policy),
            "args": [contract.PREFLIGHT_COMMAND],
            "env": _env(pod, _own_env(seen, 0)),
            "volumeMounts": mounts,
        }

    spec: Manifest = {
        "serviceAccountName": service_account(seen.name, contract.WORKER, worker),
        "automountServiceAccountToken": False,
        "volumes": [*_scratch(), *_code_volume(accepted), candidate],
        "containers": [container(contract.PREFLIGHT_CONTAINER, images.driver, driver)],
    }
    if images.worker != images.driver:
        as_big = worker.model_copy(update={"resources": driver.resources})
        first = container(contract.WORKER_PREFLIGHT_CONTAINER, images.worker, as_big)
        spec["initContainers"] = [{**first, "securityContext": CONTAINER_SECURITY}]
    secrets = {secret.name: secret for pod in (worker, driver) for secret in pod.image_pull_secrets}
    pod = driver.model_copy(update={"image_pull_secrets": list(secrets.values())})
    return _pod(meta, spec, pod, contract.PREFLIGHT_CONTAINER)


def with_template(pod: Pod, container: str) -> Manifest:
    """The pod as far as the user decides about it: Fulmen's defaults, and the template."""
    return _pod({}, {"containers": [{"name": container}]}, pod, container)


def _pod(meta: Manifest, forced: Manifest, pod: Pod, container: str) -> Manifest:
    """The whole pod, from the weakest to the strongest."""
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
    """Security contexts for the user's own containers. One that is privileged can have none."""
    own = {but, contract.DRIVER_CONTAINER, contract.WORKER_CONTAINER}
    return [
        {"name": entry["name"], "securityContext": SIDECAR_SECURITY}
        for entry in (template.get("spec") or {}).get(field) or ()
        if entry.get("name")
        and entry["name"] not in own
        and not (entry.get("securityContext") or {}).get("privileged")
    ]


_USERS_METADATA = ("labels", "annotations")


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


def _container(
    name: str, image: str, pod: Pod, defaults: dict[str, str], policy: str, slots: int = 1
) -> Manifest:
    """What the containers of all pods have in common. Resources are given for each slot."""
    made: Manifest = {
        "name": name,
        "image": image,
        "resources": _resources(pod, defaults, slots),
        "terminationMessagePath": contract.TERMINATION_FILE,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    pull = pod.image_pull_policy or (policy if pod.image is None else "")
    return made | ({"imagePullPolicy": pull} if pull else {})


def _resources(pod: Pod, defaults: dict[str, str], slots: int) -> Manifest:
    """Memory is set aside whole: a limit above the request would be a promise to be broken."""
    limits = {"memory": defaults["memory"], **pod.resources.limits}
    requests = {"cpu": limits.get("cpu", defaults["cpu"]), **pod.resources.requests}
    requests["memory"] = limits["memory"]
    return {
        kind: {name: times(quantity, slots) for name, quantity in amounts.items()}
        for kind, amounts in {"limits": limits, "requests": requests}.items()
    }


def _env(pod: Pod, own: list[Manifest]) -> list[Manifest]:
    """Fulmen's variables, then the user's, which may refer to them."""
    reserved = {variable["name"] for variable in own}
    users = (v.model_dump(mode="json", by_alias=True, exclude_none=True) for v in pod.env)
    return [*own, *(variable for variable in users if variable["name"] not in reserved)]


def _own_env(seen: Observed, attempt: int) -> list[Manifest]:
    plain = {
        contract.NAMESPACE_ENV: seen.namespace,
        contract.TOPOLOGY_ENV: seen.name,
        contract.UID_ENV: seen.topology["metadata"]["uid"],
        contract.ATTEMPT_ENV: str(attempt),
    }
    told = {contract.POD_NAME_ENV: "metadata.name", contract.POD_IP_ENV: "status.podIP"}
    return [
        *({"name": name, "value": value} for name, value in plain.items()),
        *(
            {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
            for name, path in told.items()
        ),
    ]


def _probes() -> Manifest:
    """The driver answers from its start on: a start that takes long is not a failure of its."""

    def ask(path: str, seconds: int, failures: int) -> Manifest:
        return {
            "httpGet": {"path": path, "port": contract.METRICS_PORT_NAME},
            "periodSeconds": seconds,
            "timeoutSeconds": 5,
            "failureThreshold": failures,
        }

    return {
        "startupProbe": ask(contract.HEALTH_PATH, 2, 60),
        "livenessProbe": ask(contract.HEALTH_PATH, 10, 6),
        "readinessProbe": ask(contract.READY_PATH, 2, 3),
    }


def _mount(volume: str, path: str, *, read_only: bool = False) -> Manifest:
    mount: Manifest = {"name": volume, "mountPath": path}
    return mount | ({"readOnly": True} if read_only else {})


def _mounts(accepted: Accepted, spark_volume: str = "") -> list[Manifest]:
    mounts = [
        _mount(TEMP_VOLUME, contract.TEMP_FOLDER),
        _mount(WORK_VOLUME, contract.WORK_FOLDER),
    ]
    if spark_volume:
        mounts.append(_mount(spark_volume, contract.SPARK_FOLDER))
    mounts.append(_mount(SECRET_VOLUME, contract.SECRET_FILE.rsplit("/", 1)[0], read_only=True))
    if accepted.code_name:
        mounts.append(_mount(CODE_VOLUME, contract.CODE_FOLDER, read_only=True))
    if accepted.claim:
        mounts.append(_mount(CHECKPOINT_VOLUME, contract.CHECKPOINT_FOLDER))
    return mounts


def _scratch() -> list[Manifest]:
    return [
        {"name": TEMP_VOLUME, "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": WORK_VOLUME, "emptyDir": {"sizeLimit": "4Gi"}},
    ]


def _volumes(accepted: Accepted, secret: str) -> list[Manifest]:
    volumes = _scratch()
    auth = {"secretName": secret, "defaultMode": SECRET_MODE}
    volumes.append({"name": SECRET_VOLUME, "secret": auth})
    volumes += _code_volume(accepted)
    if accepted.claim:
        claim = {"claimName": accepted.claim}
        volumes.append({"name": CHECKPOINT_VOLUME, "persistentVolumeClaim": claim})
    return volumes


def _code_volume(accepted: Accepted) -> list[Manifest]:
    if not accepted.code_name:
        return []
    return [{"name": CODE_VOLUME, "configMap": {"name": accepted.code_name}}]


def _code_annotation(accepted: Accepted) -> dict[str, str]:
    return {CODE_ANNOTATION: accepted.code_name} if accepted.code_name else {}
