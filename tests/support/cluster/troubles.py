"""Small topologies that can't run, and how that is told."""

from datetime import datetime

from support.cluster.kube import condition, eventually
from support.cluster.numbered import FILE, manifest

TOLD_SECONDS = 15
"""In which it is told what the cluster says about a pod."""


def apply(kube, name, *assignments):
    """A small topology of its own name."""
    kube.apply(manifest(FILE, f"metadata.name={name}", "spec.workers=1", *assignments))


def wait_for(kube, name, kind, *reasons):
    """Wait for a condition with one of those reasons; its message."""
    found = kube.wait(
        "topology",
        name,
        lambda topology: condition(topology, kind).get("reason") in reasons,
        180,
        f"{kind}: {' or '.join(reasons)}",
    )
    return condition(found, kind)["message"]


def told(kube, name, *reasons):
    """Wait for an event about the topology with one of those reasons; the first there was."""
    events = eventually(
        lambda: [event for event in kube.events(name) if event["reason"] in reasons],
        bool,
        30,
        f"told by an event: {' or '.join(reasons)}",
    )
    return min(events, key=lambda event: event["firstTimestamp"])


def wait_for_pod(kube, name, component):
    """Wait until a pod of a topology runs."""
    labels = f"fulmen.dev/topology={name},app.kubernetes.io/component={component}"
    kube.wait_any("pods", labels, lambda pod: pod["status"]["phase"] == "Running", 400, "running")


def unscheduled(kube, name, component):
    """The first time, as the API server has it, that a pod of a topology found no node."""
    labels = f"fulmen.dev/topology={name},app.kubernetes.io/component={component}"
    return min(
        said["lastTransitionTime"]
        for pod in kube.list("pods", labels)
        for said in pod["status"].get("conditions", ())
        if (said["type"], said["status"]) == ("PodScheduled", "False")
    )


def seconds_between(cause, event):
    """From a cause to the event that tells it, by the times that the cluster gives to both."""
    first = datetime.fromisoformat(event["firstTimestamp"])
    return (first - datetime.fromisoformat(cause)).total_seconds()
