"""A real Kafka broker for tests, on free ports, in a folder that is removed afterwards.

One node, which is broker and controller. It can be killed and started again. `scripts/test-servers`
installs it; where it is absent, tests that use it are skipped and say so (in CI that is a failure).
"""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from fulmen.engine.jvm.java import find_java
from support.runs.spark_runs import wait_until
from support.servers.cut_proxy import CutProxy
from support.servers.ports import free_port

VERSION = "4.1.1"
USER, PASSWORD = "fulmen", "s3cret/word"
OTHER_USERS = tuple(f"other-{number}" for number in range(10))
"""They have that password, too, and no right until a test grants it."""
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
SECONDS = 30


class KafkaBroker:
    """One that can be killed and started again. Its data stay.

    Args:
        folder: Where it keeps all that it has.
        address: Of this machine, where it listens.

    Attributes:
        address: How clients connect: host and port.
        proxied: The same, through `proxy`.
        secured: The same, with a password (SASL PLAIN).
        proxy: Can cut connections.
    """

    def __init__(self, folder, address="127.0.0.1"):
        self._folder, self._process, self._admin = folder, None, None
        self._java = find_java().path / "bin" / "java"
        ports = {name: free_port(address) for name in ("PLAIN", "PROXIED", "SASL", "CONTROLLER")}
        self.proxy = CutProxy(ports["PROXIED"], address)
        advertised = ports | {"PROXIED": self.proxy.port}
        self.address, self.proxied, self.secured = (
            f"{address}:{advertised[name]}" for name in ("PLAIN", "PROXIED", "SASL")
        )
        self._write_settings(address, ports, advertised)
        self._java_run("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", self._settings)

    def _write_settings(self, address, ports, advertised):
        self._settings = self._folder / "server.properties"
        login = "org.apache.kafka.common.security.plain.PlainLoginModule"
        others = " ".join(f'user_{name}="{PASSWORD}"' for name in OTHER_USERS)
        outside = [name for name in ports if name != "CONTROLLER"]
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{address}:{ports['CONTROLLER']}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAIN",
            "listeners": ",".join(f"{name}://{address}:{port}" for name, port in ports.items()),
            "advertised.listeners": ",".join(
                f"{name}://{address}:{advertised[name]}" for name in outside
            ),
            "listener.security.protocol.map": ",".join(
                f"{name}:{'SASL_PLAINTEXT' if name == 'SASL' else 'PLAINTEXT'}" for name in ports
            ),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": (
                f'{login} required user_{USER}="{PASSWORD}" {others};'
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{USER}",
            "log.dirs": self._folder / "data",
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
            "log.segment.delete.delay.ms": 100,
            "log.cleaner.backoff.ms": 200,
            "broker.heartbeat.interval.ms": 200,
            "broker.session.timeout.ms": 1000,  # a killed one is let in again after so long
        }
        lines = (f"{name}={value}\n" for name, value in settings.items())
        self._settings.write_text("".join(lines))

    def _java_run(self, *arguments):
        made = subprocess.run(
            self._command(*arguments), capture_output=True, text=True, check=False, timeout=60
        )
        assert made.returncode == 0, made.stdout + made.stderr

    def _command(self, *arguments, classes=None):
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        if classes is not None:
            options.append(classes)
        elif class_archive().exists():
            options.append(f"-XX:SharedArchiveFile={class_archive()}")
        jars = sorted((installed() / "lib").glob("*.jar"))  # an archive is of one class path
        return [self._java, *options, "-cp", ":".join(map(str, jars)), *map(str, arguments)]

    # ---- its life

    def start(self, classes=None):
        """Start it, and wait until it answers. `classes`: in place of those that are kept ready."""
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", self._settings, classes=classes),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._answers, "Kafka's start")

    def _answers(self):
        assert self._process.poll() is None, (self._folder / "log").read_text()
        try:
            return bool(self.admin().list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def kill(self):
        """End it as `kill -9` does."""
        self._process.kill()
        self._process.wait()

    def terminate(self):
        """Let it end by itself."""
        self._process.terminate()
        self._process.wait(SECONDS)

    def end(self):
        """Kill it if it runs."""
        self.proxy.close()
        if self._process is not None and self._process.poll() is None:
            self.kill()

    # ---- what tests do with it

    def admin(self):
        """For a test's own commands."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        return self._admin

    def make_topic(self, name, partitions=1, **settings):
        """A topic, once everybody may use it."""
        config = {key.replace("_", "."): value for key, value in settings.items()}
        topic = NewTopic(name, partitions, 1, config=config)
        wait_until(lambda: self._is_made(topic), f"room for topic {name}")
        wait_until(lambda: self._has(name, partitions), f"topic {name}")

    def _is_made(self, topic):
        """Whether the topic was made: not while the broker is too busy to tell that it lives."""
        try:
            done(self.admin().create_topics([topic]))
        except KafkaException as e:
            if e.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR:
                return False
            raise
        return True

    def delete_topic(self, name):
        """Remove it."""
        done(self.admin().delete_topics([name], operation_timeout=SECONDS))
        wait_until(lambda: not self._has(name, 1), f"the end of topic {name}")

    def grant(self, user, right, kind, name):
        """Give somebody a right, such as READ, to a topic, group or transactional id.

        Args:
            user: One of `OTHER_USERS`.
            right: One of AclOperation.
            kind: One of ResourceType.
            name: With `*` at its end: all that begin with it.
        """
        pattern = "PREFIXED" if name.endswith("*") else "LITERAL"
        binding = AclBinding(
            ResourceType[kind],
            name.removesuffix("*"),
            ResourcePatternType[pattern],
            f"User:{user}",
            "*",
            AclOperation[right],
            AclPermissionType.ALLOW,
        )
        done(self.admin().create_acls([binding]))

    def add_partitions(self, name, total):
        """Let a topic have so many."""
        done(self.admin().create_partitions([NewPartitions(name, total)]))
        wait_until(lambda: self._has(name, total), f"partitions of {name}")

    def delete_before(self, topic, partition, offset):
        """Remove what is before an offset, as retention does."""
        done(self.admin().delete_records([TopicPartition(topic, partition, offset)]))

    def _has(self, name, partitions):
        found = self.admin().list_topics(timeout=SECONDS).topics.get(name)
        return found is not None and len(found.partitions) >= partitions

    def produce(self, topic, values, **message):
        """Append messages, each to the partition that `message` names or else to 0."""
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 5})
        for value in values:
            while True:
                try:
                    producer.produce(topic, value, **{"partition": 0} | message)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(SECONDS) == 0

    def _has_no_open_end(self, topic):
        """Whether readers of committed messages see as far as those of all messages."""
        committed = self._ends(topic, IsolationLevel.READ_COMMITTED)
        return committed == self._ends(topic, IsolationLevel.READ_UNCOMMITTED)

    def _ends(self, topic, isolation):
        known = self.admin().list_topics(topic, SECONDS).topics[topic].partitions
        asked = {TopicPartition(topic, p): OffsetSpec.latest() for p in known}
        found = self.admin().list_offsets(asked, isolation_level=isolation)
        return {part.partition: future.result(SECONDS).offset for part, future in found.items()}

    def read(self, topic, isolation="read_committed"):
        """All messages of a topic that a reader sees: those of each partition in their order.

        Waits for the end of transactions: the broker says that one is committed before each
        partition has heard of it.
        """
        wait_until(lambda: self._has_no_open_end(topic), f"the end of transactions of {topic}")
        settings = {"bootstrap.servers": self.address, "group.id": "a-test's-reader"}
        settings |= {"isolation.level": isolation, "enable.partition.eof": True}
        reader = Consumer(settings | {"enable.auto.commit": False})
        partitions = reader.list_topics(topic, SECONDS).topics[topic].partitions
        reader.assign([TopicPartition(topic, p, 0) for p in partitions])
        found, ended = {p: [] for p in partitions}, set()
        try:
            while len(ended) < len(partitions):
                for message in reader.consume(10_000, 0.2):
                    if message.error() is None:
                        found[message.partition()].append(message)
                    else:  # the end of the partition
                        ended.add(message.partition())
        finally:
            reader.close()
        return [message for p in sorted(found) for message in found[p]]


def done(futures):
    """Wait for what an admin client was asked for."""
    for future in futures.values():
        future.result(SECONDS)


def folder_of_servers():
    """Where `scripts/test-servers` puts what Maven fetches."""
    default = Path.home() / ".cache" / "fulmen-tests"
    return Path(os.environ.get("FULMEN_TEST_SERVERS", default))


def installed():
    """The folder of the broker."""
    return folder_of_servers() / f"kafka-{VERSION}"


def class_archive():
    """Its classes as one Java keeps them ready, if `make classes` was run: see kafka_classes."""
    return installed() / f"classes-{find_java().version}.jsa"


@contextmanager
def running_kafka(address="127.0.0.1"):
    """One without topics, on an address of this machine's."""
    if not installed().is_dir():
        pytest.skip("Kafka was not tried: `scripts/test-servers` installs it")
    folder = Path(tempfile.mkdtemp(prefix="fulmen-kafka-"))
    try:
        broker = KafkaBroker(folder, address)
        try:
            broker.start()
            yield broker
        finally:
            broker.end()
    finally:
        shutil.rmtree(folder)
