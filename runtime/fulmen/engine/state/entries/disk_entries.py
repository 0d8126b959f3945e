"""The entries of one keyed state on disk, and the segments of the checkpoint that they are in.

It writes the same segments as `segments` does for a state in memory, by the same rules, but knows
no key that it is not asked for. So what is known of a key is beside its value in the store: the
segment that has its newest value, and how many others have an older one. The keys of a segment are
in the store as well, for when it is dropped.

    k and a key       its record
    m                 which segments there are, and the number of keys: in each write
    q and a place     what `disk_queue` keeps, if there is an order
    s and a number    the keys of a segment

All of these begin with the letter of this state, since a store may have several.

What a commit has changed waits in `_pending` until it is confirmed. A process that goes on with the
store of another applies what the checkpoint has beyond it, if it can tell that the store is of the
same past, and begins with an empty one otherwise.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Any, NamedTuple

from fulmen.engine.keyed.entries_of_many import EntriesOfMany
from fulmen.engine.keyed.stores.key_bytes import all_bytes_of, key_of
from fulmen.engine.keyed.stores.local_store import LocalStore
from fulmen.engine.keyed.stores.seen_keys import SeenKeys
from fulmen.engine.state.entries.disk_records import (
    NOWHERE,
    DiskSegment,
    EntryRecord,
    SegmentSource,
    age_of,
)
from fulmen.engine.state.entries.known_records import KnownRecords
from fulmen.engine.state.entries.own_blocks import of_many, taking
from fulmen.engine.state.entries.segment_blocks import BlockContent
from fulmen.engine.state.entries.segment_format import (
    DELETED_BYTES,
    Piece,
    encode_pickled,
)
from fulmen.engine.state.entries.segments import ALONE_BYTES, victims

_LOADED_BYTES = 16 << 20
"""So much of the checkpoint's segments becomes one file of the store, about."""
_YOUNG = 32
"""So many of the newest segments may be gone soon, merged with others: what is read before one of
them is written at once, so that nobody reads it again."""
_FILE_BYTES = 1 << 20
"""Less than that is written as a batch is: it would become a very small file."""
_FULL_BYTES, _SEGMENT_BYTES = 128 << 10, 1 << 20
"""As for a state in memory, and less: what is written anew with a commit is fetched before. A key
takes some 14 us then, and in a segment 20 bytes, so that a batch waits for a second at most."""
_KINDS = b"k", b"m", b"q", b"s"
Place = Callable[[bytes, bytes], bytes]
"""Where an entry is in another order than that of its key, by the bytes of key and value."""
Reached = Callable[[str], None]
"""Is told how far something is that takes long."""


def unheard(_: str) -> None:
    """Nobody wants to know."""


