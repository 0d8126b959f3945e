"""Keyed state and fields: what is written, and what comes back."""

import copy
import math
import pickle
import random
import re
import threading
from dataclasses import dataclass
from enum import Enum
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen import Bolt
from fulmen.engine.state import fields as fields_module
from fulmen.engine.state.entries import segments as segments_module
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.fields import Fields
from fulmen.errors import StateError
from support.parts.hostile import nested
from support.runs.engine_runs import Kept

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


@given(st.lists(BATCHES, max_size=40), st.sampled_from((0, 1 << 14)))
def test_keyed_state_is_a_dict_that_outlives_its_process(batches, free_bytes):
    """Whatever is dropped and written anew meanwhile."""
    with mock.patch.object(segments_module, "FREE_BYTES", free_bytes):
        state, expected, kept = KeyedState(), {}, Kept()
        for number, (some, lost, calls) in enumerate(batches, 1):
            for operation in some:
                if operation[0] == "popitem" and expected:  # which one it is is not promised
                    key, _ = state.popitem()
                    expected.pop(key)
                    continue
                if operation[0] != "get":
                    assert apply(state, operation) == apply(expected, operation)
            assert state == expected
            kept.add(number, state.updates(number, calls))
            assert kept.restored() == expected
            if lost:
                state = kept.restored()
            assert state.size == (len(expected), kept.bytes)


@pytest.mark.parametrize("seed", range(3))
def test_a_long_life_with_many_restarts_loses_nothing_and_brings_nothing_back(seed):
    chance = random.Random(seed)
    state, expected, kept = KeyedState(), {}, Kept()
    with mock.patch.object(segments_module, "FREE_BYTES", chance.choice((0, 2000))):
        for number in range(1, 400):
            for _ in range(chance.choice((1, 3, 10))):
                key = chance.randrange(chance.choice((5, 60)))
                if chance.random() < 0.4:
                    assert state.pop(key, None) == expected.pop(key, None)
                else:
                    state[key] = expected[key] = chance.choice((number, "x" * 300))
            if chance.random() < 0.01:
                state.clear()
                expected.clear()
            kept.add(number, state.updates(number))
            restored = kept.restored()
            assert restored == expected
            if chance.random() < 0.1:
                state = restored


def test_a_value_that_is_changed_in_place_and_assigned_is_written_however_often_it_is_called():
    state, kept = KeyedState(), Kept()
    state["a"] = 1
    kept.add(1, state.updates(1))
    for number in range(2, 7):
        state["a"] = 10 * number
        if number == 4:
            state["b"] = []
        if number > 4:
            changed = state["b"]
            changed.append(number)
            state["b"] = changed
        kept.add(number, state.updates(number, calls=1000))
        assert kept.restored() == state
        assert (type(state) is KeyedState) == (number >= 4)  # before, changes were found otherwise
    assert state == {"a": 60, "b": [5, 6]}


def test_keys_that_come_and_go_are_not_remembered_while_changes_are_found_by_comparing():
    state = KeyedState(dict.fromkeys(range(4), 0))
    for number in range(1, 9):
        for key in range(4):
            state[key] = number
        state[f"of {number}"] = 1
        state.pop(f"of {number}")
        state.updates(number, calls=99)
        assert len(state.noted) == 0
    assert type(state) is not KeyedState


@pytest.mark.parametrize("others", [0, 2, 40])
def test_what_an_update_changes_is_written_beside_what_is_assigned(others):
    state, kept, expected = KeyedState(), Kept(), {}
    for number in range(1, 6):
        at_once = dict.fromkeys(range(20), number)
        state.update(at_once)
        expected |= at_once
        for key in range(others):
            state[100 + key] = expected[100 + key] = -number
        kept.add(number, state.updates(number, calls=99))
        assert kept.restored() == state == expected
        assert (type(state) is KeyedState) == (others < 20)  # else what changed is looked for


def two_ways(first_calls):
    """A state of ten numbers, after a batch that had so many calls, and what is kept of it."""
    state, kept = KeyedState(), Kept()
    for key in range(10):
        state[key] = 0
    kept.add(1, state.updates(1, first_calls))
    assert (type(state) is KeyedState) == (first_calls <= 10)  # else what changed is looked for
    return state, kept


KEPT_METHODS = {
    "__setitem__": (3, 1),
    "__delitem__": (3,),
    "__ior__": ({3: 1, 30: 1},),
    "pop": (3,),
    "popitem": (),
    "clear": (),
    "setdefault": (30, 1),
    "update": ({3: 1, 30: 1},),
}


