"""Random kills of a topology that reads log files and writes files, while all happens to the logs.

Each line must be in one file of each sink, whatever is killed and however full the disk is, and
nothing may be told as lost.
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

from support.soaks.soak import DEADLINE_SECONDS, Soak
from support.worlds.rotated_logs import PATTERNS, Logs, line_of


class Writer(threading.Thread):
    """Writes logs, and lets everything happen to them that `Logs` knows.

    Attributes:
        logs: The files.
        error: What ended it.
    """

    def __init__(self, logs, seed):
        super().__init__(daemon=True)
        self.logs, self._rng = logs, random.Random(seed)
        self._is_over = threading.Event()
        self.error = None

    def run(self):
        try:
            while not self._is_over.wait(self._rng.uniform(0, 0.05)):
                self.logs.step(harm=0.1)
        except Exception as error:  # noqa: BLE001 (raised by `stop`)
            self.error = error

    def stop(self):
        self._is_over.set()
        self.join()
        if self.error is not None:
            raise self.error
        self.logs.finish()


class Rows:
    """What is in the files of a sink. These appear whole, and are never changed."""

    def __init__(self, folder):
        self._folder, self._seen, self._lock = folder, set(), threading.Lock()
        self._found = Counter()

    def look(self):
        """How often each line is there."""
        with self._lock:
            for file in self._folder.glob("part-*"):
                if file.name not in self._seen:
                    rows = [json.loads(line) for line in file.read_bytes().splitlines()]
                    self._found.update(row["value"] for row in rows)
                    self._seen.add(file.name)
            return self._found.copy()


class FileSoak(Soak):
    """One checkpoint, its logs and what is written of them.

    Attributes:
        full: How often the disk was full.
    """

    def __enter__(self):
        self.full = 0
        (self.folder / "disk").mkdir()
        self._is_mounted = _mount(self.folder / "disk")
        self.written = {sink: Rows(self.folder / "disk" / sink) for sink in ("batches", "rolled")}
        # what an exactly-once sink has written was acked with its commit
        logs = Logs(
            self.folder,
            random.Random(self.rng.random()),
            lambda numbers: self.written["batches"].look().keys() >= set(map(line_of, numbers)),
            has_parquet=True,
        )
        self.logs, self.writer = logs, Writer(logs, self.rng.random())
        self.writer.start()
        return self

    def __exit__(self, *error):
        super().__exit__(*error)
        if self._is_mounted:
            subprocess.run(["umount", "-l", str(self.folder / "disk")], check=True)
        self.writer.stop()

    def choose_workers(self):
        """Write the topology's file."""
        self.workers = self.rng.choice(self.choices)
        (self.folder / "topology.yaml").write_text(yaml.safe_dump(self._document()))

    def _document(self):
        shuffle = {"grouping": {"type": "shuffle"}}
        inputs = [{"from": "lines", **shuffle}, {"from": "rows", **shuffle}]
        errors = [{**one, "stream": "errors"} for one in inputs]
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
                        "config": {"path": list(PATTERNS), "pollSeconds": 0.2},
                    },
                    {
                        "name": "rows",
                        "class": "fulmen.connectors.files.ParquetSpout",
                        "config": {
                            "path": "logs/*.parquet",
                            "fields": ["value"],
                            "pollSeconds": 0.2,
                        },
                    },
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
                    {
                        "name": "errors",
                        "class": "fulmen.connectors.files.FileSink",
                        "inputs": errors,
                        "config": {"path": "errors", **sink},
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
        """How much harm was done, besides what happens to logs."""
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

    def check(self):
        """Assert that no line was written twice, none that is none, and that nothing is lost."""
        if self.writer.error is not None:
            raise self.writer.error
        for sink, rows in self.written.items():
            found = rows.look()
            assert found.keys() <= {line_of(i) for i in range(self.logs.written)}, sink
            twice = [line for line, n in found.items() if n > 1]
            assert not twice, f"{sink}: {len(twice)} lines twice, such as {twice[0]}"
        for file in (self.folder / "errors").glob("part-*"):
            text = file.read_text()
            assert not [told for told in ("lost", "before the message") if told in text], text

    def drain(self):
        """End it when all lines are written. Each must be there once."""
        self.writer.stop()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(self.written["batches"].look()) < self.logs.written:
            assert time.monotonic() < deadline, f"{self.missing()} are missing:\n{self.output()}"
            self.keep_running()
            time.sleep(0.2)
        self.process.terminate()
        code = self.process.wait(DEADLINE_SECONDS)
        assert code == 0, f"it ended with {code}:\n{self.output()}"
        self.check()
        assert [len(rows.look()) for rows in self.written.values()] == [self.logs.written] * 2

    def missing(self):
        """The lines that are not written yet, by their files."""
        found = self.written["batches"].look()
        return {
            str(path): few[:3]
            for path, numbers in self.logs.lines.items()
            if (few := [n for n in numbers if line_of(n) not in found])
        }

    def figures(self):
        """In one line, for people."""
        kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(self.kills.items()))
        done = ", ".join(f"{kind} {n}" for kind, n in sorted(self.logs.done.items()))
        return (
            f"{self.killed} kills ({kinds}), disk full {self.full} times; {self.starts} runs;"
            f" {self.logs.written} lines; {done}; {time.monotonic() - self.began:.0f} seconds"
        )


def _mount(folder):
    """Make a small disk of a folder. Only root can: returns whether it was made."""
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


def soak(folder, seed, enough, seconds=0):
    """Do harm for so long, and until there were so many faults, and each thing has happened.

    Returns:
        The soak, after it was drained.
    """
    with FileSoak(Path(folder), seed) as killed:
        end = time.monotonic() + seconds
        while not (
            killed.faults() >= enough
            and time.monotonic() >= end
            and killed.logs.done.keys() >= killed.logs.kinds
        ):
            killed.round()
        killed.drain()
    return killed
