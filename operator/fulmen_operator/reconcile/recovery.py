"""What a lost status is made up for by: the plan and the pods say nearly all of it. Pure."""

from fulmen.kube import contract
from fulmen.topology.resource.status import TopologyStatus
from fulmen_operator.model import Observed, attempt_of, component_of
from fulmen_operator.reconcile.pod_states import report_of


def recovered(
    before: TopologyStatus, seen: Observed, held: contract.DriverPlan | None
) -> TopologyStatus:
    """The status that was written last, and never less than what there is proof of.

    A status may be lost: whoever restores a topology from a backup, or writes to its status, takes
    it away. The number of the driver never goes backwards: pods, secrets and Spark's ids bear it.

    Args:
        before: The status as it was read.
        seen: Everything.
        held: The plan that holds.
    """
    bears = (contract.DRIVER, contract.WORKER)
    attempts = [attempt_of(pod) for pod in seen.pods if component_of(pod) in bears]
    if held is not None:
        attempts.append(attempt_of(held.worker_pod) if held.worker_pod else 0)
    reports = [report for pod in seen.pods if (report := report_of(pod)) is not None]
    batch = max([before.last_batch, *(report.batch for report in reports)])
    if before.attempt == 0 and held is not None:
        batch = max(batch, held.last_batch)
    return before.model_copy(
        update={
            "attempt": max([before.attempt, *attempts]),
            "epoch": max([before.epoch, *(report.epoch for report in reports)]),
            "last_batch": batch,
        }
    )
