"""Mutation tests: breaks pure code in one place at a time, and lists what no unit test notices.

    .venv/bin/python scripts/mutants.py mutmut==3.8.1 plan acking

This is what `make mutants` calls; without groups it takes all of them. mutmut is installed into a
folder of its own, not into .venv. It takes all sources from one folder, src, and tests a mutated
copy of them: so each group gets a copy of the repository, artifacts/mutants/GROUP, which each run
makes anew.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ARTIFACTS = ROOT / "artifacts"

ENGINE = "fulmen/engine"
GROUPS = {
    "acking": (
        [f"{ENGINE}/acking/messages.py", f"{ENGINE}/acking/trees.py"],
        ["engine/acking/test_ackers.py"],
    ),
    "plan": (
        [f"fulmen/plan/{name}.py" for name in ("assignment", "planner", "stages", "tasks")],
        ["plan"],
    ),
    "coordinator": (
        [
            f"{ENGINE}/batches/{name}.py"
            for name in (
                "batch_clock",
                "coordinator",
                "done",
                "ends/*",
                "pace/idle",
                "pace/rests",
            )
        ],
        ["engine/batches", "engine/driver/test_attempt.py"],
    ),
    "batches": (
        [
            *(
                f"{ENGINE}/batches/{name}.py"
                for name in ("pace/stage_skipping", "summaries", "pace/next_timers", "watermarks")
            ),
            f"{ENGINE}/batches/failures/*.py",
            f"{ENGINE}/batches/size/*.py",
        ],
        ["engine/batches", "engine/driver/test_attempt.py", "engine/time"],
    ),
    "time": (
        [f"{ENGINE}/time/{name}.py" for name in ("event_times", "timers", "watermarks")],
        [f"engine/time/test_{name}.py" for name in ("event_times", "timers", "watermarks")],
    ),
    "transactions": (
        [f"{ENGINE}/batches/{name}.py" for name in ("ledger", "transactions")],
        [
            "engine/batches/test_transactions_of_a_batch.py",
            "engine/transactions/test_coordinator.py",
        ],
    ),
    "checkpoint": (
        [
            "fulmen/checkpoint/log.py",
            "fulmen/checkpoint/manifest.py",
            "fulmen/checkpoint/record.py",
        ],
        [f"checkpoint/test_{name}.py" for name in ("log", "record", "formats", "garbage")],
    ),
    "decide": (
        ["fulmen_operator/reconcile/decide.py"],
        [
            "operator/test_ownership.py",
            *(
                f"operator/reconcile/test_{name}.py"
                for name in ("decide", "lifecycle", "losses", "replacing", "status", "trying")
            ),
        ],
    ),
}
"""Group -> the modules that are broken, below src; the tests that have to notice, below tests/unit.
Few tests: each of them may run for each mutant."""

CONFIG = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = {modules}
pytest_add_cli_args = ["--hypothesis-profile", "mutants"]
pytest_add_cli_args_test_selection = {tests}
track_dependencies = false
use_git_change_detection = false
"""


def main() -> None:
    """Run the groups that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("mutmut", help="the release of mutmut, as pip takes it")
    parser.add_argument("groups", nargs="*", metavar="group", help=f"of {', '.join(GROUPS)}")
    args = parser.parse_args()
    if unknown := set(args.groups) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    tool = ARTIFACTS / args.mutmut
    if not tool.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([*pip, *constraints, "--target", str(tool), args.mutmut], check=True)
    cores = len(os.sched_getaffinity(0))
    for group in args.groups or GROUPS:
        print(f"{group} …", flush=True)
        folder = staged(group)
        with (folder / "log").open("wb") as log:
            run(tool, folder, "run", "--max-children", str(cores), stdout=log)
        report(tool, folder)


def staged(group: str) -> Path:
    """A copy of the repository, as mutmut wants it."""
    folder = ARTIFACTS / "mutants" / group
    shutil.rmtree(folder, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    for source in ("runtime/fulmen", "operator/fulmen_operator"):
        shutil.copytree(ROOT / source, folder / "src" / Path(source).name, ignore=ignored)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignored)
    modules, tests = GROUPS[group]
    config = CONFIG.format(
        modules=[f"src/{module}" for module in modules],
        tests=[f"tests/unit/{test}" for test in tests],
    )
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (folder / "pyproject.toml").write_text(project + config, encoding="utf-8")
    return folder


def report(tool: Path, folder: Path) -> None:
    """Print how many mutants each module had and how many were noticed, then the others."""
    lines = run(tool, folder, "results", "--all", "true").stdout.splitlines()
    results = dict(line.strip().split(": ") for line in lines if ": " in line)
    survivors = [name for name, status in results.items() if status in ("survived", "no tests")]
    all_of, survived = (
        Counter(name.rpartition(".")[0] for name in names) for names in (results, survivors)
    )
    for module, n in all_of.items():
        print(f"{module}: {n} mutants, {n - survived[module]} noticed")
    for status, n in Counter(results.values()).items():
        print(f"  {status}: {n}")
    for name in survivors:
        changed = [
            line
            for line in run(tool, folder, "show", name).stdout.splitlines()
            if line.startswith(("+", "-")) and not line.startswith(("+++", "---"))
        ]
        print("\n".join([f"\n{name}", *changed]))


def run(
    tool: Path, folder: Path, *command: str, stdout: object = subprocess.PIPE
) -> "subprocess.CompletedProcess[str]":
    """Call mutmut in a group's folder."""
    return subprocess.run(
        [*alone(), sys.executable, "-m", "mutmut", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(tool), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=stdout,
        text=True,
        check=True,
    )


def alone() -> list[str]:
    """What a command begins with that can see no process but its own, where that is possible.

    mutmut signals a mutant whose time is over by its process number, also when the mutant has ended
    and the number is another process's by then.
    """
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return []
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


if __name__ == "__main__":
    main()
