"""Derives a topology's conditions from its state, as tools that wait for resources read them. Pure.

| state                            | Ready | Reconciling | Stalled |
|----------------------------------|-------|-------------|---------|
| Active, Inactive, Suspended      | True  | False       | False   |
| Pending, Starting                | False | True        | False   |
| Rebalancing, Draining            | False | True        | False   |
| Failed                           | False | False       | True    |
| Pending, Starting, a first       | False | False       | True    |
| version after three failures     |       |             |         |

A change that is being looked at or taken over makes Reconciling true in any state, one that was
refused makes Stalled true. Ready is about the generation that runs, the others about the newest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from fulmen.topology.resource.status import MAX_CONDITION_MESSAGE, Condition, Placement
from fulmen_operator.model import DecisionRefusal, clipped, text_of
from fulmen_operator.reasons import ON_THE_WAY, AnyReason, Foreign, Reason, Trouble
from fulmen_operator.reconcile.rollout import Verdict
from fulmen_operator.reconcile.step import Overdue, Step

Truth = Literal["True", "False", "Unknown"]
Said = tuple[Truth, AnyReason, str, int]
"""Status, reason, message, generation."""

READY: Final = ("Active", "Inactive", "Suspended")


@dataclass(frozen=True)
class Facts:
    """The facts that decide the conditions.

    Attributes:
        generation: The spec's generation.
        verdict: The verdict on the spec.
        step: The step of the driver; None if nothing was ever accepted.
        desired: The wanted number of workers.
        ready: The number of workers that run.
        rows: The wanted and the actual work of each worker.
        waiting: Why a worker's pod does not start: the reason and Kubernetes' words.
    """

    generation: int
    verdict: Verdict
    step: Step | None
    desired: int
    ready: int
    rows: Sequence[Placement]
    waiting: Trouble | None = None


def conditions(
    before: Sequence[Condition], facts: Facts, now: datetime, refusal: DecisionRefusal | None = None
) -> tuple[Condition, ...]:
    """Make all conditions.

    Args:
        before: The last written conditions: one that stays keeps its time.
        facts: The facts that decide them.
        now: The time.
        refusal: Why the last decision could not be carried out, if so.
    """
    said: dict[str, Said] = {
        "Ready": _refused(refusal, facts) or _ready(facts),
        "Reconciling": _reconciling(facts),
        "Stalled": _hindered(refusal, facts) or _stalled(facts),
        "SpecAccepted": _accepted(facts),
        "Placed": _placed(facts, refusal),
    }
    last = {condition.type: condition for condition in before}
    return tuple(_condition(kind, words, last.get(kind), now) for kind, words in said.items())


def _condition(kind: str, said: Said, last: Condition | None, now: datetime) -> Condition:
    status, reason, message, generation = said
    same = last is not None and last.status == status
    return Condition(
        type=kind,
        status=status,
        reason=clipped(reason, 63),
        message=clipped(message, MAX_CONDITION_MESSAGE),
        observed_generation=generation,
        last_transition_time=last.last_transition_time if last and same else text_of(now),
    )


def _refused(refusal: DecisionRefusal | None, facts: Facts) -> Said | None:
    if refusal is None or (facts.step is not None and facts.step.state in READY):
        return None
    return "False", refusal.reason, refusal.message, facts.generation


def _hindered(refusal: DecisionRefusal | None, facts: Facts) -> Said | None:
    """Stalled also applies to a topology that runs on, if a part of it can't be as it should."""
    if refusal is None or not refusal.lasting:
        return None
    return "True", refusal.reason, refusal.message, facts.generation


def _ready(facts: Facts) -> Said:
    step, revision = facts.step, facts.verdict.revision
    if step is None or revision is None:
        return "False", facts.verdict.reason, facts.verdict.message, facts.generation
    if step.report is not None and (outage := step.report.outage) is not None:
        return "False", Foreign(outage.reason), outage.message, facts.generation
    if step.state in READY:
        applied = step.report.generation if step.report else revision.generation
        return "True", step.state, step.message, min(applied, revision.generation)
    if isinstance(step.does, Overdue):
        return "False", *step.does.trouble, facts.generation
    return "False", step.reason, step.message, facts.generation


def _reconciling(facts: Facts) -> Said:
    step, verdict = facts.step, facts.verdict
    if verdict.status == "Unknown":
        return "True", verdict.reason, verdict.message, facts.generation
    if step is not None and step.state in ON_THE_WAY and not (step.is_stalled or step.hopeless):
        return "True", step.state, step.message, facts.generation
    report, revision = step.report if step else None, verdict.revision
    if report and revision and report.generation < revision.generation and not report.refused:
        return "True", Reason.APPLYING, "the driver takes the change over", facts.generation
    return "False", Reason.AS_EXPECTED, "", facts.generation


def _stalled(facts: Facts) -> Said:
    step, verdict = facts.step, facts.verdict
    if verdict.status == "False":
        return "True", verdict.reason, verdict.message, facts.generation
    if step is not None and step.is_stalled:
        return "True", step.reason, step.message, facts.generation
    if step is not None and step.hopeless:
        return "True", *step.hopeless, facts.generation
    if step is not None and step.report is not None and (why := step.report.refused):
        message = f"the change is not taken over, and the topology runs as before it: {why}"
        return "True", Foreign("CheckpointMismatch"), message, facts.generation
    return "False", Reason.AS_EXPECTED, "", facts.generation


def _accepted(facts: Facts) -> Said:
    """Accepted takes the driver's findings about the author's classes into account."""
    step, verdict = facts.step, facts.verdict
    if step is not None and step.is_stalled and step.reason == Reason.INVALID_SPEC:
        return "False", step.reason, step.message, facts.generation
    return verdict.status, verdict.reason, verdict.message, facts.generation


def _placed(facts: Facts, refusal: DecisionRefusal | None) -> Said:
    step = facts.step
    if step is None:
        return "False", Reason.NOT_ACCEPTED, "nothing was accepted yet", facts.generation
    if step.report is None or step.state not in ("Active", "Inactive", "Rebalancing"):
        refused = None
        if refusal is not None:  # of what is in the way, Ready and Stalled say enough
            is_long = refusal.reason == Reason.OBJECT_IN_THE_WAY
            refused = (refusal.reason, "" if is_long else refusal.message)
        reason, words = step.trouble or facts.waiting or refused or (step.state, "")
        message = f"no worker hosts anything; {words}" if words else "no worker hosts anything"
        return "False", reason, message, facts.generation
    hosting = sum(bool(row.executors) for row in facts.rows if row.worker >= 0)
    needed = sum(bool(row.planned) for row in facts.rows if row.worker >= 0)
    if hosting < needed:
        reason, words = facts.waiting or (Reason.WORKERS_MISSING, f"{facts.ready} are ready")
        message = f"{hosting} of {needed} workers host executors; {words}"
        return "False", reason, message, facts.generation
    moved = [row.worker for row in facts.rows if set(row.planned) != set(row.executors)]
    if moved:
        message = f"not as planned: workers {', '.join(map(str, moved[:20]))}"
        return "False", Reason.MOVING, message, facts.generation
    return "True", Reason.AS_PLANNED, "", facts.generation
