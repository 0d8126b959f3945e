"""Another number of tasks: every entry is in the one task that the grouping means now."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen import BasicBolt, Kept, Spout, TopologyBuilder
from fulmen.checkpoint import load_many, read_newest
from fulmen.engine.driver.checkpoints.layout import layout_of
from fulmen.engine.driver.driver import Stop
from fulmen.engine.keyed.homes import HomeRule, KeyFields, task_range
from fulmen.engine.state.committed_state import read_key, read_state, read_timers
from fulmen.errors import CheckpointMismatch
from fulmen.plan import task_key
from fulmen.testing import CollectBolt, ListSpout, run
from fulmen.topology.resource.spec.keyed_state import BoltKeyedState
from support.parts.hooks import HookBasicBolt, hooks
from support.runs.engine_runs import make_driver, state_of


class Keyed(BasicBolt):
    """Does with a key what a tuple says: sets it, deletes it, sets a timer for it."""

    outputs = ("key",)

    def execute(self, tup, collector):
        key, do, value = tup.values
        if do == "set":
            self.state[key] = value
        elif do == "delete":
            self.state.pop(key, None)
        elif do == "timer":
            self.context.timers.set_after(("wake", key), 1e6 + value)

    def prepare(self, conf, context):
        self.context = context

    transient = ("context",)

    def on_timer(self, key, at, collector):
        raise AssertionError("none is due")


def keyed(values, tasks, spouts=1):
    builder = TopologyBuilder()
    fields = ["key", "do", "value"]
    builder.set_spout("source", ListSpout(values, fields=fields), spouts)
    builder.set_bolt("keyed", Keyed, tasks).fields_grouping("source", ["key"])
    return with_tasks(builder)


def with_tasks(builder):
    """With numTasks written down: else the checkpoint's stay."""
    return builder.build().with_each(lambda one: {"num_tasks": one.tasks})


KEYS = st.one_of(
    st.integers(-3, 40), st.sampled_from(["", "a", "é", 1.0, True, None, ("a", 1), b"x"])
)
ACTIONS = st.tuples(KEYS, st.sampled_from(["set", "set", "delete", "timer"]), st.integers(0, 9))


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 7), st.lists(ACTIONS, max_size=30)), max_size=4))
def test_any_writes_timers_and_numbers_of_tasks_are_a_dict(rounds):
    state, timers, result, all_of_it = {}, {}, None, []
    for tasks, actions in rounds:
        all_of_it += actions  # the spout goes on where it was
        result = run(keyed(all_of_it, tasks), checkpoint=result)
        for key, do, value in actions:
            if do == "set":
                state[key] = value
            elif do == "delete":
                state.pop(key, None)
            else:
                timers["wake", key] = True
        store = result.checkpoint
        for read, wanted, part in (
            (read_state, state, "whole"),
            (read_timers, timers, "second"),
        ):
            by_task = read(store, "keyed").tasks
            assert sum(map(len, by_task.values())) == len(wanted)
            there = {k: v for of_one in by_task.values() for k, v in of_one.items()}
            assert there == wanted if part == "whole" else there.keys() == wanted.keys()
            for task, of_one in by_task.items():
                places = HomeRule(part, KeyFields.all_of(1)).positions(list(of_one)).tolist()
                first, end = task_range(task, tasks)
                assert all(first <= place < end for place in places)


def counted(words, tasks, **more):
    builder = TopologyBuilder(**more)
    builder.set_spout("source", ListSpout(words, fields=["word"]))
    builder.set_bolt("count", HookBasicBolt, tasks).fields_grouping("source", ["word"]).set_config(
        hooks(execute=count)
    )
    return with_tasks(builder)


def count(bolt, tup, collector):
    bolt.state[tup[0]] = bolt.state.get(tup[0], 0) + 1


WORDS = [f"word {i % 100}" for i in range(400)]


def journals_of(store):
    manifest = read_newest(store)
    return {
        task: {journal: refs for journal, refs in journals.items() if journal != "engine"}
        for task, journals in manifest.tasks.items()
        if task.startswith("count/")
    }


def test_there_and_back_is_as_before_and_copies_nothing():
    result = run(counted(WORDS, 1))
    before, log = journals_of(result.checkpoint), []
    for tasks in (3, 7, 2, 1):
        result = run(counted(WORDS, tasks), checkpoint=result)
        assert journals_of(result.checkpoint).keys() == {f"count/{i}" for i in range(tasks)}
        assert result.state("count") == Counter(WORDS)
        log.append(journals_of(result.checkpoint))
    assert log[-1] == before
    places = {
        ref for of_one in log for js in of_one.values() for refs in js.values() for ref in refs
    }
    assert len(places) == sum(map(len, before["count/0"].values()))


def test_a_key_is_looked_up_in_the_one_task_that_has_it():
    result = run(counted(WORDS, 1))
    result = run(counted(WORDS, 4), checkpoint=result)
    found = read_key(result.checkpoint, "count", "word 7").tasks
    assert [of_one for of_one in found.values() if of_one] == [{"word 7": 4}]


