"""The revision: what was accepted, resolved, and what the driver is to do with it."""

from typing import Any

from fulmen.kube import names
from fulmen.kube.contract.revisions import Images, Revision
from fulmen.topology.reading.documents import to_document
from fulmen.topology.resource.changes import input_hash
from fulmen_operator.acceptance.judge import Accepted, code_digest
from fulmen_operator.manifests.pods import driver_pod, worker_pod
from fulmen_operator.manifests.storage import claim_named, is_shared
from fulmen_operator.model import Manifest, Observed
from fulmen_operator.settings import Settings


def new_revision(
    seen: Observed,
    accepted: Accepted,
    before: Revision | None,
    settings: Settings,
) -> Revision:
    """The revision for a spec that was just accepted.

    What pods are made of is taken from the revision before, if the change does not replace the
    driver: what a newer operator would make otherwise must not change under a running topology.
    """
    kept: dict[str, Any] = {}
    if before is not None and before.input_hash == accepted.hash:
        fields = ("images", "mounts", "worked", "previous", "tried_since")
        kept = {field: getattr(before, field) for field in fields}
    else:
        spec = accepted.topology.spec
        kept["images"] = Images(
            driver=spec.driver.image or settings.image, worker=spec.worker.image or settings.image
        )
        kept["mounts"] = accepted.mounts
    return Revision(
        generation=seen.generation,
        topology=to_document(accepted.topology),
        worker_pod={} if before is None else before.worker_pod,
        input_hash=accepted.hash,
        last_batch=0 if before is None else before.last_batch,
        **kept,
    )


def on_trial(candidate: Revision, before: Revision) -> Revision:
    """A revision that takes the place of another, with the last one that is known to work."""
    previous = before.previous or (before if before.worked else None)
    if previous is not None:
        update = {"previous": None, "tried_since": "", "rolled_back": None}
        previous = previous.model_copy(update=update)
    return candidate.model_copy(update={"previous": previous})


def was_given_up(revision: Revision, accepted: Accepted, generation: int) -> bool:
    """Whether a spec is the version that was tried and given up.

    Another version of the operator may compute another hash of the same spec.
    """
    given_up = revision.rolled_back
    if given_up is None:
        return False
    same = given_up.generation == generation and given_up.code == accepted.mounts.code
    return same or given_up.input_hash == accepted.hash


def for_attempt(
    seen: Observed, revision: Revision, attempt: int, settings: Settings
) -> tuple[Revision, Manifest]:
    """The revision as a new driver finds it, and the driver's pod."""
    policy = settings.image_pull_policy
    claim = revision.mounts.claim
    together = bool(claim) and not is_shared(claim_named(seen, claim), settings)
    worker = worker_pod(seen, revision, attempt, together, policy)
    revision = revision.model_copy(update={"worker_pod": worker})
    return revision, driver_pod(seen, revision, attempt, policy)


def hash_in(revision: Revision) -> str:
    """The digest of what was accepted, as this version of the operator makes it.

    The revision's own is that of the operator that wrote it, which may have had other fields
    replace a driver. Whoever compares it with a new one would have an upgrade replace drivers.
    """
    resolved, mounts = revision.resolved, revision.mounts
    checkpoint = resolved.spec.checkpoint
    if mounts.claim:
        named = None if mounts.owns_claim else mounts.claim
        update = {"uri": None, "persistent_volume_claim": named}
        checkpoint = checkpoint.model_copy(update=update)
    spec = resolved.spec.model_copy(update={"checkpoint": checkpoint})
    given = resolved.model_copy(update={"spec": spec})
    mounted = names.code_digest(given.name, mounts.code)
    return input_hash(given, mounted or code_digest(mounts.code_uri, mounts.code_sha256))
