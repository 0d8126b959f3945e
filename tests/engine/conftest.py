"""One server of each kind for all tests of the session, with names of its own for each test."""

import os
import zlib
from pathlib import Path

import pytest

from fulmen.services.pools import close_all
from support.connectors.avro_topics import AvroTopic
from support.servers.kafka_server import running_kafka
from support.servers.postgres import running_postgres
from support.servers.rabbitmq_server import running_rabbitmq
from support.servers.redis_server import running_redis
from support.servers.registry_server import running_registry
from support.servers.s3 import running_s3
from support.suite.long_first import long_first

# Spark's JVMs live for seconds here: compiling with C1 alone spares a third of their CPU time.
# Those of `make run` and of benchmarks compile as everybody's do.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

LONGEST = (
    "test_cli_run.py",
    "test_connectors_rabbitmq.py",
    "test_transactions.py",
    # the thorough ones
    "test_sink_kills.py",
    "test_topology_soak.py",
    "test_transaction_kills.py",
    "test_kafka_transaction_kills.py",
    "test_topology_chaos.py",
    "test_example_kafka.py",
    "test_topology_hangs.py",
    "test_topology_failures.py",
    "test_tutorial.py",
)


@pytest.hookimpl(tryfirst=True)  # before tests/conftest.py sorts by folders
def pytest_collection_modifyitems(items):
    """Of the tests of this folder, begin with what takes long."""
    folder = Path(__file__).parent
    mine = [item for item in items if item.path.parent == folder]
    long_first(mine, LONGEST)
    items[:] = [*(item for item in items if item.path.parent != folder), *mine]


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory):
    """An S3 server for all tests of the session; each uses a prefix of its own."""
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL; its tests use a table each."""
    with running_postgres() as server:
        yield server
        close_all()


@pytest.fixture(scope="session")
def redis_server():
    """A Redis; its tests use a name each."""
    with running_redis() as server:
        yield server


@pytest.fixture(scope="session")
def rabbit_server():
    """A RabbitMQ; its tests use queues of their own."""
    with running_rabbitmq() as server:
        yield server


@pytest.fixture(scope="session")
def kafka():
    """A Kafka broker; its tests use a topic each."""
    with running_kafka() as server:
        yield server


@pytest.fixture(scope="session")
def registry():
    """A schema registry; its tests use a subject each."""
    with running_registry() as server:
        yield server


@pytest.fixture
def avro(request, kafka, registry):
    """A topic of the test's own, with messages in Avro."""
    made = AvroTopic(kafka, registry, f"avro-{zlib.crc32(request.node.name.encode()):x}")
    yield made
    made.close()
