"""Savepoints by the driver, going back, and copies."""

import json
import pickle
from collections import Counter

import pytest

from fulmen import TopologyBuilder
from fulmen.checkpoint import CommitLog, Store, load_many, read_newest
from fulmen.checkpoint.savepoints.exports import opened
from fulmen.checkpoint.savepoints.history import branches_of
from fulmen.checkpoint.savepoints.pins import PINS, Pin, pins_in
from fulmen.engine.driver.checkpoints.savepoints import (
    LOOK_SECONDS,
    SavepointKeeper,
    Wish,
    automatic,
    granted,
)
from fulmen.engine.driver.edits.restoring import copied, go_back
from fulmen.engine.state.journals import ENGINE, ROWS
from fulmen.errors import CheckpointError
from fulmen.testing import CollectBolt, ListSpout, run
from fulmen.topology.resource.spec.savepoints import Savepoints
from support.parts import sink_parts
from support.parts.sink_parts import Memory, MemorySink, Unrepeatable
from support.runs.engine_runs import new_store
from support.stores.savepoints import pinned, pins_of

# ---- wishes --------------------------------------------------------------------------------------


def test_a_wish_never_changes_a_savepoint_that_is_there():
    pins = {"a": Pin(3, 1.0), "b": Pin(4, 2.0)}
    wishes = [Wish("a"), Wish("b", deletes=True), Wish("c", why="x", by="me"), Wish("d", True)]
    assert granted(pins, wishes, 9, 7.0) == {"a": Pin(3, 1.0), "c": Pin(9, 7.0, "x", "me")}
    assert pins == {"a": Pin(3, 1.0), "b": Pin(4, 2.0)}


def test_automatic_savepoints_come_in_time_and_the_oldest_go():
    policy, pins, number = Savepoints(every="10s", keep=2), {"mine": Pin(1, 0.0)}, 0
    for now in range(100, 145, 5):
        number += 5
        wishes = automatic(pins, policy, number, now)
        assert bool(wishes) == (now % 10 == 0)
        pins = granted(pins, wishes, number + 1, now)
    assert sorted(pin.time for pin in pins.values()) == [0.0, 130, 140]
    assert automatic(pins, policy, 46, 999.0) == []  # nothing was committed since
    assert automatic(pins, None, 50, 999.0) == []
    assert automatic({}, policy, 1, 9.0, began=0.0) == []
    assert [wish.why for wish in automatic({}, policy, 1, 10.0, began=0.0)] == ["automatic"]


def test_a_keeper_does_what_was_asked_for_once():
    store, notes, now = new_store(), [], [0.0]
    log = CommitLog(store, "shop", "a driver")
    log.claim()
    keeper = SavepointKeeper(store, notes.append, lambda: 5.0)
    wish = Wish("mine", why="x", by="me")
    assert wish.ask(store)
    assert not wish.ask(store)
    assert not keeper.look(log.manifest, now[0])
    keeper.look(log.manifest, LOOK_SECONDS)  # it begins to look
    keeper._thread.join()
    assert keeper.look(log.manifest, LOOK_SECONDS)
    section = keeper.section(log.manifest)
    assert pins_in(section[PINS]) == {"mine": Pin(2, 5.0, "x", "me")}
    log.commit(log.draft(tag="a", clock=0.0, sections=section, full=True))
    keeper.committed(2)
    assert notes == ["savepoint 'mine' is made: the state of commit 1 stays"]
    assert store.list("savepoints/") == []
    assert not keeper.look(log.manifest, LOOK_SECONDS)
    assert keeper.section(log.manifest) == {}


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        pytest.param("broken", b"{", "Expecting property name", id="no-json"),
        pytest.param("list", b"[]", "must be a mapping", id="no-wish"),
        pytest.param("later", b'{"at": 5}', "unexpected keyword argument 'at'", id="unknown"),
        pytest.param("No_name", b"{}", "a name is 1 to 63", id="no-name"),
    ],
)
def test_what_asks_for_no_savepoint_is_told_once_and_holds_up_no_other(name, data, why):
    store, notes = new_store(), []
    log = CommitLog(store, "shop", "a driver")
    log.claim()
    keeper = SavepointKeeper(store, notes.append, lambda: 5.0)
    store.put(f"savepoints/asked/{name}", data)
    Wish("mine").ask(store)
    for look in range(3):
        keeper.look(log.manifest, look * LOOK_SECONDS)
        if look:
            keeper._thread.join()
    assert why in keeper.trouble
    assert notes == [keeper.trouble]
    assert keeper.look(log.manifest, 2 * LOOK_SECONDS)
    assert list(pins_in(keeper.section(log.manifest)[PINS])) == ["mine"]
    store.delete([f"savepoints/asked/{name}"])
    keeper.look(log.manifest, 3 * LOOK_SECONDS)
    keeper._thread.join()
    assert keeper.trouble == ""


