"""Transactional spouts that are not in the topology any more, and come back.

What one has read is known by the metadata of the last transaction that is committed, or by where
transactions end in its partitions. Those that were begun and not committed when it went were
dropped, and their numbers are behind the ledger now: so they are taken out before it goes on.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any

from fulmen.checkpoint import Manifest, Store, Update, Updates, load_many
from fulmen.engine.batches.ledger import Ledger
from fulmen.engine.driver.checkpoints.layout import KeptComponent
from fulmen.engine.state.entries.keyed_state import segment_journals
from fulmen.engine.state.entries.segment_format import rewritten
from fulmen.engine.state.journals import PARTITIONS
from fulmen.engine.state.key_finder import tasks_of
from fulmen.engine.state.values.renamed_classes import loads


def metadata_of(ledger: Ledger, source: str) -> str:
    """The last metadata of a source that are committed, to be kept in the layout; "": none."""
    return b64encode(ledger.parts_before(ledger.head).get(source, b"")).decode()


def with_kept(ledger: Ledger, kept: Mapping[str, KeptComponent]) -> Ledger:
    """The ledger with the metadata of sources that are back."""
    found = {source: b64decode(one.metadata) for source, one in kept.items() if one.metadata}
    return ledger.with_sources(found) if found else ledger


def dropped_ends(store: Store, manifest: Manifest, kept: Mapping[str, KeptComponent]) -> Updates:
    """Partitions of sources that are back, without transactions that were dropped."""
    updates: Updates = {}
    for source, one in kept.items():
        for key, journal, data in without_open(store, manifest, source, one.committed):
            update = Update(data, None, manifest.number + 1)
            updates.setdefault(key, {})[journal] = update
    return updates


def without_open(
    store: Store, manifest: Manifest, source: str, committed: int
) -> Iterator[tuple[str, str, bytes]]:
    """Take the ends of transactions out of a source's partitions that are not committed.

    Returns:
        The keys of tasks, journals and their new content, of those that change.
    """

    def committed_ends(items: Mapping[int, Any]) -> dict[int, Any]:
        return {
            partition: ends and tuple(end for end in ends if end[0] <= committed)
            for partition, ends in items.items()
        }

    for key, journals in load_many(store, manifest, tasks_of(manifest, source)).items():
        for journal in segment_journals(journals, PARTITIONS):
            [data] = journals[journal]
            left = rewritten(journal, data, loads, committed_ends)
            if left is not None:
                yield key, journal, left
