"""A cluster through kubectl: apply, wait by watch with a deadline, and say what is there."""

import json
import subprocess
import time
import urllib.parse
from contextlib import suppress

from fulmen.kube.contract import REPORT_ANNOTATION
from support.cluster import api_reads

KUBECTL_SECONDS = 60


class WaitedInVainError(AssertionError):
    """Something did not happen in time. Its text tells what there was instead."""


class Kube:
    """One namespace of the cluster that KUBECONFIG names."""

    def __init__(self, namespace):
        self.namespace = namespace

    def run(self, *args, content=None, check=True, seconds=KUBECTL_SECONDS):
        """Run kubectl; its output."""
        done = subprocess.run(
            ["kubectl", "-n", self.namespace, *args],
            input=content,
            text=True,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, *objects):
        """Create or change objects, given as values, or one as YAML."""
        several = {"apiVersion": "v1", "kind": "List", "items": objects}
        text = objects[0] if isinstance(objects[0], str) else json.dumps(several)
        return self.run("apply", "-f", "-", content=text)

    def get(self, kind, name):
        """An object; None if there is none."""
        if kind in api_reads.NAMES:
            return api_reads.get(kind, self.namespace, name)
        text = self.run("get", kind, name, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text else None

    def list(self, kind, selector=""):
        """All objects of a kind, or of several with commas between them, with these labels."""
        return [
            found
            for one in kind.split(",")
            for found in api_reads.items(one, self.namespace, labelSelector=selector)
        ]

    def delete(self, kind, name, *args):
        """Delete an object. Waits until it is gone, unless `args` say otherwise.

        kubectl may wait for ever for another one that has its name by then
        (kubernetes/kubernetes#135563), so it is not asked to.
        """
        uid = self._uid(kind, name)
        self.run("delete", kind, name, "--wait=false", *args)
        if uid and "--wait=false" not in args:
            eventually(lambda: self._uid(kind, name), lambda now: now != uid, 180, f"{name} gone")

    def _uid(self, kind, name):
        found = self.get(kind, name)
        return found and found["metadata"]["uid"]

    def delete_all(self, kind, selector, *args):
        """Delete the objects with these labels: one at least."""
        said = self.run("delete", kind, "-l", selector, *args, seconds=180)
        if "deleted" not in said:
            raise AssertionError(f"there is no {kind} with {selector}: nothing was deleted")

    def copy(self, pod, path, folder):
        """Copy a folder of a pod into one of this machine."""
        self.run("cp", f"{pod}:{path}", str(folder), seconds=180)

    def events(self, name):
        """What the operator told about the topology of that name."""
        about = f"involvedObject.kind=Topology,involvedObject.name={name}"
        return api_reads.items("events", self.namespace, fieldSelector=about)

    def make_namespace(self):
        """Make it, so that it enforces restricted pod security."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        metadata = {"name": self.namespace, "labels": labels}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def delete_namespace(self, *args):
        """Delete it with all that is in it. Waits until it is gone, unless `args` say otherwise."""
        self.run("delete", "namespace", self.namespace, "--ignore-not-found", *args, seconds=180)

    def patch(self, kind, name, change):
        """Merge into an object."""
        api_reads.merge(kind, self.namespace, name, change)

    def exec(self, pod, *command, check=True, seconds=KUBECTL_SECONDS):
        """Run a command in a pod; its output."""
        return self.run("exec", pod, "--", *command, check=check, seconds=seconds)

    def wait(self, kind, name, condition, seconds, what):
        """Watch an object until `condition(object)` holds.

        Args:
            kind: Of the object.
            name: Its name. It need not be there yet, but something else of its kind may be.
            condition: Gets the object whenever it changes.
            seconds: The deadline.
            what: What is waited for, for the message.

        Returns:
            The object.
        """
        for found in self._watched(kind, seconds, fieldSelector=f"metadata.name={name}"):
            if condition(found):
                return found
        raise WaitedInVainError(f"{kind} {name}: not {what} within {seconds} s; now {self.said()}")

    def wait_any(self, kind, selector, condition, seconds, what):
        """Watch the objects with these labels until `condition(object)` holds for one."""
        for found in self._watched(kind, seconds, labelSelector=selector):
            if condition(found):
                return found
        raise WaitedInVainError(f"{kind} {selector}: not {what} within {seconds} s")

    def _watched(self, kind, seconds, **query):
        """All versions of the objects, from those that are there on."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            with suppress(api_reads.RefusedError):
                yield from api_reads.watched(kind, self.namespace, left, **query)
            time.sleep(0.2)  # the server was away

    def metrics(self, pod, port=9464):
        """What a pod tells Prometheus: (name, labels) -> value."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}:{port}/proxy/metrics"
        return samples(api_reads.text(path))

    def report(self, pod):
        """What a driver last said about itself; None: nothing yet."""
        found = self.get("pod", pod) or {}
        text = found.get("metadata", {}).get("annotations", {}).get(REPORT_ANNOTATION)
        return json.loads(text) if text else None

    def said(self):
        """Everything that tells what went wrong here."""
        parts = [
            ("topologies", ["get", "topologies", "-o", "yaml"]),
            ("pods", ["get", "pods", "-o", "wide", "--show-labels"]),
            ("events", ["get", "events", "--sort-by=.lastTimestamp"]),
        ]
        names = self.run("get", "pods", "-o", "name", check=False).split()
        parts += [(f"log of {name}", ["logs", name, "--tail=60"]) for name in names]
        parts += [(f"{name}", ["describe", name]) for name in names]
        return "\n".join(f"---- {what}\n{self.run(*args, check=False)}" for what, args in parts)


def samples(text):
    """Prometheus' text as values."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        series, value = line.rsplit(" ", 1)
        name, _, labels = series.partition("{")
        pairs = labels.rstrip("}").split('",') if labels else []
        key = frozenset(
            (p.split('="')[0].strip(), p.split('="')[1].rstrip('"')) for p in pairs if p
        )
        found[name, key] = float(value)
    return found


def total(metrics, name, **labels):
    """The sum of a metric over all series with these labels."""
    wanted = set(labels.items())
    return sum(v for (n, found), v in metrics.items() if n == name and wanted <= found)


def condition(topology, kind):
    """A condition of a Topology; an empty one if it has none of that type."""
    found = topology.get("status", {}).get("conditions", [])
    return next((c for c in found if c["type"] == kind), {})


def is_ready(topology):
    """Whether the operator has seen this very spec, and all is well."""
    ready = condition(topology, "Ready")
    generation = topology["metadata"]["generation"]
    return ready.get("status") == "True" and ready.get("observedGeneration") == generation


def eventually(read, is_wanted, seconds, what):
    """Read something that can't be watched, such as metrics, until it is as wanted."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = read()
        except AssertionError as e:  # the pod is being replaced
            found = e
        if not isinstance(found, AssertionError) and is_wanted(found):
            return found
        if time.monotonic() > deadline:
            raise WaitedInVainError(f"not {what} within {seconds} s; last: {str(found)[:500]}")
        time.sleep(0.5)


def quoted(path):
    """For `kubectl get --raw`."""
    return urllib.parse.quote(path, safe="/:?=&")
