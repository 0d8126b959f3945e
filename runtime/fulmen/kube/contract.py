"""The contract between operator and driver: names, files, exit codes, messages. Pure.

Operator and driver may be of different versions: an upgrade of the operator does not restart a
running driver. So both ignore fields that they don't know, and nothing here is ever removed.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Any, Final, Literal, Self

from pydantic import Field

from fulmen.kube.load import Load
from fulmen.kube.message import ContractModel
from fulmen.topology.resource.changes import digest
from fulmen.topology.resource.scaling import scaled
from fulmen.topology.resource.spec import Topology

SCHEMA_VERSION: Final = 1

# ---- Labels and annotations

GROUP: Final = "fulmen.dev"
PLURAL: Final = "topologies"
VERSION: Final = "v1alpha1"

NAME_LABEL: Final = "app.kubernetes.io/name"
INSTANCE_LABEL: Final = "app.kubernetes.io/instance"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
TOPOLOGY_LABEL: Final = "fulmen.dev/topology"
ATTEMPT_LABEL: Final = "fulmen.dev/attempt"
WORKER_LABEL: Final = "fulmen.dev/worker"
"""The numbers of a pod's workers, such as `2` or `2-3`. The driver sets it, when it knows them."""

APP_NAME: Final = "fulmen"
MANAGER: Final = "fulmen-operator"
DRIVER: Final = "driver"
WORKER: Final = "worker"
PREFLIGHT: Final = "preflight"

RUNNING: Final = "running"
"""The message of the condition Ready when there is nothing to tell."""

REPORT_ANNOTATION: Final = "fulmen.dev/report"
PAUSED_ANNOTATION: Final = "fulmen.dev/paused"
ACCEPT_LOSS_ANNOTATION: Final = "fulmen.dev/accept-checkpoint-loss"
ADOPT_ANNOTATION: Final = "fulmen.dev/adopt"

# ---- Containers

DRIVER_CONTAINER: Final = "driver"
WORKER_CONTAINER: Final = "worker"
PREFLIGHT_CONTAINER: Final = "preflight"
STATE_CONTAINER: Final = "state"
"""Answers questions about the state, beside the driver."""
WORKER_PREFLIGHT_CONTAINER: Final = "preflight-worker"
"""Runs before the other one, if the workers have an image of their own or instances are opened."""
DRIVER_COMMAND: Final = "driver"
EXECUTOR_COMMAND: Final = "executor"
PREFLIGHT_COMMAND: Final = "preflight"
USER_ID: Final = 185

METRICS_PORT: Final = 9464
METRICS_PORT_NAME: Final = "metrics"
SPARK_PORT: Final = 7078
BLOCK_MANAGER_PORT: Final = 7079
POD_PORTS: Final = (SPARK_PORT, BLOCK_MANAGER_PORT)
"""The ports on which the pods of a topology connect to each other."""
HEALTH_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"

NAMESPACE_ENV: Final = "FULMEN_NAMESPACE"
TOPOLOGY_ENV: Final = "FULMEN_TOPOLOGY"
UID_ENV: Final = "FULMEN_UID"
ATTEMPT_ENV: Final = "FULMEN_ATTEMPT"
POD_NAME_ENV: Final = "FULMEN_POD_NAME"
POD_IP_ENV: Final = "FULMEN_POD_IP"
METRICS_TOKEN_ENV: Final = "FULMEN_METRICS_TOKEN"
"""The token that whoever asks a server in the pod has to show."""
CODE_URI_ENV: Final = "FULMEN_CODE_URI"
CODE_SHA256_ENV: Final = "FULMEN_CODE_SHA256"
"""Variables with the place of code in a store, and the digest that it must have."""

# ---- Files

CODE_FOLDER: Final = "/opt/fulmen/code"
UNPACKED_FOLDER: Final = "/var/fulmen/code"
"""The folder to which a container unpacks an archive; `entrypoint` has the same one for workers."""
SECRET_FILE: Final = "/etc/fulmen/auth/secret"
SECRET_KEY: Final = "secret"
CANDIDATE_FILE: Final = "/etc/fulmen/candidate/candidate.json"
CANDIDATE_KEY: Final = "candidate.json"
CHECKPOINT_FOLDER: Final = "/checkpoint"
CHECKPOINT_URI: Final = "file:///checkpoint"
TEMP_FOLDER: Final = "/tmp"
WORK_FOLDER: Final = "/var/fulmen"
SPARK_FOLDER: Final = "/var/fulmen/spark"
STATE_FOLDER: Final = "/var/fulmen/state"
STATE_FOLDER_ENV: Final = "FULMEN_STATE_FOLDER"
"""The environment variable by which workers find it, if keyed state is on disk."""
SPARK_VOLUME: Final = "spark-local-dir-1"
"""The volume at SPARK_FOLDER in worker pods: Spark takes volumes of that name for its own."""
LOG_FILE: Final = "/var/fulmen/spark.log"
TERMINATION_FILE: Final = "/dev/termination-log"
REVISION_KEY: Final = "revision.json"

