"""Components that are renamed: all that the checkpoint has of them goes to their new names."""

import json
import sqlite3
from contextlib import closing

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.checkpoint import load_many, read_newest
from fulmen.connectors.files import FileSink
from fulmen.connectors.sqlite import SqliteSink
from fulmen.engine.driver.checkpoints.layout import layout_of
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.edits.decisions import forget
from fulmen.errors import CheckpointMismatch
from fulmen.testing import PAUSE, CollectBolt, ListSpout, ManualClock, run
from fulmen.testing.components import Killed
from support.runs.engine_runs import A_PERSON, Steady, make_driver, new_store


class Counts(BasicBolt):
    """Counts in keyed state and in a field."""

    outputs = ("value", "count")

    def __init__(self):
        self.total = 0

    def execute(self, tup, collector):
        self.total += 1
        value = tup["value"]
        self.state[value] = self.state.get(value, 0) + 1
        collector.emit([value, self.state[value]])


class Passes(BasicBolt):
    outputs = ("value",)

    def execute(self, tup, collector):
        collector.emit([tup["value"]])


def counting(to, name="count", source="source", tasks=2, cls=Counts, **spec):
    builder = TopologyBuilder(**spec)
    builder.set_spout(source, ListSpout([*(i % 3 for i in range(to)), PAUSE, 9], ["value"]))
    bolt = builder.set_bolt(name, cls, tasks).set_num_tasks(tasks)
    bolt.fields_grouping(source, ["value"])
    if cls is Counts:
        builder.set_bolt("sink", CollectBolt).shuffle_grouping(name)
    return builder


def kept_of(manifest, name):
    """All that a component has in the checkpoint."""
    keys = [key for key in manifest.tasks if key.startswith(f"{name}/")]
    return {
        key.partition("/")[2]: journals for key, journals in manifest.tasks.items() if key in keys
    }


def test_a_renamed_bolt_and_a_renamed_spout_go_on_where_they_were():
    result = run(counting(6), batches=1)
    renames = {"count": "counts", "source": "numbers"}
    new = counting(6, "counts", "numbers", renames=renames)
    result = run(new, checkpoint=result.checkpoint)
    assert result.state("counts") == {0: 2, 1: 2, 2: 2, 9: 1}
    assert sum(result.fields("counts", task)["total"] for task in range(2)) == 7
    assert sorted(result.acked("numbers")) == [0, 1, 2, 3, 4, 5, 7]
    assert "component 'count' is 'counts' now, and goes on with its state" in result.notes
    assert result.report["kept_state"] == {}
    again = run(new, checkpoint=result.checkpoint)  # the entries stay
    assert again.state("counts") == result.state("counts")
    assert not any("goes on with its state" in note for note in again.notes)
    last = run(counting(6, "counts", "numbers"), checkpoint=result.checkpoint)
    assert last.state("counts") == result.state("counts")


def driven(topology, store, batches=0):
    driver = make_driver(topology, store=store).start()
    for _ in range(batches):
        assert driver.step()
    driver.close()
    return driver.log.manifest


def loaded(store, name):
    manifest = read_newest(store)
    keys = [key for key in manifest.tasks if key.startswith(f"{name}/")]
    return {key.partition("/")[2]: of for key, of in load_many(store, manifest, keys).items()}


def test_a_rename_moves_references_and_copies_nothing():
    store = new_store()
    driven(counting(3), store, 2)
    before = loaded(store, "count")
    manifest = driven(counting(3, "counts", renames={"count": "counts"}), store)
    assert loaded(store, "counts") == before
    assert not [key for key in manifest.tasks if key.startswith("count/")]
    layout = layout_of(manifest)
    assert layout.known_as == {"counts": "count"}
    assert layout.tasks["counts"] == 2


def test_the_version_of_before_finds_its_state_again():
    """Also if the new one never had a batch, and however often that goes to and fro."""
    store = new_store()
    old, new = (
        counting(3),
        counting(3, "counts", "numbers", renames={"count": "counts", "source": "numbers"}),
    )
    driven(old, store, 2)
    before = loaded(store, "count"), loaded(store, "source")
    sections = read_newest(store).sections
    for _ in range(2):
        driven(new, store)
        assert (loaded(store, "counts"), loaded(store, "numbers")) == before
        driven(old, store)
        assert (loaded(store, "count"), loaded(store, "source")) == before
        assert read_newest(store).sections == sections


def two(first, second, **spec):
    builder = TopologyBuilder(**spec)
    builder.set_spout("source", ListSpout([1, 2, 3], ["value"]))
    builder.set_bolt(first, Counts).shuffle_grouping("source")
    builder.set_bolt(second, Counts).fields_grouping(first, ["value"])
    return builder


def test_two_names_are_swapped_once():
    store = new_store()
    driven(two("a", "b"), store, 1)
    before = {name: loaded(store, name) for name in "ab"}
    swapped = two("b", "a", renames={"a": "b", "b": "a"})
    for _ in range(2):
        manifest = driven(swapped, store)
        assert {name: loaded(store, name) for name in "ba"} == {"b": before["a"], "a": before["b"]}
    assert layout_of(manifest).known_as == {"a": "b", "b": "a"}


def test_a_chain_of_renames_moves_each_by_one():
    store = new_store()
    driven(two("a", "b"), store, 1)
    before = {name: loaded(store, name) for name in "ab"}
    manifest = driven(two("b", "c", renames={"a": "b", "b": "c"}), store)
    assert {name: loaded(store, name) for name in "bc"} == {"b": before["a"], "c": before["b"]}
    assert layout_of(manifest).known_as == {"b": "a", "c": "b"}


