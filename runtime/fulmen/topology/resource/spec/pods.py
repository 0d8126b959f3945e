"""The parts of a Topology that are about its pods, its Spark and its storage."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from fulmen.topology.resource.base import (
    ENV_NAME,
    JsonMap,
    Model,
    ObjectName,
    Quantity,
    Text,
    refuse,
)
from fulmen.topology.resource.spec.pod_template import shaped

LEAST_MEBIBYTES = 1200
"""The least and default memory of a container. Spark refuses a JVM with less than 450 MiB for
objects: a heap of 480."""
INLINE_CODE_LIMIT = 128 * 1024
MAX_CODE_BYTES = 900 * 1024
"""The most code in a ConfigMap: Kubernetes takes 1 MiB of data in one."""
ARCHIVE_NAME = "code.tar.gz"
"""The key of packed files in a ConfigMap: with folders, and files that are not text."""
MAX_CODE_PARTS = 4
"""ConfigMaps with parts of an archive. More belongs into a store: etcd keeps each one whole."""
ARCHIVE_URI = r"^(file|s3|gs|az)://.*[^/]$"
SHA256 = r"^[0-9a-f]{64}$"
FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
"""File names without folders, which can't lead out of the folder that files are written to."""


def archive_part(number: int) -> str:
    """The file of a ConfigMap that has a part of an archive; the first one is 1."""
    return f"{ARCHIVE_NAME}.{number}"


def _code_files(files: dict[str, str]) -> dict[str, str]:
    for name in files:
        if not FILE_NAME.fullmatch(name) or len(name) > 253:
            refuse(f"has the key {name!r}, which can't be the name of a file")
    size = sum(len(text.encode()) for text in files.values())
    if size > INLINE_CODE_LIMIT:
        refuse(f"has {size} bytes in all, but at most {INLINE_CODE_LIMIT} are allowed inline")
    return files


def _without_null_character(text: str) -> str:
    if "\0" in text:
        refuse("has a null character, which no environment variable can hold")
    return text


class LocalReference(Model):
    """Another object of the same namespace."""

    name: ObjectName
    """The object's name."""


class EnvVar(Model):
    """An environment variable of a container, as in a pod."""

    name: Annotated[str, Field(pattern=ENV_NAME, max_length=253)]
    """The variable's name."""

    value: (
        Annotated[str, Field(max_length=32_768), AfterValidator(_without_null_character)] | None
    ) = None
    """The variable's value. Give either this or `valueFrom`."""

    value_from: JsonMap | None = None
    """Where the variable's value comes from, as in a pod: a `secretKeyRef`, `configMapKeyRef` or
    `fieldRef`."""


class Resources(Model):
    """What a container may use, as in a pod."""

    limits: dict[str, Quantity] = Field({}, max_length=32)
    """The most that the container gets. Default, and least: `memory: 1200Mi`, or less in a single
    pod. The JVM's heap gets 40 % of the memory."""

    requests: dict[str, Quantity] = Field({}, max_length=32)
    """What is reserved for the container. Default: `cpu: 400m` for the driver, `300m` for a
    worker, and as much memory as the limit. A request of memory must equal the limit."""


class Pod(Model):
    """How the driver's pod, or each worker's pod, is made. What is not set, Fulmen decides."""

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """The container image, built `FROM` Fulmen's own. Default: the image that the operator was
    installed with."""

    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the kubelet pulls the image. Default: Kubernetes' own rule."""

    image_pull_secrets: tuple[LocalReference, ...] = Field((), max_length=16)
    """Secrets of this namespace to pull the image with."""

    resources: Resources = Resources()
    """What the container may use. One worker has work for one core: for more CPU, add workers."""

    env: tuple[EnvVar, ...] = Field((), max_length=256)
    """Environment variables for the author's code."""

    service_account_name: ObjectName | None = None
    """The ServiceAccount to run as. Default: one made for this topology, with no more rights than
    it needs."""

    pod_template: Annotated[JsonMap, AfterValidator(shaped)] = Field({})
    """A pod template (`metadata` and `spec`) for node selectors, tolerations, volumes, sidecars. It
    is merged into the pod by name. Fulmen overwrites fields that it must decide itself.
    `fulmen validate` tells its mistakes by Kubernetes' own description of pods."""


class Spark(Model):
    """Settings of Spark itself."""

    conf: dict[str, Text] = Field({}, max_length=256)
    """Spark properties, such as `spark.executor.heartbeatInterval: 10s`. Values are text.
    Properties that Fulmen's guarantees depend on can't be set."""


class Checkpoint(Model):
    """Where state is kept, so that it outlives every pod.

    Give `uri` or `persistentVolumeClaim`, or neither.
    """

    uri: Annotated[str, Field(pattern=r"^(file|s3|gs|az)://.+$", max_length=1024)] | None = None
    """A folder in an object store or file system: `s3://bucket/path`, `gs://…`, `az://…` or
    `file:///…`. Fulmen never deletes it."""

    persistent_volume_claim: ObjectName | None = None
    """A claim of this namespace. Default: the operator makes a claim that is named after the
    topology. Unless many nodes can mount the claim (ReadWriteMany), all pods run on the driver's
    node."""

    take_over: (
        Annotated[str, Field(pattern=r"^[a-z0-9.-]+(/[a-z0-9.-]+)?$", max_length=128)] | None
    ) = None
    """Another topology whose checkpoint this is, and from whose state this one goes on:
    `NAMESPACE/NAME`, or `NAME` for one that has no namespace, as with `fulmen run`. From its first
    commit on, the checkpoint is this topology's. Without this, the checkpoint of another topology
    is refused."""

    deletion_policy: Literal["Retain", "Delete"] = "Retain"
    """What happens to the claim that the operator made, when the topology is deleted. `Retain`: a
    topology that is made again under the same name continues where this one stopped."""


class Code(Model):
    """Where the classes of spouts and bolts come from. Give one of the five."""

    files: Annotated[dict[str, str], AfterValidator(_code_files)] = Field({}, max_length=64)
    """Python files by name, such as `wordcount.py`, with their text. At most 128 KiB in all."""

    folder: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """A folder with Python files and packages, relative to the file that this is
    written in. For the command line only: `fulmen manifest` puts its files into a ConfigMap."""

    config_map: ObjectName | None = None
    """A ConfigMap of this namespace whose keys are names of Python files, or which has a packed
    project as `code.tar.gz`. At most 900 KiB in all."""

    config_maps: tuple[ObjectName, ...] = Field((), max_length=MAX_CODE_PARTS)
    """ConfigMaps of this namespace that have the parts of one packed project, in this order: the
    first one as `code.tar.gz.1`, the second one as `code.tar.gz.2`. At most 900 KiB in each, and
    `sha256` is the digest of them all. `fulmen manifest` makes them."""

    uri: Annotated[str, Field(pattern=ARCHIVE_URI, max_length=1024)] | None = None
    """A packed project in an object store or file system, such as
    `s3://bucket/code-1.tar.gz`. Each pod fetches it, with the credentials that it has for the
    checkpoint. `fulmen manifest --archive` makes it."""

    sha256: Annotated[str, Field(pattern=SHA256, max_length=64)] | None = None
    """The SHA-256 of what is at `uri` or in `configMaps`, in hexadecimal digits: nothing else is
    run."""
