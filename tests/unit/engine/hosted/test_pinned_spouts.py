"""Spouts in the driver: nothing of theirs is lost or told twice, whatever fails around them."""

import threading

import pytest

from fulmen import BasicBolt, Spout, TopologyBuilder
from fulmen.checkpoint import Store, load_many, read_newest
from fulmen.engine.batches.pace.idle import SHORT_WAITS
from fulmen.engine.driver.driver import Driver, Stop
from fulmen.engine.protocol.figures.statistics import ERRORS
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.tuples import wire
from fulmen.engine.worker.in_process import Crash, InProcessJobs
from fulmen.errors import JobFailed
from fulmen.topology.validation.check import check


class Heard:
    """What spouts were told, by all instances of a test."""

    def __init__(self):
        self.acked, self.failed, self.threads = [], [], set()
        self.gate = threading.Event()
        self.waiting = threading.Event()
        self.closed = threading.Event()


HEARD = Heard()


class Numbers(Spout):
    """Emits 0, 1, 2 … up to the config's `limit`; emits again what failed."""

    outputs = ("number",)
    pinned = True

    def __init__(self):
        self.position, self.again = 0, []

    def open(self, conf, context, collector):
        self.collector, self.limit = collector, conf["limit"]

    def next_tuple(self):
        HEARD.threads.add(threading.current_thread().name)
        if self.again:
            number = self.again.pop()
        elif self.position < self.limit:
            number, self.position = self.position, self.position + 1
        else:
            return False
        self.collector.emit([number], msg_id=self.msg_id(number))
        return True

    def msg_id(self, number):
        return number

    def ack(self, msg_id):
        HEARD.threads.add(threading.current_thread().name)
        HEARD.acked.append(msg_id)

    def fail(self, msg_id, reason):
        HEARD.failed.append((msg_id, reason))
        if reason != "crashed worker":
            self.again.append(msg_id)

    def is_exhausted(self):
        return self.position == self.limit and not self.again


class Gated(Numbers):
    """Waits for a message once its first ones are emitted, as a source with a connection does."""

    def next_tuple(self):
        if self.position == self.limit:
            HEARD.waiting.set()
            HEARD.gate.wait()
        return super().next_tuple()

    def close(self):
        HEARD.closed.set()


class Untracked(Numbers):
    def msg_id(self, number):
        return None


class Seen(BasicBolt):
    """Keeps each number with how often it came; one of them may crash the worker."""

    def execute(self, tup, collector):
        number = tup["number"]
        self.state[number] = self.state.get(number, 0) + 1


class FailingJobs(InProcessJobs):
    """Fails as many attempts that carry messages as asked for, and loses the workers named."""

    def __init__(self):
        super().__init__(self._fault)
        self.failures = 0
        self.living = None
        self.headers = []

    def _fault(self, stage, partition, moment):
        if self.failures and moment == "after" and self.headers[-1].injected.rows:
            self.failures -= 1
            raise Crash("killed")

    def run(self, header, timeout_seconds):
        self.headers.append(header)
        return super().run(header, timeout_seconds)

    def alive(self):
        return super().alive() if self.living is None else self.living

    def recover(self):
        return self.alive()


class PoisonedJobs(FailingJobs):
    """Some numbers crash the worker that they come to."""

    def __init__(self, poison):
        super().__init__()
        self.poison = poison

    def run(self, header, timeout_seconds):
        rows = [row for of_worker in header.injected.rows.values() for row in of_worker]
        parcels = [wire.unpack_tuples(row) for row in rows if row[:1] == wire.TUPLES]
        if self.poison & {number for parcel in parcels for (number,) in parcel.rows}:
            raise JobFailed("killed")
        return super().run(header, timeout_seconds)


@pytest.fixture
def heard():
    HEARD.__init__()
    yield HEARD
    HEARD.gate.set()


@pytest.fixture
def jobs():
    return FailingJobs()


def started(jobs, spout, tmp_path, *, spouts=1, limit=50, workers=2, tasks=2):
    builder = TopologyBuilder(name="pinned", workers=workers)
    builder.set_spout("numbers", spout, spouts).set_config({"limit": limit})
    seen = builder.set_bolt("seen", Seen, workers).fields_grouping("numbers", ["number"])
    seen.set_num_tasks(tasks)
    return Driver(check(builder.build()).runnable(), jobs, f"file://{tmp_path}").start()


def counts(tmp_path):
    store = Store.open(f"file://{tmp_path}")
    manifest = read_newest(store)
    journals = load_many(store, manifest, [k for k in manifest.tasks if k.startswith("seen/")])
    found = {}
    for of_task in journals.values():
        found.update(KeyedState.restore(of_task))
    return found


def test_each_message_arrives_once_and_is_acked_in_its_own_thread(heard, jobs, tmp_path):
    driver = started(jobs, Numbers, tmp_path)
    driver.run(Stop(when_drained=True))
    driver.close()
    assert counts(tmp_path) == dict.fromkeys(range(50), 1)
    assert sorted(heard.acked) == list(range(50))
    assert heard.threads == {"fulmen-numbers/0"}


