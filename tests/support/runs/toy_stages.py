"""A stage function that tells where it ran, and that does what tests need to go wrong.

The workers import this file, so it imports nothing of the tests'. A batch's header is JSON:

    fault: [stage, partition, what]   what goes wrong there, see FAULTS
    wait:  [stage, partition, file]   that task makes `<file>.reached` and waits for `<file>.go`
    size:  bytes that each row to the driver is padded with
    say:   a text that each task prints

A row is JSON too: `seen` lists [stage, partition, process id, process id of its JVM] of every task
that the row has come through, `void` says why the batch must not count, `to` where the row belongs.
"""

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rpartition(")")[2].split()[1])


def jvm():
    """The process id of the worker's JVM: it started the daemon that forked this process."""
    return parent_of(os.getppid())


def for_ever():
    while True:
        time.sleep(1000)


def deaf():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for_ever()


def kill_jvm():
    os.kill(jvm(), signal.SIGKILL)
    for_ever()


def raise_error():
    raise ValueError("a component failed")


FAULTS = {
    "raise": raise_error,
    "raise even if void": raise_error,
    "sys.exit": lambda: sys.exit(4),
    "os._exit": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "kill jvm": kill_jvm,
    "sleep": for_ever,
    "deaf": deaf,
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}


def await_go(file):
    Path(f"{file}.reached").touch()
    while not Path(f"{file}.go").exists():
        time.sleep(0.005)


@dataclass(frozen=True)
class Toy:
    """The stage function. `partitions` of each stage, of which there are `stages`."""

    stages: int
    partitions: int

    def __call__(self, stage, partition, header, void, rows):
        order = json.loads(header)
        here = [stage, partition]
        fault = order.get("fault", ["", "", ""])
        if void and fault[2] == "raise even if void":
            raise_error()
        inputs = [json.loads(row) for row in rows if row]
        if say := order.get("say"):
            print(say, "to stdout")
            print(say, "to stderr", file=sys.stderr)
        seen = [[stage, partition, os.getpid(), jvm()]]
        for row in inputs:
            void = void or row["void"]
            if row["to"] != partition:
                void = f"misrouted: {row['to']} to {partition}"
            seen += [task for task in row["seen"] if task not in seen]
        if not void and fault[:2] == here:
            FAULTS[fault[2]]()
        if order.get("wait", [])[:2] == here:
            await_go(order["wait"][2])
        is_last = stage == self.stages - 1
        for destination in [-1] if is_last else range(self.partitions):
            row = {"void": void, "to": destination, "seen": seen}
            if is_last:
                row["padding"] = "x" * order.get("size", 0)
            yield destination, json.dumps(row).encode()


def misroute(stage, partition, header, void, rows):
    """A stage function with a mistake: its first stage sends to a partition that there is not."""
    if void:
        yield 0, void.encode()
    elif stage == 0:
        yield 7, b"lost"
    else:
        yield from ((0, row) for row in rows)
