"""`python -m benchmarks.pipelines`: one pipeline as bolts, streams, a file, in Bytewax, in PySpark.

Lines of JSON, a filter, a new field, sums by key in windows of ten minutes, and lines of JSON: all
five give the same rows, which is checked. Fulmen runs in one process without Spark beside Bytewax,
and on Spark with one worker beside PySpark with one core. All run in turn, each in processes of its
own. It prints a table in Markdown with medians.

Rows a second are by the clock, less the time of a run with few rows; of one process by its CPU
time, too, by which to go on a machine that does other work. What Spark's workers use is not known:
not all of them are waited for.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.machine import machine

FORMS = Path(__file__).parent / "forms"
RUNTIME = Path(__file__).parents[2] / "runtime"
FEW = 1_000
"""Rows of the run whose time is that of the start."""
START = datetime(2026, 5, 1, 0, 0, 0, 1000, tzinfo=UTC)
"""No row is at the edge of a window, which Storm's windows end with and the others begin with."""
PER_SECOND = 20
LAST = "the last"
"""The user of one more row, a day later: it ends all windows but its own."""
Row = tuple[str, str, int, int]


@dataclass(frozen=True)
class Form:
    """One way to write the pipeline.

    Attributes:
        name: For people.
        file: In `forms`.
        guarantee: What of it survives a crash.
        arguments: Of `fulmen run`; None: the file is a program.
    """

    name: str
    file: str
    guarantee: str
    arguments: Sequence[str] | None = None


EXACT = "state and files exactly once; a failed row comes again"
IN_PROCESS = ("--in-process",)
ALL = (
    Form("Fulmen, bolts by hand", "by_hand.py", EXACT, IN_PROCESS),
    Form("Fulmen, streams", "streams.py", EXACT, IN_PROCESS),
    Form("Fulmen, a file", "in_a_file.yaml", EXACT, IN_PROCESS),
    Form(
        "Bytewax",
        "in_bytewax.py",
        "none here; with recovery files exactly once; a failed row ends it",
    ),
    Form("Fulmen on Spark, bolts by hand", "by_hand.py", EXACT, ()),
    Form("Fulmen on Spark, streams", "streams.py", EXACT, ()),
    Form("Fulmen on Spark, a file", "in_a_file.yaml", EXACT, ()),
    Form("PySpark", "in_spark.py", "state and files exactly once; a failed row ends the query"),
)


@dataclass(frozen=True)
class Ran:
    """One run: its seconds by the clock and of CPU, and its rows."""

    seconds: float
    cpu: float
    rows: Sequence[Row]


def lines_of_code(file: Path) -> int:
    """Lines that are neither blank nor a comment nor the text at the top."""
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    return sum(bool(line) and not line.startswith(("#", '"""')) for line in lines)


def clicks(count: int) -> Iterator[str]:
    """Lines of JSON, always the same ones, and the last one."""
    draw = random.Random(7)
    for i in range(count):
        yield _line(f"user {draw.randrange(1000)}", draw.randrange(500), START + i * _STEP, draw)
    yield _line(LAST, 1, START + count * _STEP + timedelta(days=1), None)


_STEP = timedelta(seconds=1) / PER_SECOND


def _line(user: str, price: int, at: datetime, draw: random.Random | None) -> str:
    kind = "buy" if draw is None or draw.random() < 0.5 else "look"
    return json.dumps({"user": user, "kind": kind, "price": price, "at": at.isoformat()})


def expected(lines: Iterator[str]) -> list[Row]:
    """The rows that come of some lines, without those of the last window."""
    totals: dict[tuple[str, str], list[int]] = {}
    for line in lines:
        click = json.loads(line)
        if click["kind"] == "buy" and click["user"] != LAST:
            at = datetime.fromisoformat(click["at"])
            start = at.replace(minute=at.minute // 10 * 10, second=0, microsecond=0)
            total = totals.setdefault((click["user"], start.isoformat()), [0, 0])
            total[0] += 1
            total[1] += click["price"] * 100
    return sorted((user, start, n, cents) for (user, start), (n, cents) in totals.items())


def written(folder: Path) -> list[Row]:
    """The rows that a form has written."""
    files = [file for file in folder.glob("**/*.json*") if not file.name.startswith(".")]
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return sorted(
        (row["user"], datetime.fromisoformat(row["start"]).astimezone(UTC).isoformat(),
         row["n"], row["cents"])
        for row in rows if row["user"] != LAST
    )  # fmt: skip


def run(form: Form, count: int) -> Ran:
    """Run a form in a folder of its own."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "clicks").mkdir()
        (folder / "clicks" / "a.jsonl").write_text("".join(f"{line}\n" for line in clicks(count)))
        shutil.copy(FORMS / form.file, folder)
        command = [sys.executable, form.file]
        if form.arguments is not None:
            main = [sys.executable, "-c", "from fulmen.cli.main import main; main()"]
            command = [*main, "run", form.file, "--until-drained", "--checkpoint", "state"]
            command += form.arguments
        began, before = time.perf_counter(), _cpu()
        environment = {**os.environ, "PYTHONPATH": f"{RUNTIME}:{os.environ.get('PYTHONPATH', '')}"}
        environment["TZ"] = "UTC"
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - began
        if done.returncode:
            sys.exit(f"{form.name}:\n{done.stdout}\n{done.stderr}")
        return Ran(seconds, _cpu() - before, written(folder / "out"))


def _cpu() -> float:
    """CPU seconds of the processes that were run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(forms: Sequence[Form], count: int, rounds: int) -> dict[Form, tuple[float, float]]:
    """Rows a second by the clock, and a CPU second: medians of runs in turn.

    A form that does not give the rows that it should ends the program.
    """
    of_few, of_all = expected(clicks(FEW)), expected(clicks(count))
    rates: dict[Form, list[tuple[float, float]]] = {form: [] for form in forms}
    for _ in range(rounds):
        for form in forms:
            few, many = run(form, FEW), run(form, count)
            for ran, wanted in ((few, of_few), (many, of_all)):
                if ran.rows != wanted:
                    sys.exit(f"{form.name}: {len(ran.rows)} rows instead of {len(wanted)}")
            seconds, cpu = many.seconds - few.seconds, many.cpu - few.cpu
            rates[form].append(((count - FEW) / seconds, (count - FEW) / cpu))
    medians = {form: zip(*found, strict=True) for form, found in rates.items()}
    return {form: tuple(map(statistics.median, both)) for form, both in medians.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="forms whose names have this")
    arguments = parser.parse_args()
    has_bytewax = importlib.util.find_spec("bytewax") is not None
    forms = [f for f in ALL if arguments.only in f.name and (has_bytewax or f.name != "Bytewax")]
    rates = measured(forms, arguments.rows, arguments.rounds)
    print(f"{machine()}; {arguments.rows:,} rows, {arguments.rounds} rounds\n")
    print("| | lines of code | rows/s | rows a CPU second | guarantee |")
    print("|---|---|---|---|---|")
    for form, (by_clock, by_cpu) in rates.items():
        lines = lines_of_code(FORMS / form.file)
        cpu = "" if "Spark" in form.name else f"{by_cpu:,.0f}"
        print(f"| {form.name} | {lines} | {by_clock:,.0f} | {cpu} | {form.guarantee} |")
    if not has_bytewax:
        print("\nWithout Bytewax, which is not installed: `make bench` installs it.")


if __name__ == "__main__":
    main()
