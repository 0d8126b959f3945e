"""Storm's TransactionalSpoutCoordinator, as its documentation tells: a model to compare with.

It hears of single attempts: `sync` says what to emit, `ack` and `fail` are what becomes of it.
"""

PROCESSING, PROCESSED, COMMITTING = "processing", "processed", "committing"


class StormCoordinator:
    """The algorithm, with numbers instead of streams.

    Attributes:
        current: The txid to be committed next.
        active: Txid -> [attempt, status].
        failures: Txid -> how many attempts have failed.
        committed: All txids that were committed, in that order.
        given_up: Those that were given up, in that order.
    """

    def __init__(self, most, has_committers, max_replays):
        self.most, self.has_committers, self.max_replays = most, has_committers, max_replays
        self.current = 1
        self.active = {}
        self.failures = {}
        self.committed, self.given_up = [], []

    def is_given_up(self, txid):
        return self.max_replays is not None and self.failures.get(txid, 0) > self.max_replays

    def sync(self, metadata, most, *, opens):
        """What to emit now: (txid to commit or None, txids to process)."""
        commit = None
        if self.current in self.active and self.active[self.current][1] == PROCESSED:
            self.active[self.current][1] = COMMITTING
            commit = self.current
        opened = []
        for txid in range(self.current, self.current + most):
            if not opens or txid not in metadata:
                break
            if self.is_given_up(txid):  # it must be gone before anything behind it begins
                if txid == self.current and txid not in self.active:
                    opened.append(txid)
                break
            if txid not in self.active:
                opened.append(txid)
        return commit, opened

    def emitted(self, txid, attempt):
        self.active[txid] = [attempt, PROCESSING]

    def ack(self, attempt):
        """All of an attempt that is on its way has succeeded."""
        of_txid = self.active.get(attempt.txid)
        if of_txid is None or of_txid[0] != attempt:
            return
        if of_txid[1] == COMMITTING:
            self._commit()
        elif self.is_given_up(attempt.txid):
            del self.active[attempt.txid]
            self.given_up.append(attempt.txid)
            self._advance()
        else:
            of_txid[1] = PROCESSED
            while not self.has_committers and self._is_processed():
                self._commit()  # nobody subscribes to the commit: it is acked at once

    def _is_processed(self):
        return self.current in self.active and self.active[self.current][1] == PROCESSED

    def _commit(self):
        del self.active[self.current]
        self.committed.append(self.current)
        self._advance()

    def _advance(self):
        self.failures = {t: n for t, n in self.failures.items() if t > self.current}
        self.current += 1

    def fail(self, attempt, *, counts=True):
        """It has failed, and with it all later ones."""
        of_txid = self.active.get(attempt.txid)
        if of_txid is None or of_txid[0] != attempt:
            return
        if counts:
            self.failures[attempt.txid] = self.failures.get(attempt.txid, 0) + 1
        self.active = {t: a for t, a in self.active.items() if t < attempt.txid}
