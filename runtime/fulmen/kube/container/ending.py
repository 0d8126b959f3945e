"""The end of a container of a driver or a preflight: its exit code and termination message."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

from fulmen.errors import (
    CheckpointError,
    CheckpointLost,
    CheckpointMismatch,
    CodeError,
    DeclarationError,
    Fenced,
    FulmenError,
    Unreachable,
    ValidationFailed,
)
from fulmen.kube.contract import ENDED_BYTES, TERMINATION_FILE
from fulmen.kube.contract.endings import Ended, EndReason, ExitCode, Mistake
from fulmen.topology.problems import Problem

MESSAGE_CHARACTERS = 1000
_ENDS: Sequence[tuple[type[FulmenError], ExitCode, EndReason]] = (
    (Fenced, ExitCode.FENCED, "Fenced"),
    (CheckpointLost, ExitCode.CHECKPOINT, "CheckpointLost"),
    (Unreachable, ExitCode.CHECKPOINT, "CheckpointUnreachable"),
    (CheckpointMismatch, ExitCode.CHECKPOINT, "CheckpointMismatch"),
    # it may be mended, or a right given: the next driver looks again
    (CheckpointError, ExitCode.CHECKPOINT, "CheckpointUnusable"),
    (FulmenError, ExitCode.FAILED, "Error"),
)
"""The ends of errors that name no mistakes: the first class that fits."""


def of_error(error: Exception) -> tuple[ExitCode, Ended]:
    """The exit code and the termination message for an exception."""
    match error:
        case ValidationFailed():
            mistakes = [mistake(p) for p in error.problems if isinstance(p, Problem)]
            return ExitCode.MISTAKE, refusal(mistakes)
        case CodeError():
            found = Mistake(reason=error.message, cure=error.cure)
            return ExitCode.MISTAKE, refusal([found])
        case DeclarationError():
            return ExitCode.MISTAKE, refusal([Mistake(reason=str(error))])
    for kind, code, reason in _ENDS:
        if isinstance(error, kind):
            return code, Ended(reason=reason, message=one_line(error))
    traceback.print_exception(error)
    what = f"a mistake in Fulmen: {type(error).__name__}: {error}".rstrip(": ")
    return ExitCode.FAILED, Ended(reason="Error", message=what[:MESSAGE_CHARACTERS])


def refusal(mistakes: Sequence[Mistake]) -> Ended:
    """The end of a container that found mistakes."""
    count = len(mistakes)
    message = f"{count} mistake{'s' if count != 1 else ''} in the spec or the code:"
    return Ended(reason="InvalidSpec", message=message, errors=tuple(mistakes))


def mistake(problem: Problem) -> Mistake:
    """A problem in the form for the operator."""
    return Mistake(path=problem.path, reason=problem.message, cure=problem.cure)


def one_line(error: Exception) -> str:
    """The message of an exception, without a traceback of the author's code."""
    return str(error).partition("\n")[0][:MESSAGE_CHARACTERS]


def write_ended(ended: Ended, file: Path = Path(TERMINATION_FILE)) -> None:
    """Leave the termination message, with as many mistakes as there is room for."""
    while len(text := ended.to_json()) > ENDED_BYTES - 64 or len(text.encode()) > ENDED_BYTES:
        if ended.errors:
            ended = ended.model_copy(update={"errors": ended.errors[:-1]})
        else:
            ended = ended.model_copy(update={"message": ended.message[: len(ended.message) // 2]})
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:  # then there is the exit code
        print(f"{file} can't be written: {error}")  # noqa: T201 (the container's log)
