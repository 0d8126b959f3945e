"""Saves what a task has to write: large records in files, small ones with the commit."""

from __future__ import annotations

from collections.abc import Mapping

from fulmen.checkpoint import Store, Update, save
from fulmen.checkpoint.rewriting import Update as Record
from fulmen.engine.protocol.header import Header


def saved(
    store: Store, header: Header, key: str, records: Mapping[str, Record]
) -> dict[str, Update]:
    """Save records; give what the commit refers to, by journal."""
    return {
        journal: save(store, header.number, header.tag, key, journal, data, keep_from)
        for journal, (data, keep_from) in records.items()
    }
