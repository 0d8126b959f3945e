"""State in memory and on disk in a test's own process, with a checkpoint of a dict of journals."""

import shutil
from functools import partial
from itertools import count

from fulmen.engine.keyed.stores.local_store import LocalStore
from fulmen.engine.state.entries.disk_entries import DiskEntries
from fulmen.engine.state.entries.disk_queue import place_of
from fulmen.engine.state.entries.disk_records import age_of
from fulmen.engine.state.entries.disk_state import DiskState
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.entries.own_blocks import own_block, share_of
from fulmen.engine.state.entries.segment_blocks import decode_pickled
from fulmen.engine.state.journals import TIMERS
from fulmen.engine.state.pickling import Dumper


class JournalsSource:
    """The journals of a `Kept`."""

    def __init__(self, journals, tags, read=None):
        self.journals, self._tags = list(journals), tags
        self._data, self._read = journals, read

    def tag_of(self, journal):
        return self._tags[age_of(journal)[0]]

    def tag_at(self, number):
        return self._tags.get(number) if number >= max(self._tags, default=0) - 1 else None

    def read(self, journals):
        for journal in journals:
            [data] = self._data[journal]
            if self._read is not None:
                self._read.append(journal)
            yield (
                journal,
                len(data),
                decode_pickled(
                    journal, data, Dumper({}).dumps_all, partial(own_block, share_of(journal))
                ),
            )


class DiskLife:
    """A state, its checkpoint, and the folders of its processes."""

    def __init__(self, folder, kept, name="state"):
        self._name = name
        self._folders = (folder / str(n) for n in count())
        self.kept, self.number, self.tags, self.read = kept, 0, {}, []
        self.folder = next(self._folders)
        self.open()

    def open(self):
        """Go on with what is on disk."""
        source = JournalsSource(self.kept.journals, self.tags, self.read)
        self.store = LocalStore(self.folder)
        self.reached = []
        place = place_of if self._name == TIMERS else None
        self.state = DiskState(
            DiskEntries(self.store, self._name, source, place, self.reached.append)
        )
        self.state.begin_batch(f"t{self.number + 1}")

    def commit(self):
        """A batch is committed, and the next one begins."""
        self.write_down()
        self.state.begin_batch(f"t{self.number + 1}")

    def write_down(self):
        """A batch is committed, and no other has begun."""
        self.number += 1
        self.tags[self.number] = f"t{self.number}"
        return self.kept.add(self.number, self.state.updates(self.number))

    def restart(self, *, killed=False, lost=False):
        """The next process goes on, with what is on disk of the one before."""
        if killed:
            before, self.folder = self.folder, next(self._folders)
            _copy(before, self.folder)  # as a kill leaves it
            (self.folder / "LOCK").unlink()
        self.state.close()
        if lost:
            shutil.rmtree(self.folder)
        self.read.clear()
        self.open()


class MemoryLife:
    """A state in memory, and its checkpoint: as `DiskLife`."""

    def __init__(self, folder, kept, name="state"):
        self.kept, self.number, self._name = kept, 0, name
        self.restart()

    def commit(self):
        """A batch is committed, and the next one begins."""
        self.write_down()

    def write_down(self):
        """A batch is committed, and no other has begun."""
        self.number += 1
        return self.kept.add(self.number, self.state.updates(self.number))

    def restart(self, *, killed=False, lost=False):
        """The next process goes on: it has nothing of the one before in any case."""
        self.state = KeyedState.restore(self.kept.journals, name=self._name)


def _copy(before, folder):
    """Copy a store whose background threads may remove files meanwhile."""
    while True:
        try:
            shutil.copytree(before, folder)
        except shutil.Error:
            shutil.rmtree(folder)
        else:
            return
