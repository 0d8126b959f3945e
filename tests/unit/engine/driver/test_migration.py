"""A topology that goes on in another shape: nothing is forgotten, and nothing mixed up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen import BasicBolt, TopologyBuilder
from fulmen.checkpoint import (
    CommitLog,
    Manifest,
    Update,
    load_many,
    read_manifest,
    read_newest,
    tasks_in,
)
from fulmen.engine.acking.acker_task import record, restore
from fulmen.engine.acking.messages import acker_index
from fulmen.engine.acking.root_ids import root_ids
from fulmen.engine.acking.trees import Trees
from fulmen.engine.driver.checkpoints.layout import (
    CheckpointChange,
    KeptComponent,
    Layout,
    layout_of,
)
from fulmen.engine.driver.checkpoints.migration import ACKERS_OFF, Migration, migrate
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.edits.decisions import forget
from fulmen.engine.tasks.parts.message_trees import WAS_GONE
from fulmen.errors import CheckpointMismatch
from fulmen.plan import make_plan
from fulmen.testing import PAUSE, CollectBolt, ListSpout, run
from support.parts.components import Count, Sentences
from support.parts.hooks import HookBolt, hooks
from support.runs.engine_runs import A_PERSON, make_driver, new_store


def topology(spouts=("source",), **spec):
    builder = TopologyBuilder(**spec)
    for name in spouts:
        builder.set_spout(name, Sentences, 2)
    builder.set_bolt("count", Count).shuffle_grouping(spouts[0])
    return builder.build()


class Life:
    """A checkpoint and the layouts of the topologies that it belonged to."""

    def __init__(self):
        self.store = new_store()
        self.manifest = Manifest()
        self.layout = None

    def become(self, made):
        """What the checkpoint needs for this topology; its layout is taken for committed."""
        migration = migrate(self.layout, make_plan(made), made, self.manifest, self.store)
        self.layout = Layout.from_json(migration.layout.to_json())
        return migration


# ---- origins -----------------------------------------------------------------------------------


def test_an_origin_is_given_to_one_spout_task_and_never_again():
    life = Life()
    life.become(topology(["a"]))
    assert life.layout.origins == {"a/0": 1, "a/1": 2}
    life.become(topology(["a", "b"]))
    assert life.layout.origins == {"a/0": 1, "a/1": 2, "b/0": 3, "b/1": 4}
    life.become(topology(["b"]))
    assert life.layout.origins == {"b/0": 3, "b/1": 4}
    life.become(topology(["a", "b"]))
    assert life.layout.origins == {"a/0": 5, "a/1": 6, "b/0": 3, "b/1": 4}


def with_results(*, tracked=True, **spec):
    builder = TopologyBuilder(**spec)
    builder.set_spout("a", Sentences, 2)
    builder.set_bolt("count", Count, 2).shuffle_grouping("a").set_track_results(tracked)
    builder.set_bolt("last", Count).shuffle_grouping("count")
    return builder.build()


def test_tasks_of_bolts_that_somebody_receives_from_have_origins_too():
    life = Life()
    life.become(with_results(tracked=False))
    assert life.layout.results == {}
    life.become(with_results())
    assert life.layout.results == {"count/0": 3, "count/1": 4}
    life.become(with_results(tracked=False))  # some may be left of before
    assert life.layout.all_origins == {"a/0": 1, "a/1": 2, "count/0": 3, "count/1": 4}


def test_more_origins_than_there_are_is_an_error():
    life = Life()
    life.layout = Layout(next_origin=2**16 - 2)
    with pytest.raises(CheckpointMismatch, match="has given out all 65,536 numbers"):
        life.become(with_results())


def test_the_same_shape_changes_nothing():
    life = Life()
    first = life.become(topology())
    assert first == Migration(first.layout, CheckpointChange(first.layout))
    for again in (topology(), topology(workers=3, ackers=1)):
        assert life.become(again) == Migration(first.layout)


def with_state(*spouts):
    """A checkpoint of a topology with these spouts, all of which have state."""
    life = Life()
    life.become(topology(spouts))
    names = ["count", "__acker", *spouts]
    life.manifest.tasks = {f"{name}/0": {} for name in names}
    return life


def test_state_of_a_component_that_is_gone_is_kept_until_it_comes_back():
    life = with_state("a", "b")
    migration = life.become(topology(["a"], ackers=0))
    assert migration.first is None
    assert migration.rest.removed_tasks == ["__acker/0"]
    assert life.layout.kept == {"b": KeptComponent(2, "a spout")}
    life.become(topology(["a", "c"], ackers=0))
    assert life.layout.kept == {"b": KeptComponent(2, "a spout")}
    life.become(topology(["b"], ackers=0))
    assert life.layout.kept == {"a": KeptComponent(2, "a spout")}


def test_what_comes_back_as_another_one_is_refused():
    life = with_state("a", "b")
    life.become(topology(["a"]))
    builder = TopologyBuilder()
    builder.set_spout("a", Sentences, 2)
    builder.set_bolt("count", Count).shuffle_grouping("a")
    builder.set_bolt("b", Count, 2).shuffle_grouping("count")
    said = "component 'b' is a spout there, and a bolt in this topology"
    with pytest.raises(CheckpointMismatch, match=said):
        life.become(builder.build())


def test_before_the_first_batch_only_ackers_change():
    life = Life()
    roots = [*root_ids(1, 5, 3).tolist(), *root_ids(2, 0, 1).tolist()]
    with_trees(life, roots, 2)
    log = CommitLog(life.store, "topology", "test")
    log.claim()
    log.commit(log.draft(tag="a1", clock=0.0, updates=life.put))
    life.manifest, before = log.manifest, life.layout
    migration = life.become(topology(["other"], ackers=1))
    assert migration.first.layout == Layout(
        {**before.tasks, "__acker": 1}, before.origins, before.next_origin
    )
    assert migration.first.removed_tasks == ["__acker/1"]
    assert migration.rest == CheckpointChange(migration.layout, [])
    assert migration.layout.origins == {"other/0": 3, "other/1": 4}


# ---- ackers ----------------------------------------------------------------------------------


def with_trees(life, roots, ackers):
    """Put pending trees into the checkpoint, divided among so many ackers."""
    roots = np.array(sorted(roots), np.uint64)
    trees = Trees(roots, roots * np.uint64(3), roots.astype(float), roots.astype(float) + 0.5)
    life.become(topology(ackers=ackers))
    life.manifest = Manifest(number=1)
    life.put = {}
    for k in range(ackers):
        mine = trees.take(acker_index(roots, ackers) == k)
        life.put[f"__acker/{k}"] = {"trees": Update(record(mine), None, 1)}
    return trees


@given(
    st.sets(st.integers(0, 2**63), max_size=30),
    st.integers(1, 4),
    st.lists(st.integers(1, 4), max_size=3),
)
def test_pending_trees_are_divided_among_other_ackers(roots, first, numbers):
    life = Life()
    trees = with_trees(life, roots, first)
    log = CommitLog(life.store, "topology", "test")
    log.claim()
    log.commit(log.draft(tag="a1", clock=0.0, updates=life.put))
    for k, ackers in enumerate(numbers):
        life.manifest = log.manifest
        change = life.become(topology(ackers=ackers)).first
        if change is not None:
            draft = log.draft(
                tag=f"b{k}", clock=0.0, updates=change.updates, removed_tasks=change.removed_tasks
            )
            log.commit(draft)
        manifest = read_manifest(life.store, log.manifest.number)
        assert {key for key in manifest.tasks if key.startswith("__")} == {
            f"__acker/{i}" for i in range(ackers)
        }
        found = load_many(life.store, manifest, [f"__acker/{i}" for i in range(ackers)])
        parts = [restore(journals["trees"]) for journals in found.values()]
        for i, part in enumerate(parts):
            assert (acker_index(part.roots, ackers) == i).all()
        for name in ("roots", "values", "since", "born"):
            kept = np.sort(np.concatenate([getattr(part, name) for part in parts]))
            assert kept.tolist() == np.sort(getattr(trees, name)).tolist()


def test_without_ackers_pending_trees_fail():
    life = Life()
    roots = [*root_ids(1, 5, 3).tolist(), *root_ids(2, 0, 1).tolist()]
    trees = with_trees(life, roots, 2)
    store = life.store
    log = CommitLog(store, "topology", "test")
    log.claim()
    log.commit(log.draft(tag="a1", clock=0.0, updates=life.put))
    life.manifest = log.manifest
    migration = life.become(topology(ackers=0))
    assert migration.first is None
    assert sorted(migration.rest.removed_tasks) == ["__acker/0", "__acker/1"]
    assert migration.rest.updates == {}
    found = migration.deliveries
    assert found[1].failed == tuple((n, ACKERS_OFF) for n in (5, 6, 7))
    assert found[2].failed == ((0, ACKERS_OFF),)
    assert len(trees) == 4


# ---- in a running topology -------------------------------------------------------------------


def keep(bolt):
    bolt.kept = []


def keep_and_finish(bolt, tup):
    bolt.kept.append(tup)
    if tup["value"] == "last":
        for kept in bolt.kept:
            bolt.collector.emit([kept["value"]], anchors=kept)
            bolt.collector.ack(kept)
        bolt.kept = []


def keeping(items, name="source", **spec):
    builder = TopologyBuilder(message_timeout_seconds=60, **spec)
    builder.set_spout(name, ListSpout(items, replays=False), 2)
    bolt = builder.set_bolt("bolt", HookBolt)
    bolt.set_config(hooks(prepare=keep, execute=keep_and_finish)).shuffle_grouping(name)
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("bolt")
    return builder


ITEMS = [*range(8), PAUSE, PAUSE, "last"]


def test_trees_outlive_every_change_of_ackers_and_workers():
    builder = keeping(ITEMS)
    result = run(builder, batches=1, workers=1, ackers=2)
    assert result.trees["pending"] == 8
    for workers, ackers in ((2, 3), (1, 1), (3, 2)):
        result = run(
            builder, batches=0, workers=workers, ackers=ackers, checkpoint=result.checkpoint
        )
    result = run(builder, workers=2, ackers=3, checkpoint=result.checkpoint)
    assert sorted(result.acked("source")) == [*range(8), 10]
    assert result.failed("source") == []
    assert len(result.collected("sink")) == 9


def test_acking_turned_off_and_on_again():
    builder = keeping(ITEMS)
    result = run(builder, batches=1, ackers=2)
    result = run(builder, batches=2, ackers=0, checkpoint=result.checkpoint)
    assert sorted(result.failed("source")) == [(i, ACKERS_OFF) for i in range(8)]
    assert result.acked("source") == [10]
    assert len(result.collected("sink")) == 9  # what was kept is still sent on
    result = run(builder, ackers=1, checkpoint=result.checkpoint)
    assert result.trees["pending"] == 0
    assert len(result.failed("source")) == 8


def test_however_many_trees_are_pending_all_fail_without_ackers():
    many = range(2000)  # more than fit into a header
    builder = keeping(many)
    result = run(builder, batches=10, ackers=2)
    assert result.trees["pending"] == len(many)
    result = run(builder, ackers=0, checkpoint=result.checkpoint)
    assert sorted(result.failed("source")) == [(i, ACKERS_OFF) for i in many]


def test_a_spout_that_is_replaced_by_another():
    """Trees of the old one end without anybody being told; those of the new one are its own."""
    result = run(keeping(ITEMS), batches=1)
    other = keeping([*range(3), "last"], name="other")
    result = run(other, checkpoint=result.checkpoint)
    assert sorted(result.acked("other")) == [0, 1, 2, 3]
    assert result.trees["acked"] == 8 + 4
    assert result.report["kept_state"] == {"source": {"tasks": 2, "until": ""}}
    back = run(keeping(ITEMS), checkpoint=result.checkpoint)
    assert sorted(back.failed("source")) == [(i, WAS_GONE) for i in range(8)]
    assert back.acked("source") == [10]
    assert back.report["kept_state"] == {"other": {"tasks": 2, "until": ""}}


class CountAgain(BasicBolt):
    """Counts, and says so with results of its own."""

    outputs = ("value", "count")

    def execute(self, tup, collector):
        value = tup["value"]
        self.state[value] = self.state.get(value, 0) + 1

    def end_batch(self, collector):
        for value, count in self.state.items():
            collector.emit([value, count])


def counting(name, to):
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout([i % 3 for i in range(to)], ["value"]))
    bolt = builder.set_bolt(name, CountAgain, 2)
    bolt.fields_grouping("source", ["value"])
    builder.set_bolt("sink", CollectBolt).shuffle_grouping(name)
    return builder


def test_a_bolt_that_was_misspelled_for_a_run_has_its_state_again():
    result = run(counting("count", 6))
    result = run(counting("cuont", 12), checkpoint=result.checkpoint)
    told = "component 'count' is not in the topology, and the checkpoint keeps its state (2 tasks)."
    assert any(note.startswith(told) for note in result.notes)
    result = run(counting("count", 18), checkpoint=result.checkpoint)
    assert result.state("count") == {0: 4, 1: 4, 2: 4}


def test_state_that_is_kept_is_removed_when_a_person_says_so():
    result = run(counting("count", 6))
    store = result.checkpoint
    run(counting("cuont", 12), checkpoint=store)
    kept = [key for key in read_newest(store).tasks if key.startswith("count/")]
    assert forget(store, "count", A_PERSON) == len(kept) > 0
    assert tasks_in(read_newest(store)).keys() == {"__acker", "source", "cuont", "sink"}
    assert run(counting("count", 18), checkpoint=store).state("count") == {0: 2, 1: 2, 2: 2}


def test_a_component_of_the_topology_begins_anew_when_a_person_says_so():
    store = run(keeping(ITEMS), batches=1).checkpoint
    origins = layout_of(read_newest(store)).origins
    assert forget(store, "source", A_PERSON) == 2
    again = run(keeping(ITEMS), checkpoint=store)
    assert sorted(again.acked("source")) == [*range(8), 10]
    assert not {*layout_of(read_newest(store)).origins.values()} & {*origins.values()}


# ---- a shape that never has a batch ----------------------------------------------------------


def all_of(driver):
    """All that the checkpoint has, but for who may commit to it."""
    manifest = driver.log.manifest
    return load_many(driver.store, manifest, sorted(manifest.tasks)), manifest.sections


def lived(topology, store, batches=0):
    """A driver of the topology that has run so many batches, and was killed then."""
    driver = make_driver(topology, store=store).start()
    for _ in range(batches):
        assert driver.step()
    driver.close()
    return driver


@pytest.mark.parametrize("ackers", [0, 1, 2])
def test_until_the_first_batch_of_another_shape_nothing_is_lost(ackers):
    """The shape before comes back, and finds its components, positions and pending trees."""
    store, mine = new_store(), keeping(ITEMS, ackers=2)
    before = all_of(lived(mine, store, 1))
    assert {key.split("/")[0] for key in before[0]} == {"__acker", "source", "bolt"}
    for _ in range(2):  # two drivers of it, as it is tried again
        lived(keeping([1], name="other", ackers=ackers), store)
    lived(mine, store)
    back = lived(mine, store)
    found = all_of(back)
    assert found[1] == before[1]
    assert found[0].keys() == before[0].keys()
    kept = [key for key in found[0] if not key.startswith("__acker")]  # trees have no order there
    assert [found[0][key] for key in kept] == [before[0][key] for key in kept]
    driver = make_driver(mine, store=store).start()
    driver.run(Stop(when_drained=True))
    assert driver.totals.trees.acked == 9
    driver.close()


def test_the_first_batch_of_another_shape_is_that_of_the_checkpoint():
    store = new_store()
    lived(keeping(ITEMS), store, 1)
    other = lived(keeping([], name="other"), store, 1)  # it has nothing else to commit
    assert layout_of(other.log.manifest).origins == {"other/0": 4, "other/1": 5}
    [kept] = layout_of(other.log.manifest).kept.items()
    assert (kept[0], *kept[1][:2]) == ("source", 2, "a spout")
