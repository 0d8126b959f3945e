"""The plan: what was accepted, resolved, and what the driver is to do with it."""

from typing import Any

from fulmen.kube import contract
from fulmen.topology.reading.documents import to_document
from fulmen.topology.resource.spec import Topology
from fulmen_operator.acceptance.changes import input_hash
from fulmen_operator.acceptance.verdict import Accepted, code_name, own_claim
from fulmen_operator.manifests.pods import (
    CHECKPOINT_VOLUME,
    CODE_VOLUME,
    of_attempt,
    worker_pod,
)
from fulmen_operator.manifests.storage import claim_named, is_shared
from fulmen_operator.model import Observed
from fulmen_operator.settings import Settings


def new_plan(
    seen: Observed,
    accepted: Accepted,
    before: contract.DriverPlan | None,
    settings: Settings,
) -> contract.DriverPlan:
    """The plan for a spec that was just accepted.

    What pods are made of is taken from the plan before, if the change does not replace the driver:
    what a newer operator would make otherwise must not change under a running topology.
    """
    kept: dict[str, Any] = {}
    if before is not None and before.input_hash == accepted.hash:
        images, worker = before.images, before.worker_pod
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
    return contract.DriverPlan(
        generation=seen.generation,
        topology=to_document(accepted.topology),
        worker_pod=worker,
        images=images,
        input_hash=accepted.hash,
        last_batch=0 if before is None else before.last_batch,
        **kept,
    )


def on_trial(candidate: contract.DriverPlan, before: contract.DriverPlan) -> contract.DriverPlan:
    """A plan that takes the place of another, with the last one that is known to work."""
    previous = before.previous or (before if before.worked else None)
    if previous is not None:
        update = {"previous": None, "tried_since": "", "rolled_back": None}
        previous = previous.model_copy(update=update)
    return candidate.model_copy(update={"previous": previous})


def was_given_up(plan: contract.DriverPlan, accepted: Accepted, generation: int) -> bool:
    """Whether a spec is the version that was tried and given up.

    Another version of the operator may make another hash of the same spec.
    """
    given_up = plan.rolled_back
    if given_up is None:
        return False
    same = given_up.generation == generation and given_up.code == accepted.code_name
    return same or given_up.input_hash == accepted.hash


def for_attempt(
    plan: contract.DriverPlan, topology: str, attempt: int, last_batch: int
) -> contract.DriverPlan:
    """The plan as a new driver finds it."""
    worker = of_attempt(plan.worker_pod, topology, attempt)
    return plan.model_copy(update={"worker_pod": worker, "last_batch": last_batch})


def accepted_in(plan: contract.DriverPlan) -> Accepted:
    """What was accepted when the plan was written: drivers are started from that."""
    topology = Topology.model_validate(plan.topology, by_alias=True, by_name=False)
    volumes = {volume["name"]: volume for volume in plan.worker_pod["spec"]["volumes"]}
    code = volumes.get(CODE_VOLUME, {}).get("configMap", {}).get("name", "")
    claim = volumes.get(CHECKPOINT_VOLUME, {}).get("persistentVolumeClaim", {}).get("claimName", "")
    return Accepted(
        topology=topology,
        hash=plan.input_hash,
        code_name=code,
        claim=claim,
        owns_claim=claim == own_claim(topology.name),
    )


def hash_in(plan: contract.DriverPlan) -> str:
    """The digest of what was accepted, as this version of the operator makes it.

    The plan's own is that of the operator that wrote it, which may have had other fields replace a
    driver. Whoever compares it with a new one would have an upgrade replace drivers.
    """
    accepted = accepted_in(plan)
    checkpoint = accepted.topology.spec.checkpoint
    if accepted.claim:
        named = None if accepted.owns_claim else accepted.claim
        update = {"uri": None, "persistent_volume_claim": named}
        checkpoint = checkpoint.model_copy(update=update)
    spec = accepted.topology.spec.model_copy(update={"checkpoint": checkpoint})
    given = accepted.topology.model_copy(update={"spec": spec})
    return input_hash(given, accepted.code_name.removeprefix(code_name(given.name, "")))
