"""A person's wishes for a tap, and why they can't be met."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from fulmen.engine.acking.root_ids import root_of
from fulmen.engine.protocol.placed_topology import RESERVED, PlacedTopology
from fulmen.engine.taps.condition import ConditionError, conditions_of
from fulmen.engine.taps.sampler import fields_of
from fulmen.errors import FulmenError
from fulmen.topology.problems import did_you_mean, there_are
from fulmen.topology.resource.spec import BoltSpec
from fulmen.topology.resource.spec.tap import Tap

NEXT = "next"


class TapRefused(FulmenError):
    """A tap can't be opened.

    Attributes:
        reason: Why, and what to do about it.
        status: What HTTP calls it.
    """

    def __init__(self, reason: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(reason, status)
        self.reason, self.status = reason, status

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class WantedTap:
    """The tuples that somebody wants to see.

    Attributes:
        component: Whose tuples; "": those of all components, which takes a tree.
        stream: Of that stream alone; "": of all of them.
        where: What a tuple has to have: `FIELD=VALUE`, all of them.
        tree: Of that tree alone; "next": the one that begins next; "": of any.
        limit: The tap ends after so many; 0: it does not.
    """

    component: str = ""
    stream: str = ""
    where: tuple[str, ...] = ()
    tree: str = ""
    limit: int = 0


def root_wanted(wanted: WantedTap, placed: PlacedTopology, rules: Tap) -> int | None:
    """The root id that is wanted, if one is.

    Raises:
        TapRefused: There is nothing like what is wanted.
    """
    if not (wanted.component or wanted.tree):
        raise TapRefused("name a component whose tuples are to be shown, or a tree.")
    if wanted.tree and not placed.acking:
        raise TapRefused("the topology has no trees: it is transactional, or has no ackers.")
    streams = _streams(wanted, placed)
    if wanted.where:
        _check_conditions(wanted.where, streams, rules.mask)
    if wanted.tree == NEXT:
        _check_next(wanted, placed)
    if wanted.tree in ("", NEXT):
        return None
    root = root_of(wanted.tree)
    if root is None:
        raise TapRefused(
            f"{wanted.tree!r} is not a tree's id: ids look like 3-2591, as in a tuple's `trees`;"
            f" or write {NEXT}."
        )
    return root


def _check_next(wanted: WantedTap, placed: PlacedTopology) -> None:
    names = sorted(placed.spouts)
    if wanted.component and wanted.component not in names:
        raise TapRefused(
            f"the next tree can't be one of {wanted.component!r}: trees begin at spouts. There are:"
            f" {', '.join(names)}."
        )
    if wanted.stream:
        raise TapRefused("a tree is followed through all streams: leave the stream out.")


def _streams(wanted: WantedTap, placed: PlacedTopology) -> Sequence[tuple[str, ...]]:
    """The fields of each stream that is wanted."""
    names = sorted(placed.streams)
    if wanted.component and wanted.component not in names:
        raise _no_such("component", wanted.component, names)
    is_one = wanted.component and wanted.tree != NEXT
    components = [wanted.component] if is_one else names
    declared = {name: _streams_of(name, placed) for name in components}
    if wanted.stream:
        of = declared.get(wanted.component, {})
        if wanted.stream not in of:
            raise _no_such(f"stream of {wanted.component!r}", wanted.stream, of)
        return [of[wanted.stream]]
    fields = [some for of in declared.values() for some in of.values()]
    if is_one and not fields:
        raise TapRefused(
            f"{wanted.component!r} emits nothing: it declares no stream.{_instead(wanted, placed)}"
        )
    return fields


def _streams_of(component: str, placed: PlacedTopology) -> dict[str, tuple[str, ...]]:
    declared = placed.streams[component]
    names = [*declared, *(RESERVED if _begins_trees(component, placed) else ())]
    return {name: tuple(fields_of(declared, name)) for name in names}


def _begins_trees(component: str, placed: PlacedTopology) -> bool:
    """Whether it may have dead letters, or late tuples."""
    origins = {placed.plan.key_of(task) for task in placed.plan.tasks(component)}
    return bool(origins & placed.origins.keys()) or component in placed.event_times


def _instead(wanted: WantedTap, placed: PlacedTopology) -> str:
    spec = placed.component(wanted.component)
    if not isinstance(spec, BoltSpec):
        return ""
    names = ", ".join(f"{one.from_}:{one.stream}" for one in spec.inputs)
    return f" What it receives comes from {names}."


def _no_such(kind: str, name: str, names: Collection[str]) -> TapRefused:
    cure = did_you_mean(name, names) or there_are(names or ["none"])
    return TapRefused(f"there is no {kind} {name!r}. {cure}", HTTPStatus.NOT_FOUND)


def _check_conditions(
    texts: Sequence[str], streams: Sequence[tuple[str, ...]], mask: Sequence[str]
) -> None:
    try:
        conditions = conditions_of(texts)
    except ConditionError as error:
        raise TapRefused(str(error)) from None
    if hidden := {name for one in conditions for name in one.path} & set(mask):
        raise TapRefused(f"--where asks for {min(hidden)!r}, which `tap.mask` hides.")
    asked = {one.path[0] for one in conditions}
    if not any(asked <= set(fields) for fields in streams):
        known = {name: None for fields in streams for name in fields}
        if unknown := sorted(asked - known.keys()):
            raise _no_such("field", unknown[0], known)
        raise TapRefused("no stream has all fields that --where asks for.")
