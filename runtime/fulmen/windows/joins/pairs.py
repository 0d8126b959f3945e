"""Which pairs of rows a join takes: their condition, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fulmen.api.declarer import Stream
from fulmen.expressions.condition import mistakes_of
from fulmen.expressions.parsing import shown
from fulmen.topology.problems import did_you_mean, there_are
from fulmen.windows.joins.options import JoinOptions


def tracked(kind: str) -> tuple[bool, bool]:
    """Whether a type of join knows which left, and which right rows have had a match."""
    return kind in ("left", "full", "semi", "anti"), kind in ("right", "full")


def pairs_of(options: JoinOptions, inputs: Mapping[tuple[str, str], Stream]) -> Stream:
    """The fields of a pair, with the types that are known."""
    types: dict[str, str] = {}
    for side in options.sides:
        stream = inputs.get((side.from_, side.stream))
        known = {} if stream is None else stream.types
        types |= {name: known[of] for name, of in side.outputs.items() if of in known}
    return Stream((*options.left.outputs, *options.right.outputs), types=types)


def mistaken_where(options: JoinOptions, inputs: Mapping[tuple[str, str], Stream]) -> Iterator[str]:
    """Yield the mistakes of the condition."""
    text = options.where or ""
    for error in mistakes_of(text, pairs_of(options, inputs)):
        near = error.cure
        if error.wrong:
            near = did_you_mean(error.wrong, error.among) or there_are(error.among)
        wrong = f"where {shown(text)}: {error}"
        yield f"{wrong}. {near}" if near else wrong
