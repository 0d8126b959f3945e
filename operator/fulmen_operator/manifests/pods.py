"""The pods of driver, workers and preflight.

What the user may change of them, `pod_template` says.
"""

from fulmen.kube import contract, names
from fulmen.kube.contract.revisions import Revision
from fulmen.topology.resource.spec import TopologySpec
from fulmen.topology.resource.spec.pods import LEAST_MEBIBYTES, Pod
from fulmen_operator.manifests import volumes
from fulmen_operator.manifests.common import lasting, metadata, selector
from fulmen_operator.manifests.containers import container_of, env_of, own_env, state_server
from fulmen_operator.manifests.merge import merged
from fulmen_operator.manifests.pod_template import CONTAINER_SECURITY, whole_pod
from fulmen_operator.manifests.storage import access_modes, claim_named
from fulmen_operator.model import (
    CODE_ANNOTATION,
    GENERATION_ANNOTATION,
    INPUT_ANNOTATION,
    UID_ANNOTATION,
    Manifest,
    Observed,
    phase_of,
)

DRIVER_RESOURCES = {"cpu": "400m", "memory": f"{LEAST_MEBIBYTES}Mi"}
WORKER_RESOURCES = {"cpu": "300m", "memory": f"{LEAST_MEBIBYTES}Mi"}
"""The CPU that a word count of 1,000 sentences/s takes, and twice the memory that it takes under
full load."""
SINGLE_MEBIBYTES = 704
"""The MiB of a pod that driver and workers share, with one worker."""
EACH_MEBIBYTES = 192
"""More for each other worker."""
PREFLIGHT_CPU = "100m"
JVM_MEBIBYTES = 320
"""The least MiB of a pod for its JVM: a preflight has none."""


def driver_resources(spec: TopologySpec) -> dict[str, str]:
    """The default resources of the driver's container."""
    if not spec.is_single_pod:
        return DRIVER_RESOURCES
    memory = SINGLE_MEBIBYTES + EACH_MEBIBYTES * (spec.slots - 1)
    return {"cpu": f"{100 * spec.slots}m", "memory": f"{memory}Mi"}


def preflight_resources(spec: TopologySpec) -> dict[str, str]:
    """The default resources of a preflight: little.

    It runs beside driver and workers, where a node may have little left. It is one Python process,
    whatever the number of slots. With the memory of the driver's pod, it would find no room on a
    full node, not even for a change that makes pods smaller.
    """
    memory = SINGLE_MEBIBYTES if spec.is_single_pod else LEAST_MEBIBYTES
    return {"cpu": PREFLIGHT_CPU, "memory": f"{memory - JVM_MEBIBYTES}Mi"}


def service_account(topology: str, role: str, pod: Pod) -> str:
    """The ServiceAccount that driver or workers run as."""
    return pod.service_account_name or names.service_account(topology, role)


def driver_pod(seen: Observed, revision: Revision, attempt: int, policy: str) -> Manifest:
    """The pod of the Spark driver. The Topology owns it: deleting the Topology deletes it.

    Args:
        seen: The topology.
        revision: The revision for the driver to run.
        attempt: The number of the driver.
        policy: When to pull the operator's own image.
    """
    spec = revision.running.spec
    annotations = {
        INPUT_ANNOTATION: revision.input_hash,
        GENERATION_ANNOTATION: str(revision.generation),
    }
    meta = metadata(
        seen,
        names.driver_pod(seen.name, attempt),
        contract.DRIVER,
        annotations=annotations | _code_annotation(revision),
    )
    image, resources = revision.images.driver, driver_resources(spec)
    container = {
        **container_of(contract.DRIVER_CONTAINER, image, spec.driver, resources, policy),
        "args": [contract.DRIVER_COMMAND],
        "env": env_of(revision, spec.driver, own_env(seen, attempt)),
        "ports": [
            {"name": contract.METRICS_PORT_NAME, "containerPort": contract.METRICS_PORT},
            {"name": "spark", "containerPort": contract.SPARK_PORT},
            {"name": "blockmanager", "containerPort": contract.BLOCK_MANAGER_PORT},
        ],
        **_probes(spec),
        "volumeMounts": volumes.mounts(revision),
    }
    firsts = state_server(seen, revision, attempt, policy)
    forced = {
        **({"initContainers": firsts} if firsts else {}),
        "automountServiceAccountToken": True,
        "terminationGracePeriodSeconds": spec.message_timeout_seconds + contract.GRACE_SECONDS,
        "volumes": volumes.of_pod(revision, seen.name, attempt),
    }
    return _pod_of_attempt(attempt, meta, forced, container, spec.driver)


