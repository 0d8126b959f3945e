"""What is said of a topology on Spark that can't start, prints, or fails at its end."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli.cli_runs import write_letters
from support.lives.processes import descendants, is_jvm
from support.runs.spark_runs import is_alive, wait_until

FULMEN = str(Path(sys.executable).with_name("fulmen"))
SECONDS = 240  # a busy machine takes its time

pytestmark = pytest.mark.timeout(2 * SECONDS)

MISSING = "what workers can not import"

COMPONENTS = """

from greetings import HELLO


class Reads(BasicBolt):
    def execute(self, tup, collector):
        print("here is", tup["letter"])
        names = [os.environ.get("OF_DRIVER"), os.environ.get("OF_WORKER")]
        self.state["names"] = [*names, HELLO]

    def cleanup(self):
        raise OSError("the file is gone")
"""


@pytest.fixture
def fulmen(tmp_path, monkeypatch):
    """Runs `fulmen`, with a folder of its own in PYTHONPATH."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "greetings.py").write_text("HELLO = 'hello'\n")
    paths = ["own", *filter(None, [os.environ.get("PYTHONPATH")])]  # an empty one is this folder
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*arguments):
        return subprocess.run(
            [FULMEN, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    return run


def write(folder, **spec):
    inputs = [{"from": "letters", "grouping": {"type": "shuffle"}}]
    spouts = [{"name": "letters", "class": "letters.Letters"}]
    bolts = [{"name": "reads", "class": "letters.Reads", "inputs": inputs}]
    file = write_letters(folder, {"count": 10}, spouts=spouts, bolts=bolts, **spec)
    with open(folder / "letters.py", "a") as code:
        code.write(COMPONENTS)
    return file


def test_environment_variables_prints_and_what_cleanup_raises(fulmen, tmp_path):
    file = write(
        tmp_path,
        workers=2,
        driver={"env": [{"name": "OF_DRIVER", "value": "for all"}]},
        worker={"env": [{"name": "OF_WORKER", "value": "for workers"}]},
    )
    result = fulmen("run", file, "--until-drained", "--checkpoint", "kept")
    assert result.returncode == 0, result.stderr
    assert "error in 'reads', task 4: cleanup: OSError: the file is gone\n" in result.stderr
    assert "\nreads: 1 error, in task 4: cleanup: OSError: the file is gone\n" in result.stdout
    state = fulmen("state", "get", "kept", "reads")
    assert state.stdout == "names  ['for all', 'for workers', 'hello']\n"
    [log] = tmp_path.glob("state/fulmen/runs/*/run.log")
    assert result.stdout.splitlines()[-1] == f"log: {log}"
    assert log.read_text().count("here is a\n") == 2


@pytest.mark.matrix(share=1 / 2, name=MISSING, cell="fulmen")
def test_workers_that_can_not_import_fulmen(fulmen, tmp_path):
    (tmp_path / "fulmen.py").write_text("")  # found first by the workers
    result = fulmen("run", write(tmp_path, workers=1))
    [log] = tmp_path.glob("state/fulmen/runs/*/run.log")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        f"Error: the workers' Python, '{sys.executable}', can't import Fulmen "
        "(ModuleNotFoundError: No module named 'fulmen.engine'; 'fulmen' is not a package). "
        "Install the same packages there as here, in the same versions, and give no file in the "
        f"code's folder the name of one of their modules. More is in '{log}'."
    )
    assert "is run again" not in result.stderr


@pytest.mark.matrix(share=1 / 2, name=MISSING, cell="code")
def test_workers_that_can_not_import_the_code(fulmen, tmp_path):
    file = write(tmp_path, workers=1, worker={"env": [{"name": "IN_WORKER", "value": "1"}]})
    with open(tmp_path / "letters.py", "a") as code:
        code.write('\n\nif "IN_WORKER" in os.environ:\n    import no_such_package\n')
    result = fulmen("run", file)
    assert result.returncode == 1
    assert (
        "Error: spout 'letters', task 2: making the instance: module 'letters' can't be imported: "
        "ModuleNotFoundError: No module named 'no_such_package' (letters.py, line "
    ) in result.stderr
    assert "is run again" not in result.stderr


def test_two_signals_while_a_jvm_starts_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    command = [FULMEN, "run", write_letters(tmp_path, workers=1)]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as run:

        def jvms():
            found = descendants(run.pid)
            return [(p, c) for p, c in found.items() if is_jvm(c) and "fulmen-work-" in c]

        [(jvm, started_with)] = wait_until(jvms, "a JVM")
        folder = re.search(r"/[^:\0]*/fulmen-work-\w+", started_with)
        for number in (signal.SIGINT, signal.SIGTERM):  # two of one number may become one
            run.send_signal(number)
        assert run.stderr.read().splitlines()[-1].startswith("Error: stopped at once")
    assert not is_alive(jvm)
    assert not Path(folder[0]).exists()
