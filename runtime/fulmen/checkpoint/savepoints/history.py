"""Which commits follow on one another.

Commit numbers never go back, since they are the fence between drivers. Going back is a later commit
with older content: a branch begins with it. The commits between are no longer what it builds on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from fulmen.checkpoint.manifest import Manifest

HISTORY = "history"
"""The section with all branches but the first."""


class Branch(NamedTuple):
    """Commits that follow on one another.

    Attributes:
        origin: The commit whose content it goes on from.
        at: Its first commit.
    """

    origin: int
    at: int


def branches_of(manifest: Manifest) -> list[Branch]:
    """All branches but the first, from old to new."""
    return [Branch(*one) for one in json.loads(manifest.sections.get(HISTORY, b"[]"))]


def history_section(branches: Sequence[Branch]) -> bytes:
    """The section for these branches."""
    return json.dumps(list(branches)).encode()
