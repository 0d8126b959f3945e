"""The effects of changes of the spec on a running topology, field by field."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from fulmen.topology.resource.quantity import amount
from fulmen.topology.resource.spec import Topology


class Effect(StrEnum):
    """The effect of a change of a field.

    LIVE: the driver or the operator applies it while everything runs; the driver does so between
    two batches: instances are closed, and opened anew from what is committed. REBALANCE: spouts
    stop, pending trees end or time out, the executors are placed anew, spouts go on. REPLACE: the
    driver drains and ends, a new one starts with new pods.
    """

    LIVE = "Live"
    REBALANCE = "Rebalance"
    REPLACE = "Replace"


MEANINGS: Final[dict[Effect, str]] = {
    Effect.LIVE: "The running driver or the operator applies the change; spouts continue, and trees"
    " stay pending. If the change concerns spouts or bolts, the driver applies it between two"
    " batches: it closes the instances, and opens new ones with the committed state.",
    Effect.REBALANCE: "Spouts stop, pending trees end or time out, executors are placed anew,"
    " spouts continue. Pods that stay keep running.",
    Effect.REPLACE: "First, a dry run and a preflight pod validate the new image and code. If they"
    " fail, `SpecAccepted` is `False`, and the running topology is left alone. Otherwise the driver"
    " drains and ends, and a new one starts with new pods. State is kept.",
}
"""The meaning of each effect, in the words of docs/crd.md; the strongest one last."""

_LIVE: Final = Effect.LIVE
_REBALANCE: Final = Effect.REBALANCE
_REPLACE: Final = Effect.REPLACE

_COMPONENT: Final = {
    "name": _REPLACE,
    "class": _REPLACE,
    "parallelism": _REBALANCE,
    "numTasks": _REBALANCE,
    "config": _LIVE,
    "tickSeconds": _LIVE,
    "eventTime.field": _LIVE,
    "eventTime.stream": _LIVE,
    "eventTime.streams": _LIVE,
    "eventTime.lag": _LIVE,
    "eventTime.idleTimeout": _LIVE,
    "eventTime.advance": _LIVE,
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
    "autoscale.minWorkers": _LIVE,
    "autoscale.maxWorkers": _LIVE,
    "autoscale.targetCapacity": _LIVE,
    "autoscale.maxLag": _LIVE,
    "autoscale.upAfter": _LIVE,
    "autoscale.downAfter": _LIVE,
    "autoscale.schedule[].days": _LIVE,
    "autoscale.schedule[].start": _LIVE,
    "autoscale.schedule[].end": _LIVE,
    "autoscale.schedule[].timezone": _LIVE,
    "autoscale.schedule[].minWorkers": _LIVE,
    "slots": _REPLACE,
    "deployment": _REPLACE,
    "ackers": _REBALANCE,
    "messageTimeoutSeconds": _LIVE,
    "maxSpoutPending": _LIVE,
    "maxReplays": _LIVE,
    "onError": _LIVE,
    "batchTargetMillis": _LIVE,
    "batchIntervalMillis": _LIVE,
    "batchTimeoutSeconds": _LIVE,
    "keyedState.backend": _REPLACE,
    "keyedState.diskLimit": _REPLACE,
    "savepoints.every": _LIVE,
    "savepoints.keep": _LIVE,
    "restoreFrom.savepoint": _REPLACE,
    "state": _LIVE,
    "config": _LIVE,
    **_ENV,
    "code.files": _REPLACE,
    "code.folder": _REPLACE,
    "code.configMap": _REPLACE,
    "code.configMaps": _REPLACE,
    "code.uri": _REPLACE,
    "code.sha256": _REPLACE,
    **{f"spouts[].{name}": effect for name, effect in _COMPONENT.items()},
    **{f"bolts[].{name}": effect for name, effect in _COMPONENT.items()},
    **{f"transactional[].{name}": effect for name, effect in _COMPONENT.items()},
    "bolts[].blocking": _REPLACE,
    "bolts[].committer": _REPLACE,
    "bolts[].keyedState.backend": _REPLACE,
    "bolts[].trackResults": _REPLACE,
    "bolts[].inputs[].from": _REPLACE,
    "bolts[].inputs[].stream": _REPLACE,
    "bolts[].inputs[].where": _REPLACE,
    "bolts[].inputs[].select": _REPLACE,
    "bolts[].inputs[].through.class": _REPLACE,
    "bolts[].inputs[].through.config": _REPLACE,
    "bolts[].inputs[].through.fields": _REPLACE,
    "bolts[].inputs[].through.types": _REPLACE,
    "bolts[].inputs[].grouping.type": _REPLACE,
    "bolts[].inputs[].grouping.fields": _REPLACE,
    "bolts[].inputs[].grouping.class": _REPLACE,
    "bolts[].inputs[].grouping.config": _REPLACE,
    "checkpoint.uri": _REPLACE,
    "checkpoint.persistentVolumeClaim": _REPLACE,
    "checkpoint.takeOver": _REPLACE,
    "checkpoint.deletionPolicy": _LIVE,
    "renames": _REPLACE,
    "forgetRemovedAfter": _LIVE,
    "stateClasses": _REPLACE,
    **{f"driver.{name}": effect for name, effect in _POD.items()},
    **{f"worker.{name}": effect for name, effect in _POD.items()},
    "spark.conf": _REPLACE,
    "deadLetters.keep": _LIVE,
    "deadLetters.maxBytes": _LIVE,
    "tap.allowed": _LIVE,
    "tap.mask": _LIVE,
    "restartNonce": _REPLACE,
    "startTimeoutSeconds": _LIVE,
    "preflight": _LIVE,
    "networkPolicy": _LIVE,
    "service.ports": _LIVE,
    "service.state.port": _REPLACE,
    "service.state.token.name": _REPLACE,
    "service.state.token.key": _REPLACE,
    "service.from[].podSelector.matchLabels": _LIVE,
    "service.from[].namespaceSelector.matchLabels": _LIVE,
    "service.from[].ipBlock.cidr": _LIVE,
}
"""The effect of every field of the spec, by its place."""


def digest(content: Any) -> str:
    """A short, stable digest of JSON values."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def input_hash(topology: Topology, code: str) -> str:
    """A digest of the fields whose change requires a new driver.

    It is of the user's own text and of the code, never of what the operator makes of them, so that
    a new version of the operator restarts nothing. Defaults are left out for the same reason: a new
    field does not change the hash.

    Args:
        topology: As accepted, with its numbers of tasks as the user wrote them.
        code: The digest of the code that it runs.
    """
    given = topology.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    given.pop("code", None)
    return digest({"spec": _with_amounts(_replacing(given, "")), "code": code})


