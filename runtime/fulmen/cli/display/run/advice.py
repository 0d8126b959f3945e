"""Advice on what a run shows, from its figures. Pure."""

from collections.abc import Iterator

from fulmen.api.components.sinks import ERRORS_STREAM
from fulmen.api.tuples import TICK_COMPONENT, TICK_STREAM
from fulmen.cli.display.formats import count, milliseconds
from fulmen.engine.protocol.figures.statistics import (
    ACKED,
    EMITTED,
    EXECUTE,
    EXECUTED,
    FAILED,
    LETTERS_KEPT,
    by_task,
)
from fulmen.engine.totals.derived_waits import full_spouts
from fulmen.engine.totals.totals import Totals
from fulmen.topology.resource.spec import BoltSpec, Topology

LETTERS_CURE = (
    "`fulmen dead-letters list` shows them and why they failed. Once that is mended, `fulmen"
    " dead-letters replay` sends them again."
)
SLOW_SECONDS = 0.02
"""A bolt that takes as long for a tuple is either waiting, or at work that needs more cores."""
_SOME = 10  # fewer tuples tell nothing
_MANY = 100
_TICKS = f"{TICK_COMPONENT}:{TICK_STREAM}"


def advice(totals: Totals, topology: Topology) -> Iterator[str]:
    """Sentences about what is likely to be a mistake in the topology."""
    yield from not_acked(totals, topology)
    with totals.lock:
        yield from [wait.sentence for wait in full_spouts(totals, totals.steady())]
    yield from _mostly_malformed(totals, topology)
    yield from _not_anchored(totals, topology)
    yield from _slow(totals, topology)
    yield from _replayed(totals, topology)
    yield from _head_fails(totals, topology)
    yield from _dead_letters(totals)


def _dead_letters(totals: Totals) -> Iterator[str]:
    """Messages that wait for a person."""
    with totals.lock:
        if number := sum(by_task(totals.levels, LETTERS_KEPT).values()):
            are = "dead letter is" if number == 1 else "dead letters are"
            yield f"{count(number)} {are} in the checkpoint. {LETTERS_CURE}"


def not_acked(totals: Totals, topology: Topology) -> Iterator[str]:
    """Bolts that let trees time out, because they don't ack what they receive."""
    if totals.trees.timed_out:
        for bolt in topology.spec.bolts:
            done = (_tuples(totals, bolt, what) for what in (EXECUTED, ACKED, FAILED))
            yield from not_acked_by(bolt.name, *done)


def _mostly_malformed(totals: Totals, topology: Topology) -> Iterator[str]:
    """Sources that can read few of their messages: likely, the format in the file is wrong."""
    for spout in topology.spec.spouts:
        emitted = {
            stream: n
            for (name, what, stream), n in totals.counts.items()
            if (name, what) == (spout.name, EMITTED) and not stream.startswith("__")
        }
        malformed, of = emitted.get(ERRORS_STREAM, 0), sum(emitted.values())
        if malformed >= _SOME and 2 * malformed > of:
            yield (
                f"{count(malformed)} of {count(of)} messages of {spout.name!r} could not be read as"
                f" its format says: they are on the stream {ERRORS_STREAM!r}, with the `reason`."
            )


def _not_anchored(totals: Totals, topology: Topology) -> Iterator[str]:
    """Bolts whose failures no spout is told of."""
    if totals.trees.failed or totals.trees.timed_out or not topology.spec.acker_tasks:
        return
    for bolt in topology.spec.bolts:
        if failed := _tuples(totals, bolt, FAILED):
            yield not_anchored_sentence(bolt.name, failed)


def _slow(totals: Totals, topology: Topology) -> Iterator[str]:
    """Bolts that take long for each tuple, one after another."""
    for bolt in topology.spec.bolts:
        times = [
            histogram
            for (name, what, source), histogram in totals.times.items()
            if (name, what) == (bolt.name, EXECUTE) and source != _TICKS
        ]
        executed = sum(histogram.count for histogram in times)
        is_threaded = bolt.blocking and bolt.parallelism > 1
        if executed < _SOME or is_threaded:
            continue
        mean = sum(histogram.seconds for histogram in times) / executed
        if mean >= SLOW_SECONDS:
            yield (
                f"bolt {bolt.name!r} takes {milliseconds(mean * 1000)} for a tuple, one after"
                " another. If it waits for something outside, give it blocking: true and more"
                " parallelism; if it computes, more workers."
            )


def _replayed(totals: Totals, topology: Topology) -> Iterator[str]:
    """Messages that fail again and again, without a limit."""
    trees = totals.trees
    bad = trees.failed + trees.timed_out
    if topology.spec.max_replays is None and trees.replayed >= _MANY and bad > trees.acked:
        yield (
            f"messages that failed were emitted again {count(trees.replayed)} times, without a"
            " limit. With spec.maxReplays they go to the dead letters in the end."
        )


def _head_fails(totals: Totals, topology: Topology) -> Iterator[str]:
    """A transaction that fails again and again, without a limit: it holds up all behind it."""
    transactions = totals.transactions
    if topology.spec.max_replays is not None or transactions is None:
        return
    if transactions.head_failures >= _SOME:
        yield (
            f"{transactions.head}. With spec.maxReplays such a transaction is given up in the end."
        )


def not_acked_by(bolt: str, executed: int, acked: int, failed: int) -> Iterator[str]:
    """Advice if a bolt has neither acked nor failed some of its tuples."""
    if (left := executed - acked - failed) > 0:
        yield (
            f"bolt {bolt!r} has neither acked nor failed {count(left)} of its {count(executed)}"
            " tuples, and trees time out. A Bolt must call ack or fail for every tuple; a BasicBolt"
            " does so by itself."
        )


def not_anchored_sentence(bolt: str, failed: int) -> str:
    """Advice: no spout was told of the tuples that a bolt has failed."""
    return (
        f"bolt {bolt!r} has failed {count(failed)} tuples, but they are in no tree, so no spout was"
        " told. Anchor what is emitted, as in emit(values, anchors=tup), and emit with a msg_id in"
        " the spout."
    )


def _tuples(totals: Totals, bolt: BoltSpec, what: str) -> int:
    """Count the bolt's tuples, ticks left out."""
    return sum(
        n
        for (name, kind, source), n in totals.counts.items()
        if (name, kind) == (bolt.name, what) and source != _TICKS
    )
