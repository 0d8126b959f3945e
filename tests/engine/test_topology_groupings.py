"""A topology with everything in it, on two and on three workers: what came where, and its trees."""

from collections import Counter

import pytest

from fulmen.engine.driver.driver import Stop
from fulmen.engine.keyed.hashing.value_hash import list_hash
from fulmen.engine.protocol.figures.statistics import ERRORS, RESTORED
from fulmen.plan.model import DRIVER
from support.parts.wide import chosen, key_of, number_of, received, wide
from support.runs.spark_topologies import (
    NOTHING_PENDING,
    Committed,
    RecordingObserver,
    SharedSpark,
    make_driver,
)

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.matrix(share=1 / 2, name="workers of the topology with everything in it"),
]

LIMIT = 420  # a multiple of the number of tasks that `shuffled` has, and of those of `asked`
BATCHES = 200


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    spark = SharedSpark(3, tmp_path_factory.mktemp("spark"))
    yield spark
    spark.end()


class Run:
    """The topology, run until it is drained."""

    def __init__(self, spark, workers):
        self.workers, checkpoint = workers, spark.new_checkpoint()
        self.observer = RecordingObserver()
        driver = make_driver(wide(workers, LIMIT), spark, checkpoint, self.observer).start()
        driver.run(Stop(when_drained=True))
        driver.close()
        self.plan, self.totals = driver.plan, driver.totals
        self.committed = Committed(checkpoint)
        self.jvm = spark.session.sc._jvm
        self.numbers = {  # n -> the task that emitted it
            i + workers * k: task
            for i, task in enumerate(self.plan.tasks("numbers"))
            for k in range(LIMIT)
        }

    def received(self, component):
        return received(self.committed, component)

    def default(self, n):
        """What a `Record` notes of a number."""
        return ("numbers", "default", self.numbers[n], n, key_of(n), number_of(n))

    def once_each(self, component):
        """The number of the one task that received each number."""
        found = self.received(component)
        assert found.keys() == {self.default(n) for n in self.numbers}
        assert all(tasks.total() == 1 for tasks in found.values())
        return {n: next(iter(found[self.default(n)])) for n in self.numbers}


@pytest.fixture(scope="module", params=[2, 3], ids=["two-workers", "three-workers"])
def run(request, spark):
    return Run(spark, request.param)


def test_nothing_was_restored_and_each_worker_had_one_process(run):
    assert run.totals.batches >= BATCHES
    assert run.observer.failures == []
    assert run.totals.sum(RESTORED) == 0
    processes = run.totals.pids
    assert processes.keys() == {DRIVER, *range(run.workers)}
    assert [len(found) for found in processes.values()] == [1] * len(processes)
    assert len(set.union(*processes.values())) == run.workers + 1


def test_instances_are_on_the_workers_that_the_plan_says(run):
    for name in ("shuffled", "by-key", "near", "doubled"):
        for index, fields in run.committed.fields(name).items():
            assert fields["worker"] == run.plan.worker_of(run.plan.tasks(name)[index])
    assert len(run.plan.stages) > 3
    assert run.plan.pinned == ("tickets",)


def test_every_tree_has_ended_as_it_should(run):
    assert run.committed.pending() == NOTHING_PENDING
    heard = {}
    for state in run.committed.state("numbers").values():
        heard |= {what[1]: n for what, n in state.items() if what[0] == "acked"}
    tracked = {(s, n) for s in ("default", "twin", "asked") for n in run.numbers}
    tracked |= {("named", n) for n in run.numbers if n % 2}
    assert heard == dict.fromkeys(tracked, 1)
    assert all(fields["failed"] == [] for fields in run.committed.fields("numbers").values())
    (rows,) = run.committed.state("columns").values()
    assert rows == dict.fromkeys(run.numbers, 1)


def test_tickets_that_fail_are_emitted_again(run):
    (heard,) = run.committed.state("tickets").values()
    acked = {msg_id: n for (what, msg_id), n in heard.items() if what == "acked"}
    failed = {msg_id: reasons for (what, msg_id), reasons in heard.items() if what == "failed"}
    assert acked == dict.fromkeys(range(LIMIT), 1)
    assert failed == {
        t: ["not today" if t % 5 == 0 else f"bolt 'flaky': execute: ValueError: ticket {t}"]
        for t in range(LIMIT)
        if t % 5 == 0 or t % 7 == 0
    }
    assert run.totals.trees.failed == run.totals.trees.replayed == len(failed)
    assert run.totals.trees.timed_out == run.totals.trees.dead_lettered == 0
    assert run.totals.errors.keys() == {"flaky"}
    assert run.totals.sum(ERRORS) == sum(t % 5 != 0 and t % 7 == 0 for t in failed)


