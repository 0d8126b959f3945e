"""The content of a mark in Kafka: the metadata of offsets that consumer groups have committed."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

LONGEST_METADATA = 4096
"""In bytes; what brokers take by default (`offset.metadata.max.bytes`)."""
ROOM = LONGEST_METADATA - 1000
"""For which rows were refused, beside tag and label."""


@dataclass(frozen=True)
class Written:
    """The content of a mark.

    Attributes:
        number: Of the commit; None: there is no mark.
        tag: Of the same.
        refused: Positions of rows that were refused, and the codes of the client's errors.
    """

    number: int | None = None
    tag: str | None = None
    refused: dict[int, int] = field(default_factory=dict)

    def pages(self, label: str) -> list[str]:
        """The text to commit with the offset, and those for the offsets of further groups, if any.

        Args:
            label: Whose the mark is, for people.
        """
        told = {"tag": self.tag, "label": label}
        packed = _packed(self.refused) if self.refused else ""
        pages = [packed[first : first + ROOM] for first in range(0, len(packed), ROOM)]
        first = told | ({"refused": pages[0], "pages": len(pages)} if pages else {})
        return [json.dumps(first), *pages[1:]]

    @staticmethod
    def pages_after(metadata: str | None) -> int:
        """The number of pages behind the first one."""
        count: int = json.loads(metadata or "{}").get("pages", 1)
        return count - 1

    @staticmethod
    def read(offset: int, pages: Sequence[str | None]) -> Written:
        """Read it from a committed offset and its pages."""
        if offset < 0:
            return Written()
        told = json.loads(pages[0] or "{}")
        packed = told.get("refused", "") + "".join(page or "" for page in pages[1:])
        return Written(offset, told.get("tag"), _unpacked(packed) if packed else {})


def _packed(refused: dict[int, int]) -> str:
    """Positions of each code, as distances: rows that follow each other are refused together."""
    by_code: dict[int, list[int]] = {}
    for i, code in sorted(refused.items()):
        by_code.setdefault(code, []).append(i)
    told = [[code, *_distances(positions)] for code, positions in by_code.items()]
    text = json.dumps(told, separators=(",", ":")).encode()
    return base64.b85encode(zlib.compress(text, 9)).decode()


def _unpacked(packed: str) -> dict[int, int]:
    told = json.loads(zlib.decompress(base64.b85decode(packed)))
    return {i: code for code, *distances in told for i in accumulate(distances)}


def _distances(positions: Sequence[int]) -> Iterable[int]:
    return (i - before for i, before in zip(positions, [0, *positions], strict=False))
