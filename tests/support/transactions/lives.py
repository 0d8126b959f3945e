"""One task of a transactional spout with partitions, without a topology around it.

It does with a real coordinator and a real emitter what the engine does with them: it keeps where
each transaction ends in each partition, and of what was not committed only what a test says.
"""

import pickle
import time
from contextlib import suppress

from fulmen import (
    FailedException,
    OpaquePartitionedTransactionalSpout,
    ServiceUnavailable,
    TransactionAttempt,
)
from fulmen.api import TopologyContext

DEADLINE_SECONDS = 60


class TransactionalLife:
    """A task, over several processes.

    Attributes:
        ends: Partition -> txid -> metadata, of the last committed transaction and those after it.
        reports: What it reported.
        committed: The last transaction that was committed.
    """

    def __init__(self, kind, config, task=0, tasks=1):
        self._spout, self._place = kind(), (task, tasks)
        self.options = kind.config_model.model_validate(config)
        self.ends, self.reports, self.committed, self._attempts = {}, [], 0, 0
        self._counts = {}
        self.start()

    def start(self):
        """A new process, which knows what was kept."""
        task, tasks = self._place
        self.context = TopologyContext(
            topology="test",
            component="source",
            task_id=1 + task,
            task_index=task,
            worker=0,
            component_tasks={"source": range(1, 1 + tasks)},
            options=self.options,
        )
        self.coordinator = self._spout.get_coordinator({}, self.context)
        self.emitter = self._spout.get_emitter({}, self.context)

    def kill(self):
        """Lose the process."""
        self.emitter.close()
        self.start()

    # ---- the collector

    def emit(self, values, stream="default"):
        attempt, *rest = values
        assert attempt == self._attempt
        self._emitted.append((stream, rest))

    def emit_many(self, rows, stream="default"):
        for values in rows:
            self.emit(values, stream)

    def report_error(self, error):
        self.reports.append(str(error))

    # ---- transactions

    def attempt(self, txid=None):
        """An attempt of a transaction, by default of the next one. Returns (stream, values)."""
        txid = self.committed + 1 if txid is None else txid
        self._attempts += 1
        self._attempt, self._emitted = TransactionAttempt(txid, self._attempts), []
        first, step = self._place
        if txid not in self._counts:  # an attempt of it again has the same partitions
            self._counts[txid] = self.coordinator.num_partitions()
        for partition in range(first, self._counts[txid], step):
            known = self.ends.get(partition, {})
            if txid in known and not self._is_opaque:
                self._part("emit_partition_batch", partition, known[txid])
                continue
            end = self._end_of(partition, txid)
            before = {t: end for t, end in known.items() if t < txid}
            self.ends[partition] = before | {txid: pickle.loads(pickle.dumps(end))}
        return self._emitted

    def _end_of(self, partition, txid):
        """Have what is new in a partition emitted."""
        before = [t for t in self.ends.get(partition, {}) if t < txid]
        last = self.ends[partition][max(before)] if before else None
        new = "emit_partition_batch" if self._is_opaque else "emit_partition_batch_new"
        return self._part(new, partition, last)

    @property
    def _is_opaque(self):
        return isinstance(self._spout, OpaquePartitionedTransactionalSpout)

    def _part(self, method, partition, metadata):
        return getattr(self.emitter, method)(self._attempt, self, partition, metadata)

    def commit(self):
        """The last attempt, of the next transaction, is committed."""
        self.committed += 1
        for partition, ends in self.ends.items():
            self.ends[partition] = {t: end for t, end in ends.items() if t >= self.committed}
        self.emitter.cleanup_before(self.committed)

    def forget(self):
        """What was not committed is not known any more."""
        self._counts.clear()
        for partition, ends in self.ends.items():
            self.ends[partition] = {t: end for t, end in ends.items() if t <= self.committed}

    def whole(self):
        """A transaction that is committed at once. Returns what it emitted."""
        emitted = self.attempt()
        self.commit()
        return emitted

    def until(self, test, what="the condition"):
        """Have transactions committed until something is true. Returns what they emitted."""
        deadline, emitted = time.monotonic() + DEADLINE_SECONDS, []
        while not test(emitted):
            assert time.monotonic() < deadline, f"{what} did not come true: {self.reports}"
            with suppress(FailedException, ServiceUnavailable):  # the brokers are waited for
                emitted += self.whole()
            time.sleep(0.005)
        return emitted

    def until_emitted(self, count):
        """Have transactions committed until so many tuples were emitted in them."""
        return self.until(lambda emitted: len(emitted) >= count, f"{count} emits")

    def attempt_with(self, count):
        """Try the next transaction until it has so many tuples."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(emitted := self.attempt()) < count:
            assert time.monotonic() < deadline, f"it has {len(emitted)} tuples: {self.reports}"
            txid = self.committed + 1
            had = [n for n, ends in self.ends.items() if ends[txid] and ends[txid].messages]
            self.forget()
            # What an attempt has taken is fetched again. If one of two partitions had arrived, each
            # attempt would take one while the other is fetched, for ever: so those that have to be
            # fetched again begin to be, while the others wait.
            for partition in had:
                self._end_of(partition, txid)
            time.sleep(0.02)
        return emitted

    def close(self):
        self.emitter.close()
