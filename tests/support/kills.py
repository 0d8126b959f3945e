"""Ends pods and processes on the cluster. Each call says whether it has ended something.

What something else has ended meanwhile, such as the driver's end its workers, was not ended here.
"""

from fulmen.kube.contract import TOPOLOGY_LABEL
from support import operators
from support.kube import Kube, eventually

PYTHON, JAVA, DRIVER = "pyspark.daemon", "java", "fulmen.kube"
"""What is in the command line of a worker's Python, of a JVM, and of the driver's program."""


def kill_process(kube, pod, pattern):
    """Kill -9 the newest process in a pod whose command line has `pattern` in it."""
    found = kube.get("pod", pod)
    number = found and kube.exec(pod, "pgrep", "-n", "-f", pattern, check=False).strip()
    if not number:
        return False
    said = kube.exec(pod, "sh", "-c", f"kill -9 {number} && echo killed", check=False)
    if "killed" not in said:  # the container may be gone before it can say so
        uid = found["metadata"]["uid"]
        eventually(lambda: has_ended(kube, pod, uid), bool, 30, f"{pod} ended")
    return True


def delete_pod(kube, pod):
    """Delete a pod at once, as if its node were gone."""
    how = ("--grace-period=0", "--force", "--wait=false", "--ignore-not-found")
    return "deleted" in kube.run("delete", "pod", pod, *how)


def delete_operator():
    """Delete the operator's pod at once."""
    system = Kube(operators.SYSTEM)
    (pod, *_) = system.list("pods", operators.SELECTOR)
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
