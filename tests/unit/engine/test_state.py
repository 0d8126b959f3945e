"""Keyed state and fields: what is written, and what comes back."""

import copy
import pickle
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen import Bolt
from fulmen.engine import fields as fields_module
from fulmen.engine import state as state_module
from fulmen.engine.fields import Fields
from fulmen.engine.state import KeyedState
from support.engine_runs import Records

# ---- keyed state -----------------------------------------------------------------------------

KEYS = st.integers(0, 12)


def operations():
    values = st.integers(0, 5)
    return st.one_of(
        st.tuples(st.just("set"), KEYS, values),
        st.tuples(st.sampled_from(("del", "pop", "popitem", "get")), KEYS),
        st.tuples(st.just("pop or"), KEYS, values),
        st.tuples(st.just("setdefault"), KEYS, values),
        st.tuples(st.sampled_from(("update", "|=", "kwargs")), st.dictionaries(KEYS, values)),
        st.tuples(st.just("clear")),
    )


def apply(mapping, operation):
    what, *args = operation
    match what:
        case "set":
            mapping[args[0]] = args[1]
        case "del":
            if args[0] in mapping:
                del mapping[args[0]]
        case "pop":
            if args[0] in mapping:
                return mapping.pop(args[0])
            with pytest.raises(KeyError):
                mapping.pop(args[0])
        case "pop or":
            return mapping.pop(args[0], args[1])
        case "popitem":
            return mapping.popitem() if mapping else None
        case "get":
            return mapping.get(args[0]), args[0] in mapping, len(mapping), list(mapping.items())
        case "setdefault":
            return mapping.setdefault(args[0], args[1])
        case "update":
            mapping.update(args[0])
        case "|=":
            mapping |= args[0]
        case "kwargs":
            mapping.update(args[0].items(), **{f"k{k}": v for k, v in args[0].items()})
        case "clear":
            mapping.clear()
    return None


BATCHES = st.tuples(st.lists(operations(), max_size=8), st.booleans(), st.sampled_from((0, 99)))


@given(st.lists(BATCHES, max_size=25))
def test_it_is_a_dict_that_outlives_its_process(batches):
    state, expected, records = KeyedState(), {}, Records()
    for number, (some, lost, calls) in enumerate(batches, 1):
        for operation in some:
            if operation[0] == "popitem" and expected:  # which one is not promised after a restart
                key, _ = state.popitem()
                expected.pop(key)
                continue
            if operation[0] != "get":
                assert apply(state, operation) == apply(expected, operation)
        assert state == expected
        records.add(number, state.record(number, calls))
        assert KeyedState.restore(records.payloads, number) == expected
        if lost:
            state = KeyedState.restore(records.payloads, number)


def test_a_value_that_is_changed_in_place_and_assigned_is_written_however_often_it_is_called():
    state, records = KeyedState({"a": 1}), Records()
    for number in range(1, 6):
        state["a"] = 10 * number
        if number == 3:
            state["b"] = []
        if number > 3:
            changed = state["b"]
            changed.append(number)
            state["b"] = changed
        records.add(number, state.record(number, calls=1000))
        assert KeyedState.restore(records.payloads, number) == state
        assert (type(state) is KeyedState) == (number >= 3)  # before, changes were found otherwise
    assert state == {"a": 50, "b": [4, 5]}


def test_what_is_read_is_not_written():
    state = KeyedState({"a": [1]})
    assert state["a"] == [1]
    assert state.get("b") is None
    assert state.setdefault("a", 2) == [1]
    assert "a" in state
    assert dict(state) == state.copy() == {"a": [1]}
    assert state.record(1) is None


def test_a_value_that_is_changed_in_place_takes_part_when_it_is_assigned():
    state = KeyedState({"a": [1]})
    state["a"].append(2)
    assert state.record(1) is None
    state["a"] = state["a"]
    data, _ = state.record(1)
    assert KeyedState.restore([data], 1) == {"a": [1, 2]}


def test_an_unknown_key_is_a_key_error_without_default_only():
    with pytest.raises(KeyError, match="'x'"):
        KeyedState().pop("x")
    assert KeyedState().pop("x", None) is None
    with pytest.raises(KeyError):
        KeyedState().popitem()


def test_copies_and_pickles_are_plain_dicts():
    state = KeyedState({"a": 1})
    for other in (copy.deepcopy(state), copy.copy(state), pickle.loads(pickle.dumps(state))):
        assert type(other) is dict
        assert other == {"a": 1}


