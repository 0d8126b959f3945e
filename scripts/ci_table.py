"""Where the time of `.ci/run` went: `python3 scripts/ci_table.py artifacts/ci` prints a table.

Reads what its parts have left there: NAME.seconds of each part, JUnit's NAME.xml of each run of
pytest, `bare` of benchmarks, started.json of tests/support/suite/started.py. Needs no package.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

BARE = 900_000
"""Sentences a second of the machine that the budgets are for; benchmarks/machine.py measures it."""
BUDGETS = {
    "packages": 60,
    "servers": 200,
    "setup": 150,
    "lint": 45,
    "classes": 75,
    "unit-and-engine": 935,
    "fresh-debian": 300,
    "images": 550,
    "cluster": 750,
    "thorough": 635,
    "cluster-alone": 635,
}
"""Seconds for each part. Those that follow each other are 45 minutes: `setup` is beside `servers`,
`fresh-debian` and `images` beside `unit-and-engine`, `thorough` beside `cluster-alone`."""
SLOWEST = 20


def seconds_of(folder):
    """How long each part took."""
    return {name: float(text) for name in BUDGETS if (text := read(folder / f"{name}.seconds"))}


def read(file):
    """The text of a file; empty, if there is none."""
    return file.read_text() if file.exists() else ""


def tests_of(folder):
    """(run of pytest, file, test, seconds) of each test."""
    for file in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(file).iter("testcase"):
            module = case.get("classname", "").removeprefix("tests.")
            yield file.stem, module, case.get("name"), float(case.get("time", 0))


def table(title, rows):
    """Lines of two columns: seconds, and what took them."""
    return [title, *(f"{seconds:8.1f}  {what}" for what, seconds in rows), ""]


def report(folder):
    """The lines of the table."""
    bare = re.search(r'sentences_per_second": (\d+)', read(folder / "bare"))
    speed = int(bare[1]) if bare else BARE
    parts = seconds_of(folder)
    tests = list(tests_of(folder))
    files = Counter()
    for run, module, _, seconds in tests:
        files[f"{run}: {module if run != 'unit' else 'tests/unit'}"] += seconds
    lines = [f"bare: {speed:,} sentences/s", ""]
    lines += table("seconds of each part", parts.items())
    lines += table("seconds of each file's tests (several run at once)", files.most_common())
    slowest = sorted(tests, key=lambda test: -test[3])[:SLOWEST]
    lines += table("the slowest tests", [(f"{m}::{t}", s) for _, m, t, s in slowest])
    started = json.loads(read(folder / "started.json") or "{}")
    lines += ["started", *(f"{count:8}  {kind}" for kind, count in started.items()), ""]
    for name, seconds in parts.items():
        allowed = BUDGETS[name] * BARE / speed
        if seconds > allowed:
            lines.append(
                f"OVER ITS BUDGET: {name} took {seconds:.0f} s; {BUDGETS[name]} s at bare"
                f" {BARE:,} are {allowed:.0f} s here"
            )
    return lines


if __name__ == "__main__":
    print("\n".join(report(Path(sys.argv[1]))))
