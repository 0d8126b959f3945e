"""Findings from a topology's status and events. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from fulmen.cli.cluster.kubectl import Json
from fulmen.cli.cluster.topology import condition, is_paused, state_of
from fulmen.cli.display.formats import whole_age
from fulmen.cli.display.topologies import scaling_sentence
from fulmen.cli.display.why.explanations import explanation_of, plain
from fulmen.cli.display.why.finding import Finding, cure_of, sentence
from fulmen.kube.contract import PAUSED_ANNOTATION, RUNNING
from fulmen.topology.resource.spec.autoscale import LIMITED

EVENTS_SHOWN = 5
SAME_WORDS = 100
"""So many characters of two messages, whose ends may be cut off, say that they are one."""
_OF_EACH_START = ("Startup probe failed", "Readiness probe failed")
"""What events of each pod that starts or ends begin with. Conditions say whether it is ready."""
RECENT_SECONDS = 3600.0
"""Events and restarts that are older are not told."""
_OPERATOR = "kubectl --namespace fulmen rollout status deployment/fulmen-operator"
_TROUBLE = {
    "SpecAccepted": ("False", "Unknown"),
    "Ready": ("False", "Unknown"),
    "Placed": ("False", "Unknown"),
    "Stalled": ("True",),
    "Reconciling": ("True",),
}
"""Each condition, and which statuses of it are told; what explains the others comes first."""


def condition_findings(topology: Json, now: float) -> Iterator[Finding]:
    """Findings from its conditions, and from how its drivers ended."""
    status = topology.get("status", {})
    if is_paused(topology):
        text = f"the annotation {PAUSED_ANNOTATION} is set: the operator changes nothing of it"
        yield Finding(text, cure_of("Paused"))
    if status.get("observedGeneration", 0) < topology["metadata"]["generation"]:
        text = "the operator has not looked at the newest spec yet"
        yield Finding(text, f"Wait. If that lasts, see whether the operator runs: {_OPERATOR}")
    told = {reason} if (reason := _told_by_placed(topology)) else set()
    for kind, bad in _TROUBLE.items():
        found = condition(topology, kind)
        reason, message = found.get("reason", ""), found.get("message", "")
        is_told = found.get("status") in bad or (message and reason == "AcceptedWithWarnings")
        if is_told and reason not in told:
            told.add(reason)
            yield Finding(_condition_text(kind, found), cure_of(reason))
    ready = condition(topology, "Ready")
    if ready.get("status") == "True" and ready.get("message", "") not in ("", RUNNING):
        yield Finding(f"it is {state_of(topology)}: {ready['message']}", cure_of(ready["reason"]))
    yield from _restarts(status.get("restarts", {}), now)


def _told_by_placed(topology: Json) -> str:
    """The reason of a start that only waits for what Placed names, with what to do about it."""
    ready, placed = (condition(topology, kind) for kind in ("Ready", "Placed"))
    words, reason = ready.get("message", ""), ready.get("reason", "")
    is_same = words != "" and words[:SAME_WORDS] in placed.get("message", "")
    return reason if is_same and placed.get("reason") != reason else ""


def _condition_text(kind: str, found: Json) -> str:
    reason, message = found.get("reason", ""), found.get("message", "")
    known = explanation_of(reason)
    parts = [f"{kind} is {found['status']}, {reason}"]
    parts += [plain(known.means)] if known is not None else []
    text = ": ".join(parts)
    return f"{text}. {message}" if message else text


def _restarts(restarts: Json, now: float) -> Iterator[Finding]:
    count, failures = restarts.get("count", 0), restarts.get("failures", 0)
    at = restarts.get("time")
    is_recent = at is not None and at != "" and _seconds_since(at, now) < RECENT_SECONDS
    if not count or not (failures or is_recent):
        return
    times = "once" if count == 1 else f"{count} times"
    row = f", {failures} of them in a row" if failures > 1 else ""
    cause, message = restarts.get("cause", ""), restarts.get("message", "")
    when = f" at {at}" if at else ""
    text = f"its driver was started again {times}{row}. The last one ended{when}: {cause}"
    yield Finding(f"{text}: {message}" if message else text, cure_of(cause))


def scaling_findings(topology: Json) -> Iterator[Finding]:
    """Why there are no more workers, if they are chosen by the load and the load is too high."""
    scaling = topology.get("status", {}).get("autoscale", {})
    cure = LIMITED.get(scaling.get("reason"))
    if cure is not None:
        yield Finding(f"it has {scaling['workers']} workers: {scaling['message']}", sentence(cure))


def scaling_now(topology: Json) -> Iterator[Finding]:
    """Say how many workers were chosen by the load, and why, if that is nothing to be mended."""
    reason = topology.get("status", {}).get("autoscale", {}).get("reason")
    if reason is not None and reason not in LIMITED:
        yield Finding(scaling_sentence(topology))


def error_findings(topology: Json) -> Iterator[Finding]:
    """The last errors of components, as the status has them."""
    for error in topology.get("status", {}).get("errors", ()):
        times = f", {error['count']:,} times" if error.get("count", 1) > 1 else ""
        text = f"{error['component']}, task {error['task']}: {error['message']}"
        yield Finding(f"{text} (last at {error['time']}{times})")


def event_findings(
    events: Iterable[Json], now: float, told: Iterable[Finding] = ()
) -> list[Finding]:
    """The warnings of the last hour, the newest first, each once, but for what is told already."""
    texts = " ".join(finding.text for finding in told)
    warnings = [
        event
        for event in events
        if event.get("type") == "Warning" and _is_news(event.get("message", ""), texts)
    ]
    found: dict[tuple[str, str], Finding] = {}
    for event in sorted(warnings, key=_time_of, reverse=True):
        seconds = _seconds_since(_time_of(event), now)
        reason, message = event.get("reason", ""), " ".join(event.get("message", "").split())
        if seconds < RECENT_SECONDS and (reason, message) not in found:
            about = event.get("involvedObject", {})
            who = f" of {about['kind'].lower()} {about['name']}" if about.get("name") else ""
            count = (event.get("series") or {}).get("count") or event.get("count") or 1
            times = f" ({count} times)" if count > 1 else ""
            text = f"{whole_age(seconds)} ago, {reason}{who}: {message}{times}"
            found[reason, message] = Finding(text, cure_of(reason))
    return [*found.values()][:EVENTS_SHOWN]


def _is_news(message: str, told: str) -> bool:
    return message not in told and not message.startswith(_OF_EACH_START)


def _time_of(event: Json) -> str:
    """The time at which an event came last. Times of one kind of event compare as texts."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    made: str = event.get("metadata", {}).get("creationTimestamp", "1970-01-01T00:00:00Z")
    return next((time for time in times if time), made)


def _seconds_since(time: str, now: float) -> float:
    return max(0.0, now - datetime.fromisoformat(time).timestamp())


def is_about(event: Json, topology: str, pods: Sequence[str]) -> bool:
    """Whether an event is about a pod of a topology, also one that is gone."""
    name = event.get("involvedObject", {}).get("name", "")
    own = rf"{re.escape(topology)}-(driver-\d+|\d+-exec-\d+|preflight-[0-9a-f]+)"
    return name in pods or re.fullmatch(own, name) is not None
