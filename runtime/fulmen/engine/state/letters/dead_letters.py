"""Dead letters of one task: messages that were given up, or that kill their workers. Pure.

A letter has its values twice. As text they are cut to a bounded size, and no code of an author's is
called to show them. As a pickle they are whole, so that the message can be sent again.

A letter is kept, or wanted (somebody has asked for it to be sent again), or on its way (it was
sent, and its tree has not ended), or returned: its source has emitted the message again by itself,
as it may do with one that kills workers. Each step is part of the commit of the batch that takes
it, so a letter is always in one of these states, and is gone only with the commit in which its tree
was acked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from fulmen.engine.state.letters.shown_values import class_name, described, is_builtin, shown
from fulmen.engine.state.pickling import dumps
from fulmen.engine.state.values import renamed_classes
from fulmen.errors import PASSED_ON, error_text
from fulmen.secrets import masked
from fulmen.visible import visible, visible_lines


class LetterState(StrEnum):
    """Where a letter is on its way back."""

    KEPT = "kept"
    WANTED = "wanted"
    ON_ITS_WAY = "on its way"
    RETURNED = "emitted again"


class LetterKind(StrEnum):
    """Why a message became a dead letter."""

    GIVEN_UP = "given up"
    """It has failed more than `maxReplays` times."""
    KILLS_WORKERS = "kills workers"
    """It failed its batch alone, twice, and the batch succeeded without it."""
    LEFT_OUT = "left out"
    """It is no message: a timer or a window that ends its process."""
    NO_STREAM = "no such stream"
    """A result on a stream that its class has no more, or with other fields."""


class LetterId(NamedTuple):
    """What no other letter of a topology has.

    Attributes:
        batch: The batch in which it became one.
        task: The task at which it began, as tasks were numbered then.
        place: Which of the letters of that task in that batch.
    """

    batch: int
    task: int
    place: int

    def __str__(self) -> str:
        return "-".join(map(str, self))

    @property
    def key(self) -> tuple[int, int, int]:
        """Under which the checkpoint has the letter."""
        return self.batch, self.task, self.place


class FailureCause(NamedTuple):
    """Where a message failed.

    Attributes:
        who: The component and its task, as messages name them; "": it is not known.
        traceback: With the exceptions that it came of; "": there was none.
    """

    who: str = ""
    traceback: str = ""


UNKNOWN: Final = FailureCause()


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """One message.

    Attributes:
        stream: The stream that it was emitted on.
        shown: Its values, as they may be shown.
        msg_id: Its message id in the same way: what the spout calls it, such as a position.
        kind: Why it is a letter.
        reason: Why it failed the last time.
        cause: Where that was.
        failures: How often it has failed, before it was sent again for the first time.
        replays: How often it was sent again.
        at: When it became one, in wall clock seconds.
        data: Its values and its message id, pickled; None: they are not kept.
        why_not: Why they are not.
        target: The key of the task that a direct emit was for.
        state: Where it is.
        by: Who has asked for it to be sent again, and why.
        sequence: The number of its tree while it is on its way, or emitted again.
        origin: The number of the task that has sent it, in root ids.
    """

    stream: str
    shown: list[Any]
    msg_id: Any
    kind: LetterKind
    reason: str
    cause: FailureCause = UNKNOWN
    failures: int = 1
    replays: int = 0
    at: float = 0.0
    data: bytes | None = None
    why_not: str = ""
    target: str = ""
    state: LetterState = LetterState.KEPT
    by: str = ""
    sequence: int = -1
    origin: int = -1

    @property
    def bytes(self) -> int:
        """About how many bytes it has in the checkpoint."""
        texts = len(self.reason) + len(self.cause.traceback) + 200
        return len(self.data or b"") + texts + len(str(self.shown))

    def entry(self) -> dict[str, Any]:
        """What the checkpoint has of it: builtin types alone."""
        told = {f.name: getattr(self, f.name) for f in fields(self)}
        told = {name: value for name, value in told.items() if value != _USUAL.get(name, _USUAL)}
        told |= {name: str(told[name]) for name in ("kind", "state") if name in told}
        return told | ({"cause": tuple(self.cause)} if "cause" in told else {})

    @staticmethod
    def of(entry: Mapping[str, Any]) -> DeadLetter:
        """Read what `entry` made."""
        told = dict(entry)
        told["kind"] = LetterKind(told["kind"])
        if "state" in told:
            told["state"] = LetterState(told["state"])
        if "cause" in told:
            told["cause"] = FailureCause(*told["cause"])
        return DeadLetter(**told)


_USUAL = {f.name: f.default for f in fields(DeadLetter)}


class LostMessage(NamedTuple):
    """A message that is to be a letter.

    Attributes:
        stream: The stream that it was emitted on.
        values: Its values.
        msg_id: Its message id; None: it was not tracked.
        target: The key of the task that a direct emit was for.
    """

    stream: str
    values: Sequence[Any]
    msg_id: Any = None
    target: str = ""


class MessageFailure(NamedTuple):
    """How a message has failed.

    Attributes:
        number: How often.
        reason: Why, the last time.
        cause: Where that was.
    """

    number: int
    reason: str
    cause: FailureCause = UNKNOWN


def letter_of(
    lost: LostMessage, kind: LetterKind, failure: MessageFailure, at: float, most_bytes: int
) -> DeadLetter:
    """A new letter.

    Args:
        lost: The message.
        kind: Why it is a letter. Of one that kills workers no object of an author's is pickled, or
            asked for its text: that may be what kills them.
        failure: How it has failed.
        at: Now, in wall clock seconds.
        most_bytes: Values that are larger are not kept.
    """
    named = class_name if kind is LetterKind.KILLS_WORKERS else described
    data, why_not = _kept([*lost.values], lost.msg_id, kind, most_bytes)
    who, traceback = failure.cause
    return DeadLetter(
        stream=lost.stream,
        shown=[shown(value, of_object=named) for value in lost.values],
        msg_id=shown(lost.msg_id, of_object=named),
        kind=kind,
        reason=visible(masked(failure.reason)),
        cause=FailureCause(who, visible_lines(masked(traceback))),
        failures=failure.number,
        at=at,
        data=data,
        why_not=why_not,
        target=lost.target,
    )


def _kept(
    values: list[Any], msg_id: Any, kind: LetterKind, most_bytes: int
) -> tuple[bytes | None, str]:
    """Values and message id as a pickle, or why there is none."""
    if kind is LetterKind.LEFT_OUT:
        return None, "it stands for a call of its own component, and is no message"
    if kind is LetterKind.KILLS_WORKERS:
        if not all(map(is_builtin, values)):
            return None, "it has objects of classes, and to pickle them may be what kills workers"
        msg_id = msg_id if is_builtin(msg_id) else None
    try:
        data = dumps((values, msg_id), {})
    except PASSED_ON:
        raise
    except BaseException as error:  # noqa: BLE001 (whatever an author's class raises)
        return None, f"its values can't be pickled, or not be read again ({error_text(error)})"
    if len(data) > most_bytes:
        return None, f"its values have {len(data):,} bytes, and {most_bytes:,} are kept at most"
    return data, ""


def contents(data: bytes) -> tuple[list[Any], Any]:
    """The values and the message id of a letter. Raises whatever an author's class raises."""
    values, msg_id = renamed_classes.loads(data)
    return values, msg_id


def again(letter: DeadLetter, reason: str, cause: FailureCause, at: float) -> DeadLetter:
    """The letter when it has failed once more, or could not be sent."""
    return replace(
        letter,
        reason=visible(masked(reason)),
        cause=cause,
        at=at,
        state=LetterState.KEPT,
        by="",
        sequence=-1,
        origin=-1,
    )
