"""What authors' code raises or returns: one clear message, nothing lost, and it goes on."""

import sqlite3
import threading

import numpy as np
import pytest

from fulmen import FailedException, ServiceUnavailable, TransactionAttempt
from fulmen.engine.hosted.hosted_coordinator import LARGEST_METADATA
from fulmen.errors import TopologyFailed
from fulmen.services.errors import StoreUnavailable
from fulmen.testing import run
from support.parts.raising_parts import ALL, Returned, raising, script
from support.stores.outside_stores import STORES, fresh_store
from support.transactions.sources import RowsEmitter
from support.transactions.words import collected

MOST = pytest.mark.parametrize("most", [1, 3])
COORDINATORS = [
    ("whole", "initialize_transaction"),
    ("parts", "num_partitions"),
    ("opaque", "num_partitions"),
    *((kind, method) for kind in ("whole", "opaque") for method in ("is_ready", "is_exhausted")),
    ("parts", "lag"),
    ("whole", "get_coordinator"),
]
TIMES = {"lag": 1}
"""Once the source is at its end, it does not matter what raises besides."""
EMITTERS = [
    ("whole", "emit_batch"),
    ("parts", "emit_partition_batch_new"),
    ("opaque", "emit_partition_batch"),
]
BOLTS = ["basic", *(f"{w} {m}" for w in ("batch", "last") for m in ("prepare", "execute"))]
BOLTS += ["batch finish_batch", "last finish_batch"]


def away():
    return sqlite3.OperationalError("it is away")


class Ran:
    """A topology that was run with a script."""

    def __init__(self, kind, methods, checkpoint=None, **how):
        spec = {k: how.pop(k) for k in ("max_spout_pending", "max_replays", "on_error") if k in how}
        self.name = fresh_store()
        self.outside = STORES[self.name]
        script(self.outside, **methods)
        self.spec = spec
        self.kind = kind
        self.how = how
        self.checkpoint = checkpoint

    def end(self):
        conf = {"store": self.name}
        self.result = run(raising(self.kind, conf, **self.spec), workers=2, **self.how)
        return self

    def check_complete(self):
        assert sorted(collected(self.outside.all())) == ALL
        assert not any(v for k, v in self.outside.all().items() if k[0] == "script"), "not all came"
        assert self.result.transactions.given_up == []

    def errors(self):
        return [(error.component, error.message) for error in self.result.errors]


@MOST
@pytest.mark.parametrize(("kind", "method"), COORDINATORS)
def test_a_coordinator_that_raises_is_reported_once_and_asked_again(kind, method, most):
    ran = Ran(kind, {method: [away()] * TIMES.get(method, 3)}, max_spout_pending=most).end()
    ran.check_complete()
    assert ran.errors() == [("spout", f"coordinator, {method}: OperationalError: it is away")]


@MOST
@pytest.mark.parametrize(("kind", "method"), COORDINATORS)
def test_a_coordinator_that_says_not_now_is_asked_again(kind, method, most):
    ran = Ran(
        kind, {method: [FailedException("not now")] * TIMES.get(method, 3)}, max_spout_pending=most
    ).end()
    ran.check_complete()
    assert ran.errors() == []


@pytest.mark.parametrize(("kind", "method"), COORDINATORS)
def test_with_on_error_crash_a_coordinator_that_raises_ends_the_topology(kind, method):
    ran = Ran(kind, {method: [away()]}, on_error="crash")
    with pytest.raises(TopologyFailed) as raised:
        ran.end()
    said = f"spout 'spout', task 4: coordinator, {method}: OperationalError: it is away\n"
    assert str(raised.value).startswith(said)
    assert "raising_parts.py" in raised.value.traceback


@MOST
@pytest.mark.parametrize(("kind", "method"), EMITTERS)
@pytest.mark.parametrize("error", [away(), FailedException("not now")])
def test_an_emitter_that_raises_fails_the_attempt(kind, method, error, most):
    ran = Ran(kind, {method: [error]}, max_spout_pending=most).end()
    ran.check_complete()
    is_failed = isinstance(error, FailedException)
    if kind == "opaque" and is_failed:
        ((component, message),) = ran.errors()
        assert component == "spout"
        assert message.startswith("partition 0 is left out of 1:")
        assert message.endswith(": not now")
        assert ran.result.transactions.failed == []
        return
    call = "emit" if kind == "whole" else "emit of partition 0"
    message = f"{call}: OperationalError: it is away"
    assert ran.errors() == ([] if is_failed else [("spout", message)])
    (failed,) = ran.result.transactions.failed
    assert (failed.txid, failed.component) == (1, "spout")
    assert failed.reason == ("not now" if is_failed else message)


