"""What a process knows of its own place on the machine."""

import os
import subprocess
import sys
import time

from fulmen.engine.protocol.callbacks.processes import run_delay_seconds

BUSY = "while True: pass"


def test_time_without_a_processor_is_told_of_the_thread_that_asks():
    """Two processes share a processor: one of them waits for it, however slow the machine is."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    other = subprocess.Popen([sys.executable, "-c", BUSY])  # on the same one
    try:
        before = run_delay_seconds()
        deadline = time.monotonic() + 30
        while run_delay_seconds() - before < 0.05 and time.monotonic() < deadline:
            pass
        assert run_delay_seconds() - before >= 0.05
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, allowed)
