"""What a change of the spec does to a running topology, field by field."""

import hashlib
import json
from enum import StrEnum
from typing import Any, Final

from fulmen.topology.resource.spec import Topology


class Effect(StrEnum):
    """What a change of a field does.

    LIVE: the driver or the operator takes it over while everything runs. What the driver takes over
    it does between two batches: instances are closed, and opened anew from what is committed.
    REBALANCE: spouts stop, pending trees end or time out, the executors are placed anew, spouts go
    on. REPLACE: the driver drains and ends, a new one starts with new pods. IMMUTABLE: it can't be
    changed.
    """

    LIVE = "Live"
    REBALANCE = "Rebalance"
    REPLACE = "Replace"
    IMMUTABLE = "Immutable"


_LIVE: Final = Effect.LIVE
_REBALANCE: Final = Effect.REBALANCE
_REPLACE: Final = Effect.REPLACE

_COMPONENT: Final = {
    "name": _REPLACE,
    "class": _REPLACE,
    "parallelism": _REBALANCE,
    "numTasks": Effect.IMMUTABLE,
    "config": _LIVE,
    "tickSeconds": _LIVE,
    "eventTime.field": _LIVE,
    "eventTime.stream": _LIVE,
    "eventTime.lag": _LIVE,
    "eventTime.idleTimeout": _LIVE,
    "eventTime.maxAhead": _LIVE,
    "eventTime.unit": _LIVE,
    "eventTime.timezone": _LIVE,
    "instance": _REPLACE,
}
_ENV: Final = {
    "env[].name": _REPLACE,
    "env[].value": _REPLACE,
    "env[].valueFrom": _REPLACE,
}
_POD: Final = {
    "image": _REPLACE,
    "imagePullPolicy": _REPLACE,
    "imagePullSecrets[].name": _REPLACE,
    "resources.limits": _REPLACE,
    "resources.requests": _REPLACE,
    **_ENV,
    "serviceAccountName": _REPLACE,
    "podTemplate": _REPLACE,
}

EFFECTS: Final[dict[str, Effect]] = {
    "workers": _REBALANCE,
    "slots": _REPLACE,
    "deployment": _REPLACE,
    "ackers": _REBALANCE,
    "messageTimeoutSeconds": _LIVE,
    "maxSpoutPending": _LIVE,
    "maxReplays": _LIVE,
    "onError": _LIVE,
    "batchTargetMillis": _LIVE,
    "batchTimeoutSeconds": _LIVE,
    "state": _LIVE,
    "config": _LIVE,
    **_ENV,
    "code.files": _REPLACE,
    "code.folder": _REPLACE,
    "code.configMap": _REPLACE,
    **{f"spouts[].{name}": effect for name, effect in _COMPONENT.items()},
    **{f"bolts[].{name}": effect for name, effect in _COMPONENT.items()},
    **{f"transactional.{name}": effect for name, effect in _COMPONENT.items()},
    "bolts[].blocking": _REPLACE,
    "bolts[].committer": _REPLACE,
    "bolts[].trackResults": _REPLACE,
    "bolts[].inputs[].from": _REPLACE,
    "bolts[].inputs[].stream": _REPLACE,
    "bolts[].inputs[].grouping.type": _REPLACE,
    "bolts[].inputs[].grouping.fields": _REPLACE,
    "bolts[].inputs[].grouping.class": _REPLACE,
    "bolts[].inputs[].grouping.config": _REPLACE,
    "checkpoint.uri": _REPLACE,
    "checkpoint.persistentVolumeClaim": _REPLACE,
    "checkpoint.deletionPolicy": _LIVE,
    **{f"driver.{name}": effect for name, effect in _POD.items()},
    **{f"worker.{name}": effect for name, effect in _POD.items()},
    "spark.conf": _REPLACE,
    "restartNonce": _REPLACE,
    "startTimeoutSeconds": _LIVE,
    "preflight": _LIVE,
    "networkPolicy": _LIVE,
}
"""Every field of the spec, by its place in it."""


def digest(content: Any) -> str:
    """A short, stable digest of JSON values."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def input_hash(topology: Topology, code: str) -> str:
    """A digest of what a driver can't take over while it runs: a new one means a new driver.

    It is of what the user wrote, and of the code, and never of what the operator makes of it, so
    that a new version of the operator restarts nothing. Defaults are left out for the same reason:
    a new field does not change the hash.

    Args:
        topology: As accepted, with its numbers of tasks as the user wrote them.
        code: The digest of the code that it runs.
    """
    given = topology.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    given.pop("code", None)
    return digest({"spec": _replacing(given, ""), "code": code})


def _replacing(value: Any, place: str) -> Any:
    """What of a value matters to a running driver: the fields whose change replaces it."""
    if place in EFFECTS:
        return value
    if isinstance(value, list):
        return [_replacing(item, f"{place}[]") for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, inner in value.items():
        where = f"{place}.{name}" if place else name
        if EFFECTS.get(where, _REPLACE) is not _REPLACE:
            continue
        matters = _replacing(inner, where)
        if matters or where in EFFECTS:
            kept[name] = matters
    return kept