def worker_pod(
    seen: Observed, revision: Revision, attempt: int, together: bool, policy: str
) -> Manifest:
    """Spark's template for each worker's pod. Spark adds the name and the driver as the owner.

    Args:
        seen: The topology.
        revision: The revision for the workers to run.
        attempt: The number of their driver.
        together: Whether all pods must be on the driver's node.
        policy: When to pull the operator's own image.
    """
    spec, image = revision.running.spec, revision.images.worker
    uid = {UID_ANNOTATION: seen.uid}
    meta = lasting(seen, names.worker_template(seen.name), contract.WORKER, uid)
    container = {
        **container_of(
            contract.WORKER_CONTAINER, image, spec.worker, WORKER_RESOURCES, policy, spec.slots
        ),
        "args": [contract.EXECUTOR_COMMAND],
        "env": env_of(revision, spec.worker, []),
        "volumeMounts": volumes.mounts(revision, contract.SPARK_VOLUME),
    }
    forced: Manifest = {
        "automountServiceAccountToken": False,
        "volumes": [
            *volumes.of_pod(revision, seen.name, attempt),
            {"name": contract.SPARK_VOLUME, "emptyDir": {"sizeLimit": "4Gi"}},
        ],
    }
    if together:
        forced |= _near_driver(seen)
    return _pod_of_attempt(attempt, meta, forced, container, spec.worker)


def _near_driver(seen: Observed) -> Manifest:
    """On the driver's node."""
    near = {
        "labelSelector": {"matchLabels": selector(seen.name, contract.DRIVER)},
        "topologyKey": "kubernetes.io/hostname",
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [near]}
    return {"affinity": {"podAffinity": required}}


def _pod_of_attempt(
    attempt: int, meta: Manifest, forced: Manifest, container: Manifest, pod: Pod
) -> Manifest:
    """The pod of a driver or a worker. Its component is in its labels."""
    labels = {**meta["labels"], contract.ATTEMPT_LABEL: str(attempt)}
    account = service_account(
        labels[contract.TOPOLOGY_LABEL], labels[contract.COMPONENT_LABEL], pod
    )
    forced = {"serviceAccountName": account, **forced, "containers": [container]}
    return whole_pod({**meta, "labels": labels}, forced, pod, container["name"])


def preflight_pod(
    seen: Observed, revision: Revision, policy: str, *, reads_claim: bool = True
) -> Manifest:
    """The pod that validates a candidate with its own images and code, before it replaces anything.

    It runs as the workers do: the author's code is imported there, without a token. An image that
    only the workers have comes first, as an init container: so the pod needs no more than with one.
    If instances are opened, what workers host is opened there, with the workers' environment,
    resources and volumes, but without the init containers of their template. What fetches code from
    a store gets their environment and volumes too, which may have the credentials.

    It reads the checkpoint, to see that the new code can. A claim that pods of one node alone can
    mount is where the driver is: the preflight has to find room there.

    Args:
        seen: The topology.
        revision: The candidate.
        policy: When to pull the operator's own image.
        reads_claim: Whether the checkpoint is read if it is on a claim.
    """
    topology, images = revision.running.spec, revision.images
    opens = topology.preflight == "Open"
    driver, worker = topology.driver, topology.worker
    meta = metadata(
        seen,
        names.preflight_pod(seen.name, revision.trial),
        contract.PREFLIGHT,
        annotations={INPUT_ANNOTATION: revision.input_hash} | _code_annotation(revision),
    )
    claim = revision.mounts.claim
    modes = access_modes(claim_named(seen, claim)) if claim and reads_claim else ()
    is_shared = "ReadWriteMany" in modes
    is_near = "ReadWriteOnce" in modes and not is_shared and _has_driver(seen)
    claim = claim if is_shared or is_near else ""
    mounts = volumes.preflight_mounts(revision, claim)
    resources = preflight_resources(topology)

    def container(name: str, image: str, pod: Pod, host: str) -> Manifest:
        return {
            **container_of(name, image, pod, resources, policy),
            "args": [contract.PREFLIGHT_COMMAND, *([host] if opens else [])],
            "env": env_of(revision, pod, own_env(seen, 0)),
            "volumeMounts": mounts,
        }

    last = container(contract.PREFLIGHT_CONTAINER, images.driver, driver, contract.DRIVER)
    spec: Manifest = {
        "serviceAccountName": service_account(seen.name, contract.WORKER, worker),
        "automountServiceAccountToken": False,
        "volumes": volumes.of_preflight(revision, seen.name, claim),
        "containers": [last],
        **(_near_driver(seen) if is_near else {}),
    }
    if opens or images.worker != images.driver:
        as_big = worker if opens else worker.model_copy(update={"resources": driver.resources})
        name = contract.WORKER_PREFLIGHT_CONTAINER
        first = container(name, images.worker, as_big, contract.WORKER)
        spec["initContainers"] = [{**first, "securityContext": CONTAINER_SECURITY}]
    if "initContainers" in spec and (opens or revision.mounts.code_uri):
        spec = merged(_mounted_by(worker), spec)
    return whole_pod(meta, spec, _pulling_both(driver, worker), contract.PREFLIGHT_CONTAINER)


