"""The rules in tests/conftest.py, tried on small sets of tests of their own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # pytest starts once for each set

TESTS = Path(__file__).parents[1]
NEEDED = (
    "conftest.py",
    *(f"support/suite/{name}.py" for name in ("changed_files", "draws", "reach")),
)
PASSES = "def test_it(): pass\n"
SKIPS = "import pytest\ndef test_it(): pytest.skip('no server')\n"
SKIPS_AS_A_FILE = "import pytest\npytest.skip('no library', allow_module_level=True)\n"
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

@pytest.mark.matrix(share=1 / 4, name="family", cell="one")
@pytest.mark.parametrize("case", "xy")
def test_one(case): pass

@pytest.mark.matrix(share=1 / 4, name="family", cell="two")
@pytest.mark.parametrize("case", "xy")
def test_two(case): pass

whole = pytest.mark.matrix(share=1 / 2, name="whole tests")

@whole
def test_whole_one(): pass

@whole
def test_whole_other(): pass

def test_of_no_matrix(): pass
"""


def run_pytest(folder, files, *arguments, ci=""):
    """Run pytest on the given files below a `tests` folder that has our conftest.py."""
    (folder / "pytest.ini").write_text(
        "[pytest]\npythonpath = tests\nmarkers =\n  engine\n  cluster\n  matrix\n"
    )
    for name, code in files.items():
        file = folder / "tests" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
    (folder / "tests" / "support" / "suite").mkdir(parents=True, exist_ok=True)
    for name in NEEDED:
        shutil.copy(TESTS / name, folder / "tests" / name)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *arguments]
    own = {"CI": ci, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        command, cwd=folder, env=os.environ | own, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """All that there is, on somebody's own machine."""
    files = {
        "cluster/test_a.py": PASSES,
        "engine/test_b.py": PASSES,
        "unit/test_c.py": PASSES,
        "unit/test_d.py": SKIPS,
        "unit/test_e.py": SKIPS_AS_A_FILE,
        "unit/test_f.py": MATRIX,
    }
    return run_pytest(tmp_path_factory.mktemp("everything"), files, "-v")


@pytest.fixture(scope="module")
def drawn_in_ci(tmp_path_factory):
    """What is selected of it in CI, and drawn."""
    files = {
        "cluster/test_a.py": SKIPS,
        "engine/test_b.py": SKIPS,
        "unit/test_c.py": PASSES,
        "unit/test_f.py": MATRIX,
    }
    arguments = ["-m", "not cluster and not engine", "--drawn"]
    return run_pytest(tmp_path_factory.mktemp("drawn"), files, *arguments, ci="true")


def test_the_order_comes_from_the_folder(everything):
    ran = re.findall(r"^(tests/\S+::test_it) PASSED", everything.stdout, re.MULTILINE)
    assert ran == [
        "tests/unit/test_c.py::test_it",
        "tests/engine/test_b.py::test_it",
        "tests/cluster/test_a.py::test_it",
    ]


def test_marks_come_from_the_folder_and_what_they_leave_out_is_told(drawn_in_ci):
    assert "not run, because not asked for: 1 in tests/cluster" in drawn_in_ci.stdout
    assert "not run, because not asked for: 1 in tests/engine" in drawn_in_ci.stdout


def test_a_test_outside_of_the_folders_is_refused(tmp_path):
    result = run_pytest(tmp_path, {"test_lost.py": PASSES})
    assert result.returncode != 0
    assert "a test is in one of ['cluster', 'engine', 'unit']" in result.stdout + result.stderr


def test_a_skip_is_no_failure_outside_of_ci(everything):
    assert everything.returncode == 0
    assert "19 passed, 2 skipped" in everything.stdout


def test_a_skip_is_a_failure_in_ci(tmp_path):
    files = {"unit/test_a.py": SKIPS, "unit/test_b.py": PASSES, "unit/test_c.py": SKIPS_AS_A_FILE}
    in_ci = run_pytest(tmp_path, files, "--continue-on-collection-errors", ci="true")
    assert in_ci.returncode != 0
    assert "1 failed, 1 passed, 1 error" in in_ci.stdout
    for reason in ("Skipped: no server", "Skipped: no library"):
        assert f"{reason} (a failure, since every selected test must run in CI)" in in_ci.stdout


def test_what_is_not_selected_is_no_failure_in_ci(drawn_in_ci):
    assert drawn_in_ci.returncode == 0


def test_without_the_option_all_cells_of_a_matrix_are_run(everything):
    cells = re.findall(r"test_f\.py::test_\w+\[[abc]\] PASSED", everything.stdout)
    assert len(cells) == 9


def test_of_a_matrix_the_seed_draws_cells(drawn_in_ci):
    assert "7 passed, 12 deselected" in drawn_in_ci.stdout
    assert drawn_in_ci.stdout.count("test_alone[") == 1
    cells = re.findall(r"test_(?:first|second)(\[.\])", drawn_in_ci.stdout)
    assert len(cells) == 2
    assert len(set(cells)) == 1
    assert len(re.findall(r"test_(?:one|two)\[[xy]\]", drawn_in_ci.stdout)) == 1
    assert len(re.findall(r"PASSED .*::test_whole_", drawn_in_ci.stdout)) == 1


@pytest.fixture(scope="module")
def committed(tmp_path_factory):
    """A repository, nothing in it is changed."""
    folder = tmp_path_factory.mktemp("committed")
    files = {
        "support/used.py": "",
        "support/unused.py": "",
        "unit/a/test_a.py": f"import support.used\n{PASSES}",
        "unit/b/test_b.py": f"import support.unused\n{PASSES}",
        "unit/test_c.py": PASSES,
    }
    result = run_pytest(folder, files)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init"], ["add", "."], [*identity, "commit", "--message", "first"]):
        subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True)
    assert "3 passed" in result.stdout
    return folder


@pytest.mark.parametrize("workers", [[], ["-p", "xdist", "-n", "1"]], ids=["alone", "workers"])
def test_only_what_a_change_reaches_is_run(committed, workers):
    used = committed / "tests/support/used.py"
    used.write_text("USED = 1\n")
    result = run_pytest(committed, {}, "--reached", *workers)
    used.write_text("")
    assert "PASSED tests/unit/a/test_a.py::test_it" in result.stdout
    assert "1 passed in" in result.stdout
    told = "tests/support/used.py: 1 of 3 test files can be reached. `make check-all` runs all."
    assert told in result.stdout


def test_where_nothing_is_changed_everything_is_run(committed):
    result = run_pytest(committed, {}, "--reached")
    assert "3 passed" in result.stdout
    assert "Nothing is changed: all test files are run." in result.stdout


def test_without_git_everything_is_run(tmp_path):
    result = run_pytest(tmp_path, {"unit/test_a.py": PASSES}, "--reached")
    assert "1 passed" in result.stdout
    assert "Without git nobody knows the change: all test files are run." in result.stdout


def test_what_concerns_all_tests_runs_all(committed):
    makefile = committed / "Makefile"
    makefile.touch()
    result = run_pytest(committed, {}, "--reached")
    makefile.unlink()
    assert "3 passed" in result.stdout
    assert "Makefile: 3 of 3 test files can be reached." in result.stdout
