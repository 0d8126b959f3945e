"""Makes a revision runnable: checks spec, authors' classes and checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fulmen.checkpoint import CommitLog, Store, tasks_in
from fulmen.errors import CheckpointLost, Denied, ValidationFailed
from fulmen.kube.container.fetching import fetched
from fulmen.kube.contract import CODE_FOLDER, UNPACKED_FOLDER
from fulmen.kube.contract.revisions import Revision
from fulmen.topology.code.packages import check_packages
from fulmen.topology.code.packing import unpacked
from fulmen.topology.problems import Problem
from fulmen.topology.reading.field_problems import parse, without_unknown
from fulmen.topology.resource.scaling import scaled
from fulmen.topology.resource.spec import ACKER, Topology
from fulmen.topology.validation.check import Runnable, check, with_checkpoint_tasks

OPERATORS = {
    "state",
    "autoscale",
    "checkpoint",
    "start_timeout_seconds",
    "preflight",
    "network_policy",
    "service",
}
"""Fields of the spec that may change without a driver, and are not for it to take over."""
AT_ONCE = {"tap"}
"""Fields that a driver takes over without going on as another topology."""


def prepare(revision: Revision, folder: Path = Path(CODE_FOLDER)) -> Runnable:
    """Check a revision with this image's classes.

    Args:
        revision: From the operator.
        folder: The folder that the code is mounted at.

    Raises:
        ValidationFailed: There are mistakes; it names all of them.
        CodeError: The code is an archive that can't be unpacked.
        CheckpointLost: The commits are no longer there.
        CheckpointError: The checkpoint can't be used, or does not answer.
    """
    code = code_folder(folder)
    document = without_unknown(revision.topology)
    runnable = checked(document, code, {})  # mistakes come before what the checkpoint says
    uri = runnable.topology.spec.checkpoint.uri
    if uri is None:
        problem = Problem("spec.checkpoint", "the revision names no uri")
        raise ValidationFailed([problem])
    tasks = known_tasks(uri, runnable.topology, revision.last_batch)
    runnable = checked(document, code, tasks) if tasks else runnable
    return replace(runnable, topology=scaled(runnable.topology, revision.workers))


def checked(document: Any, code: Path | None, tasks: Mapping[str, int]) -> Runnable:
    """Check a document.

    Args:
        document: The whole resource.
        code: The folder of the author's modules.
        tasks: The number of tasks of each component that has a checkpoint.

    Raises:
        ValidationFailed: There are mistakes; it names all of them.
    """
    return check(document, code, tasks, for_kubernetes=True).runnable(code, tasks)


def known_tasks(uri: str, topology: Topology, last_batch: int) -> dict[str, int]:
    """Read the number of tasks of each component from a checkpoint. Writes nothing.

    Args:
        uri: The URI of the checkpoint.
        topology: The owner of the checkpoint, or the topology that takes it over.
        last_batch: A commit that was made there; 0: none is known.

    Raises:
        CheckpointLost: The checkpoint is empty although there was a commit.
        CheckpointError: The checkpoint can't be used, or does not answer.
    """
    try:
        whose, taken = topology.whole_name, topology.spec.checkpoint.take_over
        manifest = CommitLog(Store.open(uri), whose, driver="", takes_over=taken).manifest
    except Denied as error:
        if last_batch > 0:  # a driver before could read there
            raise error.as_outage() from error
        raise
    if manifest.number == 0 and last_batch > 0:
        raise CheckpointLost(
            f"checkpoint {uri} is empty, but batch {last_batch} was committed there. Restore it;"
            " or, to start without the committed state, annotate the Topology with"
            " fulmen.dev/accept-checkpoint-loss=true"
        )
    return {name: n for name, n in tasks_in(manifest).items() if name != ACKER}


def code_folder(
    folder: Path,
    into: Path = Path(UNPACKED_FOLDER),
    environ: Mapping[str, str] = os.environ,
) -> Path | None:
    """The folder of the author's modules; None: there are only those of the image.

    Args:
        folder: The mount of the code, as files or as an archive.
        into: The folder to unpack an archive to.
        environ: Names the place of code that is in a store.

    Raises:
        CodeError: The archive has another digest, can't be unpacked, or its packages can't be used
            here.
        FulmenError: The store does not give it.
    """
    found = fetched(environ, into) or _mounted(folder, into)
    if found is not None:
        check_packages(found)
    return found


def _mounted(folder: Path, into: Path) -> Path | None:
    try:
        has_files = any(not path.name.startswith("..") for path in folder.iterdir())
    except FileNotFoundError:
        return None
    return unpacked(folder, into) if has_files else None


def topology_of(revision: Revision) -> Topology:
    """The topology of a revision that changes nothing that classes or the checkpoint have a say in.

    Raises:
        ValidationFailed: The document can't be understood.
    """
    return scaled(parse(without_unknown(revision.topology)), revision.workers)


def runs_unlike(topology: Topology, other: Topology) -> bool:
    """Whether a driver that runs one of the two must change anything to run the other.

    Once there is a checkpoint, the operator writes the numbers of tasks that a spec leaves out:
    they are the same numbers.
    """
    one, another = (
        with_checkpoint_tasks(either, {}).spec.model_dump(exclude=OPERATORS | AT_ONCE)
        for either in (topology, other)
    )
    return one != another