@pytest.mark.parametrize("name", KEPT_METHODS)
@pytest.mark.parametrize("calls", [(0, 99), (99, 0), (99, 99), (0, 0)], ids=str)
def test_a_method_that_somebody_has_kept_is_noticed_however_changes_were_noticed_then(calls, name):
    state, kept = two_ways(calls[0])
    method = getattr(state, name)
    state[9] = 5  # one of many: the way of noticing follows the number of calls alone
    state[8] = 5
    kept.add(2, state.updates(2, calls[1]))
    method(*KEPT_METHODS[name])
    kept.add(3, state.updates(3))
    assert kept.restored() == state
    assert state != two_ways(0)[0] | {8: 5, 9: 5}


def test_a_kept_method_of_the_state_in_a_field_is_the_one_of_the_new_state_after_a_restore():
    class Keeps(Bolt):
        def execute(self, tup):
            """Nothing."""

    bolt, (state, _) = Keeps(), two_ways(99)
    bolt.put = state.__setitem__
    record = Fields(bolt, {"state": state}).record()
    again, other = Keeps(), KeyedState()
    Fields(again, {"state": other}).apply(record)
    again.put("a", 1)
    assert other.updates(1)


def test_the_state_has_no_attributes_of_authors():
    with pytest.raises(AttributeError, match=r"Write self\.state\['total'\] = "):
        KeyedState().total = 1


def test_what_is_read_is_not_written():
    state = KeyedState({"a": [1]})
    assert state["a"] == [1]
    assert state.get("b") is None
    assert state.setdefault("a", 2) == [1]
    assert "a" in state
    assert dict(state) == state.copy() == {"a": [1]}
    assert state.updates(1) == {}


def test_a_value_that_is_changed_in_place_takes_part_when_it_is_assigned():
    state, kept = KeyedState({"a": [1]}), Kept()
    state["a"].append(2)
    assert state.updates(1) == {}
    state["a"] = state["a"]
    kept.add(1, state.updates(1))
    assert kept.restored() == {"a": [1, 2]}


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


def live(state, kept, start, batches, change):
    """Returns the most that a batch wrote, and the most that was kept."""
    most, largest = 0, 0
    for number in range(start, start + batches):
        change(state, number)
        most = max(most, kept.add(number, state.updates(number)))
        largest = max(largest, kept.bytes)
    return most, largest


def filled(keys, value=None):
    state, kept = KeyedState(), Kept()
    for key in range(keys):
        state[key] = "v" if value is None else value + key
    kept.add(1, state.updates(1))
    return state, kept, kept.bytes


def test_a_batch_writes_in_proportion_to_what_it_changed():
    state, kept, whole = filled(20_000)

    def change_one(state, number):
        state[number % 7] = "w"

    most, largest = live(state, kept, 2, 1100, change_one)
    assert most < whole / 100
    assert largest < 1.1 * whole
    assert len(kept.journals) < 20
    assert kept.restored() == state


@pytest.mark.parametrize("every", [1, 7, 1000])
def test_what_is_kept_is_less_than_twice_the_state_across_restarts_as_well(every):
    state, kept, whole = filled(6000, 10**50)
    before = kept.written
    chance = random.Random(5)
    for number in range(2, 120):
        for key in chance.sample(range(6000), 90):
            state[key] = 10**50 + number
        kept.add(number, state.updates(number))
        assert kept.bytes < 1.8 * whole + segments_module.FREE_BYTES
        if number % every == 0:
            state = kept.restored()
    assert kept.restored() == state
    changed = 118 * 90 * whole / 6000
    assert kept.written - before < 4 * changed


@pytest.mark.parametrize("size", [100_000, 2_000_000])
def test_a_large_value_is_written_when_it_changes_and_never_again(size):
    state, kept = KeyedState(), Kept()
    for key in range(10):
        state["large", key] = "x" * size
        kept.add(key + 1, state.updates(key + 1))

    def change_others(state, number):
        for key in range(50):
            state[key * number % 997] = number

    most, _ = live(state, kept, 11, 300, change_others)
    assert most < 50_000
    for key in range(10):
        state["large", key] = "y"
    kept.add(400, state.updates(400))
    assert kept.bytes < 100_000
    assert kept.restored() == state


def test_few_segments_hold_what_many_batches_have_written():
    state, kept = KeyedState(), Kept()

    def add_some(state, number):
        for key in range(50):
            state[number, key] = number

    live(state, kept, 1, 500, add_some)
    assert len(kept.journals) < 40
    assert kept.written < 6 * kept.bytes
    assert kept.restored() == state


