"""Ownership of objects. Only this topology's objects are ever changed or deleted. Pure.

An object belongs to a topology that owns it, by uid. A name or a label proves nothing: others may
use the same, and a topology made again under the same name is another one. Workers are owned by
their driver's pod, and have the topology's uid, too. A claim that is kept when its topology goes
has no owner: it has Fulmen's labels, for the next topology of that name, and the topology's
revision notes its uid, as anybody may change labels. Any other object with these labels but without
an owner, such as after `kubectl delete --cascade=orphan`, belongs to a topology whose user says so
by an annotation.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fulmen.kube import contract, names
from fulmen.topology.resource.spec import KIND
from fulmen_operator.model import (
    UID_ANNOTATION,
    DecisionRefusal,
    Mend,
    Object,
    Observed,
    annotation,
    is_terminating,
    label,
    name_of,
    owners_of,
    uid_of,
)
from fulmen_operator.reasons import Reason

CLAIM: Final = "PersistentVolumeClaim"
CLAIM_KEY: Final = "claim"
"""The key in the revision's ConfigMap of the uid of the claim that the operator made."""


class InTheWay(Exception):
    """An object of others has a name that the topology needs.

    Attributes:
        kind: Its kind.
        name: Its name.
        owner: Its owner's kind and name; empty if it has none, or is not known.
        passing: Whether it goes by itself: it was an earlier topology's of that name.
        is_left: Whether the topology may adopt it: it bears its name, and has no owner.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        owner: str = "",
        *,
        passing: bool = False,
        is_left: bool = False,
    ) -> None:
        super().__init__(f"{kind} {name!r} is in the way")
        self.kind, self.name, self.owner = kind, name, owner
        self.passing, self.is_left = passing, is_left


def belongs(thing: Object, topology: Object, kind: str = "") -> bool:
    """Whether an object belongs to a topology.

    Args:
        thing: The object, or its metadata in a mapping of that name.
        topology: The topology.
        kind: The object's kind, if it may be a claim.
    """
    if owners := owners_of(thing):
        return any(owner.get("uid") == uid_of(topology) for owner in owners)
    adopts = annotation(topology, contract.ADOPT_ANNOTATION) == "true"
    return (kind == CLAIM or adopts) and is_left_by(thing, name_of(topology))


def is_left_by(thing: Object, topology: str) -> bool:
    """Whether an object without an owner was made for a topology of that name."""
    made = label(thing, contract.MANAGED_BY_LABEL) == contract.MANAGER
    return made and label(thing, contract.TOPOLOGY_LABEL) == topology


def noted_claim(revision: Object | None) -> str:
    """The uid of the claim that a topology has, by its revision; empty: it notes none."""
    return str(((revision or {}).get("data") or {}).get(CLAIM_KEY, ""))


def has_claim(claim: Object, topology: Object, revision: Object | None) -> bool:
    """Whether the operator made a claim for a topology, whatever its labels are."""
    return belongs(claim, topology, CLAIM) or uid_of(claim) == noted_claim(revision)


def own_pods(pods: Iterable[Object], topology: Object) -> list[Object]:
    """The topology's own pods, workers included, with the labels that they were made with.

    Which those are follows from a pod's name.
    """
    found = list(pods)
    owned = [pod for pod in found if belongs(pod, topology)]
    drivers = {uid_of(pod) for pod in owned}
    workers = [
        pod
        for pod in found
        if _made_as(pod, topology)[contract.COMPONENT_LABEL] == contract.WORKER
        and (
            annotation(pod, UID_ANNOTATION) == uid_of(topology)
            or any(owner.get("uid") in drivers for owner in owners_of(pod))
        )
    ]
    own = [*owned, *(pod for pod in workers if pod not in owned)]
    return [_labelled(pod, _made_as(pod, topology)) for pod in own]


def changed_labels(pods: Iterable[Object], topology: Object) -> list[Mend]:
    """Changes that restore the labels of a topology's own pods."""
    return [
        Mend(name_of(pod), uid_of(pod), made)
        for pod in pods
        if not is_terminating(pod)
        and not (pod["metadata"].get("labels") or {}).items()
        >= (made := _made_as(pod, topology)).items()
    ]


def _made_as(pod: Object, topology: Object) -> dict[str, str]:
    """The labels that a pod was made with, as far as its name says which."""
    name = name_of(topology)
    component, attempt = names.role_of_pod(name, name_of(pod))
    if not component:
        component = label(pod, contract.COMPONENT_LABEL)
    made = {
        contract.NAME_LABEL: contract.APP_NAME,
        contract.INSTANCE_LABEL: name,
        contract.MANAGED_BY_LABEL: contract.MANAGER,
        contract.TOPOLOGY_LABEL: name,
        contract.COMPONENT_LABEL: component,
    }
    return made | ({contract.ATTEMPT_LABEL: attempt} if attempt else {})


