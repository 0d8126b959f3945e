"""One mistake in a topology, as it is told to the person who wrote it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Problem:
    """A mistake (or something to think about), where it is, and what to do about it.

    Attributes:
        path: Where in the document, such as `spec.bolts[1].inputs[0].from`; empty for all of it.
        message: Who and what, without a full stop.
        cure: What would be right: a sentence, or nothing if the message says it.
        severity: A topology with an error is refused; one with warnings runs.
    """

    path: str
    message: str
    cure: str = ""
    severity: Severity = "error"

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}." if self.path else f"{self.message}."
        return f"{text} {self.cure}" if self.cure else text


def did_you_mean(word: object, words: Iterable[str]) -> str:
    """A question that names the word most like `word`, or nothing if none is like it."""
    by_lower_case = {known.lower(): known for known in words}
    close = get_close_matches(str(word).lower(), by_lower_case, n=1)
    return f"Did you mean {by_lower_case[close[0]]!r}?" if close else ""


def shown(value: object) -> str:
    """A value as a person would write it in YAML, or what it is if that would be long."""
    match value:
        case None:
            return "empty"
        case bool():
            return str(value).lower()
        case str() if len(value) > 80:
            return f"{value[:60]!r}…"
        case str() | int() | float():
            return repr(value)
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return f"of the type {type(value).__name__}"
