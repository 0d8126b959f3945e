"""Ends pods and processes on the cluster. Each call says whether it has ended something.

What something else has ended meanwhile, such as the driver's end its workers, was not ended here.
"""

from functools import partial

from fulmen.kube.contract import TOPOLOGY_LABEL
from support.cluster import operators
from support.cluster.kube import Kube, eventually

PYTHON, JAVA, DRIVER = "python_daemon", "java", "fulmen.kube"
"""What is in the command line of a worker's Python, of a JVM, and of the driver's program."""
TRIES = 10
"""So often another process is chosen when the one that was chosen had ended already."""


def kill_process(kube, pod, pattern, choose=max):
    """Kill -9 one of the processes in a pod whose command lines have `pattern` in them.

    Args:
        kube: The pod's namespace.
        pod: Its name.
        pattern: A regular expression.
        choose: Gets their ids in ascending order, and gives one. Default: the newest.
    """
    found = kube.get("pod", pod)
    for _ in range(TRIES if found else 0):
        text = kube.exec(pod, "pgrep", "-f", pattern, check=False)
        if not text.split():
            return False
        number = choose(sorted(map(int, text.split())))
        command = f"kill -9 {number} && echo killed || echo there is none"
        said = kube.exec(pod, "sh", "-c", command, check=False)
        if "there is none" in said:  # it has ended by itself meanwhile
            continue
        if "killed" not in said:  # the container may be gone before it can say so
            ended = partial(has_ended, kube, pod, found["metadata"]["uid"])
            eventually(ended, bool, 30, f"{pod} ended")
        return True
    return False


def slot(place):
    """Chooses the Python process of one of a pod's slots, for `kill_process`.

    Args:
        place: Which one, from 0 to below 1. The first process is the one that makes the others.
    """

    def choose(numbers):
        slots = numbers[1:] or numbers
        return slots[int(place * len(slots))]

    return choose


def delete_pod(kube, pod):
    """Delete a pod at once, as if its node were gone."""
    how = ("--grace-period=0", "--force", "--wait=false", "--ignore-not-found")
    return "deleted" in kube.run("delete", "pod", pod, *how)


def delete_operator():
    """Delete the operator's pod at once."""
    system = Kube(operators.SYSTEM)
    pod = next(p for p in system.list("pods", operators.SELECTOR) if not operators.is_ending(p))
    return delete_pod(system, pod["metadata"]["name"])


def has_ended(kube, pod, uid):
    """Whether that very pod is gone, or its containers have ended."""
    found = kube.get("pod", pod)
    if found is None or found["metadata"]["uid"] != uid:
        return True
    states = [c["state"] for c in found["status"].get("containerStatuses", ())]
    return any("terminated" in state for state in states)


def running(kube, topology, component):
    """The names of a topology's pods of a component that run."""
    labels = f"{TOPOLOGY_LABEL}={topology},app.kubernetes.io/component={component}"
    return sorted(
        pod["metadata"]["name"]
        for pod in kube.list("pods", labels)
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    )