TOPOLOGY = """
apiVersion: fulmen.dev/v1alpha1
kind: Topology
metadata: {name: t}
spec:
  code: {folder: code}
  savepoints: {every: 1h}
  spouts:
    - name: source
      class: fulmen.connectors.files.FileSpout
      config: {path: FOLDER/words.txt}
  bolts:
    - name: end
      class: fulmen.connectors.console.StdoutSink
      inputs: [{from: source, grouping: {type: shuffle}}]
"""


def test_there_is_a_savepoint_before_other_code_runs(tmp_path):
    store = new_store()
    (tmp_path / "code").mkdir()
    (tmp_path / "t.yaml").write_text(TOPOLOGY.replace("FOLDER", str(tmp_path)))

    def savepoints(code):
        (tmp_path / "code" / "shop.py").write_text(code)
        with (tmp_path / "words.txt").open("a") as file:
            file.write("fox\n")
        run(tmp_path / "t.yaml", checkpoint=store)
        return [pin.why for pin in pins_of(store).values()]

    assert savepoints("x = 1") == []  # an empty state needs none
    assert savepoints("x = 1") == ["automatic"]
    assert sorted(savepoints("x = 2")) == ["automatic", "before a change of the code"]
    assert sorted(savepoints("x = 2")) == ["automatic", "before a change of the code"]


# ---- going back ----------------------------------------------------------------------------------


@pytest.fixture
def memory(monkeypatch):
    monkeypatch.setattr(sink_parts, "MEMORY", Memory())
    return sink_parts.MEMORY


def topology(name="t", **spec):
    b = TopologyBuilder(name, **spec)
    b.set_spout("source", Unrepeatable(rounds=60))
    sink = b.set_bolt("sink", MemorySink).shuffle_grouping("source")
    sink.set_config({"guarantee": "exactly-once"})
    return b


def restored_from(savepoint, name="t"):
    return topology(name, restore_from={"savepoint": savepoint})


def content(store):
    """All that the newest commit has, but for what says where it is and how it came there."""
    manifest = read_newest(store)
    own = {PINS, "history", "restored"}
    sections = {name: data for name, data in manifest.sections.items() if name not in own}
    return load_many(store, manifest, manifest.tasks), sections, manifest.transient, manifest.clock


def sinks_of(store):
    manifest = read_newest(store)
    engines = [pickle.loads(load_many(store, manifest, ["sink/0"])["sink/0"][ENGINE][-1])]
    return {engine["sink"] for engine in engines}


def test_going_back_is_a_later_commit_with_the_same_content(memory):
    store = new_store()
    run(topology(), checkpoint=store, batches=8)
    log = pinned(store, "early")
    before, number = content(store), log.manifest.number - 1
    run(topology(), checkpoint=store, batches=20)
    after = content(store)
    assert after[0] != before[0]
    log = CommitLog(store, "t", "a person")
    log.claim()
    at = log.manifest.number + 1
    assert go_back(log, store, "early", 9.0) == (
        f"went back to savepoint 'early', the state of commit {number}, with commit {at}. The"
        f" state before is savepoint 'before-restore-{at - 1}'"
    )
    assert content(store) == before
    [branch] = branches_of(log.manifest)
    assert (branch.origin, branch.at) == (number, at)
    assert sorted(pins_of(store)) == [f"before-restore-{at - 1}", "early"]
    go_back(log, store, f"before-restore-{at - 1}", 9.0)
    assert content(store) == after
    assert len(branches_of(log.manifest)) == 2