GRACE_SECONDS: Final = 30
"""Seconds on top of messageTimeoutSeconds for a driver's pod to end."""
REPORT_SECONDS: Final = 5
"""The least time between two reports."""
FIGURES_SECONDS: Final = 20
"""The least seconds between reports that differ only in figures that change with every batch."""
REPORT_BYTES: Final = 64 * 1024
ENDED_BYTES: Final = 4096
"""The most bytes that the kubelet takes of a termination message."""


def executor_name(component: str, first: int, last: int) -> str:
    """An executor as status and reports name it: `split[3-4]`, the ids of its tasks."""
    return f"{component}[{first}-{last}]"


class Hosted(ContractModel):
    """The executors that one worker hosts.

    Attributes:
        worker: The worker's number; -1 is the driver, which hosts pinned spouts.
        pod: Its pod; empty if it is planned only.
        executors: Its executors, as `executor_name` names them, by ascending task ids.
    """

    worker: int
    pod: str = ""
    executors: tuple[str, ...] = ()


class Directive(StrEnum):
    """An instruction for a driver."""

    RUN = "Run"
    INACTIVE = "Inactive"
    DRAIN = "Drain"


class Images(ContractModel):
    """The images that a revision was accepted with."""

    driver: str = ""
    worker: str = ""


class RolledBack(ContractModel):
    """A version that did not get to its first commit, so that the one before it came back.

    Attributes:
        generation: The generation of its spec.
        input_hash: The hash of its input.
        code: The ConfigMap with its code; empty if it had none.
        message: Why it was given up.
    """

    generation: int
    input_hash: str
    code: str = ""
    message: str


class Mounts(ContractModel):
    """The mounts of a revision's pods, besides those of all pods.

    Attributes:
        code: The ConfigMap with the code; empty if there is none.
        code_parts: How many ConfigMaps have a part of the code each; 0: one has all of it.
        code_uri: The place of the code in a store; empty if it is not in one.
        code_sha256: The SHA-256 that it must have there, in hexadecimal digits.
        claim: The claim that the checkpoint is on; empty if it is at a URI.
        owns_claim: Whether the operator makes that claim.
    """

    code: str = ""
    code_parts: int = 0
    code_uri: str = ""
    code_sha256: str = ""
    claim: str = ""
    owns_claim: bool = False


class Revision(ContractModel):
    """The last accepted spec, resolved. In the ConfigMap `names.revision`, under REVISION_KEY.

    Attributes:
        schema_version: SCHEMA_VERSION of the operator that wrote it.
        generation: metadata.generation of the accepted spec.
        directive: The instruction for the driver.
        topology: The whole document: apiVersion, kind, metadata (name, namespace, uid) and spec,
            with numTasks resolved, `checkpoint` as a uri, and without `code`.
        worker_pod: A pod manifest, Spark's template for worker pods, made with the driver's pod.
            Empty until there was one.
        images: The images of driver and workers.
        mounts: The mounts of its pods.
        input_hash: The hash of the user's accepted input.
        last_batch: The last known commit when the attempt began. If it is above 0, an empty
            checkpoint is a lost one. 0: the user has accepted the loss.
        worked: Whether a driver of this revision has committed a batch.
        previous: The revision before it, which has worked, until this one has committed a batch.
        tried_since: When its first driver was started, while there is a previous one.
        rolled_back: The version that was tried last, if this one has come back.
        workers: The number of workers, if `autoscale` decides: the topology has the number to begin
            with. A component then has as many executors on each worker.
        successor: With the directive Drain: the attempt that a driver hands its clients over to; 0:
            it sends them away.
    """

    schema_version: int = SCHEMA_VERSION
    generation: int
    directive: Directive = Directive.RUN
    topology: dict[str, Any]
    worker_pod: dict[str, Any] = Field(default_factory=dict)
    images: Images = Images()
    mounts: Mounts = Mounts()
    input_hash: str = ""
    last_batch: int = 0
    worked: bool = False
    previous: Self | None = None
    tried_since: str = ""
    rolled_back: RolledBack | None = None
    workers: int | None = None
    successor: int = 0

    @cached_property
    def resolved(self) -> Topology:
        """The topology, validated once: a copy with other fields of the revision has it, too."""
        return Topology.model_validate(self.topology, by_alias=True, by_name=False)

    @property
    def running(self) -> Topology:
        """The topology with its wanted number of workers."""
        return scaled(self.resolved, self.workers)

    @property
    def trial(self) -> str:
        """A digest of what a preflight tries: its input, and whether it opens instances, too."""
        mode = self.resolved.spec.preflight
        return self.input_hash if mode == "Load" else digest([self.input_hash, mode])