def bytes_of(store, task):
    manifest = read_newest(store)
    [journals] = load_many(store, manifest, [f"count/{task}"]).values()
    return sum(len(data) for j, [data] in journals.items() if j.startswith("state."))


def test_what_is_not_the_tasks_own_is_written_out_of_segments():
    words = [f"word {i}" for i in range(5000)]
    result = run(counted(words, 1))
    result = run(counted(words, 7), checkpoint=result)
    before = bytes_of(result.checkpoint, 0)
    result = run(counted([*words, *words[:100]], 7), checkpoint=result)
    assert bytes_of(result.checkpoint, 0) < before / 2
    assert result.state("count") == Counter([*words, *words[:100]])


def total(bolt, tup, collector):
    count(bolt, tup, collector)
    bolt.state["total"] = bolt.state.get("total", 0) + 1


def test_a_total_is_found_though_there_is_one_task_only():
    def totals(tasks):
        builder = TopologyBuilder()
        builder.set_spout("source", ListSpout(WORDS, fields=["word"]))
        bolt = builder.set_bolt("count", HookBasicBolt, tasks).fields_grouping("source", ["word"])
        bolt.set_config(hooks(execute=total))
        return with_tasks(builder)

    result = run(totals(1))
    before = read_newest(result.checkpoint)
    with pytest.raises(CheckpointMismatch) as raised:
        run(totals(2), checkpoint=result)
    assert "component 'count' can't have 2 instead of 1 tasks: self.state has the key 'total'" in (
        str(raised.value)
    )
    assert "def redistribute(cls, kept, tasks)" in str(raised.value)
    after = read_newest(result.checkpoint)
    assert after.tasks == before.tasks  # but the claim, nothing
    assert after.sections == before.sections
    assert run(totals(1), checkpoint=result).state("count")["total"] == len(WORDS)


def test_all_that_is_wrong_is_told_at_once():
    def two(tasks):
        builder = TopologyBuilder()
        builder.set_spout("source", ListSpout(WORDS, fields=["word"]))
        for name in ("a", "b"):
            bolt = builder.set_bolt(name, HookBasicBolt, tasks).shuffle_grouping("source")
            bolt.set_config(hooks(execute=count))
        return with_tasks(builder)

    result = run(two(1))
    with pytest.raises(CheckpointMismatch) as raised:
        run(two(3), checkpoint=result)
    text = str(raised.value)
    for name in "ab":
        assert f"component '{name}' can't have 3 instead of 1 tasks: self.state is by task" in text


class Field(BasicBolt):
    """Counts in a field."""

    def prepare(self, conf, context):
        self.same = {"a": 1}
        self.counts = getattr(self, "counts", Counter())

    def execute(self, tup, collector):
        self.counts[tup[0]] += 1


class Divided(Field):
    """Says how its counts are divided."""

    @classmethod
    def redistribute(cls, kept, tasks):
        all_of_it = sum((one.fields["counts"] for one in kept), Counter())
        empty = [Kept({"counts": Counter()}) for _ in range(tasks - 1)]
        return [Kept({"counts": all_of_it}), *empty]


def with_field(cls, tasks, words=WORDS):
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout(words, fields=["word"]))
    builder.set_bolt("count", cls, tasks).shuffle_grouping("source")
    return with_tasks(builder)


def test_a_field_that_has_changed_needs_a_method_that_divides_it():
    result = run(with_field(Field, 2))
    with pytest.raises(CheckpointMismatch, match="field 'counts' of task 0 has changed"):
        run(with_field(Field, 3), checkpoint=result)


def test_a_class_divides_its_fields():
    result = run(with_field(Divided, 2))
    result = run(with_field(Divided, 3, 2 * WORDS), checkpoint=result)
    counts = [result.fields("count", task)["counts"] for task in range(3)]
    assert sum(counts, Counter()) == Counter(2 * WORDS)


class Waits(Divided):
    """Has a timer of its task besides."""

    def execute(self, tup, collector):
        super().execute(tup, collector)
        self.context.timers.set_after("of the task", 1e6)

    def prepare(self, conf, context):
        super().prepare(conf, context)
        self.context = context

    transient = ("context",)

    def on_timer(self, key, at, collector):
        raise AssertionError("none is due")


def test_timers_of_a_task_are_not_divided_by_its_class():
    result = run(with_field(Waits, 2), end_of_input=False)
    with pytest.raises(CheckpointMismatch, match=r"timers are by task, .* redistribute can't"):
        run(with_field(Waits, 3), checkpoint=result)


def test_the_number_changes_while_it_runs_up_and_down():
    driver = make_driver(counted(WORDS, 2, max_spout_pending=20)).start()
    for tasks in (5, 1, 3):
        driver.step()
        stop = Stop(topology=counted(WORDS, tasks, max_spout_pending=20))
        while stop.topology is not None:
            driver.follow(stop)
            driver.step()
        assert len(driver.plan.tasks("count")) == tasks
        assert layout_of(driver.log.manifest).tasks["count"] == tasks
    driver.run(Stop(when_drained=True))
    assert state_of(driver, "count") == Counter(WORDS)
    assert driver.totals.trees.failed == driver.totals.trees.timed_out == 0
    driver.close()


