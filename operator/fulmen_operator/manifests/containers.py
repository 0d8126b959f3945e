"""The parts that the containers of all pods share, and the container that shows state."""

from fulmen.kube import contract
from fulmen.kube.contract.revisions import Mounts, Revision
from fulmen.topology.resource.quantity import times
from fulmen.topology.resource.spec.pods import Pod, Resources
from fulmen_operator.manifests import volumes
from fulmen_operator.manifests.pod_template import CONTAINER_SECURITY, LAST_WORDS
from fulmen_operator.model import Manifest, Observed

STATE_RESOURCES = {"cpu": "50m", "memory": "256Mi"}
"""Of a container that shows state. The memory is twice what one takes for 100,000 keys."""


def container_of(
    name: str, image: str, pod: Pod, defaults: dict[str, str], policy: str, slots: int = 1
) -> Manifest:
    """The parts that the containers of all pods share. Resources are given for each slot."""
    made: Manifest = {
        "name": name,
        "image": image,
        "resources": _resources(pod, defaults, slots),
        "terminationMessagePath": contract.TERMINATION_FILE,
        **LAST_WORDS,
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


def env_of(revision: Revision, pod: Pod, own: list[Manifest]) -> list[Manifest]:
    """Fulmen's variables, then the user's, which may refer to them; of equal names the pod's."""
    wanted = {variable.name: variable for variable in (*revision.running.spec.env, *pod.env)}
    users = (v.model_dump(mode="json", by_alias=True, exclude_none=True) for v in wanted.values())
    on_disk = revision.running.spec.is_on_disk
    of_state = {"name": contract.STATE_FOLDER_ENV, "value": contract.STATE_FOLDER}
    return [*own, *_code_env(revision.mounts), *([of_state] if on_disk else []), *users]


def _code_env(mounts: Mounts) -> list[Manifest]:
    """Environment variables with the place of code in a store."""
    told = {
        contract.CODE_URI_ENV: mounts.code_uri,
        contract.CODE_SHA256_ENV: mounts.code_sha256,
    }
    return [{"name": name, "value": value} for name, value in told.items() if mounts.code_uri]


def own_env(seen: Observed, attempt: int) -> list[Manifest]:
    """The variables of the driver, or of what is beside it."""
    plain = {
        contract.NAMESPACE_ENV: seen.namespace,
        contract.TOPOLOGY_ENV: seen.name,
        contract.UID_ENV: seen.uid,
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


def state_server(seen: Observed, revision: Revision, attempt: int, policy: str) -> list[Manifest]:
    """The container that answers questions about state, if there is one, beside the driver.

    It begins first, is started again by itself, and ends after the driver. It has the driver's
    image and environment, which have the credentials of the checkpoint.
    """
    spec = revision.running.spec
    if spec.service is None or (state := spec.service.state) is None:
        return []
    secret = {"name": state.token.name, "key": state.token.key}
    token = {"name": contract.METRICS_TOKEN_ENV, "valueFrom": {"secretKeyRef": secret}}
    command = ["/usr/bin/tini", "--", "fulmen", "state", "serve", str(spec.checkpoint.uri)]
    where = ["--may-be-empty", "--host", f"$({contract.POD_IP_ENV})", "--port", str(state.port)]
    code = ["--code-folder", contract.CODE_FOLDER] if revision.mounts.code else []
    pod = spec.driver.model_copy(update={"resources": Resources()})
    env = env_of(revision, pod, own_env(seen, attempt))
    container = container_of(
        contract.STATE_CONTAINER, revision.images.driver, pod, STATE_RESOURCES, policy
    )
    return [
        {
            **container,
            "command": [*command, *where, *code],
            "env": [*(one for one in env if one["name"] != token["name"]), token],
            "ports": [{"name": "state", "containerPort": state.port}],
            "restartPolicy": "Always",
            "securityContext": CONTAINER_SECURITY,
            "volumeMounts": volumes.state_mounts(revision),
        }
    ]
