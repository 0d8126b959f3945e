"""What can't be read any more is found and taken out, and all else stays."""

import pickle
import sys
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest

from fulmen import (
    BatchBolt,
    Bolt,
    Committer,
    Spout,
    TopologyBuilder,
    TransactionalSpout,
    TransactionalTopologyBuilder,
)
from fulmen.checkpoint import read_newest
from fulmen.engine.batches.ledger import ledger_of
from fulmen.engine.driver.edits.repair import _journals_of, find_unreadable, remove_unreadable
from fulmen.engine.state.committed_state import read_fields, read_state
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.journals import PARTITIONS
from fulmen.engine.state.messages.failed_messages import FailedMessages
from fulmen.engine.state.messages.kept_results import KeptResults
from fulmen.engine.state.messages.message_ids import MessageIds
from fulmen.engine.state.messages.pending_messages import PendingMessages
from fulmen.engine.state.messages.unwritten_rows import Unwritten
from fulmen.engine.state.pickling import IDS, INSTANCE, dumps, made_of
from fulmen.engine.state.values.unreadable import left_of, loads
from fulmen.errors import TopologyFailed
from fulmen.testing import CollectBolt, ListSpout
from support.parts.hooks import HookBasicBolt, hooks
from support.runs.engine_runs import A_PERSON, Kept, make_driver, new_store

GONE = "classes_that_are_gone"


def thing(name, *bases, **attributes):
    """A class of a module that can be taken away."""
    module = sys.modules.setdefault(GONE, ModuleType(GONE))
    made = type(name, bases, {"__module__": GONE, **attributes})
    setattr(module, name, made)
    return made


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    sys.modules.pop(GONE, None)


class NeedsTwo(Exception):
    def __init__(self, one, two):
        super().__init__(one)


def test_what_has_an_object_in_it_that_can_not_be_made_is_left_out():
    plain, a_list, a_dict = thing("Plain"), thing("List", list), thing("Dict", dict)
    slots = thing("Slots", __slots__=("a",))
    with_slots = slots()
    with_slots.a = [1]
    own = thing("Own", __setstate__=lambda self, state: None, __getstate__=lambda self: 1)
    values = {
        "number": 1,
        "nested": [1, {2: plain()}],
        "list": a_list([1, 2]),
        "dict": a_dict(x=1),
        "slots": with_slots,
        "own": own(),
        "tuple": (plain(), 1),
        "error": NeedsTwo(1, 2),
        "fine": (1, {"a": [2.5]}, {3}, ValueError("x")),
        plain(): "by its key",
    }
    data = pickle.dumps(values, 5)
    assert not left_of(loads(data)).removed[1:], (
        "all but the error can be read while classes are there"
    )
    sys.modules.pop(GONE)
    left = left_of(loads(data))
    assert left.items.keys() == {"number", "fine"}
    assert left.items["fine"][:3] == values["fine"][:3]
    assert len(left.removed) == len(values) - 2
    reasons = dict(left.removed)
    assert reasons["'nested'"] == f"ModuleNotFoundError: No module named '{GONE}'"
    assert "missing 1 required positional argument: 'two'" in reasons["'error'"]


def test_attributes_that_a_class_no_longer_takes():
    kind = thing("Strict")
    data = pickle.dumps({"a": kind(), "b": 1}, 5)
    changed = thing("Strict", __slots__=(), __setstate__=lambda self, state: 1 / 0)
    assert changed is not kind
    one = kind()
    one.x = 1
    sys.modules[GONE].Strict = kind
    data = pickle.dumps({"a": one, "b": 1}, 5)
    sys.modules[GONE].Strict = changed
    left = left_of(loads(data))
    assert (left.items, left.removed) == (
        {"b": 1},
        [("'a'", "ZeroDivisionError: division by zero")],
    )


@pytest.mark.parametrize("method", ["__setstate__", "__new__", "__hash__", "append"])
def test_values_that_end_the_process_that_reads_them_are_left_out(method):
    kind = thing("Exits", list)
    value = kind([1])
    value.x = 1
    data = pickle.dumps({"a": value, "b": 1, "c": {2: [value]}}, 5)
    if method == "__hash__":
        kind.__hash__ = lambda one: 1
        data = pickle.dumps({value: 1, "b": 1, "c": {value}}, 5)
    setattr(kind, method, lambda *_: sys.exit(3))
    left = left_of(loads(data))
    assert left.items == {"b": 1}
    assert {why for _, why in left.removed} == {"SystemExit: 3"}


