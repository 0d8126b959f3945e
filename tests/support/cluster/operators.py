"""The operator on the cluster: installed, uninstalled and taken away as its users do that."""

import os
import signal
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

from support.cluster import cluster_images
from support.cluster.kube import Kube

SYSTEM = "fulmen-system"
SELECTOR = "app.kubernetes.io/name=fulmen-operator"
DEPLOYMENT = "deployment/fulmen-operator"
CHART = cluster_images.ROOT / "charts" / "fulmen"
HELM = Path(sys.executable).with_name("helm")


def build_and_install():
    """All images, and the operator of just this one."""
    earlier = {uid(pod) for pod in Kube(SYSTEM).list("pods", SELECTOR)}
    cluster_images.build()
    install()
    if earlier & {uid(pod) for pod in Kube(SYSTEM).list("pods", SELECTOR)}:
        restart()


def install(*values):
    """Install the chart, or upgrade what is installed; returns when the operator runs.

    Args:
        values: More of the chart's values, as `--set` takes them.
    """
    cluster_images.call(
        [
            *(str(HELM), "upgrade", "--install", "fulmen", str(CHART)),
            *("--namespace", SYSTEM, "--create-namespace", "--wait", "--timeout", "3m"),
            "--take-ownership",  # of the definition, which an uninstalled release leaves behind
            *("--set", f"image={cluster_images.OPERATOR}"),
            *("--set", f"runtime.image={cluster_images.RUNTIME}"),
            *(word for value in values for word in ("--set", value)),
        ]
    )


@contextmanager
def another(*values):
    """One of another image and other values of the chart runs; it is upgraded to this one then."""
    install(f"image={cluster_images.NEXT_OPERATOR}", *values)
    try:
        yield
    finally:
        install()


def uninstall():
    """Uninstall the chart; returns when the operator is gone."""
    cluster_images.call([str(HELM), "uninstall", "fulmen", "--namespace", SYSTEM, "--wait"])


def restart():
    """Have another pod take over: the tag of a new image is that of the old one."""
    system = Kube(SYSTEM)
    system.run("rollout", "restart", DEPLOYMENT)
    system.run("rollout", "status", DEPLOYMENT, seconds=180)


@contextmanager
def none():
    """No operator runs."""
    system = Kube(SYSTEM)
    system.run("scale", DEPLOYMENT, "--replicas=0")
    system.run("wait", "--for=delete", "pods", "-l", SELECTOR, "--timeout=90s", seconds=100)
    try:
        yield
    finally:
        system.run("scale", DEPLOYMENT, "--replicas=1")
        system.run("rollout", "status", DEPLOYMENT, seconds=180)


def uid(pod):
    return pod["metadata"]["uid"]


def images():
    """The images that the operator's pods run, but for those that end."""
    pods = Kube(SYSTEM).list("pods", SELECTOR)
    return {pod["spec"]["containers"][0]["image"] for pod in pods if not is_ending(pod)}


def is_ending(pod):
    return "deletionTimestamp" in pod["metadata"]


def leader():
    """The name of the pod that leads; empty: none does."""
    lease = Kube(SYSTEM).get("lease", "fulmen-operator") or {"spec": {}}
    return (lease["spec"].get("holderIdentity") or "").partition("_")[0]


@contextmanager
def stopped(pod):
    """Stop the operator's process in a pod, which runs on this machine, until the context ends.

    A container can't stop its own first process.
    """
    cgroup = f"pod{uid(Kube(SYSTEM).get('pod', pod))}"
    (process,) = (
        int(process.name)
        for process in Path("/proc").iterdir()
        if process.name.isdecimal()
        and cgroup in _text(process / "cgroup").replace("_", "-")
        and "fulmen_operator" in _text(process / "cmdline")
    )
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def _text(file):
    with suppress(OSError):  # it has ended
        return file.read_text()
    return ""


def pods():
    """Each pod of the operator, and how often its container was started anew."""
    return {
        uid(pod): pod["status"]["containerStatuses"][0]["restartCount"]
        for pod in Kube(SYSTEM).list("pods", SELECTOR)
    }


if __name__ == "__main__":
    build_and_install()
