"""`python -m benchmarks.nexmark [--events N] [--queries q1,q5]`: events a second of each query.

Each query runs on real Spark with one worker until all events are dealt with, beside it the same in
Bytewax, where that can say it, with one thread. Both get the same events from memory, a thousand at
a time, and a sink that only counts. In a run of its own, each query finds what DuckDB finds in the
same events. docs/measurements.md keeps the results.

`--in-process` measures the CPU time of single processes without Spark, in turn with Bytewax: that
can be compared on a busy machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from benchmarks.goals import OF_BYTEWAX, OF_FLINK
from benchmarks.machine import bare, machine
from benchmarks.nexmark import queries, runs

CHECKED_EVENTS = 20_000
IN_BYTEWAX = (
    *("q0", "q1", "q2", "q3", "q7", "q8", "q10", "q11", "q13", "q14"),
    *("q18", "q19", "q20", "q21", "q22", "yahoo"),
)
Figures = dict[str, Any]


@cache
def tables(is_yahoo: bool) -> dict[str, pa.Table]:
    """The events that are checked."""
    return queries.tables("yahoo" if is_yahoo else "q0", CHECKED_EVENTS)


def measured(query: str, form: str, arguments: argparse.Namespace) -> tuple[Figures, Figures]:
    """The figures of Fulmen and of Bytewax, each of the median run; {}: there are none of it."""
    rate = "events_per_cpu_second" if arguments.in_process else "events_per_second"
    ours, theirs = [], []
    for _ in range(arguments.runs):
        if arguments.in_process:
            ours.append(_in_a_process("runs", query, form, str(arguments.events)))
        else:
            ours.append(runs.measure(query, form, arguments.events, in_process=False))
        if query in IN_BYTEWAX and not arguments.no_bytewax:
            theirs.append(_in_a_process("dataflow", query, str(arguments.events)))
    return _median(ours, rate), _median(theirs, rate)


def _in_a_process(module: str, *arguments: str) -> Figures:
    command = [sys.executable, "-m", f"benchmarks.nexmark.{module}", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: Figures = json.loads(done.stdout)
    return found


def _median(found: Sequence[Figures], rate: str) -> Figures:
    if not found:
        return {}
    return {"rate": statistics.median(one[rate] for one in found), "rows": found[0]["rows"]}


def line(query: str, form: str, ours: Figures, theirs: Figures) -> str:
    """One row of the table."""
    beside: Sequence[str] = ("", "", "")
    if theirs:
        missing = theirs["rows"] - ours["rows"]
        times, goal = ours["rate"] / theirs["rate"], OF_BYTEWAX[form]
        beside = (
            f"{theirs['rate']:,.0f}" + (f", {missing:+,} rows" if missing else ""),
            f"{times:.2f}" if times >= goal else f"**{times:.2f}**",
            f"{goal}",
        )
    flink = OF_FLINK.get(query)
    of_flink = f"{flink:,}" if flink else ""
    rate, rows = f"{ours['rate']:,.0f}", f"{ours['rows']:,}"
    if flink and ours["rate"] < flink:
        rate = f"**{rate}**"
    return f"| {query} | {form} | {rate} | {rows} | {' | '.join(beside)} | {of_flink} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark", description=__doc__)
    parser.add_argument("--events", type=int, default=400_000, help="default: 400,000")
    parser.add_argument("--queries", default=",".join(queries.QUERIES), help="default: all")
    parser.add_argument("--form", choices=OF_BYTEWAX, help="only queries written like that")
    parser.add_argument("--in-process", action="store_true", help="CPU time, without Spark")
    parser.add_argument("--runs", type=int, default=1, help="of each; the median counts")
    parser.add_argument("--no-bytewax", action="store_true", help="Fulmen alone")
    parser.add_argument("--no-check", action="store_true", help="without DuckDB")
    arguments = parser.parse_args()
    chosen = arguments.queries.split(",")
    if unknown := set(chosen) - set(queries.QUERIES):
        parser.error(f"no query {sorted(unknown)}: there are {', '.join(queries.QUERIES)}")
    if not arguments.no_bytewax and importlib.util.find_spec("bytewax") is None:
        parser.error("Bytewax is not installed: `make bench BENCH_ARGS=bare`, or --no-bytewax")
    per = "CPU second" if arguments.in_process else "s"
    count, speed = arguments.events, bare(arguments)[0]["sentences_per_second"]
    print(f"On {machine()}, bare {speed:,}; {count:,} events of each query. Bold: below the goal\n")
    columns = ("query", "form", f"events/{per}", "rows", f"Bytewax: events/{per}")
    print(f"| {' | '.join(columns)} | times Bytewax | goal | Flink: events/s a core |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    wrong = []
    for query in chosen:
        for form in queries.forms(query):
            if arguments.form not in (None, form):
                continue
            if not (
                arguments.no_check
                or runs.is_right(query, form, CHECKED_EVENTS, tables(query == "yahoo"))
            ):
                wrong.append(f"{query} ({form})")
            print(line(query, form, *measured(query, form, arguments)), flush=True)
    if wrong:
        sys.exit(f"what DuckDB finds is something else: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
