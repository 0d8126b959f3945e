"""`preflight`: validates a candidate with this image and this code, before anything is replaced.

It also sees whether the code can read what is kept in the checkpoint, if that is within reach.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from fulmen.checkpoint import Store
from fulmen.engine.driver.edits.state_check import mistakes_in_state
from fulmen.engine.hosted.hosted_coordinator import HostedCoordinator
from fulmen.engine.protocol.callbacks import forks
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.engine.tasks.author.errors import ComponentFailed, Unavailable
from fulmen.engine.tasks.kinds import kind_of
from fulmen.engine.tasks.transactional.batch_bolt_task import BatchBoltTask
from fulmen.errors import CheckpointError, FulmenError, ValidationFailed
from fulmen.kube.container.ending import of_error
from fulmen.kube.container.preparation import checked, code_folder
from fulmen.kube.contract import CANDIDATE_FILE, CODE_FOLDER, DRIVER, UNPACKED_FOLDER
from fulmen.kube.contract.endings import Ended, ExitCode
from fulmen.kube.contract.revisions import Candidate
from fulmen.plan import make_plan
from fulmen.topology.code.loading import CodeFolder
from fulmen.topology.problems import Problem
from fulmen.topology.validation.check import Runnable

_log = logging.getLogger(__name__)

AGAIN = "If what it needs was away, change spec.restartNonce to try it again."


def preflight(
    file: Path = Path(CANDIDATE_FILE),
    folder: Path = Path(CODE_FOLDER),
    opens: str = "",
    into: Path = Path(UNPACKED_FOLDER),
) -> tuple[ExitCode, Ended]:
    """Find all mistakes in a candidate: in its fields, its streams and its classes.

    Args:
        file: The file with the candidate.
        folder: The folder that the candidate's code is mounted at.
        opens: The host whose components are opened as well, DRIVER or WORKER; empty: none.
        into: The folder to unpack an archive to.
    """
    try:
        candidate = Candidate.from_json(file.read_text(encoding="utf-8"))
        runnable = checked(candidate.topology, code_folder(folder, into), candidate.tasks)
        if opens:
            _open_all(runnable, pinned=opens == DRIVER)
        _read_state(runnable)
    except (OSError, ValidationError) as e:
        return ExitCode.FAILED, Ended(reason="Error", message=f"{file}: {e}")
    except FulmenError as e:
        _log.error("%s", e)
        return of_error(e)
    message = f"topology {runnable.topology.name!r} is valid"
    return ExitCode.FINISHED, Ended(reason="Valid", message=message)


def _read_state(runnable: Runnable) -> None:
    """See that the new code can read what is kept, and numbers of tasks can be as they are asked.

    A claim that is not mounted is as one with nothing on it.

    Raises:
        ValidationFailed: There is a value that it can't read.
    """
    topology = runnable.topology
    uri = topology.spec.checkpoint.uri
    if uri is None:
        return
    try:
        store = Store.open(uri)
        with CodeFolder(runnable.code_folder):
            problems = mistakes_in_state(store, topology)
    except CheckpointError as e:  # a driver says more of it, and waits for the store
        _log.warning("the state of the topology was not looked at: %s", e)
        return
    for problem in problems:
        _log.warning("%s", problem)
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise ValidationFailed(errors)


def _open_all(runnable: Runnable, *, pinned: bool) -> None:
    """Open an instance of each component as its first task is opened, and close it again.

    BatchBolts have instances for attempts only: one of each is prepared for an attempt that never
    runs, and dropped.

    Args:
        runnable: The topology.
        pinned: Open what the driver hosts, pinned spouts and the coordinators of transactional
            spouts; False: what workers host.

    Raises:
        ValidationFailed: Some of them raised an exception; it names all of them.
    """
    placed = _placed(runnable)
    spec = runnable.topology.spec
    paths = {spout.name: f"spec.spouts[{n}].class" for n, spout in enumerate(spec.spouts)}
    paths |= {
        source.name: f"spec.transactional[{n}].class" for n, source in enumerate(spec.transactional)
    }
    paths |= {bolt.name: f"spec.bolts[{n}].class" for n, bolt in enumerate(spec.bolts)}
    forks.begin()
    with CodeFolder(runnable.code_folder):
        problems = [
            Problem(path, error.message, cure)
            for name, path in paths.items()
            if (name in runnable.pinned) == pinned
            for error, cure in _opened(partial(_open, placed, placed.plan.tasks(name).start))
        ]
        for source in placed.emitters if pinned else ():
            found = _opened(HostedCoordinator(placed, source, time.monotonic).try_out)
            problems += [Problem(paths[source], error.message, cure) for error, cure in found]
    if problems:
        raise ValidationFailed(problems)


def _opened(call: Callable[[], list[ErrorReport]]) -> Iterator[tuple[ErrorReport, str]]:
    """The errors of opening and closing something, each with its cure."""
    try:
        errors = call()
    except ComponentFailed as e:
        _log.error("%s", e, extra={"details": e.report.traceback})
        yield e.report, AGAIN if isinstance(e, Unavailable) else ""
    else:
        yield from ((error, "") for error in errors)


def _open(placed: PlacedTopology, task: int) -> list[ErrorReport]:
    """Open a task and close it. Returns what it raised when it was closed."""
    kind = kind_of(placed, placed.plan.component_of(task))
    opened = kind(placed, task, {}, 0, np.random.default_rng())
    if isinstance(opened, BatchBoltTask):
        opened.try_out()
    return opened.close()


def _placed(runnable: Runnable) -> PlacedTopology:
    """The topology as a driver places it, but without a checkpoint."""
    plan = make_plan(runnable.topology, pinned=runnable.pinned)
    spouts = [task for spout in runnable.topology.spec.spouts for task in plan.tasks(spout.name)]
    return PlacedTopology(
        run="preflight",
        topology=runnable.topology,
        plan=plan,
        streams=runnable.streams,
        origins={plan.key_of(task): origin for origin, task in enumerate(spouts)},
        checkpoint="",
        code_folder=runnable.code_folder,
        workers=tuple(range(plan.workers)),
    )