@pytest.mark.parametrize("steps", range(2))
def test_a_driver_that_dies_meanwhile_leaves_the_old_or_the_new_number(steps):
    driver = make_driver(counted(WORDS, 2, max_spout_pending=20)).start()
    driver.step()
    driver.step()
    stop = Stop(topology=counted(WORDS, 5, max_spout_pending=20))
    for _ in range(steps):
        driver.follow(stop)
        driver.step()
    driver.follow(stop)
    tasks = layout_of(read_newest(driver.store)).tasks["count"]
    assert tasks == len(driver.plan.tasks("count"))
    for then in (tasks, 3):
        result = run(counted(WORDS, then), checkpoint=driver.store)
    assert result.state("count") == Counter(WORDS)


def test_state_on_disk_moves_too():
    def on_disk(tasks):
        disk = {"keyed_state": BoltKeyedState(backend="disk")}
        return counted(WORDS, tasks).with_each(lambda one: disk if one.name == "count" else {})

    result = None
    for tasks in (1, 3, 2):
        result = run(on_disk(tasks), checkpoint=result)
        assert result.state("count") == Counter(WORDS)


def test_a_running_topology_that_can_not_change_goes_on():
    def totals(tasks):
        return with_tasks_of(counted(WORDS, tasks, max_spout_pending=20))

    def with_tasks_of(made):
        return made.with_each(
            lambda one: {"config": hooks(execute=total)} if one.name == "count" else {}
        )

    driver = make_driver(totals(1)).start()
    driver.step()
    driver.step()
    stop = Stop(topology=totals(2))
    driver.follow(stop)
    assert stop.topology is None
    assert driver.coordinator.active
    # a driver that follows is told of the same topology: there is nobody who could take it back
    after = make_driver(totals(2), store=driver.store)
    with pytest.raises(CheckpointMismatch):
        after.start()
    after = replace(after, keeps_tasks=True).start()
    assert after.planner.refused == stop.refused
    assert "component 'count' can't have 2 instead of 1 tasks" in stop.refused
    after.run(Stop(when_drained=True))
    assert state_of(after, "count")["total"] == len(WORDS)
    after.close()


class Numbers(Spout):
    """Emits the numbers of its parts, and divides them."""

    outputs = ("n",)

    def __init__(self):
        self.parts = None

    def open(self, conf, context, collector):
        self.collector = collector
        tasks = len(context.tasks(context.component))
        if self.parts is None:
            self.parts = {p: 0 for p in range(6) if p % tasks == context.task_index}
        self.most = conf["most"]

    def next_tuple(self):
        for part, at in self.parts.items():
            if at < self.most:
                self.parts[part] = at + 1
                self.collector.emit([[part, at]], msg_id=(part, at))
                return True
        return False

    def is_exhausted(self):
        return all(at >= self.most for at in self.parts.values())

    @classmethod
    def redistribute(cls, kept, tasks):
        parts = {part: at for one in kept for part, at in one.fields["parts"].items()}
        return [
            Kept({"parts": {p: at for p, at in parts.items() if p % tasks == task}})
            for task in range(tasks)
        ]


def numbers(tasks, most):
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers, tasks).set_config({"most": most})
    builder.set_bolt("all", CollectBolt).shuffle_grouping("numbers")
    return with_tasks(builder)


def test_parts_of_a_source_are_dealt_anew_and_origins_come_back():
    result, origins = run(numbers(3, 2)), {}
    layout = layout_of(read_newest(result.checkpoint))
    for tasks, most in ((1, 4), (3, 6), (2, 8)):
        result = run(numbers(tasks, most), checkpoint=result)
        layout = layout_of(read_newest(result.checkpoint))
        origins |= layout.origins
        assert layout.origins.keys() == {f"numbers/{i}" for i in range(tasks)}
        assert layout.next_origin == 4
    assert sorted(result.collected("all")) == [[[p, at]] for p in range(6) for at in range(8)]
    assert origins == {"numbers/0": 1, "numbers/1": 2, "numbers/2": 3}


def test_a_source_without_a_method_stays_as_it_is():
    result = run(counted(WORDS, 1))
    more = counted(WORDS, 1).with_each(lambda one: {"num_tasks": 2} if one.name == "source" else {})
    with pytest.raises(CheckpointMismatch, match="component 'source' can't have 2 instead of 1"):
        run(more, checkpoint=result)


def test_entries_that_were_there_before_can_be_read_by_their_tasks():
    """A segment may be read by several tasks, each of which takes its own."""
    result = run(counted(WORDS, 1))
    result = run(counted(WORDS, 3), checkpoint=result)
    manifest = read_newest(result.checkpoint)
    keys = [task_key("count", task) for task in range(3)]
    loaded = load_many(result.checkpoint, manifest, keys)
    read = [[js[j] for j in sorted(js) if j.startswith("state")] for js in loaded.values()]
    assert read[0]
    assert read[0] == read[1] == read[2]
