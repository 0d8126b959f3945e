"""Which call of an author's code is under way in each thread of a process, for others to read.

A process that ends in the middle of a call can tell nobody any more, nor can one that hangs. So the
call is noted before it begins: in a file that is mapped into memory. That costs about a
microsecond, and the file keeps what the process wrote last, however the process ended.

No call is noted for each tuple: those of a spout's turn, or of a chunk, are one.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from fulmen.engine.protocol.callbacks.call_names import method_of, name_with

FOLDER = "FULMEN_CALLS"
"""Environment variable: the folder of the files. Unset: calls are noted in memory only."""
_SLOT = struct.Struct("<id52p")
_NOBODY = -1
_MOST_THREADS = 64


class Call(NamedTuple):
    """A call of an author's code that has not ended.

    Attributes:
        task: Whose.
        callback: The author's method, or what the engine does with the author's objects.
        seconds: How long it has lasted. Calls of one turn of a spout, or of one chunk, are one.
    """

    task: int
    callback: str
    seconds: float


Noted = tuple[int, float, str]
"""Task, when it began in seconds of `time.monotonic()`, and callback."""
_NOTHING: Noted = (_NOBODY, 0.0, "")


class _Slot:
    """The current call of one thread."""

    def __init__(self, number: int | None, free: list[int]) -> None:
        self.noted = _NOTHING
        self.number, self._free = number, free

    def __del__(self) -> None:
        if self.number is not None:  # the thread has ended
            self._free.append(self.number)


class Calls:
    """The calls of this process. Any thread may note its own."""

    def __init__(self) -> None:
        self._thread = threading.local()
        self._free = list(range(_MOST_THREADS))[::-1]
        self._slots: weakref.WeakValueDictionary[int, _Slot] = weakref.WeakValueDictionary()
        self._map: mmap.mmap | None = None

    def keep_in(self, folder: Path) -> None:
        """Keep calls in a file of this process as well from now on, if that is possible."""
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = folder / str(os.getpid())
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(file, _SLOT.pack(_NOBODY, 0.0, b"") * _MOST_THREADS)
                self._map = mmap.mmap(file, _SLOT.size * _MOST_THREADS)
            finally:
                os.close(file)

    def begin(self, task: int, callback: str) -> Noted:
        """Note that a call begins in this thread. Returns the outer one, for `end`."""
        slot = getattr(self._thread, "slot", None) or self._new_slot()
        before = slot.noted
        self._note(slot, (task, time.monotonic(), callback))
        return before

    def again(self, now: float) -> None:
        """Note that the same call begins anew. `now` is in seconds of `time.monotonic()`."""
        slot = self._thread.slot
        task, _, callback = slot.noted
        self._note(slot, (task, now, callback))

    def reached(self, progress: str) -> None:
        """Note how far the call of this thread is, if one is under way."""
        slot = getattr(self._thread, "slot", None)
        if slot is not None and slot.noted[0] != _NOBODY:
            task, since, callback = slot.noted
            self._note(slot, (task, since, name_with(method_of(callback), progress)))

    def end(self, before: Noted = _NOTHING) -> None:
        """Note that the call has ended, well or not.

        It is not for `finally`: a call that never returned is to stay noted, and so is one whose
        process was taken away.
        """
        slot = getattr(self._thread, "slot", None)
        if slot is not None:
            self._note(slot, before)

    def take(self) -> list[Call]:
        """The call of this thread, if one is under way; from now on none is."""
        slot = getattr(self._thread, "slot", None)
        if slot is None or slot.noted[0] == _NOBODY:
            return []
        call = _call(*slot.noted)
        self._note(slot, _NOTHING)
        return [call]

    def under_way(self) -> list[Call]:
        """The calls of all threads that have not ended."""
        noted = [slot.noted for slot in list(self._slots.values())]
        return [_call(*one) for one in noted if one[0] != _NOBODY]

    def _new_slot(self) -> _Slot:
        number = self._free.pop() if self._free else None
        slot = self._thread.slot = _Slot(number, self._free)
        if number is not None:
            self._slots[number] = slot
        return slot

    def _note(self, slot: _Slot, noted: Noted) -> None:
        slot.noted = noted
        if self._map is not None and slot.number is not None:
            task, since, callback = noted
            _SLOT.pack_into(self._map, slot.number * _SLOT.size, task, since, callback.encode())


CALLS = Calls()
"""The calls that this process has noted."""


def under_way_in(folder: Path) -> list[Call]:
    """The calls that are under way in processes that note them there."""
    calls: list[Call] = []
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            with suppress(OSError):
                calls += [_call(*one) for one in _read(path.read_bytes()) if one[0] != _NOBODY]
    return calls


def left_in(folder: Path) -> Iterator[Call]:
    """Calls that were under way in processes that have ended. They are told once.

    To be asked while no batch runs: then another process that has begun a call is as good as gone.
    """
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if path.name == str(os.getpid()):
                continue
            with suppress(OSError):
                calls = [_call(*one) for one in _read(path.read_bytes()) if one[0] != _NOBODY]
                if calls or _is_gone(int(path.name)):
                    path.unlink()  # of those who look at the same time, one succeeds
                    yield from calls


def _read(data: bytes) -> Iterator[Noted]:
    for task, since, callback in _SLOT.iter_unpack(data[: len(data) // _SLOT.size * _SLOT.size]):
        if callback:  # it is written last: without it, the other two are from before or half there
            yield task, since, callback.decode(errors="replace")


def _call(task: int, since: float, callback: str) -> Call:
    return Call(task, callback, max(0.0, time.monotonic() - since))


def _is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False