class DiskEntries:
    """Keys and pickled values.

    Attributes:
        count: The number of keys.
        bytes: The size of all segments.
        settled: Keys that are of many, with what the task has of them; it is to be written anew.
    """

    def __init__(
        self,
        store: LocalStore,
        name: str,
        source: SegmentSource,
        place: Place | None = None,
        reached: Reached = unheard,
    ) -> None:
        """Bring the store up to what the source has.

        Args:
            store: Of this process.
            name: How journals begin.
            source: What the checkpoint has.
            place: The order in which there is a queue of the entries. None: there is none.
            reached: Is told how far it is while it reads much.
        """
        self._store, self._name, self._place = store, name, place
        self._reached = reached
        letter = name[:1].encode()
        self._keys, self._meta, self._queue, self._of_segments = (letter + c for c in _KINDS)
        self.tag = ""
        self._forget()
        many = of_many(source.journals)
        if many is not None or not self._goes_on(source):
            store.clear(letter, bytes([letter[0] + 1]))
            self._forget()
            self._load(source, source.journals, SeenKeys(), many)
        self.settled = () if many is None else tuple(many.items())
        self._anew = {key for key, _ in self.settled}

    def _forget(self) -> None:
        self.count = self.bytes = self._number = self._last = 0
        self._tag_of_last = ""
        self._segments: dict[int, DiskSegment] = {}
        self._known = KnownRecords(self._store, self._keys)
        self._pending = self._known.pending

    # What the checkpoint has

    def _goes_on(self, source: SegmentSource) -> bool:
        """Go on with what is in the store, if it is an earlier part of what the source has."""
        meta = self._store.get_one(self._meta)
        if meta is None:
            return False
        self.count, self._number, self._last, self._tag_of_last, segments = pickle.loads(meta)
        self._segments = {one[0]: DiskSegment(*one) for one in segments}
        self.bytes = sum(segment.bytes for segment in self._segments.values())
        known = {segment.journal: segment for segment in self._segments.values()}
        added = [journal for journal in source.journals if journal not in known]
        if any(age_of(journal)[0] <= self._last for journal in added):
            return False
        if not self._is_of(source, known):
            return False
        self._load(source, added)
        left: dict[bytes, _Entry] = {}
        there = set(source.journals)
        self._drop([one for journal, one in known.items() if journal not in there], left, {})
        if any(entry.stale for entry in left.values()):
            return False
        for kb, entry in left.items():  # they were deleted, and no segment knows them any more
            self.count -= bool(entry.data)
            self._known.put(kb, None, entry.key)
        return True

    def _is_of(self, source: SegmentSource, known: Mapping[str, DiskSegment]) -> bool:
        """Whether the store was made by the commit that the source has under the same number.

        That commit may be gone where others have followed. Then what both have tells.
        """
        there = [journal for journal in source.journals if journal in known]
        for journal in there:
            if age_of(journal)[0] == self._last:
                return source.tag_of(journal) == self._tag_of_last
        if (tag := source.tag_at(self._last)) is not None:
            return tag == self._tag_of_last
        has_gone_on = any(age_of(journal)[0] > self._last for journal in source.journals)
        is_same = all(source.tag_of(journal) == known[journal].tag for journal in there)
        return bool(there) and has_gone_on and is_same

    def _load(
        self,
        source: SegmentSource,
        journals: Sequence[str],
        seen: SeenKeys | None = None,
        many: EntriesOfMany | None = None,
    ) -> None:
        """Take segments into the store.

        Args:
            source: What has them.
            journals: Their names.
            seen: The store is empty, and these are the keys so far.
            many: Takes the entries that are of many keys, if there may be any.
        """
        if not journals:
            return
        waiting, before = 0, ""
        ordered = sorted(journals, key=age_of)
        for done, (journal, size, blocks) in enumerate(source.read(ordered)):
            self._reached(f"{100 * done // len(ordered)} % of it is read")
            number, _ = age_of(journal)
            is_whole = number != self._last  # the commit before: then it can be gone on with
            most = _LOADED_BYTES if len(ordered) - done > _YOUNG else 1
            if waiting >= (most if is_whole else 4 * _LOADED_BYTES):
                self._tag_of_last = source.tag_of(before)
                self.confirm(as_file=waiting >= _FILE_BYTES)
                waiting = 0
            self._last, before = number, journal
            segment = self._new_segment(journal, size, source.tag_of(journal))
            if many is not None:
                blocks = taking(many, journal, blocks)
            kbs = self._loaded(segment, blocks, seen)
            segment.alone = size >= ALONE_BYTES and len(kbs) == 1
            self._pending[self._segment_key(segment.number)] = pickle.dumps(kbs)
            waiting += size
        self._tag_of_last = source.tag_of(before)
        self.confirm(as_file=waiting >= _FILE_BYTES)

    def _loaded(
        self, segment: DiskSegment, blocks: Iterable[BlockContent], seen: SeenKeys | None
    ) -> list[bytes]:
        """Take a segment, of which each key is new, or nearly each; gives its keys."""
        keys: list[Any] = []
        values: list[bytes] = []
        sizes: list[int] = []
        for groups, deleted in blocks:
            for weight, entries in [*groups, (DELETED_BYTES, dict.fromkeys(deleted, b""))]:
                keys += entries
                values += entries.values()
                sizes += repeat(int(weight) or 1, len(entries))
        kbs, number = all_bytes_of(keys), segment.number
        heads = {size: EntryRecord(number, size, 0, b"").pack() for size in set(sizes)}
        packed = [heads[size] + data for size, data in zip(sizes, values, strict=True)]
        segment.whole = segment.left = sum(sizes)
        self.count += len(kbs)
        segment.live = len(kbs)
        is_known = [True] * len(kbs) if seen is None else seen.add(kbs).tolist()
        asked = [i for i, data in enumerate(values) if is_known[i] or not data]
        known = self._known.records([kbs[i] for i in asked])
        for i, before in zip(asked, known, strict=True):
            data, size = values[i], sizes[i]
            if before is None and data:
                continue
            self.count -= bool(before and before.data) + (not data)
            stale = 0 if before is None else self._superseded(before)
            if data or stale:
                packed[i] = EntryRecord(number, size, stale, data).pack()
            else:
                packed[i] = EntryRecord(NOWHERE, 0, 1, b"").pack()
                segment.live -= 1
                segment.left -= size
        self._pending.update(zip(map(self._keys.__add__, kbs), packed, strict=True))
        if self._place is not None:
            places = (self._place(kb, data) for kb, data in zip(kbs, values, strict=True) if data)
            self._pending.update(zip(map(self._queue.__add__, places), repeat(b"")))
        return kbs

    def _new_segment(self, journal: str, size: int, tag: str) -> DiskSegment:
        self._number += 1
        segment = DiskSegment(self._number, journal, size, tag=tag)
        self._segments[self._number] = segment
        self.bytes += size
        return segment

    # Reading

    def get(self, key: Any) -> EntryRecord | None:
        """What is known of a key. None: nothing."""
        return self._known.get(key)

    def get_many(self, keys: Sequence[Any]) -> dict[Any, EntryRecord | None]:
        """What is known of each of these keys, which is at hand from now on."""
        return self._known.get_many(keys)

    def scan(self, after: bytes = b"", of: bytes = b"") -> Iterator[tuple[bytes, EntryRecord]]:
        """All keys that have a value, as bytes, and in order unless they are not confirmed.

        Args:
            after: Begin with keys that come after this one.
            of: Only those that begin with these bytes, which are whole parts of a tuple.
        """
        return self._known.scan(after, of)

    # The queue

    def put_place(self, place: bytes, *, is_there: bool) -> None:
        """Have something in the queue, or not, with the next commit."""
        self._pending[self._queue + place] = b"" if is_there else None

    def places(self, start: bytes, end: bytes, most: int) -> list[bytes]:
        """The first places in the queue from `start` on and before `end`; none was taken away."""
        first, last = self._queue + start, self._queue + end
        found = {key for key in self._pending if first <= key < last}
        found.update(key for key, _ in islice(self._store.scan(first, last), most))
        return [key[2:] for key in sorted(found)[:most]]

    # Commits

    def confirm(self, *, as_file: bool = False) -> None:
        """Write what was committed. `as_file`: it is much."""
        self._known.raise_failure()
        if not self._pending:
            return
        segments = [
            (s.number, s.journal, s.bytes, s.alone, s.whole, s.live, s.left, s.tag)
            for s in self._segments.values()
        ]
        meta = self.count, self._number, self._last, self._tag_of_last, segments
        self._pending[self._meta] = pickle.dumps(meta)
        (self._store.load if as_file else self._store.write)(self._pending)
        self._pending.clear()

    def updates(
        self, number: int, changed: Mapping[Any, bytes | None]
    ) -> dict[str, tuple[bytes | None, int]]:
        """The records for commit `number`.

        Args:
            number: The number of the commit.
            changed: Keys and their values, pickled. None: it was deleted.
        """
        self._known.raise_failure()
        places = dict(zip(changed, all_bytes_of(list(changed)), strict=True))
        known = self._known.of(places, changed)
        new: dict[bytes, _Entry] = {}
        for key, data in changed.items():
            before = known[key]
            was_there = before is not None and bool(before.data)
            is_same = data == (before.data if was_there and before is not None else None)
            if is_same and (data is None or key not in self._anew):
                continue
            self.count += (data is not None) - was_there
            stale = 0 if before is None else self._superseded(before)
            new[places[key]] = _Entry(key, data or b"", stale)
        self._anew = set()
        if not new:
            return {}
        dropped = list(victims(self._segments.values(), len(new), _FULL_BYTES))
        changes: dict[bytes, EntryRecord | None] = {}
        self._drop(dropped, new, changes)
        records: dict[str, tuple[bytes | None, int]] = {
            segment.journal: (None, number) for segment in dropped
        }
        places = {entry.key: kb for kb, entry in new.items()}
        values = {entry.key: entry.data for entry in new.values() if entry.data}
        deleted = [entry.key for entry in new.values() if not entry.data and entry.stale]
        for i, piece in enumerate(encode_pickled(values, deleted, _SEGMENT_BYTES)):
            journal = f"{self._name}.{number}.{i}"
            records[journal] = piece.data, 0
            self._add(journal, piece, new, places)
        for kb, entry in new.items():
            if not entry.data and not entry.stale:
                self._known.put(kb, None, entry.key)
        self._last, self._tag_of_last = number, self.tag
        return records

    def _add(
        self, journal: str, piece: Piece, new: Mapping[bytes, _Entry], places: Mapping[Any, bytes]
    ) -> None:
        segment = self._new_segment(journal, len(piece.data), self.tag)
        kbs: list[bytes] = []
        for weight, keys in piece.parts:
            size, number = int(weight) or 1, segment.number
            own = [places[key] for key in keys]
            entries = [new[kb] for kb in own]
            records = [EntryRecord(number, size, stale, data) for _, data, stale in entries]
            self._known.put_all(own, records, keys)
            kbs += own
            segment.whole += size * len(keys)
        segment.left, segment.live = segment.whole, len(kbs)
        segment.alone = segment.bytes >= ALONE_BYTES and len(kbs) == 1
        self._pending[self._segment_key(segment.number)] = pickle.dumps(kbs)

    def _superseded(self, record: EntryRecord) -> int:
        """Another segment will have the key. Gives how many have it by now."""
        if record.segment == NOWHERE:
            return record.stale
        segment = self._segments[record.segment]
        segment.live -= 1
        segment.left -= record.size
        return record.stale + 1

    def _drop(
        self,
        segments: Iterable[DiskSegment],
        new: dict[bytes, _Entry],
        changes: dict[bytes, EntryRecord | None],
    ) -> None:
        """Forget segments; what no later one has of them is added to `new`."""
        dropped = {segment.number: segment for segment in segments}
        for number in dropped:
            at = self._segment_key(number)
            packed = self._pending.get(at) or self._known.tried([at])[0]
            kbs = pickle.loads(packed or b"")
            self._pending[at] = None
            missing = [kb for kb in kbs if kb not in new and kb not in changes]
            changes.update(zip(missing, self._known.records(missing), strict=True))
            for kb in kbs:
                if kb in new:
                    new[kb] = new[kb].without_one()
                    continue
                record = changes[kb]
                assert record is not None
                if record.segment == number:
                    new[kb] = _Entry(key_of(kb), record.data, record.stale)
                    continue
                changes[kb] = self._without_one(record)
        for kb in changes.keys() - new.keys():
            self._known.put(kb, changes[kb], key_of(kb))
        for number in dropped:
            self.bytes -= self._segments.pop(number).bytes

    def _without_one(self, record: EntryRecord) -> EntryRecord | None:
        """What is known of a key when a segment with an older value of it is dropped."""
        segment, size, stale, data = record
        if data or stale > 1:
            return EntryRecord(segment, size, stale - 1, data)
        if segment == NOWHERE:
            return None
        self._superseded(record)  # no segment has what was deleted
        return EntryRecord(NOWHERE, 0, 1, b"")

    def _segment_key(self, number: int) -> bytes:
        return self._of_segments + number.to_bytes(4, "big")

    def close(self) -> None:
        """Let go of the store. What was not confirmed is not in it."""
        self._store.close()


class _Entry(NamedTuple):
    """An entry that is written with the coming commit."""

    key: Any
    data: bytes
    stale: int

    def without_one(self) -> _Entry:
        """One of the segments that have it is dropped."""
        return _Entry(self.key, self.data, self.stale - 1)
