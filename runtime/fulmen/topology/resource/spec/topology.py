"""The topology, and the whole of its spec."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field

from fulmen.api.times.event_time import milliseconds
from fulmen.topology.resource.base import (
    Count,
    DnsName,
    FieldName,
    ImportPath,
    Json,
    JsonMap,
    Model,
    Name,
    Seconds,
)
from fulmen.topology.resource.component_order import with_followers
from fulmen.topology.resource.spec.autoscale import Autoscale
from fulmen.topology.resource.spec.components import (
    BoltSpec,
    ComponentSpec,
    SpoutSpec,
    TransactionalSpoutSpec,
)
from fulmen.topology.resource.spec.dead_letters import DeadLetterRules
from fulmen.topology.resource.spec.event_time import Duration
from fulmen.topology.resource.spec.keyed_state import KeyedStateSettings
from fulmen.topology.resource.spec.pods import Checkpoint, Code, EnvVar, Pod, Spark
from fulmen.topology.resource.spec.savepoints import RestoreFrom, Savepoints
from fulmen.topology.resource.spec.service import ServiceSettings, listening_ports
from fulmen.topology.resource.spec.tap import Tap

API_VERSION: Final = "fulmen.dev/v1alpha1"
KIND: Final = "Topology"


class Metadata(Model):
    """Kubernetes' own metadata: labels, annotations and the rest pass through."""

    model_config = ConfigDict(extra="allow")

    __pydantic_extra__: dict[str, Json] = Field(init=False)

    name: DnsName
    """The topology's name, at most 40 characters. The names of all objects that belong to the
    topology begin with it."""


