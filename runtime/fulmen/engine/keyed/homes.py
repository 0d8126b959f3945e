"""Which task an entry of keyed state belongs to: that which a fields grouping sends its key. Pure.

State does not say what its keys mean, so a rule does: which part of an entry's key are the values
that the input is grouped by. The rule of entries that were moved is in the names of their journals,
so that whoever reads a part of a journal finds there whose keys are in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np

from fulmen.engine.keyed.hashing.column_hash import column_hash
from fulmen.engine.keyed.hashing.positions import Positions, positions

Part = Literal["whole", "first", "second", "inner", "rows", "every", "place"]
"""The part of a key that is the grouping's: all of it, what it begins with, what is second, or the
values in the tuple that is second. "rows": as "inner", where a tuple is second; other entries are
of many keys, and have a list of rows, each with the values of its own key in the tuple that is
second. "every": all entries are of all keys. "place": the second is the position itself."""
PARTS: Final[tuple[Part, ...]] = get_args(Part)
PROVABLE: Final = PARTS[:3]
"""Those that are looked for; the others are for classes that say so."""
OF_MANY: Final = ("rows", "every")
"""Those with entries of many keys: see `entries_of_many`."""
TTL: Final = "__state_ttl"
"""Begins the keys of the timers of `state_ttl`, before that of the entry."""
ALL: Final = 1 << 32
"""The number of positions."""


class KeyFields(NamedTuple):
    """The values in a part of a key, and which of them the input is grouped by.

    Attributes:
        width: How many there are; one stands for itself, several are a tuple.
        at: The places of those that the input is grouped by, in its order.
    """

    width: int
    at: tuple[int, ...]

    @staticmethod
    def all_of(width: int) -> KeyFields:
        """All of so many, in their order."""
        return KeyFields(width, tuple(range(width)))


def part_of(part: Part, key: Any, fields: int) -> Any:
    """The values that a key of keyed state has of the grouping: one, or a tuple of so many.

    Raises:
        LookupError: The key has no such part.
    """
    if part == "whole":
        if fields > 1 and not (type(key) is tuple and len(key) == fields):
            raise LookupError
        return key
    if not isinstance(key, tuple):
        raise LookupError
    if part == "second":
        return part_of("whole", key[1], fields)
    if part in ("inner", "rows"):
        return part_of("first", key[1], fields)
    if part == "every":
        raise LookupError
    if fields == 1:
        return key[0]
    if len(key) < fields:
        raise LookupError
    return key[:fields]


def task_range(task: int, tasks: int) -> tuple[int, int]:
    """The positions of a task: from the first to before the second. See `positions.task_index`."""
    return -(-task * ALL // tasks), -(-(task + 1) * ALL // tasks)


@dataclass(frozen=True)
class HomeRule:
    """Where the entries of a task's keyed state, or its timers, belong.

    Attributes:
        part: The part of a key that is the grouping's.
        fields: What is in that part.
        of_state: Of timers: the part for keys of `self.state`, which those of `state_ttl` have.
    """

    part: Part
    fields: KeyFields
    of_state: Part | None = None

    @property
    def has_many(self) -> bool:
        """Whether some entries may be of many keys."""
        return self.part in OF_MANY or self.of_state in OF_MANY

    def is_of_many(self, key: Any) -> bool:
        """Whether an entry is of many keys."""
        part = self.part
        if self.of_state is not None and is_of_ttl(key):
            part, key = self.of_state, key[1]
        if part == "rows":
            return not (type(key) is tuple and len(key) > 1 and type(key[1]) is tuple)
        return part == "every"

    def positions(self, keys: Sequence[Any]) -> Positions:
        """The position of each key, none of which is of many.

        Raises:
            LookupError: A key has no such part.
            GroupingError: Of a value there is no hash.
        """
        if self.part == "place":
            return np.array([place for _, place in keys], np.uint32)
        return self._positions(self._all_values(keys))

    def _all_values(self, keys: Sequence[Any]) -> Sequence[Any]:
        """What `_values` gives for each of them."""
        if self.of_state is None and self.fields.width == 1:  # as most: a sixth of the time
            if self.part == "whole":
                return keys
            if self.part == "first" and set(map(type, keys)) == {tuple}:
                return list(map(itemgetter(0), keys))
        return [self._values(key) for key in keys]

    def positions_of_rows(self, rows: Sequence[Any]) -> Positions:
        """The position of each row that an entry of many keys has."""
        return self._positions([part_of("first", row[1], self.fields.width) for row in rows])

    def _positions(self, values: Sequence[Any]) -> Positions:
        if not values:
            return np.empty(0, np.uint32)
        if self.fields.width == 1:
            return positions([column_hash(values)])
        columns = [list(map(itemgetter(i), values)) for i in self.fields.at]
        return positions([column_hash(column) for column in columns])

    def _values(self, key: Any) -> Any:
        if self.of_state is not None and is_of_ttl(key):
            return part_of(self.of_state, key[1], self.fields.width)
        return part_of(self.part, key, self.fields.width)

    def __str__(self) -> str:
        parts = self.part if self.of_state is None else f"{self.part}+{self.of_state}"
        return f"{parts}-{self.fields.width}-{'_'.join(map(str, self.fields.at))}"

    @staticmethod
    def read(text: str) -> HomeRule:
        """Read what `str` gave."""
        parts, width, at = text.split("-")
        part, _, of_state = parts.partition("+")
        fields = KeyFields(int(width), tuple(map(int, at.split("_"))))
        return HomeRule(_part(part), fields, _part(of_state) if of_state else None)


def _part(text: str) -> Part:
    [part] = [one for one in PARTS if one == text]
    return part


def is_of_ttl(key: Any) -> bool:
    """Whether a timer is one of `state_ttl`."""
    return type(key) is tuple and len(key) == 2 and key[0] == TTL


BY_PLACE: Final = HomeRule("place", KeyFields.all_of(1))
"""Of keys that are pairs with the position."""


@dataclass(frozen=True)
class Share:
    """The part of a journal that a task has: the keys of some positions.

    Attributes:
        rule: What gives a key its position.
        lo: The first position.
        hi: The position behind the last one.
    """

    rule: HomeRule
    lo: int
    hi: int

    def own(self, keys: Sequence[Any]) -> list[Any]:
        """The keys that are in it; those of many are in each."""
        many = list(filter(self.rule.is_of_many, keys)) if self.rule.has_many else []
        if many:
            keys = [key for key in keys if not self.rule.is_of_many(key)]
        return many + list(compress(keys, self._has(self.rule.positions(keys))))

    def own_rows(self, rows: Sequence[Any]) -> list[Any]:
        """The rows of an entry of many keys that are in it."""
        return list(compress(rows, self._has(self.rule.positions_of_rows(rows))))

    def _has(self, positions: Positions) -> list[bool]:
        places = positions.astype(np.int64)
        has: list[bool] = ((places >= self.lo) & (places < self.hi)).tolist()
        return has

    def cut(self, lo: int, hi: int) -> Share | None:
        """What of it is between two positions; None: nothing."""
        lo, hi = max(lo, self.lo), min(hi, self.hi)
        return Share(self.rule, lo, hi) if lo < hi else None

    def __str__(self) -> str:
        return f"{self.rule}.{self.lo:x}-{self.hi:x}"

    @staticmethod
    def read(rule: str, places: str) -> Share:
        """Read what `str` gave, of which the dot has been taken out."""
        lo, _, hi = places.partition("-")
        return Share(HomeRule.read(rule), int(lo, 16), int(hi, 16))
