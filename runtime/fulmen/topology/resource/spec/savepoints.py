"""The models of savepoints: automatic ones, and the one that a topology begins from."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fulmen.api.times.event_time import milliseconds
from fulmen.topology.resource.base import Model
from fulmen.topology.resource.spec.event_time import Duration


class Savepoints(Model):
    """Automatic savepoints: states that stay, and that the topology can go back to."""

    every: Duration = "1h"
    """The time from one automatic savepoint to the next."""

    keep: Annotated[int, Field(strict=True, ge=1, le=1000)] = 24
    """How many automatic savepoints stay. The oldest one goes when there are more."""

    @property
    def seconds(self) -> float:
        """`every` in seconds."""
        return milliseconds(self.every) / 1000


class RestoreFrom(Model):
    """The state that the topology begins from, once."""

    savepoint: Annotated[str, Field(min_length=1, max_length=1024)]
    """A savepoint. A name: one of this topology's checkpoint, to which the topology goes back. A
    URI: an export, or `CHECKPOINT#NAME` for one in another checkpoint; this topology's checkpoint
    must be empty then. It is restored once, when the topology starts. To restore the same savepoint
    again, start the topology without this field in between."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is not in the topology's own checkpoint."""
        return "/" in self.savepoint or "#" in self.savepoint
