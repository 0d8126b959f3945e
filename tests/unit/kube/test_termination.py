"""SIGTERM, sent for real: to a process of its own, since handlers belong to the main thread."""

import subprocess
import sys

import pytest

BEFORE = """
import os, signal
from fulmen.kube.driver.termination import Terminated, Termination
with Termination() as termination:
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        print("went on")
    except Terminated:
        print("unwound", termination.asked)
"""
LATE = """
import os, signal, threading
from fulmen.kube.driver.termination import Terminated, Termination
with Termination() as termination:
    termination.raise_no_more()
    waiter = threading.Thread(target=termination.wait)
    waiter.start()
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    waiter.join()
    print("went on", termination.asked)
"""
BETWEEN = """
import os, signal
from fulmen.kube.driver.termination import Terminated, Termination
with Termination() as termination:
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except Terminated:
        pass  # somebody's `finally` was slow
    try:
        termination.raise_no_more()
    except Terminated:
        print("unwound")
"""


@pytest.mark.parametrize(
    ("program", "output"),
    [
        pytest.param(BEFORE, "unwound True\n", id="before the first batch"),
        pytest.param(LATE, "went on True\n", id="while batches run"),
        pytest.param(BETWEEN, "unwound\n", id="just before"),
    ],
)
def test_sigterm(program, output):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == (output, "", 0)


def test_an_interrupt_unwinds_a_program_as_a_termination_does():
    program = BEFORE.replace("SIGTERM", "SIGINT")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "unwound True\n"