@MOST
@pytest.mark.parametrize("method", BOLTS)
@pytest.mark.parametrize("error", [away(), FailedException("not now")])
def test_a_bolt_that_raises_fails_the_attempt(method, error, most):
    ran = Ran("parts", {method: [error, error]}, max_spout_pending=most).end()
    ran.check_complete()
    component, _, callback = method.partition(" ")
    is_failed = isinstance(error, FailedException)
    message = f"{callback or 'execute'}: OperationalError: it is away"
    assert set(ran.errors()) == (set() if is_failed else {(component, message)})
    failed = ran.result.transactions.failed
    assert {one.component for one in failed} == {component}
    assert {one.reason for one in failed} == {"not now" if is_failed else message}
    assert 1 <= len(failed) <= 2


@pytest.mark.parametrize(
    "error", [ServiceUnavailable("the store", "no"), StoreUnavailable("it", "no")]
)
@pytest.mark.parametrize(("kind", "method"), [*EMITTERS, *(("parts", method) for method in BOLTS)])
def test_what_is_away_makes_a_transaction_wait_and_it_is_never_given_up(kind, method, error):
    ran = Ran(kind, {method: [error] * 4}, max_replays=0, on_error="crash").end()
    ran.check_complete()
    assert ran.errors()
    assert all(message.endswith(str(error)) for _, message in ran.errors())


def failing_at_first(method):
    def emit(emitter, attempt, *args):
        if attempt.txid == 1:
            raise away()
        return getattr(super(type(emitter), emitter), method)(attempt, *args)

    return emit


@pytest.mark.parametrize(("kind", "method"), EMITTERS)
def test_a_transaction_whose_emitter_fails_each_time_is_given_up(kind, method):
    ran = Ran(kind, {method: [failing_at_first(method)] * 40}, max_replays=2).end()
    (given_up,) = ran.result.transactions.given_up
    assert given_up.txid == 1
    assert len(ran.outside.get(("script", method))) > 20, "it is tried no more"
    # a partition has no part in it; that of "parts" makes two transactions, whatever is in them
    left = {"whole": ALL[2:], "parts": [0, 1, 4, 5], "opaque": ALL}
    assert sorted(collected(ran.outside.all())) == left[kind]


def gone_if_first(emitter, attempt, *args):
    if attempt.txid == 1:
        raise LookupError("it is gone")
    RowsEmitter.emit_partition_batch(emitter, attempt, *args)


def test_a_part_that_can_never_be_emitted_again_is_given_up():
    usual = RowsEmitter.emit_partition_batch
    again = [usual, usual, *[gone_if_first] * 40]  # both partitions are emitted once
    methods = {"basic": [FailedException("no")], "emit_partition_batch": again}
    ran = Ran("parts", methods, max_replays=2).end()
    (given_up,) = ran.result.transactions.given_up
    assert (given_up.txid, given_up.reason) == (1, "emit of partition 0: LookupError: it is gone")
    assert sorted(collected(ran.outside.all())) == [2, 3, 6]
    assert len(ran.outside.get(("script", "emit_partition_batch"))) > 30, "it is tried no more"


@pytest.mark.parametrize("method", [*BOLTS, "emit_partition_batch_new"])
def test_with_on_error_crash_a_component_that_raises_ends_the_topology_and_nothing_is_lost(method):
    ran = Ran("parts", {method: [FailedException("this is no reason"), away()]}, on_error="crash")
    with pytest.raises(TopologyFailed) as raised:
        ran.end()
    component, _, callback = method.partition(" ")
    said = str(raised.value).partition("\n")[0]
    if method.startswith("emit"):
        call = "emit of partition 0"
        assert said == f"spout 'spout', task 4: {call}: OperationalError: it is away"
    else:
        assert said.startswith(f"bolt '{component}', task ")
        assert said.endswith(f": {callback or 'execute'}: OperationalError: it is away")
    ran.end().check_complete()