def test_what_is_deleted_leaves_nothing_behind():
    state, kept = KeyedState(), Kept()

    def come_and_go(state, number):
        state[number] = "x" * 100
        state.pop(number - 1, None)

    _, largest = live(state, kept, 1, 1000, come_and_go)
    assert largest < 2000
    assert kept.restored() == state == {1000: "x" * 100}


def test_deleted_keys_do_not_pile_up_beside_a_state_that_stays():
    state, kept, whole = filled(5000)

    def come_and_go(state, number):
        for key in range(100):
            state[number, key] = 1
            state.pop((number - 1, key), None)

    _, largest = live(state, kept, 2, 200, come_and_go)
    assert largest < whole + 60_000
    state.clear()
    kept.add(1000, state.updates(1000))
    assert kept.journals == {}
    assert kept.restored() == {}


def test_a_key_that_is_deleted_stays_so_when_only_older_segments_are_left():
    state, kept, _ = filled(1000)
    del state[5]
    kept.add(2, state.updates(2))
    state = kept.restored()
    assert 5 not in state
    for number in range(3, 40):
        state["other"] = number
        kept.add(number, state.updates(number))
    assert 5 not in kept.restored()


class Pickled:
    """Counts how often it is pickled."""

    def __init__(self, text):
        self.text, self.times = text, 0

    def __eq__(self, other):
        return self.text == other.text

    def __reduce__(self):
        self.times += 1
        return Pickled, (self.text,)


@pytest.mark.parametrize("size", [300, 100_000])
def test_a_value_whose_size_only_pickling_tells_is_pickled_once(size):
    state, kept = KeyedState(), Kept()
    values = {i: [Pickled(f"{i}" * size)] for i in range(3)}
    state.update(values)
    kept.add(1, state.updates(1))
    assert [one.times for [one] in values.values()] == [1, 1, 1]
    assert kept.restored() == values


def test_what_is_nested_too_deeply_for_one_value_harms_no_value_behind_it():
    state, kept = KeyedState(), Kept()
    large = ["text"] * 100
    state.update(before=large, deep=nested(1024), large=large, same=[large, large])
    kept.add(1, state.updates(1))
    again = kept.restored()
    assert again.keys() == state.keys()
    assert [again["before"], again["large"], again["same"]] == [large, large, [large, large]]


def test_several_keyed_states_of_a_task_do_not_mix():
    kept = Kept()
    for name in ("state", "failures"):
        state = KeyedState(name=name)
        state[name] = 1
        kept.add(1, state.updates(1))
    assert KeyedState.restore(kept.journals) == {"state": 1}
    assert KeyedState.restore(kept.journals, name="failures") == {"failures": 1}


def test_a_value_that_can_t_be_pickled_is_named():
    state = KeyedState()
    state["good"], state["bad"] = 1, threading.Lock()
    with pytest.raises(StateError, match=r"^self\.state\['bad'\] can't be pickled"):
        state.updates(1)


@pytest.mark.parametrize("calls", [0, 99], ids=["noted", "compared"])
@pytest.mark.parametrize("key", [math.nan, ("a", math.nan)], ids=repr)
def test_a_key_that_could_never_be_found_again_is_refused(calls, key):
    state = KeyedState()
    state["a"] = 1
    state.updates(1, calls)
    state["b"], state[key] = 2, 3
    with pytest.raises(StateError) as raised:
        state.updates(2, calls)
    assert str(raised.value) == (
        f"the key {key!r} of self.state is not equal to itself, since NaN is in it: what is kept"
        " under it could never be found again. Use None or a text in place of NaN"
    )


class Alone:
    """Has no `==`: each is equal to itself alone."""

    def __repr__(self):
        return "Alone()"


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Place:
    name: str


@pytest.mark.parametrize("calls", [0, 99], ids=["noted", "compared"])
@pytest.mark.parametrize("key", [Alone(), (1, Alone())], ids=repr)
def test_a_key_whose_copy_is_not_equal_to_it_is_refused(calls, key):
    state = KeyedState()
    state[Place("here")] = state[Colour.RED, 1] = state["a"] = 1
    state.updates(1, calls)
    state["b"], state[key] = 2, 3
    said = f"the key {key!r} of self.state is equal to itself alone: after a restart it would not"
    with pytest.raises(StateError, match=rf"^{re.escape(said)} be found\. Use plain values"):
        state.updates(2, calls)


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


def test_a_field_that_prepare_sets_to_another_value_keeps_the_other_value():
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


def test_a_value_that_is_nested_as_deeply_as_json_can_be_is_kept():
    state, kept = KeyedState(), Kept()
    state["deep"] = nested(1024)
    kept.add(1, state.updates(1))
    value = KeyedState.restore(kept.journals)["deep"]
    for _ in range(1024):
        (value,) = value
    assert value == 1
