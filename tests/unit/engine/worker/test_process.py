import gc
import os
import subprocess
import sys
from collections import Counter

import pytest

from fulmen.engine.worker.process import LOG_FILE, CollectionPauses, RepeatGuard


def test_a_process_serves_one_partition_again_and_again():
    guard = RepeatGuard()
    assert [guard.objection(0, 3, 0) for _ in range(3)] == [None] * 3


def test_a_second_partition_in_the_same_epoch_is_objected_to():
    guard = RepeatGuard()
    guard.objection(5, 0, 0)
    assert guard.objection(5, 1, 0) == "partition 1 met the process of partition 0"
    assert guard.objection(5, 0, 0) is None


def test_a_new_epoch_may_bring_another_partition():
    guard = RepeatGuard()
    guard.objection(5, 0, 0)
    assert guard.objection(6, 1, 0) is None
    assert guard.objection(6, 0, 0) == "partition 0 met the process of partition 1"


def test_a_task_that_spark_has_repeated_is_objected_to():
    guard = RepeatGuard()
    assert guard.objection(0, 1, 2) == "a task of partition 1 was run again (attempt 2)"
    assert guard.objection(0, 0, 0) is None  # the repeated task has left no trace


@pytest.fixture(autouse=True)
def automatic_collections():
    """Tasks turn them off."""
    yield
    gc.unfreeze()
    gc.enable()


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def collections(monkeypatch):
    """What is collected, instead of doing it."""
    made = []
    for name in ("freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda: None)
    monkeypatch.setattr(gc, "collect", lambda generation=2: made.append(generation))
    return made


def test_the_first_task_is_followed_by_a_full_collection_and_others_are_not(collections):
    pauses = CollectionPauses(Clock())
    for _ in range(3):
        pauses.begin()
        pauses.end()
    assert collections == [2, 1, 1]


def test_full_collections_are_repeated_after_a_pause(collections):
    clock = Clock()
    pauses = CollectionPauses(clock)
    pauses.end()
    clock.now = CollectionPauses.PAUSE_SECONDS
    pauses.end()
    pauses.end()
    assert collections == [2, 2, 1]


def test_full_collections_that_take_long_are_made_rarely(collections, monkeypatch):
    clock = Clock()
    pauses = CollectionPauses(clock)

    def slow(generation=2):
        collections.append(generation)
        clock.now += 1.0 if generation == 2 else 0.0

    monkeypatch.setattr(gc, "collect", slow)
    pauses.end()
    clock.now = 400.0
    pauses.end()
    clock.now = 502.0
    pauses.end()
    assert collections == [2, 1, 2]


def test_cycles_that_a_task_makes_do_not_stay():
    pauses = CollectionPauses()

    class Node:
        alive = 0

        def __init__(self):
            self.itself = self
            Node.alive += 1

        def __del__(self):
            Node.alive -= 1

    for _ in range(5):
        pauses.begin()
        Node()
        pauses.end()
    assert Node.alive == 0


ADOPTED = """
import os, sys
from fulmen.engine.worker import process
process.adopt()
print("printed")
print("complained", file=sys.stderr)
sys.stdout.flush()
os.system("echo from a child")
"""


def test_an_adopted_process_prints_to_the_log_file(tmp_path):
    log = tmp_path / "log"
    log.write_text("before\n")
    environment = {**os.environ, LOG_FILE: str(log), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", ADOPTED], env=environment, capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"", b"")
    assert set(log.read_text().splitlines()) == {
        "before",
        "printed",
        "complained",
        "from a child",
    }


ORPHAN = """
import os, signal
reader, writer = os.pipe()
if child := os.fork():
    os.close(writer)
    assert os.read(reader, 1) == b"a"
    print(child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
from fulmen.engine.worker import process
process.adopt()
os.write(writer, b"a")
while True:
    signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tell a process of that")
def test_an_adopted_process_dies_with_its_parent():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # its standard output is a pipe that ends when the last process that has it ends
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN],
        env=environment,
        stdout=subprocess.PIPE,
        check=False,
        timeout=30,
    )
    assert done.stdout


PRINTS = """
from fulmen.engine.worker.process import adopt
import sys
adopt()
for _ in range(500):
    print("so", "many", "words")
    print("and", "errors", file=sys.stderr)
"""


def test_lines_that_processes_print_at_once_stay_whole(tmp_path):
    """Spark starts them unbuffered, and then each word is written by itself."""
    log = tmp_path / "log"
    environment = {**os.environ, LOG_FILE: str(log), "PYTHONUNBUFFERED": "YES"}
    processes = [
        subprocess.Popen([sys.executable, "-c", PRINTS], env=environment) for _ in range(3)
    ]
    assert [process.wait() for process in processes] == [0] * 3
    lines = log.read_text().splitlines()
    assert Counter(lines) == {"so many words": 1500, "and errors": 1500}
