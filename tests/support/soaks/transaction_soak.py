"""Random kills of transactional topologies and of their stores, see soaks/soak.py --transactions.

A shape is a topology with random properties: its store comes in turn. What is killed follows from
the seed and the number of the shape, the moments are those of real processes, and what the source
emits nobody foresees. After each round all stores must have exactly what the source has.
"""

import random
import signal
import tempfile
import time
import zlib
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fulmen import OpaquePartitionedTransactionalSpout
from fulmen.services.pools import close_all
from support.lives.processes import DRIVER, JVM, PAUSE, PYTHON, send, stop_tree, victims
from support.parts import committing_parts as parts
from support.servers.postgres import running_postgres
from support.servers.redis_server import running_redis
from support.soaks.transaction_run import TransactionRun
from support.stores.audited_stores import (
    SERVERS,
    AuditedPostgres,
    AuditedRedis,
    AuditedSqlite,
)

STORE, TAKEOVER = "store", "takeover"
KINDS = (*[PYTHON] * 8, *[STORE] * 6, DRIVER, JVM, *[TAKEOVER] * 2, PAUSE, PAUSE)
"""What ends a run costs a start of Spark's each time, so it is done less often."""
KAFKA = "Kafka"
KILLS = (PYTHON, JVM, DRIVER, KAFKA, *SERVERS)
ROUNDS_OF_SHAPE = 8
PAUSE_SECONDS = 2
STOPPED_SECONDS = 60
MOST_PARTITIONS = 6


class Figures:
    """What has happened in all shapes.

    Attributes:
        kills: How many processes of each kind were killed.
        others: How often other harm was done, of each kind.
        shapes: How many topologies there were.
        totals: Transactions, attempts, writes of what was written before, refused late writes, and
            runs.
        checks: How often all stores were compared with what they must have.
        differences: How often they were not the same. The first one ends it all.
    """

    def __init__(self):
        self.kills, self.others, self.totals = Counter(), Counter(), Counter()
        self.shapes = self.checks = self.differences = 0
        self.began = time.monotonic()

    @property
    def killed(self):
        """How many kills, all in all."""
        return sum(self.kills.values())

    def count(self, harm):
        """Some harm was done."""
        (self.kills if harm in KILLS else self.others)[harm] += 1

    def __str__(self):
        kills, others = (
            ", ".join(f"{kind} {n}" for kind, n in sorted(counts.items()))
            for counts in (self.kills, self.others)
        )
        totals = ", ".join(f"{n} {what}" for what, n in self.totals.items())
        return (
            f"{self.killed} kills ({kills}) and {sum(self.others.values())} other things"
            f" ({others}); {self.shapes} topologies; {totals};"
            f" {self.checks} checks, {self.differences} differences;"
            f" {time.monotonic() - self.began:.0f} seconds"
        )


class Servers:
    """PostgreSQL and Redis, for all shapes."""

    def __init__(self, postgres, redis):
        self.postgres, self.redis = postgres, redis

    def store(self, kind, folder, name):
        """A store on one of them, or in a file."""
        if kind == "sqlite":
            return AuditedSqlite(folder, name)
        if kind == "postgres":
            return AuditedPostgres(self.postgres, name)
        return AuditedRedis(self.redis, name)


@contextmanager
def running_servers():
    """Both, empty."""
    with running_postgres() as postgres, running_redis() as redis:
        yield Servers(postgres, redis)
        close_all()


