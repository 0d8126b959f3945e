"""Bytes by key in RocksDB, in a folder of this process. A cache: the checkpoint is the truth.

A batch of changes is one write. The store is as it was after one of its writes even if it was
killed, or its machine was; then not the last one. Which one, an entry says that each write changes.

Whatever the disk refuses, or no longer has, raises `ServiceUnavailable`. RocksDB refuses all writes
from then on, so a store that has raised it is to be closed and opened again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    Rdict,
    ReadOptions,
    SstFileWriter,
    WriteBatch,
    WriteBufferManager,
)

from fulmen.api.components.sinks import ServiceUnavailable

T = TypeVar("T")
CACHE_BYTES = 128 << 20
"""Of blocks that were read, of all stores of a process."""
BUFFER_BYTES = 128 << 20
"""Of what is written and not yet in a file, of all stores of a process."""
FREE_BYTES = 128 << 20
"""Less free space than that counts as none: a full disk harms more than one store."""
_BITS_A_KEY = 10
_open: dict[Path, LocalStore] = {}
"""Those of this process. A task that was given up may have left one open."""
_cache: list[Cache] = []  # made by the first store: forks before it share nothing
_buffers: list[WriteBufferManager] = []


class LocalStore:
    """Keys and values in a folder, which no other process may have open."""

    def __init__(self, folder: Path) -> None:
        """Open it; it may be new.

        Raises:
            ServiceUnavailable: The disk refuses it.
            BlockingIOError: Another store has it open.
        """
        self._folder = folder
        self._is_damaged = False
        if (before := _open.pop(folder, None)) is not None:
            before.close()
        try:
            self._db = self._open()
        except Exception as e:
            if "lock" in str(e).lower() and "LOCK" in str(e):
                raise BlockingIOError(f"{folder} is open elsewhere") from e
            if not _is_damage(e):
                raise self._away(e) from e
            shutil.rmtree(folder, ignore_errors=True)  # it is ours, and a cache
            self._db = self._tried(self._open)
        _open[folder] = self

    def _open(self) -> Rdict:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        options = _options()
        # Else those of a folder that is there are read from it: they have no filter and no cache.
        families = {"default": options}
        return Rdict(str(self._folder), options, families)

    def _away(self, error: Exception) -> ServiceUnavailable:
        self._is_damaged |= _is_damage(error)
        return ServiceUnavailable(f"the disk for state at {self._folder.parent}", str(error))

    def _tried(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception as e:
            raise self._away(e) from e

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """The value of each key; None: there is none."""
        found: Any = self._tried(lambda: self._db.get(list(keys)))
        return found  # type: ignore[no-any-return]

    def get_one(self, key: bytes) -> bytes | None:
        """The value of a key; None: there is none."""
        try:
            return self._db.get(key)
        except Exception as e:
            raise self._away(e) from e

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Write values, or delete keys whose value is None: all of it or nothing."""
        self._look_for_room()
        batch = WriteBatch(raw_mode=True)
        for key in sorted(changes):  # a fifth of the time that it takes unsorted
            if (value := changes[key]) is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        self._tried(lambda: self._db.write(batch))

    def load(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Do what `write` does with very many changes: as a file, without a log of them."""
        self._look_for_room()
        file = self._folder.with_suffix(".sst")

        def load() -> None:
            file.unlink(missing_ok=True)
            writer = SstFileWriter(_options())
            writer.open(str(file))
            for key in sorted(changes):
                if (value := changes[key]) is None:
                    del writer[key]
                else:
                    writer[key] = value
            writer.finish()
            how = IngestExternalFileOptions()
            how.set_move_files(v=True)
            self._db.ingest_external_file([str(file)], how)

        self._tried(load)

    def _look_for_room(self) -> None:
        free = self._tried(lambda: shutil.disk_usage(self._folder)).free
        if free < FREE_BYTES:
            needed = f"{free >> 20} MB are free, and {FREE_BYTES >> 20} MB have to be"
            raise self._away(OSError(f"no space left: {needed}"))

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All from `start` on and before `end`, in order, as they are now."""
        options = ReadOptions()
        options.set_iterate_upper_bound(end)
        items = self._tried(lambda: self._db.items(from_key=start, read_opt=options))
        while True:
            item: Any = self._tried(lambda: next(items, None))
            if item is None:
                return
            yield item

    def clear(self, start: bytes, end: bytes) -> None:
        """Forget all from `start` on and before `end`."""
        if next(self.scan(start, end), None) is None:
            return  # or each file that is added would have to wait for this to be written
        self._tried(lambda: self._db.delete_range(start, end))

    def close(self) -> None:
        """Let go of the folder, which keeps what was written, unless it was found damaged.

        A disk that refuses this as well has been told of before.
        """
        if _open.get(self._folder) is self:
            del _open[self._folder]
        with suppress(Exception):
            self._db.close()
        if self._is_damaged:
            shutil.rmtree(self._folder, ignore_errors=True)


def _is_damage(error: Exception) -> bool:
    """Whether bytes on disk are not those that were written."""
    return "orruption" in str(error)


def _options() -> Options:
    if not _cache:
        _cache.append(Cache(CACHE_BYTES))
        _buffers.append(WriteBufferManager(BUFFER_BYTES, allow_stall=False))
    blocks = BlockBasedOptions()
    blocks.set_block_cache(_cache[0])
    blocks.set_bloom_filter(_BITS_A_KEY, block_based=False)
    # The one index or filter of a large file would be more than a part of the cache takes, and be
    # read again for each key, in 0.5 ms.
    blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
    blocks.set_partition_filters(size=True)
    blocks.set_cache_index_and_filter_blocks(v=True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)  # noqa: FBT003 (it takes no names)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_manager(_buffers[0])
    options.set_write_buffer_size(BUFFER_BYTES // 4)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    return options
