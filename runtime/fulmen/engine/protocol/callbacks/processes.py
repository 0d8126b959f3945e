"""Which process does a worker's work: where it is, how much memory it has, what it waits for."""

from __future__ import annotations

import os
import socket
import threading
from functools import cache
from typing import NamedTuple

_IN_A_POD = "KUBERNETES_SERVICE_HOST"
"""Environment variable that Kubernetes sets in each container."""


class Process(NamedTuple):
    """The process that ran a worker's part of a batch.

    Attributes:
        worker: The worker's number; -1 for the driver.
        pid: The process id, as the machine or container of the process knows it.
        host: The name of the machine, or of the pod.
        pod: The pod's name; "" without Kubernetes.
        memory_bytes: Resident memory; 0 if the system does not tell.
    """

    worker: int = 0
    pid: int = 0
    host: str = ""
    pod: str = ""
    memory_bytes: int = 0


def this_process(worker: int) -> Process:
    """The process that asks, on behalf of `worker`."""
    host = _host()
    pod = host if _IN_A_POD in os.environ else ""  # a pod's host name is its own name
    return Process(worker, os.getpid(), host, pod, resident_bytes())


@cache
def _host() -> str:
    return socket.gethostname()


class _Waited(threading.local):
    """Seconds that threads had no processor for, while the thread at hand waited for them."""

    seconds = 0.0


_waited = _Waited()


def run_delay_seconds() -> float:
    """For how long this thread, since it began, was ready to run and had no processor.

    0 if the system does not tell. It is the second figure of Linux's `schedstat`, in nanoseconds.
    Time for which the processors of a container are taken away, as its limit is reached, counts.
    So does that of threads that this one waits for, as `waited_for` has said.
    """
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9 + _waited.seconds
    except (OSError, IndexError, ValueError):
        return 0.0


def waited_for(run_delay: float) -> None:
    """Another thread, which this one waited for, had no processor for so many seconds of that."""
    _waited.seconds += run_delay


def resident_bytes() -> int:
    """The resident memory of this process; 0 if the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError, ValueError):
        return 0
