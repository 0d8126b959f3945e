"""Entries that are of many keys, as a task has them that has taken over from several. Pure.

Several tasks may have an entry under one name, each with rows of its own keys, or have forgotten it
at other times. So what counts is decided for each position: there the newest segment wins. A task
takes from each entry what is in its positions, and writes that anew with its next commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from fulmen.engine.keyed.homes import ALL, HomeRule, Share

NOTHING: Final = object()
"""In place of the value of an entry that is no more."""


class _Piece(NamedTuple):
    lo: int
    hi: int
    value: Any


class EntriesOfMany:
    """The entries of one keyed state that are of many keys.

    Attributes:
        rule: The rule that says so.
    """

    def __init__(self, rule: HomeRule) -> None:
        self.rule = rule
        self._pieces: dict[Any, list[_Piece]] = {}

    @staticmethod
    def among(shares: Iterable[Share | None]) -> EntriesOfMany | None:
        """What takes those in journals with these shares; None: there are none, or of one task."""
        rules = (share.rule for share in shares if share is not None)
        rule = next((rule for rule in rules if rule.has_many), None)
        return None if rule is None else EntriesOfMany(rule)

    def take(self, share: Share | None, entries: Mapping[Any, Any], gone: Iterable[Any]) -> None:
        """Take those of a segment. Segments must come in the order of their commits."""
        lo, hi = (0, ALL) if share is None else (share.lo, share.hi)
        is_of_many = self.rule.is_of_many
        for key, value in entries.items():
            if is_of_many(key):
                self._put(key, _Piece(lo, hi, value))
        for key in gone:
            if is_of_many(key):
                self._put(key, _Piece(lo, hi, NOTHING))

    def _put(self, key: Any, new: _Piece) -> None:
        left: list[_Piece] = []
        for one in self._pieces.get(key, ()):
            parts = (one.lo, min(one.hi, new.lo)), (max(one.lo, new.hi), one.hi)
            left += (_Piece(lo, hi, one.value) for lo, hi in parts if lo < hi)
        self._pieces[key] = [*left, new]

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Each entry with what the task has of it; NOTHING: nothing."""
        for key, pieces in self._pieces.items():
            there = [one for one in pieces if one.value is not NOTHING]
            lists = [one for one in there if isinstance(one.value, list)]
            if lists:
                rows = [row for one in lists for row in self._rows(one)]
                yield key, rows or NOTHING
            else:  # the time of a timer: none of its tasks may miss it
                yield key, min((one.value for one in there), default=NOTHING)

    def _rows(self, piece: _Piece) -> list[Any]:
        if (piece.lo, piece.hi) == (0, ALL):
            return list(piece.value)
        return Share(self.rule, piece.lo, piece.hi).own_rows(piece.value)