def _has_driver(seen: Observed) -> bool:
    """Whether a driver is on a node: who waits for one that never is would hold up its cure."""
    return any(phase_of(pod) == "Running" for pod in seen.pods_of(contract.DRIVER))


def _pulling_both(driver: Pod, worker: Pod) -> Pod:
    """The driver's pod, which may pull the workers' image as well."""
    secrets = {secret.name: secret for pod in (worker, driver) for secret in pod.image_pull_secrets}
    return driver.model_copy(update={"image_pull_secrets": list(secrets.values())})


_OF_PREFLIGHT = ("volumeMounts", "envFrom")
"""The fields of the workers' container template that a preflight that opens needs too."""


def _mounted_by(worker: Pod) -> Manifest:
    """The parts of the workers' template that a preflight needs to open workers' components."""
    template = worker.pod_template.get("spec") or {}
    declared = template.get("volumes") or ()
    # the driver's template may have another volume of that name
    names_of = [v.get("name", "") for v in declared]
    own = {name: f"worker-{name}"[:63].rstrip("-") for name in names_of}
    given = []
    for entry in template.get("containers") or ():
        if entry.get("name") == contract.WORKER_CONTAINER:
            mounts = entry.get("volumeMounts") or ()
            fields = {"volumeMounts": [{**m, "name": own.get(m.get("name"), "")} for m in mounts]}
            given.append({k: v for k, v in {**entry, **fields}.items() if k in _OF_PREFLIGHT})
    return {
        "volumes": [{**v, "name": own[name]} for v, name in zip(declared, names_of, strict=True)],
        "initContainers": [
            {"name": contract.WORKER_PREFLIGHT_CONTAINER, **fields} for fields in given
        ],
    }


def _probes(spec: TopologySpec) -> Manifest:
    """The probes of the driver, which answers from its start on, if its node gives it a processor.

    A driver killed for lack of processor time would begin anew, and keep the node busy. So it has
    as long as its topology says, to start and to answer again.
    """

    def ask(path: str, every: int, seconds: int) -> Manifest:
        return {
            "httpGet": {"path": path, "port": contract.METRICS_PORT_NAME},
            "periodSeconds": every,
            "timeoutSeconds": 5,
            "failureThreshold": -(-seconds // every),
        }

    return {
        "startupProbe": ask(contract.HEALTH_PATH, 2, max(120, spec.start_timeout_seconds)),
        "livenessProbe": ask(contract.HEALTH_PATH, 10, max(60, spec.start_timeout_seconds)),
        "readinessProbe": ask(contract.READY_PATH, 2, 6),
    }


def _code_annotation(revision: Revision) -> dict[str, str]:
    return {CODE_ANNOTATION: revision.mounts.code} if revision.mounts.code else {}