class TopologySpec(Model):
    """What a topology consists of, and how it runs."""

    workers: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    """The number of workers. Each is a Python process with work for one core: for more CPU, add
    workers. The number may be changed while the topology runs."""

    autoscale: Autoscale | None = None
    """On Kubernetes: how the number of workers follows the load. `workers` is then the number to
    begin with. Default: there are always `workers`."""

    slots: Annotated[int, Field(strict=True, ge=1, le=64)] = 1
    """The number of workers that share a pod: its slots, as Storm's supervisors have them. Workers
    that share a pod need less memory, and pass tuples to each other faster, but are lost together.
    There are as many pods as the workers need. `fulmen run` has all workers in one JVM, whatever
    the number is."""

    deployment: Literal["pods", "single-pod"] = "pods"
    """`pods`: a pod for the driver, and others for the workers. `single-pod`: the driver and up to
    `slots` workers share one pod and one JVM, as on one machine. That takes a third of the memory
    and starts sooner, but all of it is lost, and comes back, at once. A change from one to the
    other keeps all state. `fulmen run` does the same for both."""

    ackers: Annotated[int, Field(strict=True, ge=0, le=1000)] | None = None
    """The number of acker tasks, which track the tuple trees. 0 turns acking off: every message
    counts as acked when it is emitted. Default: as many as `workers`."""

    message_timeout_seconds: Seconds = 30
    """Seconds in which all tuples of a tree must be acked. Otherwise the tree fails, and its spout
    is told so. Time stands still while the topology recovers."""

    max_spout_pending: Count | None = None
    """The largest number of tuple trees that one spout task may have pending. Above it, the task is
    not asked for tuples until some trees have ended. This limits memory and latency under load.
    Default: no limit. In a transactional topology: the number of transactions that may be active
    side by side. Default: 1."""

    max_replays: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] | None = None
    """How many times a message may fail before it is given up. A message that is emitted once more
    goes to the spout's stream `__dead_letters` instead, and its spout gets an ack. The same holds
    for a result of a bolt. Default: no limit. In a transactional topology: how many attempts of a
    transaction may fail before it is given up. Default: none is; one that ends its workers again
    and again ends the topology."""

    dead_letters: DeadLetterRules = DeadLetterRules()
    """How many dead letters the checkpoint keeps, for `fulmen dead-letters`."""

    on_error: Literal["fail", "crash"] = "fail"
    """What an exception in a bolt does. `fail`: the tuple's trees fail, the error is reported, and
    everything else continues. `crash`: the topology stops, as a Storm worker does."""

    batch_target_millis: Annotated[int, Field(strict=True, ge=1, le=60_000)] = 250
    """Milliseconds that a micro-batch should take under load. A smaller value means lower latency,
    a larger one higher throughput. Spouts are asked for as many tuples as fit. If a
    batch takes more than half of it whatever it holds, it may take twice what that is."""

    batch_interval_millis: Annotated[int, Field(strict=True, ge=0, le=5_000)] = 0
    """Milliseconds from the beginning of a micro-batch to that of the next one, at least, unless
    spouts have more than fits into one. A batch of few messages costs about as much CPU as an empty
    one: a larger value makes a topology cheap that gets few messages a second. They wait longer
    then, and so does what takes a second batch, such as a sink that writes exactly once. Under load
    batches follow each other at once, whatever this says."""

    batch_timeout_seconds: Seconds = 300
    """Seconds after which a micro-batch that does not end is cancelled. It is tried again with
    fewer and fewer tuples, until the one tuple that hangs is found and failed. A spout whose own
    call hangs is left out. Making instances (`open`, `prepare`) is no part of a batch, and may take
    twelve times as long."""

    state: Literal["Active", "Inactive", "Suspended"] = "Active"
    """`Active`: everything runs. `Inactive`: spouts emit nothing; bolts and acks continue.
    `Suspended`: pending trees end, then all pods are removed; state is kept."""

    keyed_state: KeyedStateSettings = KeyedStateSettings()
    """Where `self.state` of bolts is kept while they run: in memory, or on disk. What is called
    `state` here is whether the topology runs."""

    config: JsonMap = Field({})
    """Any values for the spouts and bolts, which receive them in `open` and `prepare`. In a text
    here, or in a component's own `config`, `${NAME}` is replaced by the environment variable of
    that name where the component runs. `${NAME:-text}` has a default, and `$${` is a literal
    `${`."""

    env: tuple[EnvVar, ...] = Field((), max_length=256)
    """Environment variables of the driver and of every worker. Of variables of the same name, those
    in `driver.env` and `worker.env` win."""

    code: Code | None = None
    """Where the classes of spouts and bolts come from. Default: the packages that are installed in
    the image."""

    spouts: tuple[SpoutSpec, ...] = Field((), max_length=100)
    """The sources of tuples; at least one, unless the topology is transactional."""

    transactional: tuple[TransactionalSpoutSpec, ...] = Field((), max_length=100)
    """The sources of a transactional topology, which has them in place of `spouts`: their tuples
    are divided into transactions, each with a part of every source, that are committed in strict
    order. Its bolts are BatchBolts and BasicBolts."""

    bolts: tuple[BoltSpec, ...] = Field((), max_length=400)
    """The components that receive tuples."""

    checkpoint: Checkpoint = Checkpoint()
    """Where state is kept. Default: a volume claim named after the topology."""

    renames: Annotated[dict[FieldName, Name], Field(max_length=500)] = Field({})
    """Components that had other names: the old name of each, and its new one, such as `{count:
    counts}`. The new one takes over what the checkpoint has under the old one, once; an entry may
    stay. Default: a component with a new name begins with nothing, and what the old one has kept
    stays in the checkpoint."""

    state_classes: Annotated[dict[FieldName, ImportPath], Field(max_length=500)] = Field({})
    """Classes of values in the checkpoint that were renamed or moved: the old name of each, as
    `module.Class`, and its new one. A module that was renamed may be given as a whole. Values of
    `self.state` and of fields are written anew under the new names as soon as they are read.
    Default: classes have the names that they had."""

    forget_removed_after: Duration | None = None
    """The state of a component that has not been in the topology for so long is removed from the
    checkpoint, such as `30d`. Savepoints keep it. Default: it stays until `renames` takes it over
    or `fulmen state forget` removes it."""

    savepoints: Savepoints | None = None
    """Automatic savepoints. Default: none. `{}` makes one an hour and keeps 24."""

    restore_from: RestoreFrom | None = None
    """A savepoint that the topology goes back to, or that it begins with as a copy of another
    topology. A copy never touches what the original has written: its sinks have ids of their own,
    and rows that the original had still to write are left out."""

    driver: Pod = Pod()
    """The driver's pod, which hosts the coordinator of batches, and pinned spouts."""

    worker: Pod = Pod()
    """Each worker's pod, which hosts the executors of spouts, bolts and ackers."""

    spark: Spark = Spark()
    """Settings of Spark, in addition to those that Fulmen makes."""

    tap: Tap = Tap()
    """Whether `fulmen tap` and the page may show tuples of the running topology. Default: they may
    not."""

    restart_nonce: Annotated[int, Field(strict=True, ge=0, le=2**53)] | None = None
    """Any number, such as the time. Changing it restarts the topology's pods; state is kept."""

    start_timeout_seconds: Seconds = 300
    """On Kubernetes: seconds that a pod may take to start. After that, the topology is not `Ready`,
    and the reason is what keeps the pod from starting. The pod is left waiting. On one machine:
    seconds that `fulmen run` waits for the next worker to start."""

    preflight: Literal["Load", "Open"] = "Load"
    """What the preflight pod does with the classes of a change before the change replaces a driver,
    on Kubernetes. `Load`: makes an instance of each component. `Open`: also calls `open` or
    `prepare` of each instance, without state, and then `close` or `cleanup`; an exception refuses
    the change. Choose `Open` if a second instance beside those that run does no harm."""

    network_policy: Literal["None", "Restrict"] = "None"
    """`Restrict`: a NetworkPolicy lets only the topology's own pods connect to each other, on the
    ports that Fulmen uses. Anybody may connect to the port with metrics. Connections to the outside
    are not limited. The chart's `networkPolicies` may restrict all topologies further."""

    service: ServiceSettings | None = None
    """On Kubernetes: a Service that leads to the spouts that listen, with a NetworkPolicy that says
    who may connect to them. `{}` is for those of the topology's own namespace. Default: there is no
    Service."""

    @property
    def pods(self) -> int:
        """The number of pods for workers alone."""
        return 0 if self.is_single_pod else -(-self.workers // self.slots)

    @property
    def service_ports(self) -> list[int]:
        """The ports of the topology's Service; empty: it has none."""
        if self.service is None:
            return []
        state = self.service.state
        ports = self.service.ports or listening_ports(self.spouts)
        return list(dict.fromkeys((*ports, *([] if state is None else [state.port]))))

    @property
    def is_single_pod(self) -> bool:
        """Whether driver and workers share a pod."""
        return self.deployment == "single-pod"

    @property
    def acker_tasks(self) -> int:
        """The number of acker tasks."""
        if self.transactional:  # what counts is the transaction
            return 0
        return self.workers if self.ackers is None else self.ackers

    @property
    def forget_removed_seconds(self) -> float | None:
        """`forget_removed_after` in seconds; None: never."""
        after = self.forget_removed_after
        return None if after is None else milliseconds(after) / 1000

    def keeps_on_disk(self, component: ComponentSpec) -> bool:
        """Whether keyed state of a component is on disk."""
        if not isinstance(component, BoltSpec):
            return False
        return (component.keyed_state or self.keyed_state).backend == "disk"

    @property
    def is_on_disk(self) -> bool:
        """Whether keyed state of a bolt is on disk."""
        return any(map(self.keeps_on_disk, self.bolts))

    @property
    def commit_phase(self) -> frozenset[str]:
        """Committers, and all bolts behind them: they finish when a transaction is committed."""
        sources: dict[str, list[str]] = {component.name: [] for component in self.components}
        sources |= {bolt.name: [wanted.from_ for wanted in bolt.inputs] for bolt in self.bolts}
        return with_followers((bolt.name for bolt in self.bolts if bolt.committer), sources)

    @property
    def sources(self) -> Iterator[SpoutSpec | TransactionalSpoutSpec]:
        """The sources of tuples: the spouts, or the transactional spouts."""
        yield from self.spouts
        yield from self.transactional

    @property
    def components(self) -> Iterator[SpoutSpec | TransactionalSpoutSpec | BoltSpec]:
        """All spouts, then all bolts, as they are declared."""
        yield from self.sources
        yield from self.bolts


class Topology(Model):
    """A topology of spouts and bolts that runs on Apache Spark."""

    api_version: Literal["fulmen.dev/v1alpha1"] = API_VERSION
    """The version of this resource."""

    kind: Literal["Topology"] = KIND
    """The kind of this resource."""

    metadata: Metadata
    """The topology's name, and Kubernetes' further metadata."""

    spec: TopologySpec
    """What the topology consists of, and how it runs."""

    @property
    def name(self) -> str:
        """The topology's name."""
        return self.metadata.name

    @property
    def whole_name(self) -> str:
        """The name of a checkpoint's owner: namespace and name, or the name alone."""
        namespace = (self.metadata.__pydantic_extra__ or {}).get("namespace")
        return f"{namespace}/{self.name}" if namespace else self.name

    def component(self, name: str) -> SpoutSpec | TransactionalSpoutSpec | BoltSpec:
        """The spout or bolt of that name.

        Raises:
            KeyError: There is none.
        """
        for component in self.spec.components:
            if component.name == name:
                return component
        raise KeyError(name)

    @property
    def tasks(self) -> dict[str, int]:
        """The number of tasks of each component."""
        return {component.name: component.tasks for component in self.spec.components}

    def with_each(self, change: Callable[[ComponentSpec], dict[str, Any]], **more: Any) -> Self:
        """Replace fields of each component.

        Args:
            change: The new fields of a component.
            more: New fields of the spec.
        """
        for section in ("spouts", "transactional", "bolts"):
            components = getattr(self.spec, section)
            more[section] = tuple(one.model_copy(update=change(one)) for one in components)
        return self.model_copy(update={"spec": self.spec.model_copy(update=more)})