@pytest.mark.parametrize(
    ("base", "content", "method"),
    [
        *((list, [1], "append"), (list, [1, 2], "extend"), (dict, {1: 2}, "__setitem__")),
        *((dict, {1: 2, 3: 4}, "__setitem__"), (object, None, "__setstate__")),
    ],
)
def test_all_references_to_a_value_that_can_not_be_filled_are_left_out(base, content, method):
    kind = thing("Filled", base)
    value = kind() if content is None else kind(content)
    value.x = 1
    data = pickle.dumps({"a": value, "b": 1, "c": [value], "d": [2]}, 5)
    setattr(kind, method, lambda *_: 1 / 0)
    left = left_of(loads(data))
    assert left.items == {"b": 1, "d": [2]}
    assert left.removed == [(key, "ZeroDivisionError: division by zero") for key in ("'a'", "'c'")]


def test_a_module_that_ends_the_process_that_imports_it(tmp_path, monkeypatch):
    data = pickle.dumps({"a": thing("Plain")(), "b": 1}, 5)
    sys.modules.pop(GONE)
    (tmp_path / f"{GONE}.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    left = left_of(loads(data))
    assert (left.items, left.removed) == ({"b": 1}, [("'a'", "SystemExit: 3")])


class Id:
    """A message id that is equal to itself alone."""


def test_what_the_engine_writes_by_its_name_stays_what_it_is():
    one, ids = Id(), MessageIds()
    one.text = "kept"
    ids.add(7, [one])
    instance = object.__new__(ListSpout)
    parts = {IDS: ids, INSTANCE: instance}
    data = dumps({"id": one, "self": instance}, {id(instance): INSTANCE}, parts)
    again = dumps(left_of(loads(data)).items, {})
    fresh = MessageIds()
    with made_of({IDS: fresh, INSTANCE: instance}):
        found = pickle.loads(again)
    assert found["self"] is instance
    assert found["id"] is fresh.one(7, Id, ())
    assert found["id"].text == "kept"


KEYS = 5000
"""As many as take several blocks."""


def started(store):
    def execute(bolt, tup, collector):
        number = tup[0]
        kind = sys.modules[GONE].Value
        bolt.state[number] = kind() if number % 1000 == 7 else "x" * 40
        bolt.plain, bolt.odd = number, kind()

    builder = TopologyBuilder(name="keeps")
    builder.set_spout("source", ListSpout(range(KEYS)))
    bolt = builder.set_bolt("keep", HookBasicBolt, 2).set_config(hooks(execute=execute))
    bolt.fields_grouping("source", ["value"])
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("source")
    return make_driver(builder, store=store).start()


def goes_on(store):
    """The next driver restores all tasks."""
    driver = started(store)
    driver.step()
    driver.close()


def test_a_checkpoint_with_values_of_a_class_that_is_gone_is_repaired():
    store = new_store()
    thing("Value")
    driver = started(store)
    driver.step()
    while not driver.coordinator.settled:
        driver.step()
    driver.close()
    assert find_unreadable(store, "keep") == []
    before = store.list("")
    assert remove_unreadable(store, "keep", A_PERSON) == []
    assert store.list("") == before, "nothing is written if there is nothing to remove"
    whole = read_state(store, "keep").tasks

    sys.modules.pop(GONE)
    with pytest.raises(TopologyFailed, match=r"restoring self\.state: ModuleNotFoundError"):
        goes_on(store)
    before = store.list("")
    found = find_unreadable(store, "keep")
    assert {one.key for one in found if one.where == "state"} == {
        "7",
        "1007",
        "2007",
        "3007",
        "4007",
    }
    assert {(one.task, one.key) for one in found if one.where == "fields"} == {
        (0, "'odd'"),
        (1, "'odd'"),
    }
    assert store.list("") == before
    assert remove_unreadable(store, "keep", A_PERSON) == found
    assert find_unreadable(store, "keep") == []
    left = read_state(store, "keep").tasks
    assert left == {
        task: {key: value for key, value in items.items() if key % 1000 != 7}
        for task, items in whole.items()
    }
    assert all(
        "odd" not in fields and "plain" in fields
        for fields in read_fields(store, "keep").tasks.values()
    )
    goes_on(store)
    assert read_state(store, "keep").tasks == left


@pytest.mark.parametrize("beside", [(), (["x"] * 300,)])  # which is pickled by itself
@pytest.mark.parametrize("name", ["state", "timers"])
def test_an_older_value_does_not_take_the_place_of_one_that_is_taken_out(name, beside):
    kind = thing("Value")
    state, kept = KeyedState(name=name), Kept()
    state["stays"] = 0  # and so does the segment with the older values
    for number, value in enumerate([(1, *beside), (kind(), *beside), (2, *beside)], 1):
        state["a"], state["b"] = value, number
        kept.add(number, state.updates(number))
        if number == 2:
            journals = {name: list(data) for name, data in kept.journals.items()}
    sys.modules.pop(GONE)
    for before, left in ((journals, {"b": 2}), (kept.journals, {"a": (2, *beside), "b": 3})):
        found = {name: [data] for name, data in _journals_of(before, 0, []).items()}
        assert KeyedState.restore(before | found, name=name) == {"stays": 0, **left}


def test_deleted_keys_of_a_class_that_is_gone_are_taken_out():
    kind = thing("Key", __eq__=lambda one, other: type(one) is type(other), __hash__=lambda one: 1)
    state = KeyedState()
    state[kind()], state["a"] = 1, 2
    journals = {name: [data] for name, (data, _) in state.updates(1).items()}
    del state[kind()]
    journals |= {name: [data] for name, (data, _) in state.updates(2).items() if data is not None}
    sys.modules.pop(GONE)
    found = _journals_of(journals, 0, [])
    assert KeyedState.restore(journals | {name: [data] for name, data in found.items()}) == {"a": 2}


def test_a_key_that_lacks_what_its_hash_is_made_of():
    kind = thing("Key")
    data = pickle.dumps({"a": 1, kind(): 2, "set": {kind()}, "frozen": frozenset([kind()])}, 5)
    kind.__hash__ = lambda one: hash(one.added)
    left = left_of(loads(data))
    reason = "AttributeError: 'Key' object has no attribute 'added'"
    assert (left.items, [why for _, why in left.removed]) == ({"a": 1}, [reason] * 3)


class Objects(Spout):
    """Emits six messages; ids 1 and 4 are of a class that will be gone."""

    outputs = ("n",)

    def open(self, conf, context, collector):
        self.collector = collector
        self.at, self.ends = getattr(self, "at", 0), getattr(self, "ends", False)
        self.told = getattr(self, "told", [])

    def next_tuple(self):
        if self.at == 6:
            if Slow.is_over and not self.ends:
                self.ends = True
                self.collector.emit([None])
            return False
        msg_id = sys.modules[GONE].Id() if self.at in (1, 4) else ("id", self.at)
        self.collector.emit([self.at], msg_id=msg_id)
        self.at += 1
        return None

    def fail(self, msg_id):
        self.told = [*self.told, msg_id]


class Slow(Bolt):
    """Keeps all it gets, until it fails all."""

    is_over = False

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.kept = getattr(self, "kept", [])

    def execute(self, tup):
        self.kept = [*self.kept, tup]
        if tup[0] is None:
            for one in self.kept:
                self.collector.fail(one)


def objects(store, backoff):
    builder = TopologyBuilder(name="objects")
    spout = Objects()
    spout.backoff = backoff
    builder.set_spout("source", spout)
    builder.set_bolt("slow", Slow).shuffle_grouping("source")
    return make_driver(builder, store=store).start()


def stepped(store, backoff, steps):
    driver = objects(store, backoff)
    for _ in range(steps):
        driver.step()
    driver.close()


@pytest.mark.parametrize("where", ["pending messages", "messages that failed"])
def test_message_ids_of_a_class_that_is_gone_are_taken_out(where, monkeypatch):
    store, has_failed = new_store(), where != "pending messages"
    thing("Id")
    stepped(store, has_failed, 3)
    if has_failed:
        monkeypatch.setattr(Slow, "is_over", True)
        stepped(store, has_failed, 4)
    assert find_unreadable(store, "source") == []
    sys.modules.pop(GONE)
    with pytest.raises(TopologyFailed, match=r"restoring its messages: ModuleNotFoundError"):
        stepped(store, has_failed, 1)
    found = find_unreadable(store, "source")
    reason = f"ModuleNotFoundError: No module named '{GONE}'"
    assert [one[1:] for one in found] == [(where, "<unreadable>", reason)] * 2
    assert remove_unreadable(store, "source", A_PERSON) == found
    assert find_unreadable(store, "source") == []
    monkeypatch.setattr(Slow, "is_over", True)
    stepped(store, has_failed, 8)
    told = read_fields(store, "source").tasks[0]["told"]
    assert set(told) == {("id", n) for n in (0, 2, 3, 5)}


def test_the_logs_of_messages_keep_all_others():
    kind = thing("Id", __eq__=lambda one, other: type(one) is type(other), __hash__=lambda one: 1)
    ids = [0, 1, kind(), 3, 4]
    alone = Id()
    pending, failed = PendingMessages(), FailedMessages()
    pending.ids.add(9, [alone])
    failed.ids = pending.ids
    pending._policy.rewrite = failed._policy.rewrite = lambda alive, changed: False
    logs = {"pending": [], "failed": []}

    def commit(number):
        logs["pending"].append(pending.record(number)[0])
        logs["failed"].append(failed.updates(number)["failed"][0])

    pending.add(5, [*ids, alone])
    for n, msg_id in enumerate([*ids, alone]):
        failed.add([(n, msg_id, "why")], 0.0, rests=True)
    commit(1)
    list(pending.end_singly([5]))
    [_] = failed.take(1.0, 1)
    failed.acked([0])
    list(failed.take(1.0, 2))
    commit(2)
    failed.add([(7, ids[2], "again")], 1.0, rests=True)
    failed.add([(8, alone, "later")], 1.0, rests=True)
    pending.add(11, ["last"])
    commit(3)
    sys.modules.pop(GONE)
    removed = []
    found = _journals_of(logs, 0, removed)
    assert {one.where for one in removed} == {"pending messages", "messages that failed"}
    again = MessageIds()
    left = PendingMessages.restore([found["pending"]], again)
    first = list(left.msg_ids())
    assert [*first[:3], first[4]] == [1, 3, 4, "last"]
    assert type(first[3]) is Id
    tried = FailedMessages.restore({"failed": [found["failed"]]}, again)
    assert set(map(type, tried.msg_ids())) == {int, Id}
    assert first[3] in list(tried.msg_ids())
    assert sorted(n for n in tried.msg_ids() if type(n) is int) == [1, 3, 4]


def test_a_log_without_a_message_that_has_ended_since_can_be_read():
    pending, logs, removed = PendingMessages(), [], []
    pending._policy.rewrite = lambda alive, changed: False
    pending.add(0, [thing("Id")(), "good", "last"])
    logs.append(pending.record(1)[0])
    pending.end_singly([0, 1])
    logs.append(pending.record(2)[0])
    sys.modules.pop(GONE)
    found = _journals_of({"pending": logs}, 0, removed)
    assert list(PendingMessages.restore([found["pending"]]).msg_ids()) == ["last"]
    assert len(removed) == 1


def test_rows_that_a_sink_has_not_written_yet():
    rows = [["a"], [thing("Plain")()], ["c"]]
    data = Unwritten(7, "tag", ("x",), None, rows).pack()
    assert _journals_of({"rows": [data]}, 0, []) == {}
    sys.modules.pop(GONE)
    removed = []
    left = Unwritten.unpack(_journals_of({"rows": [data]}, 0, removed)["rows"])
    assert left == Unwritten(7, "tag", ("x",), None, [["a"], ["c"]])
    reason = f"ModuleNotFoundError: No module named '{GONE}'"
    assert removed == [(0, "rows", "[<unreadable>]", reason)]


def test_a_result_with_an_object_that_can_not_be_made_is_left_out():
    results = KeptResults()
    results.emitted(0, [("default", [1], None), ("default", [thing("Plain")()], None)])
    none = np.empty((0, 2), np.int64)
    results.deliver(none, [(0, "no"), (1, "no")], clock=0.0)
    journals = {name: [data] for name, (data, _) in results.updates(1).items()}
    sys.modules.pop(GONE)
    removed = []
    left = {**journals, **{n: [data] for n, data in _journals_of(journals, 0, removed).items()}}
    assert [(one.task, one.where) for one in removed] == [(0, "results")]
    restored = KeptResults.restore(left)
    assert list(restored.due(9.0, 5)) == [(0, ("default", [1], None))]
    assert len(restored) == 1


# ---- metadata of transactions


def test_a_partition_goes_on_behind_its_last_end_that_can_be_read():
    kind = thing("Value")
    state, kept = KeyedState(name=PARTITIONS), Kept()
    state[0], state[1], state[2] = ((3, "x"), (4, kind())), ((3, kind()), (4, "y")), ((3, "z"),)
    kept.add(1, state.updates(1))
    sys.modules.pop(GONE)
    removed = []
    found = {name: [data] for name, data in _journals_of(kept.journals, 5, removed).items()}
    left = KeyedState.restore(kept.journals | found, name=PARTITIONS)
    assert left == {0: ((3, "x"),), 2: ((3, "z"),)}
    why = f"ModuleNotFoundError: No module named '{GONE}'"
    assert removed == [
        (5, "partitions", "0", f"{why}; it goes on behind transaction 3"),
        (5, "partitions", "1", f"{why}; it is read from its beginning"),
    ]
    assert _journals_of(kept.journals | found, 5, []) == {}


class Ranges(TransactionalSpout):
    """The metadata of transaction n are the text n, or what a test says."""

    outputs = ("attempt", "n")
    metadata: ClassVar = {}
    previous: ClassVar = {}

    class Coordinator(TransactionalSpout.Coordinator):
        def is_ready(self):
            return True

        def initialize_transaction(self, txid, previous_metadata):
            Ranges.previous[txid] = previous_metadata
            return Ranges.metadata.get(txid, str(txid))

    class Emitter(TransactionalSpout.Emitter):
        def emit_batch(self, attempt, metadata, collector):
            collector.emit([attempt, attempt.txid])

    def get_coordinator(self, conf, context):
        return self.Coordinator()

    def get_emitter(self, conf, context):
        return self.Emitter()


class Takes(BatchBolt):
    def prepare(self, conf, context, collector, attempt):
        pass

    def execute(self, tup):
        pass

    def finish_batch(self):
        pass


class Commits(Takes, Committer):
    pass


def transactions_on(store, steps, bolt):
    """The ledger after so many batches, and what transactions were told of the one before."""
    builder = TransactionalTopologyBuilder("ranges", "ranges", Ranges, max_spout_pending=3)
    builder.set_bolt("sink", bolt).shuffle_grouping("ranges")
    driver, Ranges.previous = make_driver(builder, store=store).start(), {}
    for _ in range(steps):
        driver.step()
    driver.close()
    return ledger_of(read_newest(store).transient), Ranges.previous


WHY = f"ModuleNotFoundError: No module named '{GONE}'; "
TAKEN_OUT = {
    "the last one that is committed": (
        Takes,
        [3],
        (3, [3]),
        {"3": WHY + "it stays committed, and the next one begins as the very first one did"},
        {4: None, 5: "4"},
    ),
    "one that is begun": (
        Commits,
        [2],
        (1, [1, 2, 3]),
        {"2": WHY + "it is begun anew", "3": "one before it can't be read; it is begun anew"},
        {2: "1", 3: "2"},
    ),
    "one that is committed, with others behind it": (
        Commits,
        [1],
        (1, [1, 2, 3]),
        {"1": WHY + "it stays committed"},
        {4: "3", 5: "4"},
    ),
}


@pytest.mark.parametrize(
    ("bolt", "gone", "before", "removed", "after"), TAKEN_OUT.values(), ids=TAKEN_OUT
)
def test_metadata_of_transactions_that_can_not_be_read(bolt, gone, before, removed, after):
    store, kind = new_store(), thing("Gone")
    Ranges.metadata = dict.fromkeys(gone, kind())
    ledger, _ = transactions_on(store, 2 if bolt is Commits else 1, bolt)
    assert (ledger.committed, sorted(ledger.metadata)) == before
    sys.modules.pop(GONE)
    found = find_unreadable(store, "ranges")
    assert {one.where for one in found} == {"transactions"}
    assert {one.key: one.reason for one in found} == removed
    assert find_unreadable(store, "sink") == []
    assert remove_unreadable(store, "ranges", A_PERSON) == found
    assert find_unreadable(store, "ranges") == []
    Ranges.metadata = {}
    ledger, previous = transactions_on(store, 4, bolt)
    assert ledger.committed >= 4
    assert previous.items() >= after.items()
    assert min(previous) == min(after)
