"""The rules in tests/conftest.py, tried on a small set of tests of their own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each starts pytest once or twice

TESTS = Path(__file__).parents[1]
NEEDED = ("conftest.py", "support/draws.py")
PASSES = "def test_it(): pass\n"
SKIPS = "import pytest\ndef test_it(): pytest.skip('no server')\n"
SKIPS_AS_A_FILE = "import pytest\npytest.skip('no library', allow_module_level=True)\n"


@pytest.fixture
def run_pytest(tmp_path):
    """Runs pytest on the given files below a `tests` folder that has our conftest.py."""

    def run(files, *arguments, ci=""):
        (tmp_path / "pytest.ini").write_text(
            "[pytest]\npythonpath = tests\nmarkers =\n  engine\n  cluster\n  matrix\n"
        )
        for name, code in files.items():
            file = tmp_path / "tests" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(code)
        (tmp_path / "tests" / "support").mkdir(exist_ok=True)
        for name in NEEDED:
            shutil.copy(TESTS / name, tmp_path / "tests" / name)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *arguments]
        environ = {**os.environ, "CI": ci, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )

    return run


def test_marks_and_order_come_from_the_folder(run_pytest):
    files = {"cluster/test_a.py": PASSES, "engine/test_b.py": PASSES, "unit/test_c.py": PASSES}
    everything = run_pytest(files, "--collect-only", "-q").stdout.split()
    assert [line for line in everything if "::" in line] == [
        "tests/unit/test_c.py::test_it",
        "tests/engine/test_b.py::test_it",
        "tests/cluster/test_a.py::test_it",
    ]
    some = run_pytest(files, "-m", "engine")
    assert "1 passed, 2 deselected" in some.stdout
    assert "not run, because not asked for: 1 in tests/cluster" in some.stdout


def test_a_test_outside_of_the_folders_is_refused(run_pytest):
    result = run_pytest({"test_lost.py": PASSES})
    assert result.returncode != 0
    assert "a test is in one of ['cluster', 'engine', 'unit']" in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(SKIPS, "Skipped: no server", id="test"),
        pytest.param(SKIPS_AS_A_FILE, "Skipped: no library", id="file"),
    ],
)
def test_a_skip_is_a_failure_in_ci_only(run_pytest, code, reason):
    files = {"unit/test_a.py": code, "unit/test_b.py": PASSES}
    assert run_pytest(files).returncode == 0
    in_ci = run_pytest(files, ci="true")
    assert in_ci.returncode != 0
    assert f"{reason} (a failure, since every selected test must run in CI)" in in_ci.stdout


def test_what_is_not_selected_is_no_failure_in_ci(run_pytest):
    files = {"unit/test_a.py": PASSES, "cluster/test_b.py": SKIPS}
    assert run_pytest(files, "-m", "not cluster", ci="true").returncode == 0


MATRIX = """
import pytest

@pytest.mark.matrix(share=1 / 3)
@pytest.mark.parametrize("cell", "abc")
def test_alone(cell): pass

shared = pytest.mark.matrix(share=1 / 3, name="both")

@shared
@pytest.mark.parametrize("cell", "abc")
def test_first(cell): pass

@shared
@pytest.mark.parametrize("cell", "abc")
def test_second(cell): pass

def test_of_no_matrix(): pass
"""


def test_of_a_matrix_the_seed_draws_cells_and_without_the_option_all_are_run(run_pytest):
    files = {"unit/test_a.py": MATRIX}
    assert "10 passed" in run_pytest(files).stdout
    drawn = run_pytest(files, "--drawn")
    assert "4 passed, 6 deselected" in drawn.stdout
    assert drawn.stdout.count("test_alone[") == 1
    cells = re.findall(r"test_(?:first|second)(\[.\])", drawn.stdout)
    assert len(cells) == 2
    assert len(set(cells)) == 1
