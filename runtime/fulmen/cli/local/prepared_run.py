"""Prepares `fulmen run`: reads and checks what the user gives, and makes its places."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from fulmen.cli.bad_input import BadInput
from fulmen.cli.local.environment import Where, environment_of
from fulmen.cli.local.run_checkpoint import KnownCheckpoint, look_at, place, wanted_uri
from fulmen.cli.topology_file import TopologyFile, tell_warnings
from fulmen.errors import CheckpointError, ValidationFailed
from fulmen.topology.configuration.options import configured
from fulmen.topology.problems import Problem
from fulmen.topology.resource.spec import Topology
from fulmen.topology.validation.check import Checked, Runnable, code_elsewhere

LARGE_BATCH_MILLIS = 1_000
"""Milliseconds of a batch where nobody waits for single messages. Longer ones are hardly cheaper,
and need more memory."""


@dataclass(frozen=True)
class Prepared:
    """A topology that can be run on this machine.

    Attributes:
        runnable: The topology.
        checkpoint: Its URI.
        is_kept: Whether another run may go on from it.
        notes: What the user is to be told about it, line by line.
        worker_env: Environment variables of the workers.
    """

    runnable: Runnable
    checkpoint: str
    is_kept: bool
    notes: Sequence[str]
    worker_env: Mapping[str, str] = field(default_factory=dict)

    def with_large_batches(self) -> "Prepared":
        """Copy with more throughput and more latency, unless the topology says which it has."""
        topology = self.runnable.topology
        if "batch_target_millis" in topology.spec.model_fields_set:
            return self
        spec = topology.spec.model_copy(update={"batch_target_millis": LARGE_BATCH_MILLIS})
        larger = topology.model_copy(update={"spec": spec})
        return replace(self, runnable=replace(self.runnable, topology=larger))


@contextmanager
def prepare(file: TopologyFile, checkpoint: str | None, where: Where) -> Iterator[Prepared]:
    """Read and check a topology, and keep its folders for as long as this is open.

    Args:
        file: The topology's.
        checkpoint: Where state is kept, instead of where the topology says.
        where: Where its workers will be.

    Raises:
        ValidationFailed: There are mistakes; it names all of them.
        CodeError: A topology in Python can't be imported.
        BadInput: It can't be run here, or not with this checkpoint.
        Unreachable: The checkpoint does not answer.
    """
    document = file.document()
    environment = environment_of(document)
    with (
        environment.applied(where),
        _prepare(document, file, checkpoint, where) as prepared,
    ):
        _refuse_unset(prepared.runnable, environment.workers)
        notes = [*prepared.notes, *environment.notes]
        yield replace(prepared, notes=notes, worker_env=environment.workers)


@contextmanager
def _prepare(
    document: Any, file: TopologyFile, checkpoint: str | None, where: Where
) -> Iterator[Prepared]:
    uri = wanted_uri(checkpoint, document)
    known, checked = _checked(document, file, uri)
    tell_warnings(checked)
    topology = checked.topology()
    _refuse_what_is_elsewhere(topology, file, uri, where)
    with (
        file.code(topology.spec.code) as folder,
        place(uri, known, topology) as (used_uri, note),
    ):
        notes = [note]
        if topology.spec.state != "Active":
            notes.append(f"spec.state is {topology.spec.state}: spouts emit nothing")
        runnable = checked.runnable(folder.path, known.tasks)
        yield Prepared(runnable, used_uri, uri is not None, notes)


def _refuse_unset(runnable: Runnable, of_workers: Mapping[str, str]) -> None:
    """Find variables that a `config` names and that are not set, or not right, where it is read."""
    spec, workers = runnable.topology.spec, {**os.environ, **of_workers}
    problems: dict[Problem, None] = {}
    for component in spec.components:
        hosts: list[Mapping[str, str]] = [
            os.environ if component.name in runnable.pinned else workers
        ]
        if component in spec.transactional:  # its coordinator is in the driver
            hosts.append(os.environ)
        for environ in hosts:
            try:
                configured(runnable.topology, component.name, runnable.code_folder, environ)
            except ValidationFailed as error:
                problems |= dict.fromkeys(p for p in error.problems if isinstance(p, Problem))
    if problems:
        raise ValidationFailed(list(problems))


def _checked(document: Any, file: TopologyFile, uri: str | None) -> tuple[KnownCheckpoint, Checked]:
    """Check the document with its checkpoint; mistakes of the topology come first."""
    try:
        known = look_at(uri, document) if uri is not None else KnownCheckpoint()
    except (BadInput, CheckpointError):
        file.checked(document).topology()
        raise
    return known, file.checked(document, known.tasks)


def _refuse_what_is_elsewhere(
    topology: Topology, file: TopologyFile, uri: str | None, where: Where
) -> None:
    if file.code_folder is None and (elsewhere := code_elsewhere(topology.spec.code)):
        field, place = elsewhere
        raise BadInput(
            f"spec.code.{field}: the classes are in {place}. "
            "Name a folder with a copy of its files: --code-folder."
        )
    if uri is not None and uri.startswith("memory://") and where is Where.SPARK:
        raise BadInput(
            f"--checkpoint: {uri} is the memory of one process, but each worker is a process of "
            "its own. Use a folder, or --in-process."
        )
