"""How a container of a driver or preflight ends: its exit code and its termination message."""

from enum import IntEnum
from typing import Literal

from fulmen.kube.message import ContractModel


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
