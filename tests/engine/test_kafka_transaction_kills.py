"""A topic as the source of transactions under `fulmen run`: stores have each message once.

Processes, the broker and the stores are killed, as the seed decides; the moments are those of real
processes. Longer ones: `make soak SOAK_ARGS=--kafka`.
"""

import pytest

from fulmen.connectors.kafka import OpaqueTransactionalKafkaSpout, TransactionalKafkaSpout
from support import seeds
from support.kafka_soak import KafkaTransactions, running
from support.transaction_soak import Figures

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def servers():
    with running() as all_of_them:
        yield all_of_them


@pytest.mark.parametrize(
    ("number", "spout"), enumerate([TransactionalKafkaSpout, OpaqueTransactionalKafkaSpout])
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
