"""Random kills of a topology that reads log files and writes files, while the logs are rotated.

Each line must be in one file of each sink, whatever is killed and however full the disk is.
"""

import json
import random
import subprocess
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import yaml

from support.soak import DEADLINE_SECONDS, Soak

LOGS = ("web", "db")


class Writer(threading.Thread):
    """Appends numbered lines to logs, and renames these as log rotation does.

    Attributes:
        written: How many lines were written.
        renamed: How often a log was renamed.
    """

    def __init__(self, folder, seed):
        super().__init__(daemon=True)
        self._folder, self._rng = folder, random.Random(seed)
        self._is_over = threading.Event()
        self.written = self.renamed = 0

    def run(self):
        while not self._is_over.wait(self._rng.uniform(0, 0.05)):
            file = self._folder / f"{self._rng.choice(LOGS)}.log"
            with file.open("a") as log:
                for _ in range(self._rng.randint(1, 40)):
                    log.write(f"line {self.written}\n")
                    self.written += 1
            if self._rng.random() < 0.02:
                self._rename(file)

    def _rename(self, file):
        numbers = [int(old.suffix[1:]) for old in self._folder.glob(f"{file.name}.*")]
        for number in sorted(numbers, reverse=True):
            file.with_name(f"{file.name}.{number}").rename(f"{file}.{number + 1}")
        file.rename(f"{file}.1")
        self.renamed += 1

    def stop(self):
        self._is_over.set()
        self.join()


class FileSoak(Soak):
    """One checkpoint, its logs and what is written of them.

    Attributes:
        full: How often the disk was full.
    """

    def __enter__(self):
        self.full = 0
        (self.folder / "logs").mkdir()
        (self.folder / "disk").mkdir()
        self._is_mounted = _mount(self.folder / "disk")
        (self.folder / "chaotic.yaml").write_text(yaml.safe_dump(self._document()))
        self.writer = Writer(self.folder / "logs", self.rng.random())
        self.writer.start()
        return self

    def __exit__(self, *error):
        self.writer.stop()
        super().__exit__(*error)
        if self._is_mounted:
            subprocess.run(["umount", "-l", str(self.folder / "disk")], check=True)

    def _document(self):
        inputs = [{"from": "lines", "grouping": {"type": "shuffle"}}]
        sink = {"format": {"type": "json"}}
        return {
            "apiVersion": "fulmen.dev/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "logs"},
            "spec": {
                "workers": self.workers,
                "maxSpoutPending": 2000,
                "spouts": [
                    {
                        "name": "lines",
                        "class": "fulmen.connectors.files.FileSpout",
                        "parallelism": 2,
                        "config": {"path": "logs/*.log*", "pollSeconds": 0.2},
                    }
                ],
                "bolts": [
                    {
                        "name": "batches",
                        "class": "fulmen.connectors.files.FileSink",
                        "parallelism": 2,
                        "inputs": inputs,
                        "config": {"path": "disk/batches", "guarantee": "exactly-once", **sink},
                    },
                    {
                        "name": "rolled",
                        "class": "fulmen.connectors.files.RollingFileSink",
                        "parallelism": 2,
                        "tickSeconds": 1,
                        "inputs": inputs,
                        "config": {"path": "disk/rolled", "rollSeconds": 2, **sink},
                    },
                ],
            },
        }

    def fill_disk(self):
        """Leave no room on the disk for a while."""
        if not self._is_mounted:
            return
        filler = self.folder / "disk" / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as out:
            while out.write(b"x" * 65536):
                pass
        time.sleep(self.rng.uniform(0.5, 3))
        filler.unlink()
        self.full += 1

    def faults(self):
        """How much harm was done, besides renames."""
        return self.killed + self.full

    def round(self):
        """Let it run, do harm, see it go on, and check what is written."""
        self.wait_for_batches(self.rng.randint(1, 3))
        if self.rng.random() < 0.3:
            self.fill_disk()
        time.sleep(self.rng.uniform(0, 0.3))
        self.strike()
        self.go_on()
        self.wait_for_batches(3)
        self.check()

    def rows(self, sink):
        """How often each line is in the files of a sink."""
        found = Counter()
        for file in (self.folder / "disk" / sink).glob("part-*"):
            found.update(json.loads(line)["value"] for line in file.read_bytes().splitlines())
        return found

    def check(self):
        """Assert that no line was written twice, and none that is none."""
        for sink in ("batches", "rolled"):
            found = self.rows(sink)
            assert found.keys() <= {f"line {i}" for i in range(self.writer.written)}
            assert not [line for line, n in found.items() if n > 1], sink

    def drain(self):
        """End it when all lines are written. Each must be there once."""
        self.writer.stop()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(self.rows("batches")) < self.writer.written:
            assert time.monotonic() < deadline, f"lines are missing:\n{self.output()}"
            self.keep_running()
            time.sleep(0.2)
        self.process.terminate()
        code = self.process.wait(DEADLINE_SECONDS)
        assert code == 0, f"it ended with {code}:\n{self.output()}"
        expected = Counter(f"line {i}" for i in range(self.writer.written))
        assert self.rows("batches") == expected
        assert self.rows("rolled") == expected


def _mount(folder):
    """Make a small disk of a folder. Only root can: returns whether it was made."""
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


def soak(folder, seed, enough):
    """Do harm until there were so many faults. Returns the soak, after it was drained."""
    with FileSoak(Path(folder), seed) as killed:
        while killed.faults() < enough:
            killed.round()
        killed.drain()
    return killed
