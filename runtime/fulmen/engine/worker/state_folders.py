"""Where keyed state of tasks is on the disk of this machine.

Each number of tasks of a component has a folder of its own, so that what the next number needs is
read there while the one before still runs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

from fulmen.own_files import STATE_FOLDER, kept_folder
from fulmen.plan import task_of_key


class StateFolders:
    """The folders of a checkpoint."""

    def __init__(self, uri: str, identity: str) -> None:
        """`uri`: Of the store. `identity`: Of the checkpoint in it."""
        parent = os.environ.get(STATE_FOLDER)
        own = None if parent is None else Path(parent)
        self.all = kept_folder("state", f"{uri} {identity}", own)

    def of_component(self, component: str) -> Path:
        """That of a component, in which each number of tasks has one."""
        return self.all / hashlib.sha256(component.encode()).hexdigest()[:16]

    def of_task(self, task_key: str, tasks: int) -> Path:
        """That of a task of so many."""
        component, index = task_of_key(task_key)
        return self.of_component(component) / str(tasks) / str(index)

    def keep_only(self, component: str, tasks: int) -> None:
        """Remove what there is for other numbers of tasks."""
        with suppress(OSError):
            for folder in self.of_component(component).iterdir():
                if folder.name != str(tasks):
                    shutil.rmtree(folder, ignore_errors=True)

    def bytes_without(self, component: str, tasks: int) -> int:
        """How much all folders have but that of one component with so many tasks."""
        own, total = self.of_component(component) / str(tasks), 0
        for file in self.all.rglob("*"):
            if own not in file.parents:
                with suppress(OSError):  # RocksDB removes files at any time
                    total += file.stat().st_size
        return total
