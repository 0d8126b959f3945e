"""Trees from hand-made summaries, and their spans."""

import numpy as np
import pytest

from fulmen.engine.acking.root_ids import traced_root
from fulmen.engine.driver.observer import Moments
from fulmen.engine.protocol.figures.trace_notes import Begun, Ran, TraceNotes
from fulmen.engine.protocol.sampling import Sampling, TraceContext
from fulmen.engine.protocol.summary import Summary
from fulmen.tracing.following import Following, TracedBatch, within
from fulmen.tracing.spans import spans_of

ROOT = traced_root(3, 10)
SAMPLING = Sampling(1.0, 99)


def notes(*, begun=(), **ran):
    of_root = {(ROOT, component): one for component, one in ran.items()}
    return Summary(0, 0, traces=TraceNotes(list(begun), of_root))


def begun(root=ROOT, **more):
    return Begun(root, "words", 4, "default", 100.5, **more)


def acked(first, end, origin=3):
    return Summary(1, 0, acked={origin: np.array([[first, end]], np.int64)})


def failed(sequence, reason, origin=3):
    return Summary(1, 0, failed=[(origin, sequence, reason)])


def batch(following, number, *summaries, commits=True):
    """Each batch takes 8 s: it begins at 100, 110 … s, and is committed within the last second."""
    began = 90.0 + 10 * number
    moments = Moments(began, began + 7, began + 8)
    return following.batch(TracedBatch(number, moments, commits), summaries)


def shown(tree):
    """Name, name of what it is below, seconds from the birth of the message to begin and end."""
    spans = list(spans_of(tree, SAMPLING))
    names = {span.context.span_id: span.name for span in spans}
    assert len(names) == len(spans), "two spans have one id"
    assert {span.context.trace_id for span in spans} == {SAMPLING.trace_id(tree.begun.root)}
    return [
        (s.name, s.parent and names[s.parent.span_id], s.began - 100.5, s.ended - 100.5)
        for s in spans
    ]


def test_a_message_that_is_done_within_a_batch():
    (tree,) = batch(
        Following(),
        1,
        notes(begun=[begun()], split=Ran(101.5, 102.5, 1, 9)),
        notes(count=Ran(103.5, 105.5, 4)),
        acked(0, 20),
    )
    assert shown(tree) == [
        ("words", None, 0, 7.5),
        ("batch", "words", 0, 7.5),
        ("split", "batch", 1, 2),
        ("count", "batch", 3, 5),
        ("commit", "batch", 6.5, 7.5),
    ]
    message, of_batch, split, *_ = spans_of(tree, SAMPLING)
    assert message.attributes == {
        "fulmen.component": "words",
        "fulmen.task": 4,
        "fulmen.stream": "default",
        "fulmen.failures": 0,
        "fulmen.batches": 1,
        "fulmen.outcome": "acked",
    }
    assert (message.error, message.is_message, of_batch.is_message) == (None, True, False)
    assert of_batch.attributes == {"fulmen.batch": 1}
    assert split.attributes == {
        "fulmen.component": "split",
        "fulmen.tuples": 1,
        "fulmen.tuples.beside": 9,
    }


def test_a_message_that_waits_for_other_batches():
    following = Following()
    assert not batch(following, 1, notes(begun=[begun()], hold=Ran(101.5, 102.5, 1)))
    assert not batch(following, 2)
    assert not batch(following, 3, commits=False)
    late = Ran(125.5, 126.5, 0, 0, acked_late=1)
    (tree,) = batch(following, 4, notes(hold=late), acked(10, 11), commits=False)
    assert shown(tree) == [
        ("words", None, 0, 37.5),
        ("batch", "words", 0, 7.5),
        ("hold", "batch", 1, 2),
        ("commit", "batch", 6.5, 7.5),
        ("batch", "words", 29.5, 37.5),
        ("hold", "batch", 25, 26),
        ("wait", "words", 7.5, 29.5),
    ]
    spans = list(spans_of(tree, SAMPLING))
    assert spans[0].attributes["fulmen.batches"] == 4
    assert spans[-1].attributes == {"fulmen.batches": 2}
    assert spans[5].attributes["fulmen.tuples.acked_late"] == 1
    assert len(following) == 0


