"""A mistake in a topology, with its message for the author."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import Literal

Severity = Literal["error", "warning"]
MOST_TOLD = 100
"""Mistakes of one topology. Who has more mends these first."""
LONGEST = 1000
"""Characters of a message, a cure or a place."""
MOST_NAMES = 60
"""Names that one message lists."""
LONGEST_WORD = 100


@dataclass(frozen=True)
class Problem:
    """A mistake or a warning, its place, and its cure.

    Attributes:
        path: The place in the document, such as `spec.bolts[1].inputs[0].from`; empty for all of
            it.
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


MORE = Problem("", f"there are more mistakes than these {MOST_TOLD}", "Mend these first.")


def bounded(problems: Iterable[Problem]) -> Iterator[Problem]:
    """The first problems, shortened, and a note if there are more.

    More problems are not even made, so that the cost of a document does not grow with its mistakes.
    """
    rest = iter(problems)
    for found in islice(rest, MOST_TOLD):
        if max(len(found.path), len(found.message), len(found.cure)) > LONGEST:
            found = replace(
                found,
                path=_cut(found.path),
                message=_cut(found.message),
                cure=_cut(found.cure),
            )
        yield found
    if next(rest, None) is not None:
        yield MORE


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


_QUESTION = re.compile(r"Did you mean '(.+)'\?")


def did_you_mean(word: object, words: Iterable[str], alike: float = 0.6) -> str:
    """A question that names the word which is meant, or nothing if none is so much `alike`."""
    known = meant(word, words, alike)
    return "" if known is None else f"Did you mean {known!r}?"


def meant_by(cure: str) -> str | None:
    """The word that a cure asks for; None: it is no such question."""
    found = _QUESTION.fullmatch(cure)
    return found and found[1]


def meant(word: object, words: Iterable[str], alike: float = 0.6) -> str | None:
    """The word most like `word`; None if none is so much `alike`.

    Of very many words only the first are compared that have nearly its length and begin alike.
    """
    text = str(word).lower()
    known = {one.lower(): one for one in words}
    if len(text) > LONGEST_WORD:
        return None
    most = max(20, 20_000 // (len(text) + 1) ** 2)  # a comparison takes 0.1 ms with 50 characters
    if len(known) > most:
        similar = (n for n in known if n[:1] == text[:1] and abs(len(n) - len(text)) <= 3)
        known = {one: known[one] for one in islice(similar, most)}
    short = [one for one in known if len(one) <= LONGEST_WORD]
    close = get_close_matches(text, short, n=1, cutoff=alike)
    return known[close[0]] if close else None


def there_are(names: Iterable[str]) -> str:
    """A sentence that lists what there is; not all of very many."""
    rest = iter(names)
    first = [
        name if len(name) <= LONGEST_WORD else f"{name[:LONGEST_WORD]}…"
        for name in islice(rest, MOST_NAMES)
    ]
    more = sum(1 for _ in rest)
    return f"There are: {', '.join(first)}{f' and {more:,} more' if more else ''}."


def key_mistake(key: object) -> str:
    """A message: a mapping has a key that is no text, and what YAML has made it of."""
    words = {bool: "on, off, yes, no, y and n", type(None): "null, ~ and nothing"}.get(type(key))
    hint = f": YAML reads {words} as that" if words else ""
    return f"has the key {'null' if key is None else shown(key)}, which is not text{hint}"


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
