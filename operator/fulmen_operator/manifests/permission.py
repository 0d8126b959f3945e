"""Decides whether the pods of a spec are allowed here. Pure."""

from fulmen.kube import contract
from fulmen_operator.acceptance.judge import Accepted, Refused, listed
from fulmen_operator.acceptance.pod_security import forbidden
from fulmen_operator.manifests.pod_template import with_template
from fulmen_operator.reasons import Reason
from fulmen_operator.settings import Settings


def permitted(judged: Accepted | Refused, settings: Settings) -> Accepted | Refused:
    """The verdict, or a refusal that names everything that its pods may not have."""
    if isinstance(judged, Refused):
        return judged
    spec, level = judged.topology.spec, settings.pod_template_allow
    found = [
        f"spec.{role}.podTemplate.spec: {text}."
        for role, pod, container in (
            ("driver", spec.driver, contract.DRIVER_CONTAINER),
            ("worker", spec.worker, contract.WORKER_CONTAINER),
        )
        for text in forbidden(with_template(pod, container), level)
    ]
    if not found:
        return judged
    cure = (
        f"This operator lets topologies have what the pod security standard {level!r} allows. "
        "Leave it out, or ask whoever installed the operator to set the chart's podTemplate.allow."
    )
    return Refused(Reason.INVALID_SPEC, f"{listed(found)} {cure}")
