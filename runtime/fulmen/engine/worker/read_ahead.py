"""Keyed state on disk for tasks that are to be here, read while the tasks of before still run.

It is read in a thread, into the folders in which the tasks to come look for it. What is committed
meanwhile they read themselves, or the next order has it read. If it can't be read, nothing is lost:
the tasks will read it.
"""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from decimal import Decimal

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.checkpoint import Manifest, Store
from fulmen.engine.protocol.read_ahead import AheadOrder, AheadReport, AheadRequest, Links
from fulmen.engine.state.entries.disk_journals import DiskJournals, restored_entries
from fulmen.engine.state.entries.keyed_state import segment_journals
from fulmen.engine.state.entries.own_blocks import of_many
from fulmen.engine.state.journals import STATE, TIMERS
from fulmen.engine.worker.state_folders import StateFolders
from fulmen.errors import NotFound, error_text
from fulmen.plan import task_of_key


class ReadAhead:
    """What one worker reads ahead."""

    def __init__(self, store: Store, worker: int, disk_limit: Decimal | None) -> None:
        """`disk_limit`: how many bytes all state may have on disk; None: that is not limited."""
        self._store, self._worker, self._limit = store, worker, disk_limit
        self._reading: _Reading | None = None

    def follow(self, request: AheadRequest) -> AheadReport:
        """Read what is wanted. Returns how far it is."""
        order, reading = request.order, self._reading
        if order is not None and (reading is None or reading.order.round < order.round):
            self.close()
            reading = self._reading = _Reading(self._store, order, self._worker, self._limit)
            reading.start()
        if reading is None:
            return AheadReport(0, is_over=True)
        return reading.report

    def give_up(self) -> None:
        """End it, and forget what was read."""
        self.close()
        if self._reading is not None:
            self._reading.remove()
            self._reading = None

    def close(self) -> None:
        """End it. What was read stays."""
        if self._reading is not None:
            self._reading.end()


class _Ended(Exception):
    """Nobody wants it any more."""


class _NoRoom(Exception):
    """The disk may not have the state twice."""


class _Reading(threading.Thread):
    """One order.

    Attributes:
        order: What to read.
        report: How far it is.
    """

    def __init__(self, store: Store, order: AheadOrder, worker: int, limit: Decimal | None) -> None:
        super().__init__(name="read ahead", daemon=True)
        self.order = order
        self.report = AheadReport(order.round, is_over=False)
        self._store, self._limit = store, limit
        self._own = order.tasks.get(worker, {})
        self._folders = StateFolders(store.uri, order.identity)
        self._is_ended = threading.Event()

    def run(self) -> None:
        """Read all of it."""
        failure, is_outdated = "", False
        try:
            for key, links in self._own.items():
                self._look_for_room(key)
                try:
                    self._read(key, links)
                except NotFound:  # what was read so far stays, and the next order has the rest
                    is_outdated = True
        except _Ended:
            return
        except (_NoRoom, ServiceUnavailable) as e:
            self.remove()  # what is on disk must have all the room there is
            failure = str(e)
        except Exception as e:  # noqa: BLE001 (the tasks will say what is wrong, if anything is)
            failure = error_text(e)
        self.report = replace(self.report, is_over=True, failure=failure, is_outdated=is_outdated)

    def _look_for_room(self, task_key: str) -> None:
        component, _ = task_of_key(task_key)
        taken = self._folders.bytes_without(component, self.order.numbers[component])
        if self._limit is not None and 2 * taken > self._limit:
            raise _NoRoom(
                f"it takes {taken >> 20} MB, and diskLimit has no room for twice that meanwhile"
            )

    def _read(self, task_key: str, links: Links) -> None:
        component, _ = task_of_key(task_key)
        own = {journal: list(refs) for journal, refs in links.items()}
        manifest = Manifest(self.order.commit, tasks={task_key: own})
        folder = self._folders.of_task(task_key, self.order.numbers[component])
        journals = DiskJournals({}, self._store, manifest, task_key, folder)
        try:
            for name in (STATE, TIMERS):
                segments = segment_journals(own, name)
                if segments and of_many(segments) is None:  # else it is read whole in any case
                    restored_entries(journals, name, reached=self._go_on)
        finally:
            journals.local.close()

    def _go_on(self, _: str) -> None:
        if self._is_ended.is_set():
            raise _Ended

    def end(self) -> None:
        """Have it end, and wait for that: for what is under way, which is some segments."""
        self._is_ended.set()
        if self.ident is not None:
            self.join()

    def remove(self) -> None:
        """Forget what was read."""
        for component, tasks in self.order.numbers.items():
            folder = self._folders.of_component(component) / str(tasks)
            shutil.rmtree(folder, ignore_errors=True)
