"""What is known of the keys of a state on disk: in memory what was used last, or waits for a write.

A disk that has once refused to answer is asked no more: the author's code may have caught the error
and gone on without the value, and nothing of its batch may be committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.engine.keyed.stores.key_bytes import bytes_of
from fulmen.engine.keyed.stores.local_store import LocalStore
from fulmen.engine.state.entries.disk_records import EntryRecord

OBJECTS_BYTES = 64 << 20
"""Of records that are at hand for each state, about; the half of them that was used last stays."""
_OBJECT_BYTES = 300


class KnownRecords:
    """Records by key.

    Attributes:
        pending: What is to be written to the store next, by its keys there.
    """

    def __init__(self, store: LocalStore, prefix: bytes) -> None:
        """In the store, the records are under keys of these two first bytes."""
        self._store, self._prefix = store, prefix
        self._failure: ServiceUnavailable | None = None
        self.pending: dict[bytes, bytes | None] = {}
        self._young: dict[Any, EntryRecord | None] = {}
        self._old: dict[Any, EntryRecord | None] = {}
        self._young_bytes = 0

    def get(self, key: Any) -> EntryRecord | None:
        """What is known of a key. None: nothing."""
        record = self._young.get(key, self)
        if record is not self:
            return record  # type: ignore[return-value]
        record = self._old.pop(key, self)
        if record is self:
            record = self._one(self._prefix + bytes_of(key))
        self._at_hand(key, record)  # type: ignore[arg-type]
        return record  # type: ignore[return-value]

    def _one(self, at: bytes) -> EntryRecord | None:
        if at in self.pending:
            packed = self.pending[at]
        else:
            [packed] = self.tried([at])
        return None if packed is None else EntryRecord.read(packed)

    def get_many(self, keys: Sequence[Any]) -> dict[Any, EntryRecord | None]:
        """What is known of each of these keys, which is at hand from now on."""
        missing = [key for key in keys if not self._is_at_hand(key)]
        found = dict(zip(missing, self.records(list(map(bytes_of, missing))), strict=True))
        for key, record in found.items():
            self._at_hand(key, record)
        return {key: found[key] if key in found else self.get(key) for key in keys}

    def of(self, kbs: Mapping[Any, bytes], keys: Iterable[Any]) -> dict[Any, EntryRecord | None]:
        """What is known of keys which are written next, with the bytes of each."""
        young, old = self._young, self._old
        missing = [key for key in kbs if key not in young and key not in old]
        found = dict(zip(missing, self.records([kbs[key] for key in missing]), strict=True))
        return {key: found[key] if key in found else self.get(key) for key in keys}

    def put(self, kb: bytes, record: EntryRecord | None, key: Any) -> None:
        """Write a record of a key. None: nothing is known of it any more."""
        self.pending[self._prefix + kb] = None if record is None else record.pack()
        self._at_hand(key, record)
        self._old.pop(key, None)

    def put_all(
        self, kbs: Sequence[bytes], records: Sequence[EntryRecord], keys: Sequence[Any]
    ) -> None:
        """Write the records of some keys."""
        packed = map(EntryRecord.pack, records)
        self.pending.update(zip(map(self._prefix.__add__, kbs), packed, strict=True))
        deque(map(self._old.pop, keys, repeat(None)), maxlen=0)
        self._young.update(zip(keys, records, strict=True))
        of_data = sum(len(record.data) for record in records)
        self._note_room(_OBJECT_BYTES * len(records) + of_data)

    def _is_at_hand(self, key: Any) -> bool:
        return key in self._young or key in self._old

    def _at_hand(self, key: Any, record: EntryRecord | None) -> None:
        self._young[key] = record
        self._note_room(_OBJECT_BYTES + (0 if record is None else len(record.data)))

    def _note_room(self, taken: int) -> None:
        self._young_bytes += taken
        if self._young_bytes > OBJECTS_BYTES // 2:
            self._old, self._young, self._young_bytes = self._young, {}, 0

    def records(self, kbs: Sequence[bytes]) -> list[EntryRecord | None]:
        """What is known of the keys with these bytes; it is not kept at hand."""
        keys = list(map(self._prefix.__add__, kbs))
        pending = self.pending
        asked = sorted(key for key in keys if key not in pending)  # twice as fast as unsorted
        found = dict(zip(asked, self.tried(asked), strict=True)) if asked else {}
        values = [found[key] if key in found else pending[key] for key in keys]
        return [None if value is None else EntryRecord.read(value) for value in values]

    def tried(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """What the store has under its own keys."""
        self.raise_failure()
        try:
            return [self._store.get_one(keys[0])] if len(keys) == 1 else self._store.get(keys)
        except ServiceUnavailable as e:
            self._failure = e
            raise

    def raise_failure(self) -> None:
        """Raise what the disk has once raised, if it has."""
        if self._failure is not None:
            raise self._failure

    def scan(self, after: bytes, of: bytes = b"") -> Iterator[tuple[bytes, EntryRecord]]:
        """See `DiskEntries.scan`."""
        pending, prefix = dict(self.pending), self._prefix
        start = prefix + after + b"\x00" if after else prefix + of
        end = prefix + of + b"\xff" if of else bytes([prefix[0], prefix[1] + 1])
        for key, value in self._store.scan(start, end):
            if key not in pending:
                record = EntryRecord.read(value)
                if record.data:
                    yield key[2:], record
        for key, waiting in pending.items():
            if key.startswith(prefix + of) and waiting is not None:
                record = EntryRecord.read(waiting)
                if record.data and key[2:] > after:
                    yield key[2:], record
