"""ConfigMaps, the secret and the claim."""

from collections.abc import Mapping, Sequence
from typing import Final

from fulmen.kube import contract, names
from fulmen.kube.contract.revisions import Candidate, Revision
from fulmen_operator.acceptance.judge import Accepted
from fulmen_operator.manifests.common import CODE, lasting, metadata
from fulmen_operator.model import (
    INPUT_ANNOTATION,
    Manifest,
    Object,
    Observed,
    annotation,
    text_of,
    uid_of,
)
from fulmen_operator.ownership import CLAIM, CLAIM_KEY, has_claim, noted_claim
from fulmen_operator.settings import Settings

SINCE_ANNOTATION: Final = "fulmen.dev/since"
"""On the ConfigMap with a candidate: the time when its preflight was first to be made."""


def revision_map(seen: Observed, revision: Revision) -> Manifest:
    """The accepted revision, for the driver and for the operator itself."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(seen, names.revision(seen.name)),
        "data": {contract.REVISION_KEY: revision.to_json()} | _claim(seen),
    }


def _claim(seen: Observed) -> dict[str, str]:
    """The note of the topology's claim, which identifies it whatever its labels are."""
    found = claim_named(seen, names.claim(seen.name))
    if found is None or not has_claim(found, seen.topology, seen.revision):
        uid = noted_claim(seen.revision)
    else:
        uid = uid_of(found)
    return {CLAIM_KEY: uid} if uid else {}


def code_maps(seen: Observed, accepted: Accepted) -> list[Manifest]:
    """The author's code. Their names have its digest, so that old and new code never mix."""
    maps = names.code_maps(accepted.mounts.code, accepted.mounts.code_parts)
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(seen, each, CODE),
            "immutable": True,
            **{key: found for key, found in content.items() if found},
        }
        for each, content in zip(maps, accepted.contents, strict=True)
    ]


def candidate_map(seen: Observed, revision: Revision, tasks: Mapping[str, int]) -> Manifest:
    """The candidate for a preflight to validate."""
    candidate = Candidate(topology=revision.topology, tasks=dict(tasks))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(
            seen,
            names.candidate(seen.name),
            annotations={
                INPUT_ANNOTATION: revision.trial,
                SINCE_ANNOTATION: tried_since(seen, revision),
            },
        ),
        "data": {contract.CANDIDATE_KEY: candidate.to_json()},
    }


def tried_since(seen: Observed, revision: Revision) -> str:
    """The time when a candidate's preflight was first to be made, whatever became of its pod."""
    found = seen.children.get(("ConfigMap", names.candidate(seen.name)))
    if found is None or annotation(found, INPUT_ANNOTATION) != revision.trial:
        return text_of(seen.now)
    return annotation(found, SINCE_ANNOTATION)


def auth_secret(seen: Observed, attempt: int) -> Manifest:
    """The secret by which driver and workers know each other.

    Its content and its owner, the driver's pod, are added when it is made. It goes with the pod, so
    nobody has to delete or list secrets.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": lasting(seen, names.auth_secret(seen.name, attempt)),
        "immutable": True,
    }


def checkpoint_claim(seen: Observed, revision: Revision, settings: Settings) -> Manifest:
    """The claim for a topology that names none. It is kept when the topology goes, if wanted.

    The spec of an existing claim is left as it is: hardly anything of it can be changed.
    """
    spec: Manifest = {
        "accessModes": [settings.claim_access_mode],
        "resources": {"requests": {"storage": settings.claim_size}},
    }
    if settings.claim_storage_class:
        spec["storageClassName"] = settings.claim_storage_class
    found = claim_named(seen, revision.mounts.claim)
    if found is not None:
        spec = {key: found["spec"][key] for key in spec if key in found["spec"]}
    kept = revision.running.spec.checkpoint.deletion_policy == "Retain"
    return {
        "apiVersion": "v1",
        "kind": CLAIM,
        "metadata": (lasting if kept else metadata)(seen, revision.mounts.claim),
        "spec": spec,
    }


def claim_named(seen: Observed, name: str) -> Object | None:
    """A claim, if it exists."""
    return seen.children.get((CLAIM, name))


def is_shared(claim: Object | None, settings: Settings) -> bool:
    """Whether a claim can be mounted by pods on several nodes."""
    return "ReadWriteMany" in (access_modes(claim) if claim else [settings.claim_access_mode])


def access_modes(claim: Object | None) -> Sequence[str]:
    """In which ways a claim can be mounted; none if it does not exist."""
    return claim["spec"].get("accessModes", ()) if claim else ()
