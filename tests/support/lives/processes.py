"""The processes of a run that tests find, stop and kill."""

import os
import signal
from contextlib import suppress
from pathlib import Path

DRIVER, JVM, PYTHON, PAUSE = "driver", "JVM", "Python process", "pause"


def victims(process, kind):
    """The processes of that kind that a run has."""
    if kind == DRIVER:
        return [process.pid] if process.poll() is None else []
    below = descendants(process.pid)
    if kind == JVM:
        return [pid for pid, command in below.items() if is_jvm(command)]
    return [pid for pid, command in below.items() if "pyspark" in command and "java" not in command]


def is_jvm(command):
    return command.split("\0")[0].endswith("java")


def send(pid, number):
    """Send a signal. Returns whether there was such a process."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def stop_tree(process):
    """Stop a run with all processes below it, also those that it makes meanwhile.

    Returns:
        Their ids, for `send`: the run's own is the last one.
    """
    stopped = {}
    process.send_signal(signal.SIGSTOP)
    while new := [pid for pid in descendants(process.pid) if pid not in stopped]:
        stopped.update((pid, send(pid, signal.SIGSTOP)) for pid in new)
    return [*(pid for pid, was_there in stopped.items() if was_there), process.pid]


def descendants(pid):
    """The living processes below one, with their command lines."""
    parents, commands = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            parents[int(folder.name)] = int(parent)
            if state != "Z":
                commands[int(folder.name)] = (folder / "cmdline").read_text(errors="replace")
    found, new = set(), {pid}
    while new:
        new = {p for p, parent in parents.items() if parent in new and p not in found}
        found |= new
    return {p: commands[p] for p in found if p in commands}
