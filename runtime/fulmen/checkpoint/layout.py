"""The section `layout`: which tasks a topology had. Whoever reads a checkpoint begins with it."""

import json
from collections.abc import Mapping
from typing import Any, Final

from fulmen.checkpoint.record import Manifest

LAYOUT: Final = "layout"


def read_layout(manifest: Manifest) -> Mapping[str, Any]:
    """The layout as it was written; empty if nothing was committed."""
    data = manifest.sections.get(LAYOUT)
    found: Mapping[str, Any] = json.loads(data) if data else {}
    return found


def tasks_in(manifest: Manifest) -> dict[str, int]:
    """The number of tasks of each component; empty if nothing was committed."""
    return dict(read_layout(manifest).get("tasks", {}))