class Candidate(ContractModel):
    """A spec for a preflight to validate: in the file CANDIDATE_FILE.

    Attributes:
        topology: The whole document, as in a revision.
        tasks: The number of tasks of each component that has a checkpoint.
    """

    schema_version: int = SCHEMA_VERSION
    topology: dict[str, Any]
    tasks: Mapping[str, int] = Field(default_factory=dict)


class DriverPhase(StrEnum):
    """The phase of a driver."""

    STARTING = "Starting"
    ACTIVE = "Active"
    INACTIVE = "Inactive"
    DRAINING = "Draining"
    REBALANCING = "Rebalancing"
    FINISHED = "Finished"


class ReportedError(ContractModel):
    """An error of a component.

    Attributes:
        component: The spout or bolt.
        task: The id of the task.
        message: What happened, in one line.
        time: The time of the last occurrence, in seconds of the Unix clock.
        count: The number of occurrences.
    """

    component: str
    task: int
    message: str
    time: float
    count: int = 1


OutageReason = Literal["CheckpointUnreachable", "ServiceUnavailable"]


class Outage(ContractModel):
    """A service that the driver waits for, because it can't do without it.

    Attributes:
        reason: For programs, as in a condition: an `OutageReason`, or one of a newer driver.
        message: What it waits for, since when and why, in one line.
    """

    reason: str
    message: str


class ReportedSavepoints(ContractModel):
    """The savepoints of the checkpoint.

    Attributes:
        count: How many there are.
        name: The newest one.
        commit: The commit whose state it is.
        time: When it was made, in seconds of the Unix clock.
        why: What it was made for.
        trouble: What is wrong with savepoints; may be empty.
    """

    count: int = 0
    name: str = ""
    commit: int = 0
    time: float = 0.0
    why: str = ""
    trouble: str = ""


class Report(ContractModel):
    """A driver's report, in the annotation REPORT_ANNOTATION of its own pod.

    Attributes:
        phase: The driver's phase.
        generation: The generation of the revision that it runs.
        epoch: Its epoch in the checkpoint; 0: not claimed yet.
        batch: The number of the last commit.
        committed: Whether this driver itself has run a batch to its end.
        workers: Observed placement.
        planned: The placement by the driver's own plan if all workers were there; empty: as
            `workers`.
        tasks: The number of tasks of each component, `__acker` included.
        errors: The newest ones.
        message: What a person should know now; may be empty.
        outage: A longer wait for a service; no batch is committed meanwhile.
        refused: Why the newest revision is not taken over while the driver runs; empty: it is.
        savepoints: Those that there are. None: it is not known yet.
        load: The latest load, if it decides about the number of workers. None: it is not known yet,
            or not asked for.
        hands_over: Whether it has drained, and only keeps its clients until the next driver is
            ready.
    """

    schema_version: int = SCHEMA_VERSION
    phase: DriverPhase
    generation: int
    epoch: int = 0
    batch: int = 0
    committed: bool = False
    workers: tuple[Hosted, ...] = ()
    planned: tuple[Hosted, ...] = ()
    tasks: Mapping[str, int] = Field(default_factory=dict)
    errors: tuple[ReportedError, ...] = ()
    message: str = ""
    outage: Outage | None = None
    refused: str = ""
    savepoints: ReportedSavepoints | None = None
    load: Load | None = None
    hands_over: bool = False


class ExitCode(IntEnum):
    """The exit code of the driver's container. Any other code: try again."""

    FINISHED = 0
    FAILED = 1
    MISTAKE = 2
    CHECKPOINT = 3
    FENCED = 4
    TERMINATED = 143


EndReason = Literal[
    "Finished",
    "Drained",
    "Valid",
    "InvalidSpec",
    "CheckpointLost",
    "CheckpointUnreachable",
    "CheckpointMismatch",
    "CheckpointUnusable",
    "Fenced",
    "Terminated",
    "Error",
]


class Mistake(ContractModel):
    """A mistake in the spec or the code.

    Attributes:
        path: The place in the document; empty for all of it.
        reason: What is wrong, without a full stop.
        cure: What to do about it: a sentence, or nothing.
    """

    path: str = ""
    reason: str
    cure: str = ""


class Ended(ContractModel):
    """The reason for which a driver's or preflight's container ended: its termination message.

    Attributes:
        reason: The reason, for programs.
        message: The reason for people, in one line.
        errors: All mistakes, as far as there is room.
    """

    reason: EndReason
    message: str
    errors: tuple[Mistake, ...] = ()