def _with_amounts(value: Any) -> Any:
    """Replace quantities by their amounts: `10m` and `0.01` of a processor ask for no new pod."""
    if isinstance(value, list):
        return [_with_amounts(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: {what: _meant(quantity) for what, quantity in inner.items()}
        if name in ("limits", "requests") and isinstance(inner, dict)
        else _with_amounts(inner)
        for name, inner in value.items()
    }


def _meant(quantity: Any) -> Any:
    found = amount(str(quantity))
    return quantity if found is None else str(found.normalize())


def _replacing(value: Any, place: str) -> Any:
    """The fields of a value whose change replaces a running driver."""
    if place in EFFECTS:
        return value
    if isinstance(value, list):
        entries = [_replacing(item, f"{place}[]") for item in value]
        return entries if any(entries) else []
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


@dataclass(frozen=True)
class Change:
    """A field, or an entry of a list, that is another one in another spec.

    Attributes:
        path: Where it is, such as `spec.bolts[count].parallelism`.
        effect: What the change does.
        before: Its value; None: it has none, or the default.
        after: The same of the other spec.
    """

    path: str
    effect: Effect
    before: Any
    after: Any


def spec_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """The differences between two specs, and the effect of each.

    Args:
        before: A spec as plain values, without defaults.
        after: The other one.
    """
    return list(_changes("", "spec", before, after))


def strongest(changes: Sequence[Change]) -> Effect | None:
    """The effect of all changes together; None: there are none."""
    order = list(MEANINGS)
    return max((change.effect for change in changes), key=order.index, default=None)


def _changes(place: str, path: str, before: Any, after: Any) -> Iterator[Change]:
    """The changes at a place of the spec, and of all that is below it."""
    if before == after:
        return
    if place in EFFECTS:
        yield Change(path, EFFECTS[place], before, after)
    elif _are(list, before, after):
        yield from _list_changes(f"{place}[]", path, before or [], after or [])
    elif _are(dict, before, after):
        before, after = before or {}, after or {}
        for name in dict.fromkeys((*before, *after)):
            where = f"{place}.{name}" if place else name
            yield from _changes(where, f"{path}.{name}", before.get(name), after.get(name))
    else:  # a field of another version
        yield Change(path, _REPLACE, before, after)


def _are(kind: type, *values: Any) -> bool:
    """Whether all values that are not None are of a type."""
    return all(value is None or isinstance(value, kind) for value in values)


def _list_changes(place: str, path: str, before: list[Any], after: list[Any]) -> Iterator[Change]:
    """The changes of a list: entry by entry, by their names if they have some."""
    names: list[Sequence[int | str] | None] = [_names(before), _names(after)]
    if None in names:
        names = [range(len(before)), range(len(after))]
    old, new = (
        dict(zip(own or (), entries, strict=True))
        for own, entries in zip(names, (before, after), strict=True)
    )
    for name in dict.fromkeys((*old, *new)):
        where = f"{path}[{name}]"
        if name in old and name in new:
            yield from _changes(place, where, old[name], new[name])
        else:
            yield Change(where, _of_entries(place), old.get(name), new.get(name))
    if [name for name in old if name in new] != [name for name in new if name in old]:
        yield Change(path, _REPLACE, [*old], [*new])


def _of_entries(place: str) -> Effect:
    """The effect of adding or removing an entry of a list: live if all its fields are."""
    fields = {effect for name, effect in EFFECTS.items() if name.startswith(f"{place}.")}
    return _LIVE if fields == {_LIVE} else _REPLACE


def _names(entries: list[Any]) -> list[str] | None:
    """The names of the entries of a list; None if not each has one of its own."""
    names = [str(entry.get("name", "")) for entry in entries if isinstance(entry, dict)]
    return names if len({*names, ""}) == len(entries) + 1 else None
