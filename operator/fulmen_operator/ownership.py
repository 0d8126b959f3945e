"""Whose an object is. Nothing that is not this topology's is ever changed or deleted. Pure.

An object belongs to a topology if it is owned by it, by uid: a name or a label says nothing, since
others may give the same, and a topology made again under the same name is another one. Workers are
owned by their driver's pod, and say the topology's uid besides. A claim that is kept when its
topology goes has no owner: it bears Fulmen's labels, for the next topology of that name.
"""

from collections.abc import Iterable
from typing import Final

from fulmen.kube import contract
from fulmen.topology.resource.spec import KIND
from fulmen_operator.model import (
    UID_ANNOTATION,
    Object,
    annotation,
    component_of,
    label,
    name_of,
    uid_of,
)

CLAIM: Final = "PersistentVolumeClaim"


class InTheWay(Exception):
    """An object that is not the topology's has the name that one of the topology's needs.

    Attributes:
        message: Which object it is, and what to do.
        passing: Whether it goes by itself: it was an earlier topology's of that name.
    """

    def __init__(self, message: str, passing: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.passing = passing


def belongs(thing: Object, topology: Object, kind: str = "") -> bool:
    """Whether an object is a topology's.

    Args:
        thing: The object, or its metadata in a mapping of that name.
        topology: The topology.
        kind: The object's kind, if it may be a claim.
    """
    owners = thing["metadata"].get("ownerReferences") or ()
    if any(owner.get("uid") == uid_of(topology) for owner in owners):
        return True
    return kind == CLAIM and not owners and is_kept_for(thing, name_of(topology))


def is_kept_for(claim: Object, topology: str) -> bool:
    """Whether a claim without an owner was made for a topology of that name."""
    made = label(claim, contract.MANAGED_BY_LABEL) == contract.MANAGER
    return made and label(claim, contract.TOPOLOGY_LABEL) == topology


def own_pods(pods: Iterable[Object], topology: Object) -> list[Object]:
    """Those of the pods that are the topology's, workers included."""
    found = list(pods)
    owned = [pod for pod in found if belongs(pod, topology)]
    drivers = {uid_of(pod) for pod in owned}
    workers = [
        pod
        for pod in found
        if component_of(pod) == contract.WORKER
        and (
            annotation(pod, UID_ANNOTATION) == uid_of(topology)
            or any(o.get("uid") in drivers for o in pod["metadata"].get("ownerReferences") or ())
        )
    ]
    return [*owned, *(pod for pod in workers if pod not in owned)]


def obstacle(kind: str, name: str, found: Object | None, topology: Object) -> InTheWay:
    """What to say of an object that is in the way.

    Args:
        kind: Its kind.
        name: Its name.
        found: The object; None if it may not be read.
        topology: The topology that needs the name.
    """
    owners = (found["metadata"].get("ownerReferences") or ()) if found else ()
    of_earlier = [o for o in owners if o.get("kind") == KIND and o.get("name") == name_of(topology)]
    if of_earlier:
        return InTheWay(
            f"{kind} {name!r} belongs to the topology of this name that was deleted; "
            "this one goes on when it is gone",
            passing=True,
        )
    owner = next((f"{o.get('kind')} {o.get('name')!r}" for o in owners), "")
    whose = f"it belongs to {owner}" if owner else "it is not this topology's"
    instead = " or name it in spec.checkpoint.persistentVolumeClaim," if kind == CLAIM else ""
    return InTheWay(
        f"{kind} {name!r} is in the way: {whose}, so it is left as it is. Delete it,{instead} "
        "or give the topology another name."
    )