class KilledTransactions:
    """One shape, to which things happen.

    Attributes:
        spouts: Of which classes its source may be.
        kinds: What may happen, each as likely as it is often here.
    """

    spouts = (parts.Repeated, parts.Changing)
    kinds = KINDS

    def __init__(self, folder, seed, number, servers, figures):
        self.rng = rng = random.Random(f"{seed}/{number}")
        kinds = rng.sample(["sqlite", "postgres", "redis"], 2)
        kinds = [kind_of_turn(seed, number), *kinds[: rng.randint(0, 1)]]
        kinds = list(dict.fromkeys(kinds))
        name = f"s{zlib.crc32(str(folder).encode()):08x}{number:03}"  # nobody has used it before
        stores = [servers.store(kind, folder, name) for kind in kinds]
        spout = rng.choice(self.spouts)
        is_opaque = issubclass(spout, OpaquePartitionedTransactionalSpout)
        rules = ["opaque"] if is_opaque else ["transactional"] * 4 + ["opaque"]
        shape = {
            "workers": rng.randint(1, 3),
            "max_spout_pending": rng.randint(1, 4),
            "blocking": rng.random() < 0.5,
            "tasks": rng.randint(1, 3),
            "rule": rng.choice(rules),
        }
        self.name = f"{'+'.join(kinds)}, {spout.__name__}, {shape}"
        self.run = self.make_run(folder, stores, servers, spout=spout, **shape)
        self.figures = figures
        self.is_harmed = False
        self.paused = []

    def make_run(self, folder, stores, servers, **shape):
        """The topology."""
        return TransactionRun(folder, stores, **shape)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.run.__exit__(*unused)

    def keep_running(self):
        """Start it, if it does not run. Only what ends a run may have ended it."""
        process = self.run.process
        if process is None or process.poll() is not None:
            assert process is None or self.is_harmed, f"it ended by itself:\n{self.run.output()}"
            self.is_harmed = False
            self.run.start()

    def wait_until(self, test, what):
        """Wait, while it is kept running."""
        return self.run.wait_until(test, what, self.keep_running)

    def wait_for_a_moment(self):
        """Until a committer begins to write, or just some time."""
        if self.rng.random() < 0.6:
            self.run.wait_for_commit_phase(self.keep_running)
            time.sleep(self.rng.uniform(0, 0.04))
        else:
            time.sleep(self.rng.uniform(0, 1))

    # ---- harm

    def strike(self):
        """Do harm of one to three kinds at once, until a process was killed."""
        before = self.figures.killed
        while self.figures.killed == before:
            self.go_on()
            self.keep_running()
            self.wait_for_a_moment()
            for kind in [self.rng.choice(self.kinds) for _ in range(self.rng.choice((1, 2, 2, 3)))]:
                if done := self.harm(kind):
                    self.figures.count(done)

    def harm(self, kind):
        """Do harm of one kind. Returns what was done; None: there was nothing to do it to."""
        if kind == STORE:
            return self.rng.choice(self.run.stores).harm(self.rng)
        if kind == TAKEOVER:
            return self.take_over()
        possible = sorted(set(victims(self.run.process, kind if kind != PAUSE else PYTHON)))
        possible = [pid for pid in possible if pid not in self.paused]
        if not possible:
            return None
        pid = self.rng.choice(possible)
        self.is_harmed = self.is_harmed or kind in (DRIVER, JVM)
        if not send(pid, signal.SIGSTOP if kind == PAUSE else signal.SIGKILL):
            return None
        if kind == PAUSE:
            self.paused.append(pid)
        return kind

    def take_over(self):
        """Stop the run with all of its processes, and let it go on when another one has begun."""
        old = self.run.process
        if old.poll() is not None or self.is_harmed or self.paused:
            return None
        self.run.wait_for_commit_phase()
        time.sleep(self.rng.uniform(0, 0.02))
        stopped = stop_tree(old)
        before, new = self.run.newest_commit(), self.run.start()
        enough, end = self.rng.choice((0, 3, 6)), time.monotonic() + STOPPED_SECONDS
        while self.run.newest_commit() < before + enough and time.monotonic() < end:
            time.sleep(0.02)
        for pid in stopped:
            send(pid, signal.SIGCONT)
        code, said = self.run.end(old), self.run.output(old)
        assert code == 1, f"it ended with {code}:\n{said}"
        assert "has taken over" in said, said
        assert new.poll() is None, f"the new one has ended:\n{self.run.output()}"
        return TAKEOVER

    def go_on(self):
        """Let what was paused go on, some time later."""
        if self.paused:
            time.sleep(self.rng.uniform(0, PAUSE_SECONDS))
        for pid in self.paused:
            send(pid, signal.SIGCONT)
        self.paused.clear()

    # ---- rounds

    def more_messages(self):
        """There are more of them, and now and then a partition more."""
        limits = self.run.limits
        if len(limits) < MOST_PARTITIONS and self.rng.random() < 0.1:
            limits.append(0)
        self.run.limits = [limit + self.rng.randint(0, 120) for limit in limits]
        self.run.set_limits()

    def round(self):
        """Let messages come, do harm meanwhile, and see all of them counted, once."""
        self.more_messages()
        for _ in range(self.rng.randint(1, 4)):
            self.strike()
            self.go_on()
        self.wait_until(self.is_complete, "all that the source has")
        self.figures.checks += 1

    def is_complete(self):
        """Asked seldom: it takes a while."""
        time.sleep(0.3)
        return self.run.is_complete()

    def drain(self):
        """End it as its user does, and check all."""
        before = self.run.newest_commit()
        self.keep_running()
        self.wait_until(lambda: self.run.newest_commit() > before + 1, "commits")
        self.run.process.send_signal(signal.SIGTERM)
        code = self.run.end()
        assert code == 0, f"it ended with {code}:\n{self.run.output()}"
        transactions, again = self.run.check()
        assert transactions == self.run.committed()
        self.figures.checks += 1
        self.figures.shapes += 1
        self.figures.totals.update(
            {
                "transactions": transactions,
                "attempts": self.run.attempts(),
                "writes again": again,
                "late writes refused": self.run.refused(),
                "runs": self.run.starts,
            }
        )


def kind_of_turn(seed, number):
    """The kind of the first store of a shape."""
    return ("sqlite", "postgres", "redis")[(seed + number) % 3]


def soak(
    seed,
    seconds,
    kills=float("inf"),
    first=1,
    rounds=ROUNDS_OF_SHAPE,
    kind=KilledTransactions,
    running=running_servers,
):
    """Shapes until so many seconds have passed, or so many kills were made. Returns the figures.

    Args:
        seed: What it all follows from.
        seconds: For so long; the round that is on its way is ended.
        kills: Until so many.
        first: The number of the first shape.
        rounds: Of each shape.
        kind: The class of a shape.
        running: Starts the servers that it needs.
    """
    figures, end, number = Figures(), time.monotonic() + seconds, first

    def is_over():
        return time.monotonic() >= end or figures.killed >= kills

    with running() as servers:
        while not is_over():
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                shape = kind(folder, seed, number, servers, figures)
                stack.enter_context(shape)
                print(f"seed {seed}, shape {number}: {shape.name}", flush=True)
                try:
                    for _ in range(rounds):
                        shape.round()
                        if is_over():
                            break
                    shape.drain()
                except AssertionError:
                    figures.differences += 1
                    print(f"seed {seed}, shape {number}: FAILED after {figures}", flush=True)
                    raise
            print(f"after {number - first + 1} topologies: {figures}", flush=True)
            number += 1
    assert figures.kills
    return figures
