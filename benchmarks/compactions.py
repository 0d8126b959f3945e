"""When RocksDB has put files together, by the log that it keeps in its folder."""

from __future__ import annotations

import json
from pathlib import Path

_EVENT = "EVENT_LOG_v1 "


def compactions(folder: Path) -> list[tuple[float, float]]:
    """When each compaction of the stores in `folder` has begun and ended, in seconds since 1970.

    Of those that are done only, and of stores whose log has not been replaced since.
    """
    found = []
    for log in sorted(folder.rglob("LOG*")):
        begun: dict[int, float] = {}
        for line in log.read_text(errors="replace").splitlines():
            _, is_event, event = line.partition(_EVENT)
            if not is_event:
                continue
            said = json.loads(event)
            if said.get("event") == "compaction_started":
                begun[said["job"]] = said["time_micros"] / 1e6
            elif said.get("event") == "compaction_finished" and said["job"] in begun:
                found.append((begun.pop(said["job"]), said["time_micros"] / 1e6))
    return sorted(found)
