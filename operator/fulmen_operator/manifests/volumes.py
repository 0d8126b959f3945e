"""Mounts of the containers of a topology's pods, and their volumes."""

from typing import Final

from fulmen.kube import contract, names
from fulmen.kube.contract.revisions import Revision
from fulmen_operator.model import Manifest, Object

SECRET_MODE: Final = 0o440
"""Readable for the user of the containers, by way of `fsGroup`."""
SECRET_VOLUME: Final = "fulmen-auth"
CODE_VOLUME: Final = "fulmen-code"
CHECKPOINT_VOLUME: Final = "fulmen-checkpoint"
CANDIDATE_VOLUME: Final = "fulmen-candidate"
TEMP_VOLUME: Final = "fulmen-tmp"
WORK_VOLUME: Final = "fulmen-work"
STATE_VOLUME: Final = "fulmen-state"


def mounts(revision: Revision, spark_volume: str = "") -> list[Manifest]:
    """The mounts of the container of a driver or a worker."""
    found = _scratch_mounts()
    if spark_volume:
        found.append(_mount(spark_volume, contract.SPARK_FOLDER))
    found.append(_mount(SECRET_VOLUME, contract.SECRET_FILE.rsplit("/", 1)[0], readOnly=True))
    found += _code_mount(revision)
    if revision.running.spec.is_on_disk:
        found.append(_mount(STATE_VOLUME, contract.STATE_FOLDER))
    if revision.mounts.claim:
        found.append(_mount(CHECKPOINT_VOLUME, contract.CHECKPOINT_FOLDER))
    return found


def state_mounts(revision: Revision) -> list[Manifest]:
    """The mounts of the container that shows state: it writes nothing."""
    found = [*_scratch_mounts(), *_code_mount(revision)]
    if revision.mounts.claim:
        found.append(_mount(CHECKPOINT_VOLUME, contract.CHECKPOINT_FOLDER, readOnly=True))
    return found


def of_pod(revision: Revision, topology: str, attempt: int) -> list[Manifest]:
    """The volumes of a driver's or a worker's pod."""
    found = [*_scratch(), _secret(topology, attempt), *_code(revision)]
    spec = revision.running.spec
    if spec.is_on_disk:
        limit = spec.keyed_state.disk_limit
        found.append({"name": STATE_VOLUME, "emptyDir": {"sizeLimit": limit}})
    if revision.mounts.claim:
        found.append(_checkpoint(revision.mounts.claim))
    return found


def preflight_mounts(revision: Revision, claim: str) -> list[Manifest]:
    """The mounts of the container of a preflight. `claim`: that it reads; empty: none."""
    folder = contract.CANDIDATE_FILE.rsplit("/", 1)[0]
    found = [*_scratch_mounts(), _mount(CANDIDATE_VOLUME, folder, readOnly=True)]
    if claim:
        found.append(_mount(CHECKPOINT_VOLUME, contract.CHECKPOINT_FOLDER, readOnly=True))
    return [*found, *_code_mount(revision)]


def of_preflight(revision: Revision, topology: str, claim: str) -> list[Manifest]:
    """The volumes of a preflight's pod. `claim`: that it reads; empty: none."""
    candidate = {"name": CANDIDATE_VOLUME, "configMap": {"name": names.candidate(topology)}}
    return [*_scratch(), *_code(revision), candidate, *([_checkpoint(claim)] if claim else [])]


def reads_claim(pod: Object) -> bool:
    """Whether a preflight's pod has the claim of the checkpoint."""
    return any(volume["name"] == CHECKPOINT_VOLUME for volume in pod["spec"].get("volumes", ()))


def _checkpoint(claim: str) -> Manifest:
    return {"name": CHECKPOINT_VOLUME, "persistentVolumeClaim": {"claimName": claim}}


def _mount(volume: str, path: str, **more: bool) -> Manifest:
    return {"name": volume, "mountPath": path, **more}


def _scratch_mounts() -> list[Manifest]:
    return [
        _mount(TEMP_VOLUME, contract.TEMP_FOLDER),
        _mount(WORK_VOLUME, contract.WORK_FOLDER),
    ]


def _code_mount(revision: Revision) -> list[Manifest]:
    if not revision.mounts.code:
        return []
    return [_mount(CODE_VOLUME, contract.CODE_FOLDER, readOnly=True)]


def _scratch() -> list[Manifest]:
    return [
        {"name": TEMP_VOLUME, "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": WORK_VOLUME, "emptyDir": {"sizeLimit": "4Gi"}},
    ]


def _secret(topology: str, attempt: int) -> Manifest:
    auth = {"secretName": names.auth_secret(topology, attempt), "defaultMode": SECRET_MODE}
    return {"name": SECRET_VOLUME, "secret": auth}


def _code(revision: Revision) -> list[Manifest]:
    if not revision.mounts.code:
        return []
    if not revision.mounts.code_parts:
        return [{"name": CODE_VOLUME, "configMap": {"name": revision.mounts.code}}]
    maps = names.code_maps(revision.mounts.code, revision.mounts.code_parts)
    sources = [{"configMap": {"name": name}} for name in maps]
    return [{"name": CODE_VOLUME, "projected": {"sources": sources}}]
