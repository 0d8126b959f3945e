"""Dead letters as JSON: for the page, for programs and for the command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fulmen.engine.state.letters.dead_letters import LetterState
from fulmen.engine.state.letters.kept_letters import KeptLetter, KeptLetters
from fulmen.engine.state.letters.shown_values import LONGEST
from fulmen.engine.taps.values import Mask, Most

FieldsOf = Callable[[str, str], Sequence[str]]
"""The fields of a stream of a component; none: they are not known."""
_MOST = Most(LONGEST + 100, LONGEST, 20)


def no_fields(_component: str, _stream: str) -> Sequence[str]:
    """Say that no fields are known."""
    return ()


def letters_json(
    letters: KeptLetters, fields_of: FieldsOf = no_fields, mask: Sequence[str] | None = ()
) -> dict[str, Any]:
    """All letters, the newest first.

    Args:
        letters: The letters.
        fields_of: Finds the names of their values.
        mask: Fields that are not shown; None: no values are.
    """
    return {
        "topology": letters.topology,
        "commit": letters.number,
        "forgotten": letters.forgotten,
        "letters": [_letter(kept, fields_of, mask) for kept in letters.letters],
    }


def _letter(kept: KeptLetter, fields_of: FieldsOf, mask: Sequence[str] | None) -> dict[str, Any]:
    letter = kept.letter
    fields = fields_of(kept.component, letter.stream)
    fields = fields if len(fields) == len(letter.shown) else ()
    shows_id = mask is not None
    return {
        "id": str(kept.id),
        "component": kept.component,
        "task": kept.task,
        "stream": letter.stream,
        "kind": str(letter.kind),
        "state": str(letter.state),
        "reason": letter.reason,
        "failed_in": letter.cause.who,
        "traceback": letter.cause.traceback,
        "failures": letter.failures,
        "replays": letter.replays,
        "time": round(letter.at, 3),
        "message_id": Mask(()).field("", letter.msg_id, _MOST) if shows_id else None,
        "fields": list(fields) or None,
        "values": _values(letter.shown, fields, mask),
        "can_be_sent": letter.data is not None and letter.state is LetterState.KEPT,
        "why_not": letter.why_not,
        "wanted_by": letter.by,
    }


def _values(
    shown: Sequence[Any], fields: Sequence[str], mask: Sequence[str] | None
) -> list[Any] | None:
    if mask is None or (mask and not fields):  # of unknown fields each may be a masked one
        return None
    names = fields or [""] * len(shown)
    return [Mask(mask).field(*one, _MOST) for one in zip(names, shown, strict=True)]