def test_a_failed_attempt_sends_the_same_messages_again(heard, jobs, tmp_path):
    driver = started(jobs, Numbers, tmp_path)
    jobs.failures = 1
    while driver.step():
        pass
    assert driver.step()
    first, second = jobs.headers[-2:]
    assert first.injected.rows
    assert first.injected == second.injected
    driver.run(Stop(when_drained=True))
    driver.close()
    assert counts(tmp_path) == dict.fromkeys(range(50), 1)


def test_a_batch_that_tells_spouts_how_trees_ended_needs_no_worker(heard, jobs, tmp_path):
    driver = started(jobs, Numbers, tmp_path, limit=1)
    while not jobs.headers or not jobs.headers[-1].injected.rows:
        assert driver.step()
    while not heard.acked:
        assert driver.step()
    with_message = [header.number for header in jobs.headers if header.injected.rows]
    assert with_message == [jobs.headers[-1].number]
    assert heard.acked == [0]
    assert driver.log.manifest.number > jobs.headers[-1].number
    driver.run(Stop(when_drained=True))
    driver.close()
    assert counts(tmp_path) == {0: 1}


def test_workers_are_asked_again_after_some_batches_without_work_for_them(heard, jobs, tmp_path):
    driver = started(jobs, Numbers, tmp_path, limit=1)
    while not heard.acked:
        assert driver.step()
    asked = len(jobs.headers)
    steps = 0
    while len(jobs.headers) == asked:
        assert driver.step()
        steps += 1
    assert steps > SHORT_WAITS
    driver.close()


def test_what_was_emitted_before_a_worker_was_lost_goes_to_those_that_are_left(
    heard, jobs, tmp_path
):
    driver = started(jobs, Numbers, tmp_path)
    jobs.failures, jobs.living = 1, (0,)
    while driver.step():
        pass
    assert driver.placed.workers == (0,)
    driver.run(Stop(when_drained=True))
    driver.close()
    assert counts(tmp_path) == dict.fromkeys(range(50), 1)


def test_poison_among_the_messages_of_a_turn_is_found_and_fails_alone(heard, tmp_path):
    driver = started(PoisonedJobs({7, 8, 31}), Numbers, tmp_path)
    driver.run(Stop(when_drained=True))
    driver.close()
    good = set(range(50)) - {7, 8, 31}
    assert counts(tmp_path) == dict.fromkeys(good, 1)
    assert sorted(heard.acked) == sorted(good)
    assert sorted(heard.failed) == [(n, "crashed worker") for n in (7, 8, 31)]
    assert driver.totals.sum(ERRORS, "numbers") == 3
    assert [e["message"] for e in driver.totals.errors["numbers"]] == [
        "dropped a tuple: its batch failed with it alone, twice (killed), and succeeded without it:"
        f" [{n}]"
        for n in (7, 8, 31)
    ]


def test_poison_among_messages_that_are_not_tracked_is_dropped(heard, tmp_path):
    driver = started(PoisonedJobs({7, 31}), Untracked, tmp_path)
    driver.run(Stop(when_drained=True))
    driver.close()
    assert counts(tmp_path) == dict.fromkeys(set(range(50)) - {7, 31}, 1)


def test_a_waiting_spout_is_told_once_and_keeps_no_batch_busy(heard, jobs, tmp_path):
    driver = started(jobs, Gated, tmp_path, limit=5)
    while not heard.waiting.is_set():
        driver.step()
    driver.coordinator.idle.batches = 0
    while driver.coordinator.idle.batches < 10:
        driver.step()
    owed = driver.coordinator.last.deliveries
    committed = driver.log.manifest.number
    for _ in range(20):
        driver.step()
    assert driver.coordinator.last.deliveries == owed
    assert driver.log.manifest.number == committed
    heard.gate.set()
    while len(heard.acked) < 5:
        driver.step()
    driver.run(Stop(when_drained=True))
    driver.close()
    assert sorted(heard.acked) == list(range(5))


def test_closing_twice_and_with_a_waiting_spout(heard, jobs, tmp_path):
    driver = started(jobs, Gated, tmp_path, limit=1)
    while not heard.waiting.is_set() or driver.coordinator.idle.batches < 3:
        driver.step()
    driver.close()
    driver.close()
    assert not heard.closed.is_set()
    heard.gate.set()
    assert heard.closed.wait(30)


def test_a_worker_that_hosts_nothing_may_be_lost(heard, jobs, tmp_path):
    driver = started(jobs, Numbers, tmp_path, workers=3, tasks=1)
    empty = (
        next(w for w in range(3) if not driver.plan.executors_on(w))
        if any(not driver.plan.executors_on(w) for w in range(3))
        else 2
    )
    jobs.failures, jobs.living = 1, tuple(w for w in range(3) if w != empty)
    while driver.step():  # until the spout, a thread of its own, has emitted something
        assert jobs.failures == 1
    assert driver.placed.workers == jobs.living
    driver.run(Stop(when_drained=True))
    driver.close()
    assert counts(tmp_path) == dict.fromkeys(range(50), 1)
