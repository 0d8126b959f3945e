"""What a change makes slower: `make bench-compare REF=main`, also `python -m benchmarks.compare`.

Runs a few topologies with this checkout and with another revision in turn, without Spark, and
compares the CPU time of the processes, less that of a run with one event. In each round the other
revision runs before and after this one: how much its own two runs differ is the noise, and what
differs by no more says nothing. The events are the same on both sides, from this checkout.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.machine import bare, machine

ROOT: Final = Path(__file__).parents[1]
NEXMARK: Final = ROOT / "benchmarks" / "nexmark" / "topologies"
CASES: Final = {
    "word count": [
        str(ROOT / "examples" / "word-count" / "topology.yaml"),
        f"spec.spouts[lines].config.path={ROOT / 'runtime'}",
    ],
    "maps (q1)": [str(NEXMARK / "q1.yaml"), "spec.spouts[events].config.events=400000"],
    "a join (q3)": [str(NEXMARK / "q3.yaml"), "spec.spouts[events].config.events=400000"],
    "a join with many rows (q20)": [
        str(NEXMARK / "q20.yaml"),
        "spec.spouts[events].config.events=200000",
    ],
    "sliding windows (q5)": [str(NEXMARK / "q5.yaml"), "spec.spouts[events].config.events=200000"],
    "max_by (q7)": [str(NEXMARK / "q7.yaml"), "spec.spouts[events].config.events=400000"],
    "sessions (q11)": [str(NEXMARK / "q11.yaml"), "spec.spouts[events].config.events=200000"],
    "keyed state (q18)": [str(NEXMARK / "q18.yaml"), "spec.spouts[events].config.events=200000"],
}
START: Final = [str(NEXMARK / "q1.yaml"), "spec.spouts[events].config.events=1"]
RUN: Final = "from fulmen.cli.main import main; main()"


def cpu_seconds(checkout: Path, case: list[str]) -> float:
    """The CPU time of one run with the runtime of a checkout."""
    file, change = case
    command = [sys.executable, "-c", RUN, "run", file, "--in-process", "--until-drained"]
    command += ["--set", change]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(checkout / "runtime")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{file} with {checkout}:\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compared(old: Path, case: list[str], rounds: int, starts: dict[Path, float]) -> list[float]:
    """Seconds of the other revision and of this one, their ratio, and the noise."""
    befores, ratios, noises, afters = [], [], [], []
    for _ in range(rounds):
        first, new, last = (
            cpu_seconds(folder, case) - starts[folder] for folder in (old, ROOT, old)
        )
        befores += [first, last]
        afters.append(new)
        ratios.append(2 * new / (first + last))
        noises.append(abs(last - first) * 2 / (first + last))
    figures = (statistics.median(befores), statistics.median(afters), statistics.median(ratios))
    return [*figures, max(noises)]


def main() -> None:
    """Print the table, and exit with 1 if something is slower."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("ref", help="a revision of git")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    arguments = parser.parse_args()
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        subprocess.run([*git, "add", "--quiet", "--detach", str(old), arguments.ref], check=True)
        try:
            slower = _table(old, arguments)
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True)
    if slower:
        sys.exit(f"Slower than {arguments.ref}: {', '.join(slower)}.")


def _table(old: Path, arguments: argparse.Namespace) -> list[str]:
    speed = bare(arguments)[0]["sentences_per_second"]
    print(f"On {machine()}, bare {speed:,}; seconds of CPU, {arguments.rounds} rounds\n")
    print(f"| | {arguments.ref} | now | ratio | noise | |\n|---|---|---|---|---|---|")
    starts = {
        folder: min(cpu_seconds(folder, START) for _ in range(arguments.rounds))
        for folder in (old, ROOT)
    }
    slower = []
    for name, case in CASES.items():
        before, after, ratio, noise = compared(old, case, arguments.rounds, starts)
        verdict = "slower" if ratio > 1 + noise else "faster" if ratio < 1 - noise else ""
        slower += [name] if verdict == "slower" else []
        figures = f"{before:.2f} | {after:.2f} | {ratio:.2f} | {noise:.2f} | {verdict}"
        print(f"| {name} | {figures} |", flush=True)
    return slower


if __name__ == "__main__":
    main()
