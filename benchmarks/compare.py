"""What a change makes slower: `make bench-compare REF=main`, also `python -m benchmarks.compare`.

Runs a few topologies with this checkout and with another revision in turn, without Spark, and
compares the CPU time of the processes, less that of a run without events. In each round the other
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
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from benchmarks.machine import bare, machine
from benchmarks.nexmark import queries

ROOT: Final = Path(__file__).parents[1]
WORDS: Final = "word count"
EVENTS: Final = 200_000
QUERIES: Final = {
    "maps (q1)": ("q1", "execute"),
    "maps by lists (q1)": ("q1", "lists"),
    "select (q1)": ("q1", "config"),
    "where and select (q14)": ("q14", "config"),
    "a join (q3)": ("q3", "keyed"),
    "a join with many rows (q20)": ("q20", "keyed"),
    "sliding windows (q5)": ("q5", "keyed"),
    "max_by (q7)": ("q7", "keyed"),
    "sessions (q11)": ("q11", "keyed"),
    "keyed state (q18)": ("q18", "keyed"),
}
RUN: Final = "from fulmen.cli.main import main; main()"
Command = list[str]


def commands(folder: Path) -> Mapping[str, Command]:
    """What `fulmen run` is given for each case."""
    words = str(ROOT / "examples" / "word-count" / "topology.yaml")
    cases = {WORDS: [words, "--set", f"spec.spouts[lines].config.path={ROOT / 'runtime'}"]}
    for name, (query, form) in QUERIES.items():
        file = folder / f"{query}-{form}.yaml"
        content = queries.topology(query, EVENTS, form, only_counts=True)
        file.write_text(yaml.safe_dump(content), encoding="utf-8")
        cases[name] = [str(file)]
    return cases


def cpu_seconds(checkout: Path, command: Command) -> float | None:
    """The CPU time of one run with the runtime of a checkout. None: another one can't run it."""
    whole = [sys.executable, "-c", RUN, "run", *command, "--in-process", "--until-drained"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(checkout / "runtime")}
    done = subprocess.run(whole, env=environment, capture_output=True, text=True, check=False)
    if done.returncode and checkout == ROOT:
        sys.exit(f"{command}:\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return None if done.returncode else used


def compared(
    old: Path, case: Command, rounds: int, starts: Mapping[Path, float]
) -> list[float] | None:
    """Seconds of the other revision and of this one, their ratio, and the noise.

    None: the other revision can't run it.
    """
    befores, ratios, noises, afters = [], [], [], []
    for _ in range(rounds):
        used = [(folder, cpu_seconds(folder, case)) for folder in (old, ROOT, old)]
        if any(seconds is None for _, seconds in used):
            return None
        first, new, last = (seconds - starts[folder] for folder, seconds in used if seconds)
        befores += [first, last]
        afters.append(new)
        ratios.append(2 * new / (first + last))
        noises.append(abs(last - first) * 2 / (first + last))
    figures = (statistics.median(befores), statistics.median(afters), statistics.median(ratios))
    return [*figures, max(noises)]


def started(checkout: Path, command: Command) -> float:
    """The CPU time of a run that emits nothing."""
    return min(cpu_seconds(checkout, command) or 0.0 for _ in range(2))


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
    slower = []
    cases = commands(old.parent)
    makes_events = [*cases["maps (q1)"], "--set", "spec.spouts[events].config.emits=false"]
    (one := old.parent / "one").mkdir()
    (one / "word.txt").write_text("word", encoding="utf-8")
    finds_nothing = [*cases[WORDS][:-1], f"spec.spouts[lines].config.path={one}"]
    of_words, of_events = (
        {folder: started(folder, command) for folder in (old, ROOT)}
        for command in (finds_nothing, makes_events)
    )
    for name, case in cases.items():
        starts = of_words if name == WORDS else of_events
        found = compared(old, case, arguments.rounds, starts)
        if found is None:
            print(f"| {name} | | | | | {arguments.ref} can't run it |", flush=True)
            continue
        before, after, ratio, noise = found
        verdict = "slower" if ratio > 1 + noise else "faster" if ratio < 1 - noise else ""
        slower += [name] if verdict == "slower" else []
        figures = f"{before:.2f} | {after:.2f} | {ratio:.2f} | {noise:.2f} | {verdict}"
        print(f"| {name} | {figures} |", flush=True)
    return slower


if __name__ == "__main__":
    main()
