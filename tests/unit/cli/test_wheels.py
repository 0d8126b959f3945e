"""`fulmen manifest --wheels`: the packages that a project asks for go along."""

import base64
import hashlib
import json
import re
import sys

import pytest
import yaml
from click.testing import CliRunner

from fulmen.cli.main import main
from fulmen.topology.code.packages import image_packages
from fulmen.topology.code.packing import unpacked
from support.cli.cli_runs import CODE, DOCUMENT
from support.cli.wheels import make_wheel

NUMPY = image_packages()["numpy"]
ALONE = "--find-links ./wheels\n"

pytestmark = pytest.mark.timeout(600)  # each starts pip, which a busy machine may make wait


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A topology's file with its folder of code, and an index that is a folder."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "letters.py").write_text(CODE)
    (tmp_path / "topology.yaml").write_text(DOCUMENT)
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "greet", "1.0", {"greet/__init__.py": "version = 1"})
    needs = ["greet<2", "numpy>=2", "fulmen[kafka]"]
    scripts = {"fast-2.0.data/scripts/fast": "#!python", "fast-2.0.data/purelib/fasts.py": ""}
    for python in ("cp311", "cp312"):
        files = {"fast/__init__.py": python, "fast/_core.so": b"\x7fELF", **scripts}
        tags = f"{python}-{python}-manylinux_2_17_x86_64"
        make_wheel(wheels, "fast", "2.0", files, tags, needs)
    return tmp_path


def invoke(project, *args):
    return CliRunner().invoke(main, ["manifest", str(project / "topology.yaml"), *args])


def folder_of(result, project):
    """The folder as pods unpack it."""
    assert result.exit_code == 0, result.output
    source, _ = yaml.safe_load_all(result.stdout)
    mounted = project / "mounted"
    mounted.mkdir()
    archive = base64.b64decode(source["binaryData"]["code.tar.gz"])
    (mounted / "code.tar.gz").write_bytes(archive)
    return unpacked(mounted, project / "unpacked")


def test_what_requirements_ask_for_goes_along_but_not_what_the_image_has(project):
    (project / "requirements.txt").write_text(f"{ALONE}fast\npyyaml\n")
    result = invoke(project, "--wheels")
    folder = folder_of(result, project)
    assert result.stderr == ""
    packages = folder / ".packages"
    assert sorted(path.name for path in packages.iterdir()) == [
        *("fast", "fast-2.0.dist-info", "fasts.py", "greet", "greet-1.0.dist-info"),
        "made-for.json",
    ]
    assert (packages / "fast" / "__init__.py").read_text() == "cp311"
    assert json.loads((packages / "made-for.json").read_text()) == {
        "python": "3.11",
        "machine": "x86_64",
        "versions": {"fast": "2.0", "greet": "1.0"},
    }


def test_a_file_of_requirements_is_where_the_shell_finds_it(project, monkeypatch):
    (project / "old").mkdir()
    (project / "old" / "needs.txt").write_text("--find-links ../wheels\ngreet\n")
    monkeypatch.chdir(project)
    folder = folder_of(invoke(project, "--requirements", "old/needs.txt"), project)
    assert (folder / ".packages" / "greet").is_dir()


def test_a_project_that_names_its_dependencies_and_another_python(project):
    dependencies = ["fast", f"greet @ {(project / 'wheels/greet-1.0-py3-none-any.whl').as_uri()}"]
    dependencies[0] += f" @ {next((project / 'wheels').glob('fast*cp312*')).as_uri()}"
    content = "[project]\nname = 'letters'\ndependencies = " + json.dumps(dependencies)
    (project / "code" / "pyproject.toml").write_text(content)
    left = invoke(project)
    assert "--wheels takes the packages along" in left.stderr
    folder = folder_of(invoke(project, "--wheels", "--python-version", "3.12"), project)
    assert (folder / ".packages" / "fast" / "__init__.py").read_text() == "cp312"


@pytest.mark.parametrize("right", [True, False])
def test_hashes_are_checked(project, right):
    file = project / "wheels" / "greet-1.0-py3-none-any.whl"
    found = hashlib.sha256(file.read_bytes() if right else b"").hexdigest()
    (project / "needs").mkdir()
    lines = f"greet==1.0 \\\n    --hash=sha256:{found}\nnumpy=={NUMPY} --hash=sha256:00  # fast\n"
    (project / "needs" / "base.txt").write_text(f"-c most.txt\n{lines}")
    (project / "needs" / "most.txt").write_text("greet<2\n")
    (project / "asked.txt").write_text(f"\ufeff{ALONE}-r needs/base.txt  # all\n")
    result = invoke(project, "--requirements", str(project / "asked.txt"))
    if right:
        assert (folder_of(result, project) / ".packages" / "greet").is_dir()
    else:
        assert (result.exit_code, result.stdout) == (2, "")
        assert "THESE PACKAGES DO NOT MATCH THE HASHES" in result.stderr


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            f"{ALONE}numpy==1.0",
            rf"numpy=={NUMPY}\+fulmen.* What ends in \+fulmen is in Fulmen's im",
        ),
        ("numpy==1.0 --hash=sha256:00", rf"other versions .* numpy 1\.0 \(the image: {NUMPY}\)"),
        (
            "-e .\n./lib\nmine @ git+https://me:geheim@example.org/mine@v1\n"
            "x @ file:///x.tar.gz ; python_version > '3'\n./fits.whl\n",
            r"no wheel: -e \., \./lib, mine @ git\+https://\*\*\*@example\.org/mine@v1,"
            r" x @ file:///x\.tar\.gz ; python_version > '3'\. Make a wheel of it",
        ),
        (None, r"--wheels: there is no requirements\.txt or pyproject\.toml in '.*code' or '"),
    ],
    ids=["conflict", "conflict-with-hashes", "sources", "no-file"],
)
def test_packages_that_can_not_go_along(project, lines, words):
    if lines is not None:
        (project / "requirements.txt").write_text(lines)
    result = invoke(project, "--wheels")
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.search(words, result.stderr), result.stderr


def test_without_a_folder_there_is_nothing_to_put_packages_to(project):
    (project / "topology.yaml").write_text(DOCUMENT.replace("code: {folder: code}", "workers: 1"))
    result = invoke(project, "--wheels", "--set", "spec.code.configMap=elsewhere")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "spec.code names none. Name one: --code-folder." in result.stderr


def test_a_wheel_writes_nothing_outside_and_need_not_be_installed_here(project, monkeypatch):
    monkeypatch.delitem(sys.modules, "greet", raising=False)
    (project / "code" / "letters.py").write_text(f"{CODE}\nimport greet\nassert greet.version == 1")
    make_wheel(project / "wheels", "evil", "1", {"../../../outside.py": "", "/outside.py": ""})
    (project / "requirements.txt").write_text(f"{ALONE}evil\ngreet\n")
    folder = folder_of(invoke(project, "--wheels"), project)
    outside = [path for path in folder.parent.rglob("outside.py") if folder not in path.parents]
    assert outside == []
    assert [path.parent.name for path in folder.rglob("outside.py")] == [".packages"]