# ---- parts that are none ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["whole", "parts", "opaque"])
@pytest.mark.parametrize("value", [None, "me", threading.Lock()])
@pytest.mark.parametrize("part", ["coordinator", "emitter"])
def test_a_part_of_the_wrong_class_ends_the_topology(kind, value, part):
    ran = Ran(kind, {f"get_{part}": [Returned(value)]})
    with pytest.raises(TopologyFailed) as raised:
        ran.end()
    base = {
        "whole": "TransactionalSpout",
        "parts": "PartitionedTransactionalSpout",
        "opaque": "OpaquePartitionedTransactionalSpout",
    }[kind]
    before = "coordinator, " if part == "coordinator" else ""
    assert str(raised.value).partition("\n")[0] == (
        f"spout 'spout', task 4: {before}get_{part}: TypeError: it returned {value!r}, but must"
        f" return an object of a class derived from fulmen.{base}.{part.capitalize()}"
    )
    ran.end().check_complete()


@pytest.mark.parametrize("value", [None, -1, "3", 2.0])
@pytest.mark.parametrize("kind", ["parts", "opaque"])
def test_a_number_of_partitions_that_is_none_is_reported(kind, value):
    ran = Ran(kind, {"num_partitions": [Returned(value)]}).end()
    ran.check_complete()
    assert ran.errors() == [
        (
            "spout",
            f"coordinator, num_partitions: ValueError: it returned {value!r}, but must return a"
            " whole number from 0",
        )
    ]


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        *(("whole", "is_ready"), ("opaque", "is_exhausted"), ("whole", "cleanup_before")),
        *(("parts", "emit_partition_batch_new"), ("opaque", "emit_partition_batch")),
    ],
)
def test_what_a_part_returns_and_nobody_runs_is_reported(kind, method):
    ran = Ran(kind, {method: [Returned(n for n in range(3))]}).end()
    ran.check_complete()
    [(_, message)] = ran.errors()
    assert "TypeError: it returned a generator that nobody runs" in message


def test_a_number_of_partitions_may_be_numpys():
    ran = Ran("opaque", {"num_partitions": [Returned(np.int64(2))]}).end()
    ran.check_complete()
    assert ran.errors() == []


class Unpicklable:
    def __reduce__(self):
        raise OSError("not me")


class Unreadable:
    """Can be pickled only."""

    def __init__(self, times):
        self.times = times

    def __setstate__(self, state):
        raise OSError("what was this")


METADATA = {
    "can't be pickled": (Unpicklable(), "pickling the metadata: OSError: not me"),
    "can't be unpickled": (Unreadable(1), "pickling the metadata: OSError: what was this"),
    "too large": (
        b"x" * LARGEST_METADATA,
        "initialize_transaction: ValueError: the metadata of transaction 1 has 262153 bytes, but"
        " at most 262144 are allowed: say where the tuples are, not what they are",
    ),
}


@pytest.mark.parametrize(("value", "message"), METADATA.values(), ids=METADATA.keys())
def test_metadata_that_are_no_use_are_reported(value, message):
    ran = Ran("whole", {"initialize_transaction": [Returned(value)]}).end()
    assert ran.errors() == [("spout", f"coordinator, {message}")]
    assert sorted(collected(ran.outside.all())) == ALL


def test_a_coordinator_whose_metadata_are_refused_is_no_nearer_to_its_end():
    def go_to_the_end_and_return_too_much(coordinator, *_):
        coordinator.end = coordinator.spout.limit
        return METADATA["too large"][0]

    ran = Ran("whole", {"initialize_transaction": [go_to_the_end_and_return_too_much] * 2}).end()
    ran.check_complete()
    assert [message.partition(": ")[0] for _, message in ran.errors()] == [
        "coordinator, initialize_transaction"
    ]


