"""CPU time that Fulmen's Python takes for a sentence of the word count: in one process, no Spark.

`python -m benchmarks.inprocess --workers 1,2`. Each run is a fresh process, and the least of
several counts: whatever else the machine does makes a run only slower. With `--tap COMPONENT`
somebody looks at that component's tuples. `benchmarks.compare` compares with another revision.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time

WARM = 100_000
"""Sentences before anything is measured."""


def measure(workers: int, sentences: int, words: str, tap: str = "") -> float:
    """Microseconds of CPU a sentence in this very process."""
    from benchmarks import running
    from fulmen.engine.driver.driver import Driver
    from fulmen.engine.worker.in_process import InProcessJobs
    from fulmen.topology.validation.check import check

    sys.path.insert(0, str(running.TOPOLOGIES))
    import sentences as topology

    if words != "ascii":  # in place: the components have the list itself
        topology.SENTENCES[:] = [text.replace("a", "ä") for text in topology.SENTENCES]
    content = running.word_count(workers, "Endless", batchTargetMillis=1000)
    if tap:
        content["spec"]["tap"] = {"allowed": True}
    checked = check(content, running.TOPOLOGIES)
    watcher = running.Watcher()
    with tempfile.TemporaryDirectory() as folder:
        runnable = checked.runnable(running.TOPOLOGIES)
        made = Driver(runnable, InProcessJobs(), f"file://{folder}/checkpoint", watcher)
        driver = made.start()
        if tap:
            from fulmen.engine.driver.taps.wanted_tap import WantedTap

            made.taps.open(WantedTap(tap))
        _run(driver, watcher, WARM)
        began = time.process_time()
        done = _run(driver, watcher, sentences)
        took = time.process_time() - began
        driver.close()
    return took / done * 1e6


def _run(driver: object, watcher: object, sentences: int) -> int:
    watcher.forget()  # type: ignore[attr-defined]
    while (done := sum(watcher.acked)) < sentences:  # type: ignore[attr-defined]
        driver.step()  # type: ignore[attr-defined]
    return done


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--sentences", type=int, default=400_000)
    parser.add_argument("--words", choices=("ascii", "other"), default="ascii")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tap", default="", help="the component that somebody looks at")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        workers, sentences, words = arguments.workers, arguments.sentences, arguments.words
        print(measure(int(workers), sentences, words, arguments.tap))
        return
    print("workers   least  median  us of CPU a sentence")
    for workers in arguments.workers.split(","):
        found = [_in_a_process(workers, arguments) for _ in range(arguments.runs)]
        print(f"{workers:>7}  {min(found):6.2f}  {statistics.median(found):6.2f}", flush=True)


def _in_a_process(workers: str, arguments: argparse.Namespace) -> float:
    command = [sys.executable, "-m", "benchmarks.inprocess", "--once", "--workers", workers]
    command += ["--sentences", str(arguments.sentences), "--words", arguments.words]
    command += ["--tap", arguments.tap]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(run.stdout)


if __name__ == "__main__":
    main()
