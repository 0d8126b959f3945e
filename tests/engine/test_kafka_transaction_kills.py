"""A topic as the source of transactions under `fulmen run`: stores have each message once.

Processes, the broker and the stores are killed, as the seed decides; the moments are those of real
processes. Longer ones: `make soak SOAK_ARGS=--kafka`.
"""

import signal
from contextlib import suppress

import pytest

from fulmen.connectors.kafka import OpaqueTransactionalKafkaSpout, TransactionalKafkaSpout
from support.lives.processes import descendants, send
from support.soaks.kafka_soak import KafkaRun, KafkaTransactions, running
from support.soaks.transaction_run import Difference
from support.soaks.transaction_soak import Figures
from support.stores.audited_stores import AuditedSqlite
from support.suite import seeds

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def servers():
    with running() as all_of_them:
        yield all_of_them


@pytest.mark.matrix(share=1 / 5, name="transactions under kills", cell="topic")
@pytest.mark.parametrize(
    ("number", "spout"), [(0, TransactionalKafkaSpout), (1, OpaqueTransactionalKafkaSpout)]
)
def test_stores_are_exact_whatever_is_killed(tmp_path, servers, monkeypatch, number, spout):
    monkeypatch.setattr(KafkaTransactions, "spouts", (spout,))
    print(f"FULMEN_SEED={seeds.FIRST}, shape {number}")
    figures = Figures()
    with KafkaTransactions(tmp_path, seeds.FIRST, number, servers, figures) as shape:
        print(shape.name)
        shape.round()
        shape.drain()
    print(figures)
    assert figures.killed


CUT_OFF = "transactions that are cut off, wait or are given up"


def killed_in_commit_phase(run):
    """Kill a run, with all of its processes, when `counts` has written and `totals` has not."""
    hold, held = run.folder / "hold-totals", run.folder / "held"
    hold.touch()
    run.limits = [30] * 3
    run.set_limits()
    run.wait_until(held.exists, "a commit phase")
    for pid in (*descendants(run.process.pid), run.process.pid):
        send(pid, signal.SIGKILL)
    run.process.wait()
    hold.unlink()


@pytest.mark.matrix(share=2 / 7, name=CUT_OFF, cell="topic")
@pytest.mark.parametrize("deletes", [False, True], ids=["whole", "deleted"])
def test_an_opaque_attempt_takes_back_what_the_one_before_has_written(tmp_path, servers, deletes):
    """Counts were written of messages that are in the topic no more, or in another transaction."""
    store, name = AuditedSqlite(tmp_path, "s"), f"opaque-{deletes}"
    shape = {"spout": OpaqueTransactionalKafkaSpout, "rule": "opaque", "max_spout_pending": 2}
    with KafkaRun(tmp_path, [store], servers.kafka, name, **shape) as run:

        def is_complete():
            with suppress(Difference):  # until it is taken back
                return run.is_complete()
            return False

        run.limits = [10] * 3
        run.set_limits()
        run.start()
        run.wait_until(run.is_complete, "the first messages")
        killed_in_commit_phase(run)
        if deletes:
            for partition in range(3):
                servers.kafka.delete_before(name, partition, 15)
                run.missing[partition] = range(10, 15)
        run.start()
        run.wait_until(is_complete, "all messages that there are")
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == 0, run.output()
        assert ("were deleted before they were read" in run.output()) == deletes
        run.check()


@pytest.mark.matrix(share=2 / 7, name=CUT_OFF, cell="repeated")
def test_another_driver_emits_the_same_messages_again(tmp_path, servers):
    """The store has the transactional rule: other messages in the same transaction would show."""
    store, name = AuditedSqlite(tmp_path, "s"), "repeated"
    shape = {"spout": TransactionalKafkaSpout, "max_spout_pending": 2}
    with KafkaRun(tmp_path, [store], servers.kafka, name, **shape) as run:
        run.limits = [10] * 3
        run.set_limits()
        run.start()
        run.wait_until(run.is_complete, "the first messages")
        killed_in_commit_phase(run)
        run.limits = [60] * 3
        run.set_limits()
        run.start()
        run.wait_until(run.is_complete, "all messages")
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == 0, run.output()
        run.check()