def run(state, records, start, batches, change):
    largest = 0
    for number in range(start, start + batches):
        change(state, number)
        update = state.record(number)
        records.add(number, update)
        largest = max(largest, len(update[0]))
    return largest


def test_a_batch_writes_in_proportion_to_what_it_changed():
    state, records, n = KeyedState(), Records(), 20_000
    for key in range(n):
        state[key] = "v"
    records.add(1, state.record(1))
    whole = records.bytes

    def change_one(state, number):
        state[number % 7] = "w"

    largest = run(state, records, 2, 1100, change_one)
    assert largest < whole / 100
    assert records.bytes < 4 * whole
    assert len(records.kept) <= 2 * 256 + 2
    assert KeyedState.restore(records.payloads, 0) == state


def test_a_log_holds_no_more_than_two_cycles_of_changes():
    state, records = KeyedState(), Records()

    def change_many(state, number):
        for key in range(100):
            state[(number * 31 + key) % 300] = number

    run(state, records, 1, 400, change_many)
    assert len(records.kept) <= 14  # 300 keys, 50 of them a batch: a cycle is six batches
    assert KeyedState.restore(records.payloads, 0) == state


def test_what_is_deleted_leaves_nothing_behind():
    state, records = KeyedState(), Records()

    def come_and_go(state, number):
        state[number] = "x" * 100
        state.pop(number - 1, None)

    run(state, records, 1, 1000, come_and_go)
    assert records.bytes < 1000
    assert KeyedState.restore(records.payloads, 0) == state == {1000: "x" * 100}


def test_restarts_again_and_again_let_no_log_grow(monkeypatch):
    monkeypatch.setattr(state_module, "MOST_RECORDS", 40)
    state, records = KeyedState(), Records()
    for key in range(1000):
        state[key] = 0
    records.add(1, state.record(1))
    for number in range(2, 200):
        if number % 2:
            state = KeyedState.restore(records.payloads, number - 1)
        state[number % 3] = number
        records.add(number, state.record(number))
        assert len(records.kept) <= state_module.MOST_RECORDS + 3
    assert KeyedState.restore(records.payloads, 0) == state


# ---- fields ----------------------------------------------------------------------------------


class Plain(Bolt):
    def execute(self, tup):
        pass


def lived(bolt, *injected):
    """The fields of an instance that has been prepared."""
    fields = Fields(bolt, dict(enumerate(injected)))
    fields.settle(None)
    return fields


def after_restart(record, prepare, cls=Plain):
    bolt = cls()
    fields = Fields(bolt)
    restored = fields.apply(record)
    prepare(bolt)
    fields.settle(restored)
    return bolt, fields


def test_fields_come_back():
    bolt = Plain()
    fields = lived(bolt)
    bolt.total = 3
    bolt.seen = {"a"}
    again, _ = after_restart(fields.record(), lambda b: None)
    assert (again.total, again.seen) == (3, {"a"})


def prepared(bolt, limit=5):
    bolt.counts = {}
    bolt.limit = limit


def test_what_prepare_sets_as_it_did_at_first_keeps_its_restored_value():
    bolt = Plain()
    prepared(bolt)
    fields = lived(bolt)
    bolt.counts["a"] = 1
    bolt.limit = 4
    again, more = after_restart(fields.record(), prepared)
    assert (again.counts, again.limit) == ({"a": 1}, 4)
    again.counts["b"] = 1
    third, _ = after_restart(more.record(), prepared)
    assert (third.counts, third.limit) == ({"a": 1, "b": 1}, 4)


def test_what_prepare_sets_to_something_else_takes_that():
    bolt = Plain()
    prepared(bolt)
    fields = lived(bolt)
    bolt.counts["a"] = 1
    again, more = after_restart(fields.record(), lambda b: prepared(b, limit=9))
    assert (again.counts, again.limit) == ({"a": 1}, 9)
    again.limit = 7
    third, _ = after_restart(more.record(), lambda b: prepared(b, limit=9))
    assert third.limit == 7


class Limited(Plain):
    def __init__(self, limit=1):
        self.limit, self.unit, self.seen = limit, "m", 0


def from_object(limit, record=None):
    """An instance that is a copy of `Limited(limit)` in the topology."""
    bolt = Limited(limit)
    fields = Fields(bolt, is_copy=True)
    fields.settle(fields.apply(record) if record else None)
    return bolt, fields


