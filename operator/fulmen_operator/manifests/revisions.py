"""The revision: what was accepted, resolved, and what the driver is to do with it."""

from typing import Any

from fulmen.kube import contract, names
from fulmen.topology.reading.documents import to_document
from fulmen.topology.resource.changes import input_hash
from fulmen.topology.resource.scaling import scaled
from fulmen.topology.resource.spec import Topology
from fulmen_operator.acceptance.verdict import Accepted, CodeFiles
from fulmen_operator.manifests.pods import of_attempt, worker_pod
from fulmen_operator.manifests.storage import claim_named, is_shared
from fulmen_operator.manifests.volumes import CHECKPOINT_VOLUME, CODE_VOLUME
from fulmen_operator.model import Observed
from fulmen_operator.settings import Settings


def new_revision(
    seen: Observed,
    accepted: Accepted,
    before: contract.Revision | None,
    settings: Settings,
) -> contract.Revision:
    """The revision for a spec that was just accepted.

    What pods are made of is taken from the revision before, if the change does not replace the
    driver: what a newer operator would make otherwise must not change under a running topology.
    """
    kept: dict[str, Any] = {}
    if before is not None and before.input_hash == accepted.hash:
        images, worker, mounts = before.images, before.worker_pod, mounts_of(before)
        fields = ("worked", "previous", "tried_since")
        kept = {field: getattr(before, field) for field in fields}
    else:
        spec = accepted.topology.spec
        images = contract.Images(
            driver=spec.driver.image or settings.image, worker=spec.worker.image or settings.image
        )
        together = bool(accepted.claim) and not is_shared(
            claim_named(seen, accepted.claim), settings
        )
        policy = settings.image_pull_policy
        worker = worker_pod(seen, accepted, images.worker, 0, together, policy)
        mounts = contract.Mounts(
            code=accepted.code_name,
            code_parts=accepted.code_parts,
            code_uri=accepted.code.uri,
            code_sha256=accepted.code.sha256,
            claim=accepted.claim,
            owns_claim=accepted.owns_claim,
        )
    return contract.Revision(
        generation=seen.generation,
        topology=to_document(accepted.topology),
        worker_pod=worker,
        images=images,
        mounts=mounts,
        input_hash=accepted.hash,
        last_batch=0 if before is None else before.last_batch,
        **kept,
    )


def on_trial(candidate: contract.Revision, before: contract.Revision) -> contract.Revision:
    """A revision that takes the place of another, with the last one that is known to work."""
    previous = before.previous or (before if before.worked else None)
    if previous is not None:
        update = {"previous": None, "tried_since": "", "rolled_back": None}
        previous = previous.model_copy(update=update)
    return candidate.model_copy(update={"previous": previous})


def was_given_up(revision: contract.Revision, accepted: Accepted, generation: int) -> bool:
    """Whether a spec is the version that was tried and given up.

    Another version of the operator may make another hash of the same spec.
    """
    given_up = revision.rolled_back
    if given_up is None:
        return False
    same = given_up.generation == generation and given_up.code == accepted.code_name
    return same or given_up.input_hash == accepted.hash


def for_attempt(
    revision: contract.Revision, topology: str, attempt: int, last_batch: int
) -> contract.Revision:
    """The revision as a new driver finds it."""
    worker = of_attempt(revision.worker_pod, topology, attempt)
    return revision.model_copy(update={"worker_pod": worker, "last_batch": last_batch})


def accepted_in(revision: contract.Revision) -> Accepted:
    """What was accepted when the revision was written: drivers are started from that."""
    mounts = mounts_of(revision)
    topology = Topology.model_validate(revision.topology, by_alias=True, by_name=False)
    return Accepted(
        topology=scaled(topology, revision.workers),
        hash=revision.input_hash,
        code=CodeFiles(uri=mounts.code_uri, sha256=mounts.code_sha256),
        code_name=mounts.code,
        code_parts=mounts.code_parts,
        claim=mounts.claim,
        owns_claim=mounts.owns_claim,
    )


def mounts_of(revision: contract.Revision) -> contract.Mounts:
    """What the pods of a revision mount.

    Older operators did not write it down: then its template of worker pods tells.
    """
    if revision.mounts is not None:
        return revision.mounts
    volumes = {volume["name"]: volume for volume in revision.worker_pod["spec"]["volumes"]}
    claim = volumes.get(CHECKPOINT_VOLUME, {}).get("persistentVolumeClaim", {}).get("claimName", "")
    return contract.Mounts(
        code=volumes.get(CODE_VOLUME, {}).get("configMap", {}).get("name", ""),
        claim=claim,
        owns_claim=claim == names.claim(str(revision.topology["metadata"]["name"])),
    )


def hash_in(revision: contract.Revision) -> str:
    """The digest of what was accepted, as this version of the operator makes it.

    The revision's own is that of the operator that wrote it, which may have had other fields
    replace a driver. Whoever compares it with a new one would have an upgrade replace drivers.
    """
    accepted = accepted_in(revision)
    checkpoint = accepted.topology.spec.checkpoint
    if accepted.claim:
        named = None if accepted.owns_claim else accepted.claim
        update = {"uri": None, "persistent_volume_claim": named}
        checkpoint = checkpoint.model_copy(update=update)
    spec = accepted.topology.spec.model_copy(update={"checkpoint": checkpoint})
    given = accepted.topology.model_copy(update={"spec": spec})
    mounted = names.code_digest(given.name, accepted.code_name)
    return input_hash(given, mounted or accepted.code.digest)
