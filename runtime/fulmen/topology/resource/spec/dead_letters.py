"""How much is kept of dead letters."""

from typing import Annotated

from pydantic import Field

from fulmen.topology.resource.base import Model


class DeadLetterRules(Model):
    """How much the checkpoint keeps of messages that were given up, or kill their workers.

    When there are more, the oldest are forgotten, and it is counted how many. The numbers are of
    each component, and shared by its tasks.
    """

    keep: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 100
    """So many are kept of each component."""

    max_bytes: Annotated[int, Field(strict=True, ge=1000, le=1 << 30)] = 10_000_000
    """All of them together have so many bytes at most. The values of one that has more than a
    tenth of that are kept as shortened text alone, and it can't be sent again."""
