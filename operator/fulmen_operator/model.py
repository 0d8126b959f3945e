"""The observed state of a topology, and decisions about it. Plain values, no I/O.

A reconcile takes an `Observed`, makes a `Decision`, and carries it out. Objects of Kubernetes are
the mappings that the API gives and takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from fulmen.kube import contract, names
from fulmen_operator.reasons import Reason

Manifest = dict[str, Any]
Object = Mapping[str, Any]

APPLIED_ANNOTATION: Final = "fulmen.dev/applied"
"""A digest of what was applied: an object that bears the right one is left alone."""
INPUT_ANNOTATION: Final = "fulmen.dev/input"
"""On driver pods: the hash of the input that the pod was made from."""
GENERATION_ANNOTATION: Final = "fulmen.dev/generation"
"""On driver pods: the generation of the spec that the pod was made from."""
CODE_ANNOTATION: Final = "fulmen.dev/code"
"""On pods: the ConfigMap with the code that is mounted."""
UID_ANNOTATION: Final = "fulmen.dev/topology-uid"
"""On workers, whose owner is their driver's pod: the uid of their topology."""
START_GATE: Final = "fulmen.dev/secret"
"""The scheduling gate of a driver's pod whose secret is not there yet."""


@dataclass(frozen=True, order=True)
class Key:
    """The identity of a topology."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class DecisionRefusal:
    """A reason for which the last decision could not be carried out.

    Attributes:
        reason: For programs.
        message: For people.
        lasting: Whether nothing will happen until somebody changes something.
    """

    reason: Reason
    message: str
    lasting: bool = False


@dataclass(frozen=True)
class CodeConfigMap:
    """A ConfigMap with code, without its content.

    Attributes:
        texts: The bytes of each file in its `data`, by name.
        binary: The bytes of each file in its `binaryData`.
    """

    texts: Mapping[str, int]
    binary: Mapping[str, int]


@dataclass(frozen=True)
class Sources:
    """The ConfigMaps that `spec.code` names.

    Attributes:
        found: Each of them, in the order of the spec; None where there is none.
        digest: Identifies the code; empty if there is none, or not all of it.
        sha256: The digest of the archive whose parts they have; empty if they have no parts.
        contents: The contents for the operator's own ConfigMaps; empty if those exist: then the
            contents are not held.
    """

    found: tuple[CodeConfigMap | None, ...] = ()
    digest: str = ""
    sha256: str = ""
    contents: tuple[Manifest, ...] = ()


@dataclass(frozen=True)
class Observed:
    """Everything that a decision is made from. Objects of others are not in it, but for claims.

    Attributes:
        topology: The resource.
        now: The time.
        revision: The ConfigMap with the revision, if there is one.
        pods: All pods of the topology.
        children: Its other objects by (kind, name); of ConfigMaps only the metadata.
        mends: Changes that restore its pods' labels.
        sources: The ConfigMaps that `spec.code` names.
        trial: The result of a dry run of a candidate's pods: (its hash, the refusal or nothing).
        fallen: The last worker's pod that has failed, of those that the watch has told.
        missing: Why the API server would take no further worker of the driver's, if so.
        refusal: Why the last decision could not be carried out, if so.
        others_start: Whether its driver can't start yet, as those of other topologies do.
        older_waits: An older topology whose pods find no room, either: its namespace and name.
    """

    topology: Object
    now: datetime
    revision: Object | None = None
    pods: Sequence[Object] = ()
    children: Mapping[tuple[str, str], Object] = field(default_factory=dict)
    mends: Sequence["Mend"] = ()
    sources: Sources = Sources()
    trial: tuple[str, str] | None = None
    fallen: Object | None = None
    missing: str = ""
    refusal: DecisionRefusal | None = None
    others_start: bool = False
    older_waits: str = ""

    @property
    def name(self) -> str:
        """The topology's name."""
        return str(self.topology["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The topology's namespace."""
        return str(self.topology["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """The topology's uid."""
        return str(self.topology["metadata"]["uid"])

    @property
    def generation(self) -> int:
        """The generation of the topology's spec."""
        return int(self.topology["metadata"]["generation"])

    def annotation(self, name: str) -> str:
        """An annotation of the topology's; empty if there is none."""
        return annotation(self.topology, name)

    def pods_of(self, *components: str, attempt: int | None = None) -> list[Object]:
        """The pods of some components, of one attempt or of all."""
        return [
            pod
            for pod in self.pods
            if component_of(pod) in components and attempt in (None, attempt_of(pod))
        ]

    def driver(self, attempt: int) -> Object | None:
        """The driver's pod of an attempt; none if an operator died while it made it."""
        name = names.driver_pod(self.name, attempt)
        drivers = self.pods_of(contract.DRIVER)
        return next((p for p in drivers if name_of(p) == name and not is_gated(p)), None)


# ---- what is to be done, in this order


@dataclass(frozen=True)
class Apply:
    """Make an object be as in the manifest: create it, or change the topology's own."""

    manifest: Manifest


@dataclass(frozen=True)
class StartDriver:
    """Make a driver's pod, and a secret with random content that goes with that pod."""

    pod: Manifest
    secret: Manifest
    key: str


@dataclass(frozen=True)
class Delete:
    """Delete an object, if it still is the one with that uid."""

    kind: Literal["Pod", "ConfigMap", "NetworkPolicy", "Service"]
    name: str
    uid: str

    @classmethod
    def pod(cls, pod: Object) -> "Delete":
        """The deletion of a pod."""
        return cls("Pod", name_of(pod), uid_of(pod))


@dataclass(frozen=True)
class Adopt:
    """Make the topology the owner of an object without one, if its uid is unchanged.

    Attributes:
        name: The name of a ConfigMap with code, which is never written again. Other objects are
            applied, which adopts them as well.
        uid: Its uid.
        owner: The reference to the topology.
    """

    name: str
    uid: str
    owner: Manifest


@dataclass(frozen=True)
class Mend:
    """Give one of the topology's own pods its labels back, if it still is the one with that uid."""

    name: str
    uid: str
    labels: Mapping[str, str]


Action = Apply | StartDriver | Delete | Adopt | Mend


@dataclass(frozen=True)
class Event:
    """An event to tell people about."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True)
class Trial:
    """Pods that the API server is to be asked about, without making them."""

    hash: str
    pods: tuple[Manifest, ...]


@dataclass(frozen=True)
class Decision:
    """The decision about a topology.

    Attributes:
        status: Written first, before anything else: None leaves it as it is.
        actions: Carried out in this order.
        events: Told after that.
        trial: A dry run before anything else: the decision is then made anew.
        probe: A dry run of a missing worker, to find out why: the decision is then made anew.
        again_in: Seconds after which to look again although nothing happened, if so.
    """

    status: Manifest | None = None
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    trial: Trial | None = None
    probe: Trial | None = None
    again_in: float | None = None


# ---- reading objects


def annotation(thing: Object, name: str) -> str:
    """An annotation of an object; empty if there is none."""
    return str((thing["metadata"].get("annotations") or {}).get(name, ""))


def label(thing: Object, name: str) -> str:
    """A label of an object; empty if there is none."""
    return str((thing["metadata"].get("labels") or {}).get(name, ""))


def name_of(thing: Object) -> str:
    """An object's name."""
    return str(thing["metadata"]["name"])


def uid_of(thing: Object) -> str:
    """An object's uid."""
    return str(thing["metadata"].get("uid", ""))


def owners_of(thing: Object) -> Sequence[Object]:
    """The references to an object's owners."""
    return thing["metadata"].get("ownerReferences") or ()


def is_terminating(thing: Object) -> bool:
    """Whether an object was told to end."""
    return thing["metadata"].get("deletionTimestamp") is not None


def status_of(thing: Object) -> Object:
    """An object's status; empty if it has none."""
    return thing.get("status") or {}


def phase_of(pod: Object) -> str:
    """A pod's phase: pending if it has none yet."""
    return str(status_of(pod).get("phase", "Pending"))


def condition_of(thing: Object, kind: str) -> Object:
    """A condition in an object's status; empty if it has none of that type."""
    conditions = status_of(thing).get("conditions") or ()
    return next((c for c in conditions if c.get("type") == kind), {})


def attempt_of(pod: Object) -> int:
    """The attempt that a pod belongs to; 0 if it says none."""
    text = label(pod, contract.ATTEMPT_LABEL)
    return int(text) if text.isdecimal() else 0


def component_of(pod: Object) -> str:
    """The role of a pod: driver, worker or preflight."""
    return label(pod, contract.COMPONENT_LABEL)


def is_gated(pod: Object) -> bool:
    """Whether a driver's pod lacks its secret: it has never run."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return any(gate["name"] == START_GATE for gate in gates)


def time_of(text: str) -> datetime:
    """A time as Kubernetes writes it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def text_of(time: datetime) -> str:
    """A time as Kubernetes reads it."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_since(text: str, now: datetime) -> float:
    """The seconds that have passed since a time."""
    return (now - time_of(text)).total_seconds()


def clipped(text: str, most: int) -> str:
    """The text, or as much of its beginning as there is room for."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
