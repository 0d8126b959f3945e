"""What a process knows of its own place on the machine."""

import os
import subprocess
import sys
import time

import pytest

from fulmen.engine.protocol.callbacks.processes import run_delay_seconds
from fulmen.engine.tasks.author.event_loop import complete
from fulmen.engine.worker.executor_work import ExecutorThreads

BUSY = "while True: pass"


class Bolt:
    """Its work is done in a thread of executors that wait side by side."""

    def run(self, chunk):
        starve()

    def send(self, chunk, outbox):
        pass

    def send_waiting(self, outbox):
        pass


def starve():
    """Share a processor until this thread has had none for a while, however slow the machine is."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    other = subprocess.Popen([sys.executable, "-c", BUSY])  # on the same one
    try:
        before = run_delay_seconds()
        deadline = time.monotonic() + 30
        while run_delay_seconds() - before < 0.05 and time.monotonic() < deadline:
            pass
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, allowed)


async def starves():
    starve()


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(starve, id="itself"),
        pytest.param(lambda: complete(starves(), os.getpid()), id="async"),
        pytest.param(lambda: ExecutorThreads().run([[(Bolt(), None)]], None), id="executors"),
    ],
)
def test_time_without_a_processor_is_told_of_the_thread_that_asks_and_those_it_waits_for(work):
    before = run_delay_seconds()
    work()
    assert run_delay_seconds() - before >= 0.05
