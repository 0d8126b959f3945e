"""Drivers that keep their clients until the next one is ready. Pure."""

from fulmen.topology.resource.spec import TopologySpec
from fulmen_operator.model import Object, Observed, attempt_of
from fulmen_operator.reasons import Reason
from fulmen_operator.reconcile.pod_states import is_ready, report_of
from fulmen_operator.reconcile.step import Start, Step


def successor_of(step: Step, spec: TopologySpec) -> int:
    """The attempt that a driver which drains hands its clients over to; 0: it has none to keep."""
    is_replaced = step.reason == Reason.REPLACING and not isinstance(step.does, Start)
    return step.attempt + 1 if is_replaced and spec.service_ports else 0


def hands_over(driver: Object) -> bool:
    """Whether a driver has drained, and is there for its clients alone: the next one may start."""
    report = report_of(driver)
    return report is not None and report.hands_over


def is_needed(driver: Object, seen: Observed, step: Step) -> bool:
    """Whether an earlier driver has clients that the present one can't serve yet."""
    present = seen.driver(step.attempt)
    is_served = present is not None and is_ready(present)
    return not is_served and attempt_of(driver) == step.attempt - 1 and hands_over(driver)
