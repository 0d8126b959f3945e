"""What each reason of a condition means, and what to do about it.

docs/conditions.md has the table: scripts/reason_table.py writes it. Texts are Markdown, with links
as in that page; `plain` makes them fit for a terminal.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

PAGE: Final = "conditions.md"
_LINK: Final = re.compile(r"\[([^]]*)\]\(([^)]*)\)")


@dataclass(frozen=True)
class Explanation:
    """What some reasons mean."""

    reasons: Sequence[str]
    of: Sequence[str]
    means: str
    cure: str = ""
    and_others: bool = False


EXPLANATIONS: Final = (
    Explanation(
        ("Active", "Inactive", "Suspended"),
        ("Ready",),
        "the topology is in the state that the spec asks for. The message says if a call has"
        " not ended for ten seconds, a spout is left out, or a batch is run again",
        "[troubleshooting](troubleshooting.md#batches-are-run-again)",
    ),
    Explanation(
        ("Pending",),
        ("Ready",),
        "the driver's pod waits for a node or an image",
        "wait; the message has Kubernetes' words. For `Insufficient` CPU or memory, add a node, or"
        " [request less](operations.md#what-a-topology-takes)",
    ),
    Explanation(
        ("Starting",),
        ("Ready",),
        "Spark starts, or the first batch is under way",
        "wait",
    ),
    Explanation(
        ("Rebalancing",),
        ("Ready",),
        "executors are placed anew",
        "wait",
    ),
    Explanation(
        ("Draining", "Suspending", "Replacing"),
        ("Ready",),
        "pending trees end, at most `messageTimeoutSeconds`",
        "wait",
    ),
    Explanation(
        ("DriverEnding",),
        ("Ready",),
        "the driver's pod was told to end, by an eviction or by somebody",
        "wait",
    ),
    Explanation(
        ("Unschedulable", "ImagePullBackOff"),
        ("Ready", "Placed", "SpecAccepted"),
        "a pod can't start, in Kubernetes' words. Ready and SpecAccepted get this reason after"
        " `startTimeoutSeconds`",
        "mend the cause; the pod still waits and will start. For `Insufficient` CPU or memory, add"
        " a node, or [request less](operations.md#what-a-topology-takes). A driver without any"
        " worker begins anew after `startTimeoutSeconds`, or half an hour if that is longer",
        and_others=True,
    ),
    Explanation(
        ("WaitsToStart",),
        ("Ready",),
        "as many drivers of its namespace are starting as may at once, see [many at"
        " once](operations.md#many-at-once)",
        "wait; it starts when another one is ready, has ended, or has been starting for five"
        " minutes",
    ),
    Explanation(
        ("WaitsForRoom",),
        ("Ready",),
        "no node has room for the workers, and none for those of an older topology: the driver"
        " has given its room back, see [little room](operations.md#little-room)",
        "wait, add a node, or request less",
    ),
    Explanation(
        ("StartTimeout",),
        ("Ready",),
        "no first batch within `startTimeoutSeconds`",
        "look at the driver's log",
    ),
    Explanation(
        ("Refused",),
        ("Ready", "Placed"),
        "the API server does not let the operator make something: a quota, an admission policy"
        " or webhook, or a right that the operator lacks",
        "the message says what; it is tried again",
    ),
    Explanation(
        ("BeingDeleted",),
        ("Stalled", "Ready", "SpecAccepted", "Placed"),
        "a claim that the topology has mounted, or another of its objects, is being deleted. What"
        " is on a claim is whole as long as a pod mounts it, and gone after that. Meanwhile a"
        " change of the spec replaces no driver",
        "[keep the claim's volume](moving.md#a-claim-that-is-being-deleted) before anything ends"
        " the driver",
    ),
    Explanation(
        ("ObjectInTheWay",),
        ("Ready", "Stalled", "Placed"),
        "somebody else's object has the name of an object that the topology needs. The operator"
        " leaves it as it is, and starts no driver",
        "the message names the objects, and has the command that shows them: delete them, give"
        " the topology another name, or annotate it with"
        " [`fulmen.dev/adopt`](crd.md#annotations), if they are what an earlier topology of its"
        " name has left; the operator looks again every 30 s. Delete no claim that may have a"
        " checkpoint: the message says which labels make it the topology's again",
    ),
    Explanation(
        ("EarlierTopologyEnds",),
        ("Ready", "Placed"),
        "objects of a deleted topology of the same name are still there: its driver may be"
        " draining",
        "wait",
    ),
    Explanation(
        ("Error",),
        ("Ready",),
        "the driver ended with an error, and will be started anew",
        "read `kubectl logs` of the failed driver's pod, which stays",
    ),
    Explanation(
        ("ProbeFailed",),
        ("Ready",),
        "the driver did not answer for `startTimeoutSeconds`, at its start or later, so its node"
        " ended it: it had no processor, or hangs",
        "raise `driver.resources.requests.cpu`, have fewer drivers start at once, or raise"
        " `startTimeoutSeconds`. The next driver begins after a pause that grows",
    ),
    Explanation(
        ("OOMKilled",),
        ("Ready",),
        "the driver's memory was not enough",
        "raise `driver.resources.limits.memory`",
    ),
    Explanation(
        ("Fenced",),
        ("Ready",),
        "a newer driver had taken the checkpoint",
        "nothing, unless two clusters share a checkpoint",
    ),
    Explanation(
        ("CheckpointUnreachable",),
        ("Ready",),
        "the store does not answer, is full, or denies what it allowed before; the message says"
        " since when. A running driver waits for half an hour; then another driver is started",
        "mend the store; the driver tries again. Pods read Secrets when they start: after a change"
        " of one, change `spec.restartNonce`",
    ),
    Explanation(
        ("ServiceUnavailable",),
        ("Ready",),
        "a service that a component needs does not answer for five seconds or longer; the"
        " message says which service, which component, and since when. Batches wait; nothing is"
        " lost",
        "mend the service; the driver tries again for ever. If it refuses a password, change the"
        " Secret and then `spec.restartNonce`: pods read Secrets when they start",
    ),
    Explanation(
        ("CheckpointLost",),
        ("Ready", "Stalled"),
        "the store is empty, but batches were committed",
        "restore the checkpoint; or annotate the topology with"
        ' `fulmen.dev/accept-checkpoint-loss: "true"` to begin with nothing, and remove the'
        " annotation afterwards",
    ),
    Explanation(
        ("CheckpointMismatch",),
        ("Ready", "Stalled"),
        "the checkpoint is another topology's, or a component has another number of tasks"
        " there, or is [another kind of source](transactions.md#another-source); nothing was"
        " written to it",
        "name another checkpoint, change `numTasks` back, or give the component another name",
    ),
    Explanation(
        ("CheckpointUnusable",),
        ("Ready",),
        "parts of the checkpoint are missing or damaged, a newer Fulmen wrote it, or it can't"
        " be used as it is given (a folder that could never be written); the message says what",
        "restore what is missing, or give the right; the driver tries again",
    ),
    Explanation(
        ("InvalidSpec",),
        ("SpecAccepted", "Stalled", "Ready"),
        "there are mistakes in the spec or the code, or other numbers of tasks than the"
        " checkpoint has; the message lists them all",
        "mend them and apply again",
    ),
    Explanation(
        ("RolledBack",),
        ("SpecAccepted", "Stalled"),
        "the new version passed its checks, but made no commit. The last version that worked is"
        " back, see [a version that does not work](#a-version-that-does-not-work)",
        "the message says why; mend it and apply again. To try the same version once more,"
        " change `spec.restartNonce`",
    ),
    Explanation(
        ("CodeNotFound", "CodeTooBig"),
        ("SpecAccepted", "Stalled"),
        "the ConfigMap of `code.configMap` is missing, empty or too big, or one of"
        " `code.configMaps` is missing or another archive's",
        "make or shorten it, or apply all that `fulmen manifest` printed; the operator looks for it"
        " every 30 s",
    ),
    Explanation(
        ("PodRefused",),
        ("SpecAccepted", "Stalled"),
        "the API server would refuse the new pods; what runs is left alone",
        "mend the spec",
    ),
    Explanation(
        ("PreflightFailed", "PreflightTimeout"),
        ("SpecAccepted", "Stalled"),
        "the pod that validates the new image and code failed, or has not ended within"
        " `startTimeoutSeconds` after it was first to be made, as a quota may refuse it",
        "the message says what the API server refuses; else look at the pod `NAME-preflight-…`",
    ),
    Explanation(
        ("Checking",),
        ("SpecAccepted", "Reconciling"),
        "the change is validated; what runs is left alone",
        "wait",
    ),
    Explanation(
        ("Applying",),
        ("Reconciling",),
        "the driver applies the change",
        "wait",
    ),
    Explanation(
        ("Accepted", "AcceptedWithWarnings"),
        ("SpecAccepted",),
        "the newest spec is running",
        "read the warnings",
    ),
    Explanation(
        ("Paused",),
        ("Reconciling",),
        "the annotation `fulmen.dev/paused` is set",
        "remove the annotation",
    ),
    Explanation(
        ("AsPlanned",),
        ("Placed",),
        "every worker hosts what it should",
    ),
    Explanation(
        ("WorkerRefused",),
        ("Placed", "Ready"),
        "the API server refuses a further worker: a quota, a webhook, a limit range; the"
        " message has its words",
        "make room, or mend what refuses the worker; then workers start by themselves",
    ),
    Explanation(
        ("WorkerFailed",),
        ("Placed", "Ready"),
        "a worker's pod has ended, and none runs in its place yet: the message has the container,"
        " its exit code and its last words. Those that end again and again before Spark knows them"
        " are begun anew later and later: after 5 s, up to five minutes",
        "mend what the message says. What is part of the image or of the spec needs a change of the"
        " spec; an archive of `code.uri` that was overwritten, its old content back",
    ),
    Explanation(
        ("VolumesNotMounted",),
        ("Placed", "Ready", "SpecAccepted"),
        "a pod has a node, but not its volumes after ten seconds: a Secret or ConfigMap of"
        " `podTemplate` is missing, or a claim can't be attached. The message names the volumes"
        " that the pod needs; only the pod's events, which the operator may not read, say which"
        " of them is missing. Ready and SpecAccepted get this reason after"
        " `startTimeoutSeconds`",
        "make it; the pod still waits and will start",
    ),
    Explanation(
        ("WorkersMissing",),
        ("Placed",),
        "there are fewer workers than asked for; the others do their work",
        "see why their pods are not ready",
    ),
    Explanation(
        ("Moving",),
        ("Placed",),
        "executors are not where they should be yet",
        "wait",
    ),
    Explanation(
        ("NotAccepted",),
        ("Placed",),
        "no spec was ever accepted",
        "see `SpecAccepted`",
    ),
    Explanation(
        ("AsExpected",),
        ("Reconciling", "Stalled"),
        "the condition is false: nothing is under way, or nothing is stalled",
    ),
)
"""The rows of the table."""


def explanation_of(reason: str) -> Explanation | None:
    """What a reason means; None: it is not in the table, such as another one of Kubernetes'."""
    return next((row for row in EXPLANATIONS if reason in row.reasons), None)


def plain(markdown: str) -> str:
    """A text without the marks of Markdown; of a link, its words and the page that it leads to."""

    def shown(link: re.Match[str]) -> str:
        words, target = link.groups()
        page, hash_, anchor = target.partition("#")
        return f"{words} (docs/{page or PAGE}{hash_}{anchor})"

    return _LINK.sub(shown, markdown)
