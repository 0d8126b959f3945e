"""A transactional topology under `fulmen run`, whose stores are compared with a count of their own.

The topology (parts/committing_parts.py) counts messages. How many there are a file says, so that
each value in each store is known, whatever has happened before.
"""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from fulmen import TransactionalTopologyBuilder
from fulmen.checkpoint import Store, read_newest
from fulmen.connectors.sqlite import SqliteSink
from fulmen.engine.batches.ledger import ledger_of
from fulmen.topology.reading.documents import to_document
from support.lives.processes import descendants, send
from support.parts import committing_parts as parts
from support.stores.audited_stores import check_audit

DEADLINE_SECONDS = 300
WAYS = ("spread", "count")


class Difference(AssertionError):
    """A store has not what it has to have."""


class TransactionRun:
    """One checkpoint and its stores, and the runs on it.

    Attributes:
        process: The present run.
        olds: Runs that were followed by another one.
        starts: How many there were.
        limits: How many messages there are in each partition.
        missing: Of each partition, messages that are not to be counted.
        rows: The file of SQLite to which a sink writes all messages; None: there is no sink.
        row_fields: What the source calls the fields of a message.
    """

    row_fields = ("partition", "n")

    def __init__(self, folder, stores, *, spout=parts.Repeated, rule="transactional", **shape):
        self.folder, self.stores = folder, stores
        self.tasks = shape.pop("tasks", 2)
        self.config = {
            "folder": str(folder),
            "stores": [[store.kind, store.at, store.name] for store in stores],
            "rule": rule,
            **shape.pop("config", {}),
        }
        self.checkpoint = (folder / "checkpoint").as_uri()
        self.rows = folder / "rows.db" if shape.pop("rows", True) else None
        self.process, self.olds, self.starts = None, [], 0
        self.limits, self.missing = [0, 0, 0], {}
        self.set_limits()
        for file in ("commits", "attempts", "refused"):
            (folder / file).touch()
        self._write(spout, shape)

    def _write(self, spout, shape):
        is_blocking = shape.pop("blocking", False)
        b = TransactionalTopologyBuilder("counted", "source", spout, 2, config=self.config, **shape)
        b.get_spout_declarer().set_config(self.source_config())
        b.set_bolt("spread", parts.Spread, 2).shuffle_grouping("source")
        count = b.set_bolt("count", parts.Count, self.tasks).set_blocking(is_blocking)
        count.fields_grouping("spread", ["key"])
        gather = b.set_bolt("gather", parts.Gather, 2).fields_grouping("count", ["group"])
        gather.fields_grouping("spread", ["group"], stream="direct")
        totals = b.set_bolt("totals", parts.Totals, self.tasks).set_blocking(is_blocking)
        totals.fields_grouping("gather", ["group"])
        if self.rows is not None:
            rows = b.set_bolt("rows", SqliteSink, 2).shuffle_grouping("source")
            columns = dict.fromkeys(self.row_fields, "INTEGER")
            rows.set_config({"path": str(self.rows), "table": "rows", "create": columns})
        document = to_document(b.build())
        spec = document["spec"]
        for component in (*spec["transactional"], *spec["bolts"]):
            component["class"] = re.sub(r"^support\.\w+\.", "", component["class"])
        spec["code"] = {"folder": "."}
        shutil.copy(parts.__file__, self.folder)
        (self.folder / "counted.yaml").write_text(json.dumps(document))

    def source_config(self):
        """The source's own config."""
        return {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in filter(None, (self.process, *self.olds)):
            if process.poll() is None:
                for pid in (process.pid, *descendants(process.pid)):
                    send(pid, signal.SIGKILL)
                process.wait()

    # ---- the source

    def set_limits(self):
        """Tell the source how many messages there are."""
        file = self.folder / "limits.json"
        file.with_suffix(".new").write_text(json.dumps(self.limits))
        os.replace(file.with_suffix(".new"), file)

    def expected(self):
        """What stores have in the end: by key, and by group and way."""
        counts, totals = Counter(), Counter()
        for partition, limit in enumerate(self.limits):
            left_out = self.missing.get(partition, ())
            for n in (n for n in range(limit) if n not in left_out):
                key, amount = parts.key_of(partition, n), parts.amount_of(partition, n)
                counts[key] += amount
                for way in WAYS:
                    totals[f"{parts.group_of(key)} {way}"] += amount
        return {"counts": dict(counts), "totals": dict(totals)}

    def has_all_rows(self):
        """Whether the sink has written each message that is to be counted.

        Raises:
            Difference: It has written another one, or one of them twice.
        """
        if self.rows is None or not self.rows.exists():
            return self.rows is None
        with closing(sqlite3.connect(self.rows, timeout=60)) as db:
            if not db.execute("SELECT name FROM sqlite_master WHERE name = 'rows'").fetchall():
                return False  # the file is there before its table
            found = Counter(db.execute("SELECT * FROM rows"))
        wanted = {
            (partition, n)
            for partition, limit in enumerate(self.limits)
            for n in range(limit)
            if n not in self.missing.get(partition, ())
        }
        if wrong := [row for row, times in found.items() if times > 1 or row not in wanted]:
            raise Difference(f"the sink has rows that it should not have: {wrong[:9]}")
        return found.keys() == wanted

    # ---- processes

    def start(self, *options):
        """Start a run; the one before may be there still."""
        if self.process is not None and self.process.poll() is None:
            self.olds.append(self.process)
        command = [Path(sys.executable).with_name("fulmen"), "run", "counted.yaml"]
        with open(self.folder / f"output-{self.starts}", "ab") as output:
            self.process = subprocess.Popen(
                [*command, "--checkpoint", self.checkpoint, *options],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.process.output = Path(output.name)
        self.starts += 1
        return self.process

    def wait_until(self, test, what, keep=lambda: None):
        """Wait for something; `keep` is called meanwhile."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (result := test()):
            assert time.monotonic() < deadline, f"{what} did not come:\n{self.output()}"
            keep()
            time.sleep(0.02)
        return result

    def end(self, process=None):
        """The exit code of a run, when it has ended."""
        process = process or self.process
        try:
            return process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end:\n{self.output(process)}") from None

    def output(self, process=None):
        """What a run has printed."""
        process = process or self.process
        return process.output.read_text(errors="replace")[-6000:] if process else ""

    # ---- what is there

    def commit_phases(self):
        """How often a committer has begun to write."""
        return (self.folder / "commits").read_bytes().count(b"\n")

    def wait_for_commit_phase(self, keep=lambda: None):
        """Wait until a committer begins to write."""
        before = self.commit_phases()
        self.wait_until(lambda: self.commit_phases() > before, "a commit phase", keep)

    def attempts(self):
        """How many attempts were processed."""
        return len(set((self.folder / "attempts").read_text().splitlines()))

    def refused(self):
        """How many attempts came too late, and were refused by a store."""
        return (self.folder / "refused").read_bytes().count(b"\n")

    def committed(self):
        """How many transactions are, as the checkpoint says."""
        return ledger_of(read_newest(Store.open(self.checkpoint)).transient).committed

    def newest_commit(self):
        """The number of the checkpoint's newest commit; 0: there is none."""
        names = [file.name for file in (self.folder / "checkpoint" / "commits").glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=0)

    def is_complete(self):
        """Whether all stores have all of it. Nothing may ever be counted twice.

        Raises:
            Difference: A value is higher than it may ever be.
        """
        expected, complete = self.expected(), True
        for store in self.stores:
            for table, wanted in expected.items():
                found = store.read(table)
                for key, value in found.items():
                    if value > wanted.get(key, 0):
                        raise Difference(
                            f"{store.kind}, {table}: {key} is {value}, not {wanted.get(key, 0)}"
                        )
                complete = complete and found == wanted
        return self.has_all_rows() and complete

    def check(self):
        """Assert that stores have exactly what they must, written in strict order.

        Returns:
            How many transactions there are, and how many writes were of one written before.
        """
        assert self.is_complete(), f"something is missing in a store:\n{self.output()}"
        transactions = again = 0
        for store in self.stores:
            transactions, writes = check_audit(store.audit(), self.tasks)
            again += writes - transactions * self.tasks * len(WAYS)
        return transactions, again