def _labelled(pod: Object, labels: Mapping[str, str]) -> Object:
    meta = pod["metadata"]
    return {**pod, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **labels}}}


def endangered(seen: Observed) -> DecisionRefusal | None:
    """A refusal if an object is being deleted that the topology needs; None: there is none.

    A claim that is mounted remains until the last pod is gone.
    """
    going = {kind: name for (kind, name), one in seen.children.items() if is_terminating(one)}
    if not going:
        return None
    if CLAIM not in going:
        kind, name = next(iter(going.items()))
        text = f"{kind} {name!r} is being deleted: it is made anew when it is gone"
        return DecisionRefusal(Reason.BEING_DELETED, text, lasting=True)
    name = going[CLAIM]
    volume = (seen.children[CLAIM, name].get("spec") or {}).get("volumeName") or "VOLUME"
    keep = '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'
    text = (
        f"{CLAIM} {name!r} is being deleted: as soon as no pod mounts it, it goes with all that is"
        f" on it. Nothing is lost yet. Keep its volume first: `kubectl patch pv {volume} -p"
        f" '{keep}'`; then give the volume to another claim, as 'A claim that is being deleted' in"
        " docs/moving.md says. Until then no change of the spec replaces the driver"
    )
    return DecisionRefusal(Reason.BEING_DELETED, text, lasting=True)


def is_claim_going(seen: Observed) -> bool:
    """Whether a claim is being deleted while the topology has it."""
    return any(kind == CLAIM and is_terminating(one) for (kind, _), one in seen.children.items())


def obstacle(kind: str, name: str, found: Object | None, topology: Object) -> InTheWay:
    """An object that is in the way. `found`: None if it may not be read."""
    owners = owners_of(found) if found else ()
    earlier = any(o.get("kind") == KIND and o.get("name") == name_of(topology) for o in owners)
    owner = next((f"{o.get('kind')} {o.get('name')!r}" for o in owners), "")
    is_left = found is not None and not owners and is_left_by(found, name_of(topology))
    return InTheWay(kind, name, owner, passing=earlier, is_left=is_left)


def sentence(obstacles: Sequence[InTheWay], namespace: str, topology: str) -> str:
    """Tell which objects are in the way, how to see them, and what can be done.

    Args:
        obstacles: All of them, at least one.
        namespace: The topology's namespace.
        topology: The topology's name.
    """
    lasting = [one for one in obstacles if not one.passing]
    shown = lasting or obstacles
    are, they, them = ("is", "it", "it") if len(shown) == 1 else ("are", "they", "them")
    what = f"{shown[0].kind} {shown[0].name!r}"
    if len(shown) > 1:
        counts = Counter(one.kind for one in shown)
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))
        what = f"{len(shown)} objects ({kinds})"
    if not lasting:
        verb = "belongs" if len(shown) == 1 else "belong"
        return (
            f"{what} {verb} to the topology of this name that was deleted; this one goes on when"
            f" {they} {are} gone"
        )
    places = " ".join(f"{one.kind.lower()}/{one.name}" for one in shown)
    owner = next((one.owner for one in shown if one.owner), "")
    whose = f"of {owner}" if len(shown) == 1 and owner else "not this topology's"
    claims = [one for one in shown if one.kind == CLAIM]
    cures = [f"Delete {them} (`delete` instead of `get`)"]
    if claims:  # there may be a checkpoint on it
        cures = ["Delete what is no claim"] if len(claims) < len(shown) else []
        marks = f"{contract.TOPOLOGY_LABEL}={topology} {contract.MANAGED_BY_LABEL}"
        cures.append(
            "if the claim has this topology's checkpoint, give it its labels: `kubectl -n"
            f" {namespace} label pvc {claims[0].name} --overwrite {marks}={contract.MANAGER}`; if"
            " not, name another claim in spec.checkpoint.persistentVolumeClaim"
        )
    if all(one.is_left for one in shown):
        command = f"annotate topology {topology} {contract.ADOPT_ANNOTATION}=true"
        cures.append(f"or make {them} this topology's own: `kubectl -n {namespace} {command}`")
    else:
        cures.append("or give the topology another name")
    advice = ", ".join(cures)
    return (
        f"{what} {are} in the way: {they} {are} {whose}, and left alone. `kubectl -n {namespace}"
        f" get {places}` shows {them}. {advice[0].upper()}{advice[1:]}"
    )
