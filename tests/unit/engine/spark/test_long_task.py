"""Tasks that last for many batches, over a real socket; threads stand for their processes."""

import threading
import time
from contextlib import suppress

import pytest

from fulmen.engine.spark.rdds.long_task import LongTasks, TasksEnded, serve


def goes_on():
    return False


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tasks"


@pytest.fixture
def tasks(path):
    return LongTasks(path)


@pytest.fixture
def begin(path, tasks):
    """Starts the task of a partition. All are over when the driver has closed its side."""
    threads = []

    def task(partition, run):
        with suppress(SystemExit):  # a process would end
            serve(str(path), partition, run)

    def begin(partition, run):
        thread = threading.Thread(target=task, args=(partition, run))
        threads.append(thread)
        thread.start()
        return thread

    yield begin
    tasks.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def telling(partition):
    return lambda *asked: iter([repr((partition, *asked)).encode()])


def test_each_partition_gives_its_own_answer(tasks, begin):
    for partition in (1, 0):
        begin(partition, telling(partition))
    tasks.await_all(2, None, goes_on)
    for stage, watch, header in [(0, 0.0, "a header"), (3, 2.5, "x" * 1_000_000), (1, 0.0, "")]:
        answers = tasks.ask(stage, watch, header, None, goes_on)
        assert answers == {p: repr((p, stage, watch, header)).encode() for p in (0, 1)}


def test_answers_of_any_size_come_back(tasks, begin):
    begin(0, lambda stage, watch, header: iter([b"x" * int(header)]))
    tasks.await_all(1, None, goes_on)
    for size in (0, 1, 20_000_000, 1):
        assert len(tasks.ask(0, 0.0, str(size), None, goes_on)[0]) == size


def test_what_a_task_does_after_its_answer_holds_up_nobody(tasks, begin):
    done = threading.Event()

    def run(*asked):
        yield b"first"
        assert done.wait(20)

    begin(0, run)
    tasks.await_all(1, None, goes_on)
    assert tasks.ask(0, 0.0, "", None, goes_on) == {0: b"first"}
    done.set()


def test_a_task_that_ends_ends_the_wait(tasks, begin):
    def run(*asked):
        raise SystemExit

    begin(0, run)
    begin(1, telling(1))
    tasks.await_all(2, None, goes_on)
    with pytest.raises(TasksEnded):
        tasks.ask(0, 0.0, "", None, goes_on)


@pytest.fixture
def stuck(tasks, begin):
    """A task that has begun, and answers nothing."""
    go = threading.Event()

    def run(*asked):
        go.wait(20)
        yield b""

    begin(0, run)
    tasks.await_all(1, None, goes_on)
    yield
    go.set()


@pytest.mark.usefixtures("stuck")
def test_a_job_that_has_ended_ends_the_wait_although_a_connection_is_open(tasks):
    with pytest.raises(TasksEnded):
        tasks.ask(0, 0.0, "", None, lambda: True)


@pytest.mark.usefixtures("stuck")
def test_an_answer_that_takes_too_long_is_not_waited_for(tasks):
    with pytest.raises(TimeoutError):
        tasks.ask(0, 0.0, "", time.monotonic(), goes_on)


def test_a_task_that_does_not_begin_is_not_waited_for_when_its_job_has_ended(tasks, begin):
    begin(0, telling(0))
    with pytest.raises(TasksEnded):
        tasks.await_all(2, None, lambda: True)


def test_a_task_that_begins_too_late_ends_at_once(tasks, begin):
    tasks.close()
    begin(0, telling(0)).join(20)


def test_they_are_there_until_one_of_them_has_ended(tasks, begin):
    def run(stage, watch, header):
        yield b""
        if header == "end":
            raise SystemExit

    begin(0, telling(0))
    ending = begin(1, run)
    tasks.await_all(2, None, goes_on)
    tasks.ask(0, 0.0, "go on", None, goes_on)
    assert tasks.are_there
    tasks.ask(0, 0.0, "end", None, goes_on)
    ending.join(20)
    assert not tasks.are_there


def test_no_socket_is_left_behind(path, tasks, begin):
    begin(0, telling(0))
    tasks.await_all(1, None, goes_on)
    assert not path.exists()
