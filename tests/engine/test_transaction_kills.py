"""Transactional topologies under `fulmen run`: whatever is killed, stores have each message once.

The seed decides what is killed; the moments are those of real processes, and what the source emits
in each attempt nobody foresees. Longer ones: `make soak SOAK_ARGS=--transactions`.
"""

import signal
import time
import zlib

import pytest

from support.lives.processes import send, stop_tree
from support.parts import committing_parts as parts
from support.soaks.transaction_run import TransactionRun
from support.soaks.transaction_soak import Figures, KilledTransactions, running_servers
from support.stores.audited_stores import AuditedPostgres, AuditedRedis, AuditedSqlite
from support.suite import seeds

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

CUT_OFF = "transactions that are cut off, wait or are given up"
OUTAGE_SECONDS = 20
TAKE = 10


@pytest.fixture(scope="module")
def servers():
    with running_servers() as both:
        yield both


@pytest.fixture
def stores(tmp_path, postgres, redis_server, request):
    """Makes a store of a kind, for this test alone."""
    name = f"t{zlib.crc32(request.node.name.encode()):x}"
    return {
        "sqlite": lambda: AuditedSqlite(tmp_path, name),
        "postgres": lambda: AuditedPostgres(postgres, name),
        "redis": lambda: AuditedRedis(redis_server, name),
    }


def go_through(folder, seed, number, servers, rounds):
    """One shape, to its end."""
    print(f"FULMEN_SEED={seed}, shape {number}")
    figures = Figures()
    with KilledTransactions(folder, seed, number, servers, figures) as shape:
        print(shape.name)
        for _ in range(rounds):
            shape.round()
        shape.drain()
    print(figures)
    assert figures.killed >= rounds


@pytest.mark.matrix(share=1 / 5, name="transactions under kills", cell="rows")
@pytest.mark.parametrize("number", range(3))
def test_stores_are_exact_whatever_is_killed(tmp_path, servers, number):
    """The numbers of shapes that follow each other have the three stores in turn."""
    go_through(tmp_path, seeds.FIRST, number, servers, rounds=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(1, 4))
def test_stores_are_exact_whatever_is_killed_for_long(tmp_path, servers, seed):
    """Each store in turn; `make soak` goes on for hours."""
    go_through(tmp_path, seed, 1, servers, rounds=4)


@pytest.mark.matrix(share=2 / 7, name=CUT_OFF, cell="ends")
def test_a_tuple_that_kills_its_worker_each_time_ends_the_topology(tmp_path):
    """What is before it is exact, and the error tells which transaction it is in."""
    config = {"take": TAKE, "poison": [1, 2 * TAKE + 3]}
    store = AuditedSqlite(tmp_path, "s")  # a sink may have what is committed in the next batch only
    with TransactionRun(tmp_path, [store], config=config, rows=False) as run:
        run.limits = [5 * TAKE] * 3
        run.set_limits()
        run.start()
        assert run.end() == 1
        text = " ".join(run.output().split())
        assert "transaction 3 (metadata 3), alone in its batch, came to nothing 5 times" in text
        assert "set spec.maxReplays to give such a transaction up" in text
        run.limits = [2 * TAKE] * 3
        assert run.check()[0] == run.committed() == 2


@pytest.mark.matrix(share=2 / 7, name=CUT_OFF, cell="given up")
def test_a_transaction_that_kills_its_worker_each_time_is_given_up_alone(tmp_path):
    config = {"take": TAKE, "poison": [1, 2 * TAKE + 3]}
    store = AuditedSqlite(tmp_path, "s")
    with TransactionRun(
        tmp_path, [store], config=config, max_replays=1, max_spout_pending=3
    ) as run:
        run.limits = [5 * TAKE] * 3
        run.missing = dict.fromkeys(range(3), range(2 * TAKE, 3 * TAKE))
        run.set_limits()
        process = run.start()
        run.wait_until(run.is_complete, "all but what is given up")
        process.send_signal(signal.SIGTERM)
        assert run.end() == 0, run.output()
        assert "transaction 3" in run.output()
        run.check()
        assert run.committed() > 5


@pytest.mark.matrix(share=1 / 7, name="drivers that wake up in a write", cell="of a transaction")
@pytest.mark.parametrize(
    ("kind", "spout"),
    [("sqlite", parts.Changing), ("postgres", parts.Repeated), ("redis", parts.Changing)],
    ids=["sqlite", "postgres", "redis"],
)
def test_a_driver_that_wakes_up_in_a_commit_phase_changes_nothing(tmp_path, stores, kind, spout):
    """All processes of a run are stopped when its committers begin to write, and another begins.

    All messages are in the first transaction, so no row tells that there are later ones.
    """
    rule = "transactional" if spout is parts.Repeated else "opaque"
    shape = {"spout": spout, "rule": rule, "blocking": True, "max_spout_pending": 2}
    config = {"take": TAKE}
    with TransactionRun(tmp_path, [stores[kind]()], config=config, **shape) as run:
        run.limits = [TAKE] * 3
        run.set_limits()
        (tmp_path / "hold").touch()
        old = run.start()
        run.wait_for_commit_phase()
        stopped = stop_tree(old)
        (tmp_path / "hold").unlink()
        new = run.start()
        run.wait_until(lambda: run.newest_commit() > 5 and run.is_complete(), "all messages")
        assert run.refused() == 0
        for pid in stopped:
            send(pid, signal.SIGCONT)
        assert run.end(old) == 1
        assert "has taken over" in run.output(old)
        assert run.refused() > 0
        before = run.newest_commit()
        run.wait_until(lambda: run.newest_commit() > before + 2, "commits")
        new.send_signal(signal.SIGTERM)
        assert run.end() == 0, run.output()
        run.check()


@pytest.mark.matrix(share=2 / 7, name=CUT_OFF, cell="away")
@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_a_store_that_is_away_for_long_is_waited_for_and_told_of(tmp_path, stores, kind):
    store = stores[kind]()
    with TransactionRun(tmp_path, [store], max_spout_pending=2) as run:
        run.limits = [60] * 3
        run.set_limits()
        process = run.start()
        run.wait_until(run.is_complete, "the first messages")
        store.server.kill()
        run.limits = [200] * 3
        run.set_limits()
        run.wait_until(lambda: " is away (" in run.output(), "a report")
        time.sleep(OUTAGE_SECONDS)
        assert process.poll() is None, run.output()
        store.server.start()
        run.wait_until(run.is_complete, "all messages")
        process.send_signal(signal.SIGTERM)
        assert run.end() == 0, run.output()
        run.check()
