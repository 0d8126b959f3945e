"""What a task keeps, for a class that divides it among another number of tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Kept:
    """What one task of a spout or bolt keeps in the checkpoint.

    Attributes:
        fields: The durable fields of its instance, by name.
        state: Its `self.state`.
        failed: Of a spout with `backoff`: the ids of messages whose `fail` is to be called yet.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    state: dict[Any, Any] = field(default_factory=dict)
    failed: list[Any] = field(default_factory=list)
