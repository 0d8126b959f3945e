"""Where a component's keys belong, as its tasks have recorded it: for all who move or set keys."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from fulmen.api.components import Component, StatefulBolt
from fulmen.checkpoint import Manifest, Store, load_many
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.keyed.evidence import Evidence
from fulmen.engine.keyed.homes import HomeRule, KeyFields, Part
from fulmen.engine.state.journals import ENGINE, STATE
from fulmen.engine.state.key_finder import tasks_of
from fulmen.engine.tasks.parts.home_evidence import HOMES

Declared = tuple[Part | None, Part | None]
"""What a class says of the keys of its state, and of those of its timers."""
_NOTHING: Declared = None, None
SAY_HOW: Final = (
    " Have the class say how tasks divide it: def redistribute(cls, kept, tasks), see"
    " docs/guide/state.md"
)
OF_ALL_TUPLES: Final = (
    "a window without `key` is of all tuples of its task, and can't be divided. Windows of event"
    " time end in a run with --end-of-input, and those by arrival stay with their task. With a"
    " `key`, or the grouping global, windows go on in another number of tasks"
)
TIMERS_STAY: Final = (
    "timers are by task, as they are not set for what all inputs are grouped by, and redistribute"
    " can't divide them. Let them come before, or group the inputs by fields that their keys have"
)


class KnownHomes(NamedTuple):
    """What is known of the keys of a component.

    Attributes:
        fields: What is in the part of a key that is the grouping's; None: nothing is known.
        state: What shows which part that is, of the keys of `self.state`.
        timers: The same of those of its timers.
        declared: What the instances have said of that.
        is_recorded: Whether tasks have recorded anything.
    """

    fields: KeyFields | None
    state: Evidence
    timers: Evidence
    declared: Declared
    is_recorded: bool = True

    @staticmethod
    def of(engines: Iterable[Mapping[str, Any]]) -> KnownHomes:
        """Put together what tasks have in the engine's own state."""
        known = [one[HOMES] for one in engines if HOMES in one]
        fields = {KeyFields(*one[0]) for one in known if one[0] is not None}
        return KnownHomes(
            fields.pop() if len(fields) == 1 else None,
            Evidence.joined(Evidence.of_plain(one[1]) for one in known),
            Evidence.joined(Evidence.of_plain(one[2]) for one in known),
            next((one[3] for one in known), _NOTHING),
            bool(known),
        )

    @staticmethod
    def read(store: Store, manifest: Manifest, component: str) -> KnownHomes:
        """Read what the tasks of a component have recorded."""
        loaded = load_many(store, manifest, tasks_of(manifest, component), ENGINE.__eq__)
        return KnownHomes.of(map(engine_of, loaded.values()))

    def with_class(self, cls: type[Component], grouped_by: int) -> KnownHomes:
        """The same with what a class says, whose instances may not have run yet.

        Args:
            cls: The class.
            grouped_by: By how many fields its inputs are grouped; 0: by none.
        """
        said = (cls.state_part, cls.timer_part) if issubclass(cls, StatefulBolt) else _NOTHING
        fields = self.fields
        if not self.is_recorded and grouped_by:
            fields = KeyFields.all_of(grouped_by)
        declared = said[0] or self.declared[0], said[1] or self.declared[1]
        has_ttl = getattr(cls, "state_ttl", None) is not None and not self.timers.since
        timers = self.state if has_ttl else self.timers  # then all timers are those of `state_ttl`
        return KnownHomes(fields, self.state, timers, declared, self.is_recorded)

    def part(self, name: str) -> Part | None:
        """The part of the keys of a keyed state; None: it can't be told."""
        if name == STATE:
            return self.declared[0] or self.state.proven
        return self.declared[1] or self.timers.proven

    def rule(self, name: str) -> HomeRule | None:
        """The rule of a keyed state's keys; None: it can't be told."""
        part = self.part(name)
        if part is None or self.fields is None:
            return None
        return HomeRule(part, self.fields, None if name == STATE else self.part(STATE))

    def record(self) -> Any:
        """What a task of another number has of it in the engine's own state."""
        return self.fields, self.state.to_plain(), self.timers.to_plain(), self.declared


def engine_of(journals: Journals) -> dict[str, Any]:
    """The engine's own state of a task."""
    records = journals.get(ENGINE)
    engine: dict[str, Any] = pickle.loads(records[-1]) if records else {}
    return engine


def not_known(what: str, evidence: Evidence) -> str:
    """Why it is not known where keys belong, and the cure."""
    if not evidence.since:
        return (
            f"it is not known which keys of {what} belong together, as nothing was written since"
            " that is looked at. Let the topology run until each key was written, or declare"
            " state_part in the class"
        )
    broken = min(evidence.broken.values(), key=lambda one: one.number)
    return (
        f"{what} has the key {broken.key}, which commit {broken.number} has written without a tuple"
        " that is grouped by it, so no task can be told for it. Have keys be what the input is"
        f" grouped by, or begin with it (and keep totals in a bolt of their own).{SAY_HOW}"
    )