@pytest.mark.parametrize(
    ("kind", "method"),
    [("parts", "emit_partition_batch_new"), ("opaque", "emit_partition_batch")],
)
def test_an_emitter_that_does_not_say_where_its_part_ends_fails_the_attempt(kind, method):
    def emit_and_return_nothing(emitter, attempt, collector, *_):
        collector.emit([attempt, "a row of nobody's"])

    ran = Ran(kind, {method: [emit_and_return_nothing] * 2}, max_spout_pending=1).end()
    ran.check_complete()
    assert len(ran.errors()) == 2
    for _, message in ran.errors():
        assert "TypeError: it emitted 1 tuples and returned None. Return where they end" in message


@pytest.mark.parametrize("value", [Unpicklable(), threading.Lock()])
def test_where_a_partition_ended_must_be_picklable(value):
    ran = Ran("parts", {"emit_partition_batch_new": [Returned(value)]})
    with pytest.raises(TopologyFailed, match="pickling the metadata of its partitions"):
        ran.end()
    ran.end().check_complete()


@pytest.mark.parametrize("error", [away(), FailedException("not now")])
def test_what_cleanup_before_raises_is_reported_and_stops_nothing(error):
    ran = Ran("whole", {"cleanup_before": [error]}).end()
    ran.check_complete()
    ((component, message),) = ran.errors()
    assert component == "spout"
    assert message.startswith("cleanup_before: ")


@pytest.mark.parametrize("kind", ["whole", "parts", "opaque"])
def test_what_close_raises_is_reported(kind):
    ran = Ran(kind, {"close": [away(), away()]}).end()
    ran.check_complete()
    assert set(ran.errors()) == {
        ("spout", "coordinator, close: OperationalError: it is away"),
        ("spout", "close: OperationalError: it is away"),
    }


# ---- emits --------------------------------------------------------------------------------------


class Raises:
    def __eq__(self, other):
        raise OSError("compare me not")

    __hash__ = None


FIRST = {
    "a number": 1,
    "nothing": None,
    "another attempt": TransactionAttempt(1, 1),
    "an array": np.array([1, 2]),
    "what can't be compared": Raises(),
}


@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST.keys())
@pytest.mark.parametrize("where", ["basic", "batch finish_batch", "last finish_batch", "spout"])
def test_an_emit_whose_first_value_is_not_the_attempt_fails_the_attempt(where, first):
    component = where.partition(" ")[0]

    def stray(emitter, attempt, collector, partition, last_metadata):
        collector.emit([first, 7])
        return 0, 2

    methods = {
        "basic": {"basic": [lambda tup: [[first, 7]]]},
        "spout": {"emit_partition_batch_new": [stray]},
    }
    by_bolt = {where: [lambda bolt: bolt.collector.emit([first, 7])]}
    ran = Ran("parts", methods.get(where, by_bolt)).end()
    ran.check_complete()
    ((of, message),) = ran.errors()
    assert of == component
    assert "the first value must be the attempt of the transaction, here" in message
    kind = "spout" if where == "spout" else "bolt"
    assert message.startswith(f"emit: {kind} {component!r}, task ")
    assert [one.txid for one in ran.result.transactions.failed] == [1]


class NoPickle:
    def __init__(self):
        self.lock = threading.Lock()


class NoUnpickle(Exception):
    def __init__(self, code=0, *, text):
        super().__init__(text)


@pytest.mark.parametrize("where", ["spout", "basic", "batch finish_batch"])
@pytest.mark.parametrize(
    ("bad", "why"),
    [(NoPickle, "can't be pickled"), (lambda: NoUnpickle(text="x"), "can't be unpickled")],
)
def test_a_value_that_does_not_get_to_another_worker_fails_the_attempt(where, bad, why):
    def stray(emitter, attempt, collector, partition, last_metadata):
        collector.emit([attempt, bad()])
        return 0, 2

    methods = {
        "spout": {"emit_partition_batch_new": [stray]},
        "basic": {"basic": [lambda tup: [[tup.values[0], bad()]]]},
        "batch finish_batch": {
            "batch finish_batch": [lambda bolt: bolt.collector.emit([bolt.attempt, bad()])]
        },
    }
    ran = Ran("parts", methods[where]).end()
    ran.check_complete()
    ((of, message),) = ran.errors()
    assert of == where.partition(" ")[0]
    assert why in message
    assert [one.txid for one in ran.result.transactions.failed] == [1]
