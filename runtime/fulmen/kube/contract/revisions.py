"""What the operator tells a driver or a preflight to do: the spec that it is to run."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Self

from pydantic import Field

from fulmen.kube.contract import SCHEMA_VERSION
from fulmen.kube.message import ContractModel
from fulmen.topology.resource.changes import digest
from fulmen.topology.resource.scaling import scaled
from fulmen.topology.resource.spec import Topology


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
