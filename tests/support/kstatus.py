"""What kstatus makes of a resource that it does not know: the rules of Flux's waits.

After `checkGenericProperties` and `checkReadyCondition` of sigs.k8s.io/cli-utils v0.37.2,
pkg/kstatus/status. Left out: what is being deleted.
"""


def kstatus(resource):
    """`InProgress`, `Failed` or `Current`."""
    status = resource.get("status", {})
    observed = status.get("observedGeneration")
    if observed is not None and observed != resource["metadata"]["generation"]:
        return "InProgress"
    said = {c["type"]: c["status"] for c in status.get("conditions", ())}
    if said.get("Reconciling") == "True":
        return "InProgress"
    if said.get("Stalled") == "True":
        return "Failed"
    return "InProgress" if said.get("Ready", "True") in ("False", "Unknown") else "Current"
