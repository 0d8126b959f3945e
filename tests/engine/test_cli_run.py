"""`fulmen run` on real Spark, as a person uses it: in a terminal, with Ctrl-C, and in scripts."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fulmen.checkpoint import Store
from fulmen.engine.state.committed_state import read_state
from support.cli.cli_runs import write_letters

# The first terminal that the leader of a session opens becomes the session's.
TAKE_TERMINAL = """
import os, sys
os.close(os.open(sys.argv[1], os.O_RDWR))
os.execvp(sys.argv[2], sys.argv[2:])
"""
CONTROL_C = b"\x03"
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """Runs a command in a pseudo terminal."""

    def __init__(self, command, env, folder, rows=30, columns=120):
        self._shown = b""
        self._fd, terminal = os.openpty()
        name = os.ttyname(terminal)
        env = {**env, "LINES": str(rows), "COLUMNS": str(columns), "TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, name, *command],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=env,
            cwd=folder,
            start_new_session=True,
        )
        os.close(terminal)

    @property
    def output(self):
        """All that it has shown so far, without colors and the like."""
        return CONTROLS.sub("", self._shown.decode(errors="replace"))

    def wait_for(self, pattern, seconds):
        """Read until the output has something like this."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.output)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.output[-4000:]!r}"
            assert self._read(0.5), f"ended without {pattern!r}: {self.output[-4000:]!r}"
        return found

    def press(self, keys=CONTROL_C):
        """Type."""
        os.write(self._fd, keys)

    def end(self, seconds):
        """Read until the command ends. Returns its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(0.5):
            assert time.monotonic() < deadline, f"does not end: {self.output[-4000:]!r}"
        return self.process.wait(10)

    def close(self):
        """Kill what is still there."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._fd)

    def _read(self, seconds):
        """Read what there is; whether there may be more."""
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if ready:
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # Linux: the last process has closed its side
                return False
            self._shown += data
            return bool(data)
        return True


FULMEN = str(Path(sys.executable).with_name("fulmen"))
SECONDS = 240  # a busy machine takes its time to start a JVM
ENDLESS = {"count": 10**9}
TO_THE_END = [
    *("--checkpoint", "kept", "--until-drained", "--set", "spec.maxSpoutPending="),
    "--in-process",  # what is to be seen is in the checkpoint
]
"""Options of a run that carries on where another was stopped."""
JAVA = re.compile(r"\bat (org|java|scala)\.|\b(py4j|java\.lang|org\.apache)\b|Exception in thread")

pytestmark = pytest.mark.timeout(3 * SECONDS)


@pytest.fixture
def env(tmp_path):
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def terminal(tmp_path, env):
    """Runs `fulmen` in a terminal."""
    opened = []

    def run(*arguments):
        opened.append(Terminal([FULMEN, *arguments], env, tmp_path))
        return opened[-1]

    yield run
    for each in opened:
        each.close()


@pytest.fixture
def script(tmp_path, env):
    """Runs a command without a terminal to its end: (exit code, stdout, stderr)."""

    def run(*command):
        with subprocess.Popen(
            command,
            env=env,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                stdout, stderr = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                pytest.fail("".join(process.communicate()))
        return process.returncode, stdout, stderr

    return run


def counts(folder):
    """Letters and how often they were counted, over all tasks."""
    tasks = read_state(Store.open(str(folder)), "count").tasks.values()
    return {letter: n for task in tasks for letter, n in task.items()}


def test_control_c_drains_and_the_next_run_carries_on(terminal, script, tmp_path):
    # Few letters a batch, so that there are many left when Ctrl-C is pressed.
    file = write_letters(tmp_path, {"count": 20_000}, maxSpoutPending=20)
    first = terminal("run", file, "--checkpoint", "kept", "--report", "first.json")
    first.wait_for(r"trees acked [^ ]*[1-9]", SECONDS)
    first.press()
    assert first.end(SECONDS) == 0
    report = json.loads((tmp_path / "first.json").read_text())
    assert "letters: drained after" in first.output
    assert f"{report['trees']['acked']:,} acked, 0 failed, 0 timed out, 0 pending" in first.output
    assert re.search(r"__acker +2 ", first.output)
    assert not JAVA.search(first.output)
    assert 0 < report["trees"]["acked"] < 40_000
    assert sum(counts(tmp_path / "kept").values()) == report["trees"]["acked"]

    code, stdout, stderr = script(FULMEN, "run", file, *TO_THE_END)
    assert code == 0, stderr
    assert "carried on from commit" in stderr
    assert f"trees        {40_000 - report['trees']['acked']:,} acked" in stdout
    assert counts(tmp_path / "kept") == dict.fromkeys("abcde", 8000)


def test_a_killed_jvm_ends_the_run_and_the_next_one_carries_on(terminal, script, tmp_path):
    file = write_letters(tmp_path, {"count": 20_000}, maxSpoutPending=20)
    first = terminal("run", file, "--checkpoint", "kept")
    first.wait_for(r"trees acked [^ ]*[1-9]", SECONDS)
    os.kill(jvm_of(first.process.pid), signal.SIGKILL)
    assert first.end(SECONDS) == 1
    [log] = tmp_path.glob("state/fulmen/runs/*/run.log")
    said = " ".join(first.output.split())
    assert "Error: Spark is gone: its JVM was killed by signal 9" in said
    assert f"'{log}'. What is committed stays: started again" in said
    assert not JAVA.search(first.output)
    assert 0 < sum(counts(tmp_path / "kept").values()) < 40_000

    code, _, stderr = script(FULMEN, "run", file, *TO_THE_END)
    assert code == 0, stderr
    assert "carried on from commit" in stderr
    assert counts(tmp_path / "kept") == dict.fromkeys("abcde", 8000)


def jvm_of(pid):
    """The process id of the JVM that a process has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    [jvm] = [c for c in children if Path(f"/proc/{c}/comm").read_text().startswith("java")]
    return int(jvm)


def test_a_second_control_c_stops_at_once(terminal, tmp_path):
    config = {**ENDLESS, "hang_at": 3000, "hangs": str(tmp_path / "hangs")}
    hanging = terminal("run", write_letters(tmp_path, config))
    while not (tmp_path / "hangs").exists():
        assert hanging._read(0.1), hanging.output
    hanging.press()
    hanging.wait_for("draining", SECONDS)
    hanging.press()
    assert hanging.end(SECONDS) == 1
    assert "Error: stopped at once, by a second signal." in hanging.output
    assert "letters: stopped at once after" in hanging.output
    assert not JAVA.search(hanging.output)


def test_a_topology_in_python(script, tmp_path):
    write_letters(tmp_path)
    (tmp_path / "topology.py").write_text(
        "from fulmen import TopologyBuilder\n"
        "from letters import Count, Letters\n"
        "class Own(Count):\n"
        "    pass\n"
        "topology = TopologyBuilder(name='in-python')\n"
        "topology.set_spout('letters', Letters).set_config({'count': 100})\n"
        "topology.set_bolt('count', Own).shuffle_grouping('letters')\n"
    )
    code, stdout, stderr = script(FULMEN, "run", "topology.py", "--until-drained")
    assert code == 0, stderr
    assert "in-python: starting Spark\n" in stderr
    assert "trees        100 acked, 0 failed, 0 timed out, 0 pending\n" in stdout