def test_numbers_of_tasks_that_may_come_back_go_along():
    store = new_store()

    def layout(to, tasks, name, **spec):
        builder = TopologyBuilder(**spec)
        builder.set_spout("source", ListSpout(range(to), ["value"]))
        builder.set_bolt(name, Passes, tasks).fields_grouping("source", ["value"])
        builder.set_bolt("last", CollectBolt).shuffle_grouping(name)
        topology = builder.build().with_each(lambda one: {"num_tasks": one.tasks})
        run(topology, checkpoint=store, end_of_input=False)
        return layout_of(read_newest(store))

    before = layout(3, 2, "a").results
    assert layout(6, 1, "a").retired.keys() == {"a/1"}
    assert layout(9, 1, "b", renames={"a": "b"}).retired.keys() == {"b/1"}
    grown = layout(12, 2, "b", renames={"a": "b"})
    assert grown.results == {"b/0": before["a/0"], "b/1": before["a/1"]}


def test_a_new_component_that_takes_the_old_name_is_another_one_to_stores():
    store = new_store()
    driven(two("a", "b"), store, 1)
    before = loaded(store, "a")
    driven(two("x", "b", renames={"a": "x"}), store)
    manifest = driven(two("x", "a", renames={"a": "x"}), store)  # the entry stays
    assert loaded(store, "x") == before
    assert loaded(store, "a") == {}
    assert layout_of(manifest).known_as == {"x": "a", "a": "a-2"}


def test_a_component_of_both_names_with_state_is_refused_until_one_is_removed():
    """It was renamed, ran so, and only then somebody read that its state was kept."""
    result = run(counting(3), batches=1)
    store = result.checkpoint
    run(counting(3, "counts"), checkpoint=store)
    renamed = counting(3, "counts", renames={"count": "counts"})
    newest = read_newest(store)
    with pytest.raises(CheckpointMismatch) as refusal:
        run(renamed, checkpoint=store)
    assert "spec.renames.count is 'counts', but the checkpoint has state of both." in str(
        refusal.value
    )
    assert read_newest(store).tasks == newest.tasks
    forget(store, "counts", A_PERSON)
    result = run(renamed, checkpoint=store)
    assert result.state("counts") == {0: 1, 1: 1, 2: 1}


def test_the_old_component_must_not_stay_in_the_topology():
    store = new_store()
    driven(two("a", "b"), store, 1)
    with pytest.raises(CheckpointMismatch, match=r"spec.renames.a is 'c', but 'a' is still in the"):
        driven(two("a", "c", renames={"a": "c"}), store)


class CountsKeys(BasicBolt):
    """Counts in keyed state alone."""

    def execute(self, tup, collector):
        self.state[tup["value"]] = self.state.get(tup["value"], 0) + 1


def test_a_component_may_be_renamed_and_get_more_tasks_at_once():
    result = run(counting(6, cls=CountsKeys), batches=1)
    new = counting(6, "counts", tasks=3, cls=CountsKeys, renames={"count": "counts"})
    result = run(new, checkpoint=result.checkpoint)
    assert result.state("counts") == {0: 2, 1: 2, 2: 2, 9: 1}
    layout = layout_of(read_newest(result.checkpoint))
    assert (layout.tasks["counts"], layout.known_as) == (3, {"counts": "count"})


def test_where_the_number_of_tasks_may_not_change_nothing_is_renamed_either():
    store = new_store()
    newest = driven(counting(3), store, 1)
    with pytest.raises(CheckpointMismatch, match="component 'counts' can't have 3 instead of 2"):
        driven(counting(3, "counts", tasks=3, renames={"count": "counts"}), store)
    assert read_newest(store).tasks == newest.tasks


def test_renames_do_nothing_where_there_is_nothing():
    result = run(counting(3, "counts", renames={"count": "counts", "old": "source"}))
    assert result.state("counts") == {0: 1, 1: 1, 2: 1, 9: 1}
    assert layout_of(read_newest(result.checkpoint)).known_as == {}


def written(name, folder, file, **spec):
    """A topology that writes rows to files and to a table, each exactly once."""
    builder = TopologyBuilder(**spec)
    builder.set_spout("source", ListSpout([1, 2, 3], ["value"]))
    for sink, config in {
        f"{name}files": {"path": str(folder), "format": {"type": "json"}},
        f"{name}rows": {"path": str(file), "table": "rows", "create": {"value": "integer"}},
    }.items():
        cls = FileSink if "files" in sink else SqliteSink
        config = {**config, "guarantee": "exactly-once"}
        builder.set_bolt(sink, cls).shuffle_grouping("source").set_config(config)
    return builder


def test_rows_of_a_renamed_sink_that_may_be_written_already_are_written_once(tmp_path):
    """They were written, and the batch that did it was lost: then the sink has another name."""
    store, folder, file = new_store(), tmp_path / "files", tmp_path / "rows.db"
    old = written("old-", folder, file)
    driven(old, store, 1)
    lost = make_driver(old, store=store, jobs=Steady(ManualClock(), 0.01, store=store)).start()
    lost.committer.make = lambda _draft: (_ for _ in ()).throw(Killed())
    with pytest.raises(Killed):
        lost.run(Stop(when_drained=True))
    lost.close()
    names = sorted(path.name for path in folder.glob("[!.]*"))
    assert names
    renames = {"old-files": "new-files", "old-rows": "new-rows"}
    new = make_driver(written("new-", folder, file, renames=renames), store=store).start()
    new.run(Stop(when_drained=True))
    new.close()
    assert sorted(path.name for path in folder.glob("[!.]*")) == names
    rows = [json.loads(line) for path in folder.glob("[!.]*") for line in path.read_text().split()]
    assert sorted(row["value"] for row in rows) == [1, 2, 3]
    with closing(sqlite3.connect(file)) as db:
        assert sorted(db.execute("SELECT value FROM rows")) == [(1,), (2,), (3,)]
