"""The queue: each key once, at its time, one at a time, later after failures."""

import asyncio

import pytest

from fulmen_operator.controller.queue import (
    LIGHT_SECONDS,
    MOST_OF_A_GROUP,
    REST,
    RESYNC_SECONDS,
    Queue,
)


class Clock:
    """Seconds that a test moves."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def queue(clock):
    return Queue(clock, lambda: 0.5, lambda key: key[:1])


def taken(queue):
    """The next key that is due now, or None."""

    async def attempt():
        task = asyncio.ensure_future(queue.get())
        for _ in range(3):
            await asyncio.sleep(0)
        if task.done():
            return task.result()
        task.cancel()
        return None

    return asyncio.run(attempt())


def test_a_key_comes_once(queue):
    queue.add("a")
    queue.add("a")
    assert (taken(queue), taken(queue)) == ("a", None)


def test_a_key_that_is_worked_on_comes_again_afterwards(queue):
    queue.add("a")
    assert taken(queue) == "a"
    queue.add("a")
    assert taken(queue) is None
    queue.done("a")
    assert taken(queue) == "a"


def test_the_one_that_is_due_first_comes_first(queue, clock):
    queue.add("later", 5)
    queue.add("sooner", 2)
    assert taken(queue) is None
    clock.now += 10
    assert (taken(queue), taken(queue)) == ("sooner", "later")


def test_an_event_brings_a_key_forward(queue):
    queue.add("a", 50)
    queue.add("a")
    assert taken(queue) == "a"


def test_everything_comes_again_with_jitter(queue, clock):
    queue.add("a")
    taken(queue)
    queue.done("a")
    clock.now += RESYNC_SECONDS * 0.9 - 1
    assert taken(queue) is None
    clock.now += 1
    assert taken(queue) == "a"


def test_a_wish_to_come_earlier(queue, clock):
    queue.add("a")
    taken(queue)
    queue.done("a", 7)
    clock.now += 7
    assert taken(queue) == "a"


def test_failures_back_off_up_to_five_minutes_and_success_forgets_them(queue, clock):
    delays = []
    for _ in range(11):
        queue.add("a")
        taken(queue)
        delays.append(queue.failed("a"))
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    clock.now += 300
    assert taken(queue) == "a"
    queue.done("a")
    queue.add("a")
    taken(queue)
    assert queue.failed("a") == 1


def test_a_key_that_is_gone_does_not_come_again(queue, clock):
    queue.add("a")
    taken(queue)
    queue.forget("a")
    clock.now += 10_000
    assert (taken(queue), len(queue)) == (None, 0)


def test_at_a_new_beginning_everything_is_due_and_nothing_is_being_worked_on(queue, clock):
    for key in "ab":
        queue.add(key)
    queue.add("later", 500)
    taken(queue)
    queue.failed(taken(queue))
    clock.now += 400
    assert queue.stuck_for() == 400
    queue.restart()
    assert queue.stuck_for() == 0
    assert sorted(taken(queue) for _ in range(3)) == ["a", "b", "later"]
    assert [queue.failed(key) for key in ("a", "b", "later")] == [1, 1, 1]


def test_how_long_nothing_has_moved(queue, clock):
    assert queue.stuck_for() == 0
    queue.add("a")
    queue.add("b", 50)
    clock.now += 10
    assert queue.stuck_for() == 10
    taken(queue)
    assert queue.stuck_for() == 0
    clock.now += 20
    assert queue.stuck_for() == 20


def test_a_long_queue_moves_while_each_of_its_keys_takes_its_time(queue, clock):
    for key in "abcd":
        queue.add(key)
    for _ in range(4):
        key = taken(queue)
        clock.now += 150
        assert queue.stuck_for() == 150
        queue.failed(key)


@pytest.mark.parametrize("turns", range(5))
def test_whoever_waits_can_be_stopped_while_a_key_comes(queue, turns):
    """However far it has come with it: an operator whose term does not end never leads again."""

    async def wait_and_stop():
        queue.add("later", delay=60)
        task = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0.01)
        queue.add("a", delay=60)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=1)
        return task.cancelled()

    assert asyncio.run(wait_and_stop())


def test_waiting_ends_when_a_key_is_added(queue):
    async def wait_and_add():
        task = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        return await task

    assert asyncio.run(wait_and_add()) == "a"


def test_namespaces_take_turns_however_many_are_due_in_one(queue, clock):
    for key in ("a1", "a2", "a3", "b1"):
        queue.add(key)
        clock.now += 1
    taken(queue)
    clock.now += 1
    assert (taken(queue), taken(queue)) == ("b1", "a2")


def test_one_namespace_never_has_all_that_work(queue):
    for number in range(MOST_OF_A_GROUP + 1):
        queue.add(f"a{number}")
    busy = [taken(queue) for _ in range(MOST_OF_A_GROUP)]
    assert taken(queue) is None
    queue.add("b1")
    assert taken(queue) == "b1"
    queue.done(busy[0])
    assert taken(queue) == f"a{MOST_OF_A_GROUP}"


def test_a_namespace_that_has_held_up_all_others_rests_for_longer_and_they_do_not(queue, clock):
    for key in ("a1", "a2", "a3", "b1"):
        queue.add(key)
    for key in (taken(queue), taken(queue)):
        queue.done(key)
        queue.charge(key, LIGHT_SECONDS + 1.0 if key == "a1" else LIGHT_SECONDS)
    assert taken(queue) is None
    queue.add("b1")
    assert taken(queue) == "b1"
    clock.now += REST
    assert taken(queue) == "a2"
