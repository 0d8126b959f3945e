"""`preflight`: validates a candidate with this image and this code, before anything is replaced."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import ValidationError

from fulmen.errors import FulmenError
from fulmen.kube.container.ending import of_error
from fulmen.kube.container.preparation import checked, code_folder
from fulmen.kube.contract import CANDIDATE_FILE, CODE_FOLDER, Candidate, Ended, ExitCode

_log = logging.getLogger(__name__)


def preflight(
    file: Path = Path(CANDIDATE_FILE), folder: Path = Path(CODE_FOLDER)
) -> tuple[ExitCode, Ended]:
    """Find all mistakes in a candidate: in its fields, its streams and its classes.

    Args:
        file: With the candidate.
        folder: Where its code is mounted.
    """
    try:
        candidate = Candidate.from_json(file.read_text(encoding="utf-8"))
        runnable = checked(candidate.topology, code_folder(folder), candidate.tasks)
    except (OSError, ValidationError) as e:
        return ExitCode.FAILED, Ended(reason="Error", message=f"{file}: {e}")
    except FulmenError as e:
        _log.error("%s", e)
        return of_error(e)
    message = f"topology {runnable.topology.name!r} is valid"
    return ExitCode.FINISHED, Ended(reason="Valid", message=message)