def test_held_tuples_are_acked_later(run):
    late = run.committed.fields("late").values()
    emitted = LIMIT + run.totals.trees.failed
    assert sum(fields["acked"] for fields in late) == emitted
    assert all(fields["ticks"] and fields["most_held"] for fields in late)
    join = run.committed.fields("join").values()
    assert any(fields["most_waiting"] for fields in join)
    assert all(fields["waiting"] == {} for fields in join)


def test_executors_of_a_blocking_bolt_run_beside_each_other(run):
    met = run.committed.fields("meet")
    emitted = LIMIT + run.totals.trees.failed
    assert [fields["met"] for fields in met.values()] == [emitted] * 2 * run.workers


def test_shuffle_is_exactly_even_for_each_emitting_task(run):
    assert evenness(run, run.once_each("shuffled")) == {LIMIT // 5}
    asked = run.received("asked")
    tasks = {what[3]: next(iter(tasks)) for what, tasks in asked.items()}
    assert evenness(run, tasks) == {LIMIT // 3}


def evenness(run, task_of):
    sent = Counter((run.numbers[n], task) for n, task in task_of.items())
    return set(sent.values())


def test_need_task_ids_told_where_the_tuple_goes(run):
    told = {}
    for state in run.committed.state("numbers").values():
        told |= {what[1]: tasks for what, tasks in state.items() if what[0] == "asked"}
    ids, order = run.plan.tasks("asked"), run.plan.tasks("order")[0]
    for (*_, n), tasks in run.received("asked").items():
        assert told.pop(n) == sorted([order, *(ids[task] for task in tasks)])
    assert told == {}


def test_fields_go_where_their_position_says(run):
    for n, task in run.once_each("by-key").items():
        assert task == list_hash([key_of(n), number_of(n)]) % 2**32 * 4 >> 32


def test_a_partial_key_has_two_tasks_and_each_emitting_task_divides_it_evenly(run):
    tasks_of, sent = {}, Counter()
    for n, task in run.once_each("by-half").items():
        tasks_of.setdefault(key_of(n), set()).add(task)
        sent[run.numbers[n], task] += 1
    assert max(len(tasks) for tasks in tasks_of.values()) == 2
    assert set().union(*tasks_of.values()) == set(range(4))
    for source in run.plan.tasks("numbers"):
        assert sum(sent[source, task] for task in range(4)) == LIMIT
        # a task that got its c-th tuple was used no more than the other choice: that has c - 1
        assert max(sent[source, task] for task in range(4)) <= (LIMIT + 1) // 2


def test_all_global_and_none(run):
    everywhere = run.received("all")
    assert everywhere == {run.default(n): Counter(range(3)) for n in run.numbers}
    assert set(run.once_each("first").values()) == {0}
    assert set(run.once_each("any").values()) == {0, 1, 2}


def test_local_or_shuffle_stays_on_the_worker_and_is_even_there(run):
    near = run.plan.tasks("near")
    task_of = run.once_each("near")
    for n, task in task_of.items():
        assert run.plan.worker_of(near[task]) == run.plan.worker_of(run.numbers[n])
    assert evenness(run, task_of) == {LIMIT // 2}


def test_inputs_take_some_tuples_and_make_others_of_them_ahead_of_their_grouping(run):
    wanted = Counter()
    for n, source in run.numbers.items():
        if n % 3:
            wanted["numbers", "default", source, n % 7, f"{key_of(n).upper()}!"] += 1
        if n < 100:
            wanted["columns", "default", run.plan.tasks("columns")[0], n % 7, str(n)] += 1
    found = run.received("some")
    assert {what: tasks.total() for what, tasks in found.items()} == wanted
    by_rest = {}
    for (*_, rest, _), tasks in found.items():
        by_rest.setdefault(rest, set()).update(tasks)
    assert all(len(tasks) == 1 for tasks in by_rest.values())
    assert len(set.union(*by_rest.values())) > 1


def test_custom_and_direct(run):
    expected = {
        run.default(n): Counter(chosen([0, 1, 2], n + 1)) for n in run.numbers if (n + 1) % 4
    }
    assert run.received("custom") == expected
    named = run.plan.tasks("named")
    assert run.received("named") == {
        ("numbers", "named", source, n, named[n % 3]): Counter([n % 3])
        for n, source in run.numbers.items()
    }


def test_streams_of_one_component_arrive_in_the_order_of_the_emits(run):
    (fields,) = run.committed.fields("order").values()
    assert fields["overtaken"] == []
    assert fields["received"] == 3 * len(run.numbers)


def test_pairs_are_joined_across_batches(run):
    joined = run.received("joined")
    assert {what[3:]: tasks.total() for what, tasks in joined.items()} == {
        (n, f"row {n}"): 1 for n in run.numbers
    }


def test_rows_become_columns_and_rows_again(run):
    doubled = Counter()
    for what, tasks in run.received("doubled").items():
        doubled[what[3:]] += tasks.total()
    assert doubled == {(n, n / 2): 2 if n % 2 else 4 for n in run.numbers}
