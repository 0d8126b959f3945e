"""`python -m benchmarks.pyflink_state --python P`: keyed counts on disk, beside those of PyFlink.

Both run one task of the counting step on one worker, on this machine: PyFlink with one slot, a
keyed process function in Python and incremental checkpoints each second, Fulmen on Spark with
`keyedState: {backend: disk}`, whose every batch is a checkpoint. The source names the same keys in
Python in both. What is told is the CPU of all processes, without that of a run of 1,000 events,
which is that of starting. P is a Python that has PyFlink: `make bench-pyflink` makes it. Where
PyFlink has its functions in processes of their own, as by default, it gets a thirtieth of the
events, as they take that much longer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.moving_state import Moving, driving
from benchmarks.running import cpu_seconds_of, document
from fulmen.engine.driver.stop import Stop
from fulmen.engine.jvm.java import find_java

FEW, FEWER = 1000, 30
TASK = Path(__file__).with_name("pyflink_job.py")


def fulmen(given: argparse.Namespace) -> None:
    """Count in Fulmen, in this process and those that it starts."""
    config = {"keys": given.keys, "rows": given.events}
    content = document(
        {"name": "keys", "class": "counted_keys.Keys", "config": config},
        [
            {
                "name": "count",
                "class": "counted_keys.Count",
                "inputs": [{"from": "keys", "grouping": {"type": "fields", "fields": ["key"]}}],
            }
        ],
        workers=1,
        keyedState={"backend": "disk", "diskLimit": "50Gi"},
    )
    watcher = Moving()
    began = time.monotonic()
    with driving(content, watcher, given.folder, spark=True) as topology:
        topology.run(Stop(when_drained=True))
        assert sum(watcher.acked) == given.events
        print(json.dumps({"seconds": round(time.monotonic() - began, 1)}), flush=True)
        sys.stdin.read()  # as in the job of PyFlink


def measured(given: argparse.Namespace, name: str, events: int) -> dict[str, float]:
    """The CPU and the seconds of a run, all of its processes included."""
    folder = Path(tempfile.mkdtemp(prefix="fulmen-benchmark-"))
    more = ["--keys", str(given.keys), "--events", str(events), "--folder", str(folder)]
    if name == "fulmen":
        command = [sys.executable, "-m", "benchmarks.pyflink_state", "--once", *more]
    else:
        mode = name.removeprefix("pyflink-")
        command = [str(given.python), str(TASK), "--mode", mode, *more]
    environ = {
        **os.environ,
        "JAVA_HOME": str(find_java().path),
        "FULMEN_STATE_FOLDER": str(folder),
        # Else a local run of PyFlink has its functions in threads of the client, as no cluster has.
        "_python_worker_execution_mode": "process",
    }
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, text=True) as process:
            assert process.stdout is not None
            said = next((line for line in process.stdout if line.startswith('{"seconds"')), None)
            cpu = cpu_seconds_of(process.pid)
        if said is None or process.returncode:
            raise SystemExit(f"{' '.join(command)}: {process.returncode}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"cpu": cpu, "seconds": json.loads(said)["seconds"]}


def compared(given: argparse.Namespace, name: str) -> dict[str, Any]:
    """What an event takes."""
    wanted = given.events // FEWER if name == "pyflink-process" else given.events
    start, whole = measured(given, name, FEW), measured(given, name, wanted)
    events = wanted - FEW
    return {
        "name": name,
        "keys": given.keys,
        "events": wanted,
        "start_cpu_seconds": round(start["cpu"], 1),
        "cpu_us_an_event": round((whole["cpu"] - start["cpu"]) / events * 1e6, 1),
        "events_a_second": round(events / max(0.1, whole["seconds"] - start["seconds"])),
    }


def main() -> None:
    """Print a line of JSON for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pyflink_state")
    parser.add_argument("--python", type=Path, help="one that has PyFlink")
    parser.add_argument("--keys", type=int, default=10**6)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--of", nargs="+", default=["fulmen", "pyflink-process", "pyflink-thread"])
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        fulmen(given)
        return
    for name in given.of:
        print(json.dumps(compared(given, name)), flush=True)


if __name__ == "__main__":
    main()
