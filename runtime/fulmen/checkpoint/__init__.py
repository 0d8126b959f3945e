"""The durable store of a topology: opaque bytes by task and journal, committed batch by batch.

It knows nothing of topologies, Spark or Kubernetes. docs/checkpoint.md describes layout, format and
guarantees. The driver uses `CommitLog`, workers use `save`, `read_manifest` and `load_many`.
"""

from fulmen.checkpoint.log import CommitLog, new_tag
from fulmen.checkpoint.manifest import (
    Commit,
    Links,
    Manifest,
    Ref,
    Update,
    Updates,
)
from fulmen.checkpoint.names import state_file_name
from fulmen.checkpoint.payloads import (
    LAYOUT,
    load,
    load_many,
    newest_number,
    read_commit,
    read_layout,
    read_manifest,
    read_newest,
    read_state_part,
    save,
    tasks_in,
)
from fulmen.checkpoint.record import INLINE_BYTES
from fulmen.checkpoint.store import Store

__all__ = [
    "INLINE_BYTES",
    "LAYOUT",
    "Commit",
    "CommitLog",
    "Links",
    "Manifest",
    "Ref",
    "Store",
    "Update",
    "Updates",
    "load",
    "load_many",
    "new_tag",
    "newest_number",
    "read_commit",
    "read_layout",
    "read_manifest",
    "read_newest",
    "read_state_part",
    "save",
    "state_file_name",
    "tasks_in",
]