def test_a_message_that_failed_shows_where_and_why():
    noted = notes(
        begun=[begun()], split=Ran(101.5, 102.5, 1), count=Ran(103.5, 104.5, 1, failed="no")
    )
    (tree,) = batch(Following(), 1, noted, failed(9, "another"), failed(10, "told by the acker"))
    errors = {span.name: span.error for span in spans_of(tree, SAMPLING)}
    assert errors == {"words": "no", "batch": None, "split": None, "count": "no", "commit": None}


def test_a_message_that_timed_out_ends_with_the_batch_that_says_so():
    following = Following()
    batch(following, 1, notes(begun=[begun()], hold=Ran(101.5, 102.5, 1)))
    (tree,) = batch(following, 5, failed(10, "timed out"))
    spans = list(spans_of(tree, SAMPLING))
    assert (spans[0].error, spans[0].ended) == ("timed out", 148.0)
    assert [(s.name, s.ended) for s in spans if s.name == "wait"] == [("wait", 140.0)]


def test_a_message_that_is_emitted_again_goes_on_with_its_trace():
    parent = TraceContext(7, 8)
    again = begun(parent=parent, failures=2, reason="no")
    (tree,) = batch(Following(), 1, notes(begun=[again]), acked(10, 11))
    message, *others = spans_of(tree, SAMPLING)
    assert (message.parent, message.context.trace_id) == (parent, 7)
    assert {span.context.trace_id for span in others} == {7}
    assert [(e.name, e.at, e.reason) for e in message.events] == [("emitted again", 100.5, "no")]
    assert message.attributes["fulmen.failures"] == 2


def test_attempts_that_came_to_nothing_are_events_of_the_messages_that_waited():
    following = Following()
    following.attempt_failed(1, "of nobody", 90.0)
    batch(following, 1, notes(begun=[begun()]))
    for n in range(30):
        following.attempt_failed(2, f"worker {n} was lost", 120.0 + n)
    (tree,) = batch(following, 2, acked(10, 11))
    events = [(event.name, event.reason) for event in tree.events]
    assert len(events) == 20
    assert events[0] == ("attempt failed", "batch 2: worker 0 was lost")
    assert events[-1] == ("attempt failed", "batch 2: worker 29 was lost")


def test_notes_of_a_tree_that_a_driver_before_has_begun_are_of_no_use():
    following = Following()
    assert not batch(following, 1, notes(split=Ran(1, 2, 1)), acked(0, 99))
    assert len(following) == 0


@pytest.mark.parametrize(
    "end", [acked(0, 10), acked(11, 99), acked(10, 11, origin=4), failed(9, "")]
)
def test_a_tree_ends_only_with_its_own_message(end):
    following = Following()
    assert not batch(following, 1, notes(begun=[begun()]), end)
    assert len(following) == 1


def test_of_too_many_trees_the_oldest_are_given_up():
    following = Following(most=2)
    roots = [traced_root(3, n) for n in range(3)]
    given_up = batch(following, 1, notes(begun=[begun(root) for root in roots]))
    assert [tree.begun.root for tree in given_up] == roots[:1]
    (message,) = (s for s in spans_of(given_up[0], SAMPLING) if s.is_message)
    assert (message.attributes["fulmen.outcome"], message.error) == ("unknown", None)


def test_a_tree_that_is_in_each_of_many_batches_keeps_the_first_and_the_last():
    following = Following()
    batch(following, 1, notes(begun=[begun()]))
    for number in range(2, 300):
        batch(following, number, notes(loop=Ran(0, 1, 1)))
    (tree,) = batch(following, 300, acked(10, 11))
    assert len(tree.parts) == 100
    assert (tree.parts[0].number, tree.parts[-1].number) == (1, 300)


def test_ranges_of_several_ackers_are_in_no_order():
    ranges = np.array([[10, 12], [0, 3]], np.int64)
    numbers = np.array([0, 2, 3, 9, 10, 11, 12], np.uint64)
    assert within(numbers, ranges).tolist() == [True, True, False, False, True, True, False]
    assert not within(numbers, np.empty((0, 2), np.int64)).any()
