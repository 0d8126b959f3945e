"""Hosted code that ends its process: the driver goes on, or its stack says who it was."""

import os
import subprocess
import sys
import warnings

import pytest

from fulmen import Spout, TopologyBuilder
from fulmen.errors import TopologyFailed
from fulmen.testing import CollectBolt, ListSpout, run


class Exits(Spout):
    """One of its methods ends the process, the first so many times."""

    outputs = ("value",)
    pinned = True
    times = 0

    def __init__(self, method):
        self.method, self.emitted = method, 0

    def exit_in(self, method):
        if method == self.method and Exits.times > 0:
            Exits.times -= 1
            os._exit(3)

    def open(self, conf, context, collector):
        self.collector = collector
        self.exit_in("open")

    def next_tuple(self):
        self.exit_in("next_tuple")
        if self.emitted < 3:
            self.emitted += 1
            self.collector.emit([self.emitted], msg_id=self.emitted)

    def ack(self, msg_id):
        self.exit_in("ack")

    def is_exhausted(self):
        return self.emitted == 3


class Forks(Exits):
    """A child of it ends in each `next_tuple`."""

    def exit_in(self, method):
        if method == "next_tuple":
            with warnings.catch_warnings():  # there are other threads
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if not child:
                os._exit(5)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


def beside(method, times):
    Exits.times = times
    builder = TopologyBuilder("beside")
    builder.set_spout("exits", Exits(method))
    builder.set_spout("good", ListSpout(list(range(20))))
    for spout in ("exits", "good"):
        builder.set_bolt(f"of-{spout}", CollectBolt()).shuffle_grouping(spout)
    return builder


def test_an_exit_in_next_tuple_is_told_and_all_spouts_go_on():
    result = run(beside("next_tuple", 2))
    assert {(e.component, e.message) for e in result.errors} == {
        ("exits", "next_tuple: SystemExit: 3")
    }
    assert len(result.collected("of-exits")) == 3
    assert len(result.collected("of-good")) == 20


@pytest.mark.parametrize("method", ["open", "ack"])
def test_an_exit_in_another_method_ends_the_topology_as_an_exception_does(method):
    with pytest.raises(TopologyFailed, match=rf"spout 'exits', task \d+: {method}: SystemExit: 3"):
        run(beside(method, 10**9))


def test_a_child_that_hosted_code_has_forked_ends_as_ever():
    builder = TopologyBuilder("forks")
    builder.set_spout("forks", Forks("next_tuple"))
    builder.set_bolt("collect", CollectBolt()).shuffle_grouping("forks")
    assert len(run(builder).collected("collect")) == 3


CRASHES = """
import ctypes
from fulmen import Spout, TopologyBuilder
from fulmen.testing import run

class Crashes(Spout):
    outputs = ["value"]
    pinned = True

    def next_tuple(self):
        ctypes.string_at(0)

def start():
    builder = TopologyBuilder("crashes")
    builder.set_spout("crashes", Crashes())
    run(builder)
"""


def test_the_stack_of_a_crash_in_c_names_the_method(tmp_path):
    (tmp_path / "crashes.py").write_text(CRASHES)
    command = [sys.executable, "-c", "import crashes; crashes.start()"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode < 0
    assert "Fatal Python error: Segmentation fault" in ended.stderr
    assert "in next_tuple" in ended.stderr
