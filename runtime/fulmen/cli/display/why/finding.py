"""A finding about a topology, and its cure. Pure."""

from dataclasses import dataclass

from fulmen.cli.display.why.explanations import explanation_of, plain


@dataclass(frozen=True)
class Finding:
    """A sentence about a topology, and what to do about it; "": nothing, or the text says it."""

    text: str
    cure: str = ""


def cure_of(reason: str) -> str:
    """The cure for a reason of a condition or an event; empty if none is known."""
    found = explanation_of(reason)
    return sentence(plain(found.cure)) if found is not None and found.cure else ""


def sentence(words: str) -> str:
    """Words as a sentence of their own."""
    return f"{words[:1].upper()}{words[1:].removesuffix('.')}."