def test_a_changed_object_in_the_topology_wins_where_it_changed():
    bolt, fields = from_object(5)
    bolt.limit, bolt.unit, bolt.seen = 4, "km", 7
    bolt, fields = from_object(5, fields.record())
    assert (bolt.limit, bolt.unit, bolt.seen) == (4, "km", 7)
    bolt.seen = 8
    bolt, fields = from_object(9, fields.record())
    assert (bolt.limit, bolt.unit, bolt.seen) == (9, "km", 8)
    bolt.limit = 3
    bolt, fields = from_object(9, fields.record())
    assert (bolt.limit, bolt.unit, bolt.seen) == (3, "km", 8)


def test_what_prepare_does_with_a_restored_value_counts():
    bolt = Plain()
    bolt.starts = 1
    fields = lived(bolt)

    def count(b):
        b.starts += 1

    again, more = after_restart(fields.record(), count)
    assert again.starts == 2
    third, _ = after_restart(more.record(), count)
    assert third.starts == 3


def test_a_deleted_field_stays_deleted():
    bolt = Plain()
    fields = lived(bolt)
    bolt.x = 1
    again, more = after_restart(fields.record(), lambda b: None)
    del again.x
    record = more.record()
    assert record is not None
    third, _ = after_restart(record, lambda b: None)
    assert not hasattr(third, "x")


def test_only_what_changed_is_written():
    bolt = Plain()
    fields = lived(bolt)
    assert fields.record() is None
    bolt.x = [1]
    assert fields.record() is not None
    assert fields.record() is None
    bolt.x.append(2)
    assert fields.record() is not None
    bolt.x = [1, 2]
    assert fields.record() is None


def test_after_a_restart_nothing_is_written_that_is_the_same():
    bolt = Plain()
    prepared(bolt)
    fields = lived(bolt)
    bolt.counts["a"] = 1
    _, more = after_restart(fields.record(), prepared)
    assert more.record() is None


class Cached(Plain):
    transient = ("cache",)


def test_transient_fields_are_not_written():
    bolt = Cached()
    bolt.cache, bolt.total = {"big": 1}, 2
    again, _ = after_restart(lived(bolt).record(), lambda b: None, Cached)
    assert again.__dict__ == {"total": 2}


def test_what_the_engine_gave_is_not_written():
    bolt, collector, context = Plain(), object(), {"conf": 1}
    fields = Fields(bolt, {"collector": collector, "context": context})
    bolt.collector, bolt.conf, bolt.copy = collector, context, dict(context)
    fields.settle(None)
    again, _ = after_restart(fields.record(), lambda b: None)
    assert again.__dict__ == {"copy": {"conf": 1}}


def test_state_is_no_field():
    bolt = Plain()
    bolt.__dict__["state"] = KeyedState({"a": 1})
    assert lived(bolt).record() is None


def test_a_connection_made_in_prepare_is_made_again():
    def connect(bolt):
        bolt.lock = threading.Lock()

    bolt = Plain()
    connect(bolt)
    fields = lived(bolt)
    bolt.total = 1
    again, more = after_restart(fields.record(), connect)
    assert again.total == 1
    assert again.lock is not bolt.lock
    assert fields.warnings == more.warnings == []


def test_a_field_that_would_be_lost_is_told():
    bolt = Plain()
    fields = lived(bolt)
    bolt.model, bolt.total = threading.Lock(), 3
    again, _ = after_restart(fields.record(), lambda b: None)
    assert again.__dict__ == {"total": 3}
    assert fields.warnings == [
        "field 'model' can't be pickled (cannot pickle '_thread.lock' object) and is not set before"
        " the first tuple, so it would be lost with its process. Set it in prepare() or open(),"
        " keep what it is made from in a field that can be pickled, or name it in `transient`"
    ]
    fields.record()
    assert len(fields.warnings) == 1


class Stubborn:
    def __reduce__(self):
        raise RuntimeError("no")


def test_whatever_pickling_raises_excludes_the_field():
    bolt = Plain()
    fields = lived(bolt)
    bolt.stubborn, bolt.total = Stubborn(), 1
    again, _ = after_restart(fields.record(), lambda b: None)
    assert again.__dict__ == {"total": 1}
    assert "(no)" in fields.warnings[0]


def test_large_fields_are_told_once(monkeypatch):
    monkeypatch.setattr(fields_module, "WARN_FIELD_BYTES", 1000)
    bolt = Plain()
    fields = lived(bolt)
    bolt.table = b"x" * 2_400_000
    fields.record()
    assert fields.warnings == [
        "its fields take 2.4 MB, and all of that is written whenever one of them changes. Keep what"
        " grows in self.state: of that, only what changed is written"
    ]
    bolt.table += b"y"
    fields.record()
    assert len(fields.warnings) == 1