def test_the_spec_goes_back_once():
    def numbers(**spec):
        b = TopologyBuilder("t", **spec)
        b.set_spout("source", ListSpout([[n] for n in range(999)]))
        b.set_bolt("collect", CollectBolt).shuffle_grouping("source")
        return b

    store, back = new_store(), numbers(restore_from={"savepoint": "early"})
    run(numbers(), checkpoint=store, batches=8)
    pinned(store, "early")
    run(numbers(), checkpoint=store, batches=8)
    first, again = (run(back, checkpoint=store, batches=3) for _ in range(2))
    assert any(note.startswith("went back to savepoint 'early'") for note in first.notes)
    assert "savepoint 'early' was restored before: what came after it stays" in again.notes
    assert len(branches_of(read_newest(store))) == 1
    [undo] = (name for name in pins_of(store) if name.startswith("before-restore-"))
    log = CommitLog(store, read_newest(store).topology, "a person")
    log.claim()
    go_back(log, store, undo, 9.0)
    assert any("was restored before" in n for n in run(back, checkpoint=store, batches=3).notes)
    assert len(branches_of(read_newest(store))) == 2
    run(numbers(), checkpoint=store, batches=3)
    run(back, checkpoint=store, batches=3)
    assert len(branches_of(read_newest(store))) == 3


def test_a_savepoint_that_is_not_there_ends_the_start(memory):
    store = new_store()
    run(topology(), checkpoint=store, batches=3)
    with pytest.raises(CheckpointError, match="there is no savepoint 'early'"):
        run(restored_from("early"), checkpoint=store, batches=3)


# ---- copies --------------------------------------------------------------------------------------


@pytest.fixture
def original(memory, tmp_path):
    """The URI of a checkpoint with the savepoint `now`, with rows that are not written yet."""
    uri = f"{tmp_path}/original?fsync=false"
    stopped = run(topology(), checkpoint=uri, until=lambda result: result.trees["acked"] > 0)
    pinned(Store.open(uri), "now")
    assert any(ROWS in journals for journals in read_newest(Store.open(uri)).tasks.values())
    assert stopped.trees["acked"]
    return uri


def test_a_copy_never_writes_the_rows_or_the_marks_of_the_original(original, memory):
    store, before = new_store(), dict(memory.marks)
    written = Counter(memory.rows)
    result = run(restored_from(f"{original}#now", "copy"), checkpoint=store)
    assert read_newest(store).topology == "copy"
    assert not sinks_of(store) & sinks_of(Store.open(original))
    assert {sink: memory.marks[sink] for sink in before} == before
    assert any("rows that sinks of 't' had still to write are left out" in n for n in result.notes)
    # what the copy has read itself is written, once, and nothing that the original had read
    own = Counter(memory.rows) - written
    assert own
    assert set(own.values()) == {1}
    whole = run(topology(), checkpoint=original)
    assert not set(own) & set(Counter(memory.rows) - written - own)
    assert whole.trees["failed"] == 0


def test_a_copy_has_another_identity_and_none_of_the_pins(original):
    store = new_store()
    with opened(f"{original}#now") as savepoint:
        copied(savepoint, store, "copy", "a test")
    copy, first = read_newest(store), read_newest(Store.open(original))
    identities = [json.loads(m.sections["layout"])["identity"] for m in (copy, first)]
    assert identities[0] != identities[1]
    assert PINS not in copy.sections
    assert copy.number == first.number


def test_a_topology_with_a_state_of_its_own_is_no_copy(original, memory):
    store = new_store()
    run(topology("copy"), checkpoint=store, batches=3)
    before = content(store)
    with pytest.raises(CheckpointError, match="is not empty, so"):
        run(restored_from(f"{original}#now", "copy"), checkpoint=store)
    assert content(store) == before
