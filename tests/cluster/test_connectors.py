"""A topic of Kafka becomes a table of PostgreSQL, each message one row, whatever is lost.

The topology has no class of its own, and its credentials are in a Secret. Messages are produced all
the while. The table has no key, so that a message that is written twice is seen. Another seed
decides each time what is killed when; FULMEN_SEED repeats one.
"""

import os
import random
import threading
import time
from collections import Counter
from pathlib import Path

import orjson
import pytest
import yaml

from support import kills
from support.kube import eventually, is_ready, total
from support.numbered import START_SECONDS
from support.postgres import PASSWORD

NAME = "events"
FILE = Path(__file__).parent / "topologies" / "events.yaml"
SECRET = "servers"
PARTITIONS = 3
SEED = int(os.environ.get("FULMEN_SEED") or random.SystemRandom().randrange(2**32))
GOES_ON_SECONDS = 240

pytestmark = pytest.mark.timeout(900)


class Messages:
    """Appends numbered messages to the topic, until it is stopped."""

    def __init__(self, kafka):
        self._kafka, self._stop, self.count = kafka, threading.Event(), 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(0.2):
            messages = [orjson.dumps({"id": self.count + i, "kind": "k"}) for i in range(20)]
            self._kafka.produce(NAME, messages, partition=self.count // 20 % PARTITIONS)
            self.count += len(messages)

    def stop(self):
        """No more; how many there are."""
        self._stop.set()
        self._thread.join()
        return self.count


@pytest.fixture(scope="module")
def topology(operator, kube, postgres, kafka):
    kafka.make_topic(NAME, PARTITIONS)
    postgres.run("CREATE TABLE events (id bigint, kind text)")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}
    content = {"DSN": postgres.dsn, "KAFKA": kafka.address}
    resource = yaml.safe_load(FILE.read_text())
    resource["spec"]["env"] = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": SECRET, "key": name}}}
        for name in content
    ]
    kube.apply({**secret, "stringData": content}, resource)
    kube.wait("topology", NAME, is_ready, START_SECONDS, "Ready")
    return kube


def rows(postgres):
    """How often each message is in the table."""
    return Counter(number for (number,) in postgres.run("SELECT id FROM events"))


def written(postgres):
    """How many rows there are."""
    return postgres.run("SELECT count(*) FROM events")[0][0]


def goes_on(postgres):
    """Wait until rows are written that were not there yet."""
    first = eventually(lambda: written(postgres), bool, GOES_ON_SECONDS, "a row")
    eventually(
        lambda: written(postgres), lambda n: n > first + 40, GOES_ON_SECONDS, f"past {first} rows"
    )


PYTHON, POD, JVM = "worker's Python", "worker's pod", "worker's JVM"
DRIVER, POSTGRES, KAFKA = "driver's pod", "PostgreSQL", "Kafka"
KINDS = [PYTHON, PYTHON, POD, JVM, DRIVER, POSTGRES, KAFKA]
"""What is killed, in random order."""


def strike(kube, postgres, kafka, kind, rng):
    """Kill one of that kind; whether there was one."""
    if kind in (POSTGRES, KAFKA):
        server = postgres if kind == POSTGRES else kafka
        server.kill()
        time.sleep(rng.uniform(1, 5))
        server.start()
        return True
    if kind == DRIVER:
        drivers = kills.running(kube, NAME, "driver")
        return bool(drivers) and kills.delete_pod(kube, drivers[-1])
    workers = kills.running(kube, NAME, "worker")
    if not workers:
        return False
    pod = rng.choice(workers)
    if kind == POD:
        return kills.delete_pod(kube, pod)
    return kills.kill_process(kube, pod, kills.JAVA if kind == JVM else kills.PYTHON)


def test_each_message_is_one_row_whatever_is_killed(topology, postgres, kafka):
    print(f"FULMEN_SEED={SEED}")
    rng, killed = random.Random(SEED), Counter()
    kinds = rng.sample(KINDS, len(KINDS))
    messages = Messages(kafka)
    try:
        goes_on(postgres)
        for kind in kinds:
            time.sleep(rng.uniform(0, 2))  # at any moment of a batch
            killed[kind] += strike(topology, postgres, kafka, kind, rng)
            goes_on(postgres)
    finally:
        count = messages.stop()
    print(f"killed: {dict(killed)}; messages: {count}")
    assert all(killed[kind] for kind in (DRIVER, POSTGRES, KAFKA))
    assert killed[PYTHON] + killed[JVM] + killed[POD] > 0
    eventually(lambda: written(postgres), lambda n: n >= count, GOES_ON_SECONDS, "all rows")
    time.sleep(5)  # in which one more would come
    assert rows(postgres) == Counter(range(count))


def test_nothing_shows_the_password(topology, postgres):
    seen = topology.run("get", "topology,pods,configmaps,events", "-o", "yaml")
    for pod in topology.list("pods", f"fulmen.dev/topology={NAME}"):
        seen += topology.run("logs", pod["metadata"]["name"], "--all-containers")
    assert "postgresql" in seen or "fulmen.connectors" in seen
    assert PASSWORD not in seen
    assert PASSWORD.replace("/", "%2F") not in seen


def test_lag_is_a_metric(topology, kafka):
    (driver,) = kills.running(topology, NAME, "driver")
    eventually(
        lambda: total(topology.metrics(driver), "fulmen_spout_lag_messages"),
        lambda lag: lag == 0,
        60,
        "nothing left to read",
    )
