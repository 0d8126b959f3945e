"""What shows which part of a state's keys is the grouping's, for any number of tasks. Pure.

That each key is in the task that its position gives proves nothing with one task. So in each batch,
what is written must be about a key of a tuple or a timer of this batch. One key that is not is
enough to know that state is something else, such as a total of the task. A batch costs a set of the
values that its tuples are grouped by; what is only read is not seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import filterfalse
from typing import Any, NamedTuple

from fulmen.engine.keyed.homes import PROVABLE, Part, part_of
from fulmen.errors import repr_of


class Broken(NamedTuple):
    """A key that shows that a part is not the grouping's.

    Attributes:
        key: It, as text.
        number: The commit that has written it.
    """

    key: str
    number: int


@dataclass
class Evidence:
    """What is known of the keys of one keyed state.

    Attributes:
        since: The commit from which on keys were looked at; 0: none was.
        broken: The parts that are not the grouping's.
    """

    since: int = 0
    broken: dict[Part, Broken] = field(default_factory=dict)

    @property
    def parts(self) -> Sequence[Part]:
        """The parts that may be the grouping's, as far as is known."""
        return [part for part in PROVABLE if part not in self.broken]

    @property
    def proven(self) -> Part | None:
        """The part that is; None: none, or nothing is known."""
        return next(iter(self.parts), None) if self.since else None

    def look(
        self,
        keys: Collection[Any],
        seen: Collection[Any],
        fields: int,
        number: int,
        *,
        are_seen: bool = False,
    ) -> None:
        """Look at what was written.

        Args:
            keys: Of the entries that a batch has written.
            seen: The values, of all tuples and timers of the batch, that the grouping is by.
            fields: By how many fields.
            number: The commit.
            are_seen: Whether it is known that each of the keys is among what was seen.
        """
        if not keys:
            return
        self.since = self.since or number
        for part in self.parts:
            if are_seen and (part == "whole" or (part == "first" and fields > 1)):
                continue  # what is seen of several fields is what such a key begins with: all of it
            for key in _others(part, keys, seen, fields):
                self.broken[part] = Broken(repr_of(key), number)
                break

    @staticmethod
    def joined(several: Iterable[Evidence]) -> Evidence:
        """What all together show."""
        joined = Evidence()
        for one in several:
            if one.since:
                joined.since = min(joined.since or one.since, one.since)
            joined.broken = one.broken | joined.broken
        return joined

    def to_plain(self) -> Any:
        """Turn it into plain values."""
        return self.since, {part: tuple(broken) for part, broken in self.broken.items()}

    @staticmethod
    def of_plain(plain: tuple[int, Mapping[Part, tuple[str, int]]]) -> Evidence:
        """Read what `to_plain` gave."""
        since, broken = plain
        return Evidence(since, {part: Broken(*one) for part, one in broken.items()})


def _others(part: Part, keys: Collection[Any], seen: Collection[Any], fields: int) -> Iterable[Any]:
    """The keys whose part is not among what was seen."""
    if part == "whole":
        return filterfalse(seen.__contains__, keys)

    def is_other(key: Any) -> bool:
        try:
            return part_of(part, key, fields) not in seen
        except (LookupError, TypeError):  # it has no such part; or a part of it has no hash
            return True

    return filter(is_other, keys)
