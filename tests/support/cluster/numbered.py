"""The topology of tests/cluster/topologies: how it is applied, and what it must have counted."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from click.testing import CliRunner

from fulmen.cli.main import main
from fulmen.kube.contract import ATTEMPT_LABEL, REPORT_ANNOTATION
from support.cluster.kube import eventually, is_ready, total

NAME = "numbered"
FILE = Path(__file__).parents[2] / "cluster" / "topologies" / "numbered.yaml"
FULMEN = Path(sys.executable).with_name("fulmen")
TASKS = 2
PODS = f"fulmen.dev/topology={NAME},app.kubernetes.io/component="
START_SECONDS = 300
SINGLE_POD = ("spec.deployment=single-pod", "spec.slots=2", "spec.worker=")
"""Settings with which driver and workers share a pod and its JVM: a start takes half the CPU."""


def fulmen(kube, command, *args):
    """What a command about a topology on the cluster prints."""
    line = [FULMEN, command, *args, "--namespace", kube.namespace]
    done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, f"fulmen {command}: {done.stderr}"
    return done.stdout


def manifest(file, *assignments, option="--inline"):
    """What `fulmen manifest` prints: one document, unless another option is given.

    In this process: a start of the command takes a second of CPU.
    """
    words = [word for a in assignments for word in ("--set", a)]
    done = CliRunner().invoke(main, ["manifest", option, str(file), *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def apply(kube, count, rate, *settings, file=FILE):
    """Apply it, and the ConfigMap with its code, and wait until it is Ready."""
    config = "spec.spouts[sentences].config"
    settings = (f"{config}.count={count}", f"{config}.rate={rate}", *settings)
    kube.apply(manifest(file, *settings, option="--config-map"))
    kube.wait("topology", NAME, is_ready, START_SECONDS, "Ready")


def patch(kube, **spec):
    """Change the spec."""
    kube.patch("topology", NAME, {"spec": spec})


def hurry(kube):
    """Have the running topology emit what is left as fast as it can."""
    faster = [{"op": "replace", "path": "/spec/spouts/0/config/rate", "value": 4000}]
    kube.run("patch", "topology", NAME, "--type=json", "-p", json.dumps(faster))


def wait_for_state(kube, state):
    """Wait until the topology is in that state, and Ready, by its newest spec."""
    return kube.wait(
        "topology",
        NAME,
        lambda found: is_ready(found) and found["status"]["state"] == state,
        300,
        state,
    )


def expected(count):
    """What is counted in the end: worked out without any of the topology's code."""
    counts = Counter()
    for number in range(count):
        counts.update(["all", f"w{number % 7}", f"w{number % 11}"])
    return {word: n * TASKS for word, n in counts.items()}


def report_in(pod):
    """What the driver in this pod last said."""
    text = pod["metadata"].get("annotations", {}).get(REPORT_ANNOTATION)
    return json.loads(text) if text else {"phase": "", "epoch": 0, "batch": 0, "workers": []}


def driver(kube):
    """The pod of the newest driver."""
    pods = kube.list("pods", PODS + "driver")
    return max(pods, key=lambda pod: int(pod["metadata"]["labels"][ATTEMPT_LABEL]))


def driver_name(kube):
    """Its name."""
    return driver(kube)["metadata"]["name"]


def goes_on(kube, since, workers=2, but=""):
    """Wait until messages are acked again, with so many workers; the driver's pod.

    The driver is asked itself: it tells the API server the number of its batch now and then only.

    Args:
        kube: Where it is.
        since: The batch before: the driver must have come as far, by what it has told.
        workers: How many must take part.
        but: The name or uid of a driver that is to be replaced.
    """
    first = {}

    def look():
        assert kube.list("pods", PODS + "driver"), "no driver"
        pod = driver(kube)
        name, report = pod["metadata"]["name"], report_in(pod)
        assert but not in (name, pod["metadata"]["uid"]), "not replaced yet"
        acked = total(kube.metrics(name), "fulmen_acked_total", component="sentences")
        goes = acked > first.setdefault(name, acked)
        return pod, goes and report["batch"] >= since and len(report["workers"]) == workers

    found, _ = eventually(look, lambda seen: seen[1], 180, f"past batch {since}")
    return found


def counts(kube):
    """What is counted in the newest commit."""
    return state(kube, driver_name(kube), "count")


def state(kube, pod, component):
    """A component's state in the newest commit, as a pod that mounts the checkpoint reads it."""
    command = ("fulmen", "state", "get", "file:///checkpoint", component, "-o", "json")
    return {entry["key"]: entry["value"] for entry in json.loads(kube.exec(pod, *command))}


def all_counted(kube, count, seconds):
    """The counts when there are as many as there must be, or more."""
    wanted = sum(expected(count).values())

    def look():
        at_rest(kube, seconds)
        return counts(kube)

    return eventually(look, lambda found: sum(found.values()) >= wanted, seconds, "all counted")


def at_rest(kube, seconds):
    """Wait until no message is acked for a second: a look at the state takes a second of CPU."""

    def acked():
        name = driver_name(kube)
        return name, total(kube.metrics(name), "fulmen_acked_total", component="sentences")

    eventually(
        lambda: (acked(), time.sleep(1), acked()),
        lambda seen: seen[0] == seen[2],
        seconds,
        "at rest",
    )
