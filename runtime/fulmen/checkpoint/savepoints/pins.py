"""Pins: states with a name, which stay until somebody lets go of them.

A pin is the number of a commit that holds a manifest: the state *before* that commit. The commit
itself says so, in its section `pins`. So all that a pin keeps was referred to when it was made, and
what the newest commit does not need, pins included, no later one needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from fulmen.checkpoint.manifest import Manifest
from fulmen.checkpoint.payloads import read_commit
from fulmen.checkpoint.store import Store
from fulmen.errors import CheckpointError, NotFound

PINS = "pins"
"""The section with all pins."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Pin:
    """A state that stays.

    Attributes:
        commit: The commit that holds the manifest. The state is that before it.
        time: When it was made, in seconds since 1970.
        why: What it was made for.
        by: Who made it.
    """

    commit: int
    time: float
    why: str = ""
    by: str = ""

    @property
    def number(self) -> int:
        """The commit whose state it is."""
        return self.commit - 1


Pins = Mapping[str, Pin]
"""Name -> pin."""


def pins_in(section: bytes | None) -> dict[str, Pin]:
    """Read the section with all pins; None: there are none."""
    return {name: Pin(**about) for name, about in json.loads(section or b"{}").items()}


def pins_section(pins: Pins) -> bytes | None:
    """The section for these pins; None: for none."""
    about = {name: asdict(pin) for name, pin in sorted(pins.items())}
    return json.dumps(about).encode() if about else None


def check_name(name: str) -> None:
    """See that a savepoint may have this name.

    Raises:
        CheckpointError: It may not.
    """
    if not _NAME.fullmatch(name):
        raise CheckpointError(
            f"savepoint {name!r}: a name is 1 to 63 lower-case letters, digits, '-' and '.', and"
            " begins and ends with a letter or digit."
        )


def pin_named(store: Store, manifest: Manifest, name: str) -> Pin:
    """The pin of that name.

    Raises:
        CheckpointError: There is none.
    """
    pins = pins_in(manifest.sections.get(PINS))
    if name not in pins:
        known = ", ".join(sorted(pins)) or "none"
        raise CheckpointError(
            f"checkpoint {store.uri}: there is no savepoint {name!r}. Savepoints: {known}."
        )
    return pins[name]


def read_pinned(store: Store, name: str, pin: Pin) -> Manifest:
    """The state that a pin keeps.

    Raises:
        CheckpointError: It is damaged, or gone.
    """
    try:
        manifest = read_commit(store, pin.commit).manifest
    except NotFound as error:
        manifest, missing = None, error.key
    else:
        missing = f"the manifest of commit {pin.commit}"
    if manifest is None:
        raise CheckpointError(
            f"checkpoint {store.uri}: savepoint {name!r} can't be read, as {missing!r} is missing."
            f" Restore it from a copy of the store, or delete the savepoint: fulmen savepoint"
            f" delete {store.uri} {name}"
        )
    return manifest
