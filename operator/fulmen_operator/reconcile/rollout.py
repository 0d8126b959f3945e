"""Turns a spec that may have changed into the revision that holds. Pure.

Nothing replaces a running driver before the API server has seen its pods, and its own image has
seen its code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from fulmen.kube import contract, names
from fulmen.kube.contract.endings import Mistake
from fulmen.kube.contract.revisions import Revision, RolledBack
from fulmen_operator.acceptance.judge import Accepted, Refused, judge
from fulmen_operator.manifests.permission import permitted
from fulmen_operator.manifests.pods import preflight_pod
from fulmen_operator.manifests.revisions import (
    for_attempt,
    hash_in,
    new_revision,
    on_trial,
    was_given_up,
)
from fulmen_operator.manifests.storage import candidate_map, code_maps, tried_since
from fulmen_operator.manifests.volumes import reads_claim
from fulmen_operator.model import (
    Action,
    Apply,
    Delete,
    Manifest,
    Object,
    Observed,
    Trial,
    name_of,
    seconds_since,
)
from fulmen_operator.ownership import is_claim_going
from fulmen_operator.reasons import AnyReason, Reason, Trouble
from fulmen_operator.reconcile.pod_states import Next, preflight_ending_of, waiting_for
from fulmen_operator.room import UNSCHEDULABLE
from fulmen_operator.settings import Settings

REFUSED_SECONDS = 120
"""Seconds after which pods that the API server refused are tried again: the cause may be gone."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on the spec.

    Attributes:
        revision: The revision that holds: of the spec if it is accepted, else the one before.
        status: The status of the condition SpecAccepted.
        reason: The reason of that condition.
        message: The message of that condition.
        actions: Actions for its trial, or its acceptance.
        trial: A dry run that is needed for a verdict.
        preflight: The pod that validates the candidate; all others can go.
        code_name: The ConfigMap of the candidate's code, if there is a candidate.
        again_in: Seconds after which to look again although nothing happened, if so.
    """

    revision: Revision | None
    status: Literal["True", "False", "Unknown"]
    reason: AnyReason
    message: str
    actions: tuple[Action, ...] = ()
    trial: Trial | None = None
    preflight: str = ""
    code_name: str = ""
    again_in: float | None = None


def consider(
    seen: Observed,
    before: Revision | None,
    tasks: Mapping[str, int],
    attempt: int,
    proven: bool,
    settings: Settings,
) -> Verdict:
    """Decide about the spec.

    Args:
        seen: Everything.
        before: The revision that holds.
        tasks: The numbers of tasks that components have.
        attempt: The number of the driver.
        proven: Whether the revision that holds is known to work: then nothing replaces it untried,
            also while its driver is being started anew.
        settings: The operator's.
    """
    judged = permitted(judge(seen, tasks), settings)
    if isinstance(judged, Refused):
        return Verdict(before, "False", judged.reason, judged.message, again_in=judged.again_in)
    if before is not None and (judged.hash == before.input_hash or judged.hash == hash_in(before)):
        judged = replace(judged, hash=before.input_hash)
        same = before.generation == seen.generation and before.rolled_back is None
        revision = before if same else new_revision(seen, judged, before, settings)
        return _accepted(seen, judged, revision)
    if before is not None and before.rolled_back and was_given_up(before, judged, seen.generation):
        return Verdict(before, "False", Reason.ROLLED_BACK, _told(before.rolled_back))
    if before is not None and is_claim_going(seen):
        words = "the change waits: its driver would be replaced, and a claim that it has mounted is"
        return Verdict(before, "False", Reason.BEING_DELETED, f"{words} being deleted")
    candidate = new_revision(seen, judged, before, settings)
    if before is not None:
        candidate = on_trial(candidate, before)
    change = _Change(seen, judged, before, candidate, settings)
    if before is None or not proven:  # nothing runs that would have to go on meanwhile
        return change.dry_run(attempt) or _accepted(seen, judged, candidate)
    return change.tried(tasks, attempt)


def _told(given_up: RolledBack) -> str:
    return (
        f"generation {given_up.generation} was tried, and the version before it came back: "
        f"{given_up.message}. Mend it and apply again; to try the same once more, "
        "change spec.restartNonce"
    )


def _accepted(seen: Observed, judged: Accepted, revision: Revision) -> Verdict:
    return Verdict(
        revision,
        "True",
        Reason.ACCEPTED_WITH_WARNINGS if judged.warnings else Reason.ACCEPTED,
        " ".join(judged.warnings),
        actions=_code(seen, judged),
        code_name=judged.mounts.code,
    )


def _code(seen: Observed, judged: Accepted) -> tuple[Action, ...]:
    """The ConfigMaps for the code that are not there: they never change."""
    if not judged.mounts.code:
        return ()
    maps = names.code_maps(judged.mounts.code, judged.mounts.code_parts)
    if all(("ConfigMap", name) in seen.children for name in maps):
        return ()
    wanted = code_maps(seen, judged)
    return tuple(
        Apply(made) for made in wanted if ("ConfigMap", name_of(made)) not in seen.children
    )


@dataclass(frozen=True)
class _Change:
    """A new spec, on its way to replace the one that holds.

    Attributes:
        seen: Everything.
        judged: The accepted spec.
        before: The revision that holds.
        candidate: The revision that would replace it.
        settings: The operator's.
    """

    seen: Observed
    judged: Accepted
    before: Revision | None
    candidate: Revision
    settings: Settings

    def tried(self, tasks: Mapping[str, int], attempt: int) -> Verdict:
        """Try the candidate: a dry run, then a preflight, then acceptance."""
        seen, candidate = self.seen, self.candidate
        name = names.preflight_pod(seen.name, candidate.trial)
        pod = next((pod for pod in seen.pods if name_of(pod) == name), None)
        if pod is not None:
            return self._after_preflight(pod)
        policy, has_time = self.settings.image_pull_policy, self._waited <= self._limit / 2
        preflight = preflight_pod(seen, candidate, policy, reads_claim=has_time)
        if (dry_run := self.dry_run(attempt, preflight)) is not None:
            return dry_run
        made = (Apply(candidate_map(seen, candidate, tasks)), Apply(preflight))
        words = "validates it with its own image and code; meanwhile the last good one runs"
        verdict = self._checking(name, f"{name} {words}")
        verdict = replace(verdict, actions=(*_code(seen, self.judged), *made))
        if seen.refusal is None or seen.refusal.reason != Reason.REFUSED:
            return verdict
        words = f"{name} can't be made, and is tried again: {seen.refusal.message}"
        return self._within(replace(verdict, message=words), Reason.PREFLIGHT_TIMEOUT, words)

    def dry_run(self, attempt: int, *others: Manifest) -> Verdict | None:
        """The verdict if the API server refuses pods, or was not asked yet; else None."""
        seen, candidate, before = self.seen, self.candidate, self.before
        if seen.trial is None or seen.trial[0] != candidate.input_hash:
            final, driver = for_attempt(seen, candidate, attempt + 1, self.settings)
            workers = [final.worker_pod] if candidate.resolved.spec.pods else []
            pods = [_for_trial(seen, pod) for pod in (driver, *workers)]
            trial = Trial(candidate.input_hash, (*pods, *others))
            return Verdict(before, "Unknown", Reason.CHECKING, "its pods are checked", trial=trial)
        if words := seen.trial[1]:
            return Verdict(before, "False", Reason.POD_REFUSED, words, again_in=REFUSED_SECONDS)
        return None

    @property
    def _limit(self) -> int:
        """The seconds that a preflight may take."""
        return self.candidate.resolved.spec.start_timeout_seconds

    @property
    def _waited(self) -> float:
        """The seconds since it was first to be made."""
        return seconds_since(tried_since(self.seen, self.candidate), self.seen.now)

    def _checking(self, preflight: str, message: str) -> Verdict:
        verdict = Verdict(self.before, "Unknown", Reason.CHECKING, message)
        return replace(verdict, preflight=preflight, code_name=self.judged.mounts.code)

    def _within(self, verdict: Verdict, reason: AnyReason, words: str) -> Verdict:
        """The verdict; after the time that a preflight may take, from its first try, no."""
        limit, waited = self._limit, self._waited
        if waited <= limit:
            return replace(verdict, again_in=limit - waited + 1)
        return replace(verdict, status="False", reason=reason, message=f"{words} (after {limit} s)")

    def _after_preflight(self, pod: Object) -> Verdict:
        name = name_of(pod)
        ending = preflight_ending_of(pod, self.seen.now)
        if ending is not None and ending.is_valid:
            return _accepted(self.seen, self.judged, self.candidate)
        verdict = self._checking(name, f"{name} validates it; meanwhile the last good one runs")
        if ending is None:
            trouble = waiting_for(pod, self.seen.now)
            verdict = replace(verdict, message=trouble[1] if trouble else verdict.message)
            said = trouble or (Reason.PREFLIGHT_TIMEOUT, f"{name} has not ended")
            return self._with_claim_or_without(pod, trouble, self._within(verdict, *said))
        if ending.next is Next.AT_ONCE:  # evicted, or its node is gone: that says nothing about it
            return replace(verdict, actions=(Delete.pod(pod),), message=ending.message)
        texts = [_mistake(mistake) for mistake in ending.errors] or [ending.message]
        if len(texts) > 1:  # its message says how many: there may be more than it had room for
            texts = [ending.message, *(f"({n}) {t}" for n, t in enumerate(texts, 1))]
        reason = Reason.INVALID_SPEC if ending.next is Next.NEVER else Reason.PREFLIGHT_FAILED
        message = " ".join([ending.where, *texts]).strip()
        return replace(verdict, status="False", reason=reason, message=message)

    def _with_claim_or_without(
        self, pod: Object, trouble: Trouble | None, verdict: Verdict
    ) -> Verdict:
        """The verdict; half of the time is for a place beside the checkpoint's claim."""
        if not reads_claim(pod) or trouble is None or trouble[0] != UNSCHEDULABLE:
            return verdict
        left = self._limit / 2 - self._waited
        if left < 0:
            message = f"{verdict.message}; it is tried without reading the checkpoint"
            return replace(verdict, actions=(Delete.pod(pod),), message=message)
        return replace(verdict, again_in=left + 1)


def _for_trial(seen: Observed, pod: Manifest) -> Manifest:
    """The pod under a name that can't be taken: an existing one would hide what is wrong.

    A ServiceAccount that is yet to be made for the topology can't be looked up.
    """
    meta = {**pod["metadata"], "name": names.for_dry_run(pod["metadata"]["name"])}
    spec = dict(pod["spec"])
    account = spec.get("serviceAccountName", "")
    own = [names.service_account(seen.name, who) for who in (contract.DRIVER, contract.WORKER)]
    if account in own and ("ServiceAccount", account) not in seen.children:
        del spec["serviceAccountName"]
    return {**pod, "metadata": meta, "spec": spec}


def _mistake(mistake: Mistake) -> str:
    place = f"{mistake.path}: " if mistake.path else ""
    return f"{place}{mistake.reason}. {mistake.cure}".strip()
