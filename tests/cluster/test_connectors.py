"""A topic of Kafka becomes tables of PostgreSQL, each message and window one row, whatever is lost.

The topology has no class of its own, and its credentials are in a Secret. Messages are produced all
the while, and it gets more and fewer workers, all of them in its one pod. No table has a key, so
that what is written twice is seen. Another seed decides each time what is killed when; FULMEN_SEED
repeats one.
"""

import os
import random
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
import yaml

from support.cluster import kills
from support.cluster.kube import eventually, is_ready, total
from support.cluster.numbered import START_SECONDS
from support.servers.postgres import PASSWORD

NAME = "events"
FILE = Path(__file__).parent / "topologies" / "events.yaml"
SECRET = "servers"
PARTITIONS = 3
SEED = int(os.environ.get("FULMEN_SEED") or random.SystemRandom().randrange(2**32))
GOES_ON_SECONDS = 240
WINDOW_MILLIS = 5000
EDGES = "window_start timestamptz, window_end timestamptz"

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.matrix(share=1 / 2, name="clients and connectors under kills", cell="connectors"),
]


class Messages:
    """Appends numbered messages to the topic, until it is stopped."""

    def __init__(self, kafka):
        self._kafka, self._stop = kafka, threading.Event()
        self.all = []  # (kind, milliseconds since 1970) of each number
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        rng = random.Random(SEED)
        while not self._stop.wait(0.2):
            now = int(time.time() * 1000)
            new = [(rng.choice("abcde"), now - rng.randrange(1500)) for _ in range(20)]
            self._send(new, len(self.all) // 20 % PARTITIONS)
            self.all += new

    def _send(self, new, partition):
        numbered = enumerate(new, len(self.all))
        messages = [{"id": number, "kind": kind, "at": at} for number, (kind, at) in numbered]
        self._kafka.produce(NAME, map(orjson.dumps, messages), partition=partition)

    def stop(self):
        """No more, but for one of each partition that ends all windows; how many there are."""
        self._stop.set()
        self._thread.join()
        later = max(at for _, at in self.all) + 60_000
        for partition in range(PARTITIONS):
            self._send([("end", later)], partition)
            self.all.append(("end", later))
        return len(self.all)


@pytest.fixture(scope="module")
def topology(operator, kube, postgres, kafka):
    kafka.make_topic(NAME, PARTITIONS)
    postgres.run("CREATE TABLE events (id bigint, kind text)")
    postgres.run(f"CREATE TABLE windows (kind text, {EDGES}, messages bigint, ids numeric)")
    postgres.run(f"CREATE TABLE late (values jsonb, time timestamptz, {EDGES})")
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


def late(postgres):
    """The numbers of messages that came after their window; what fails and comes again may be."""
    numbers = [values["id"] for (values,) in postgres.run("SELECT values FROM late")]
    assert len(numbers) == len(set(numbers))
    return set(numbers)


def counted(postgres):
    """How often each row of windows that have ended is in the table."""
    return Counter(postgres.run("SELECT kind, window_start, messages, ids FROM windows"))


def windows(messages, left_out):
    """What is right: of each kind and window once, how many messages and the sum of them."""
    found = {}
    for number, (kind, at) in enumerate(messages):
        if number not in left_out and kind != "end":
            key = kind, datetime.fromtimestamp(at // WINDOW_MILLIS * WINDOW_MILLIS / 1000, UTC)
            found.setdefault(key, []).append(number)
    return Counter((*key, len(numbers), sum(numbers)) for key, numbers in found.items())


PYTHON, POD, POSTGRES, KAFKA = "worker's Python", "the pod", "PostgreSQL", "Kafka"
KINDS = [PYTHON, POD, POSTGRES, KAFKA]
"""What is killed in each run, in random order."""
WORKERS = {1: 3, 3: 1}
"""How many workers there are to be before which of them."""


def strike(kube, postgres, kafka, kind, rng):
    """Kill one of that kind; whether there was one."""
    if kind in (POSTGRES, KAFKA):
        server = postgres if kind == POSTGRES else kafka
        server.kill()
        time.sleep(rng.uniform(1, 5))
        server.start()
        return True
    *_, pod = kills.running(kube, NAME, "driver")
    if kind == POD:
        return kills.delete_pod(kube, pod)
    return kills.kill_process(kube, pod, kills.PYTHON, kills.slot(rng.random()))


def test_each_message_is_one_row_whatever_is_killed(topology, postgres, kafka):
    print(f"FULMEN_SEED={SEED}")
    rng, killed = random.Random(SEED), Counter()
    kinds = rng.sample(KINDS, len(KINDS))
    messages = Messages(kafka)
    try:
        goes_on(postgres)
        for number, kind in enumerate(kinds):
            if number in WORKERS:
                topology.patch("topology", NAME, {"spec": {"workers": WORKERS[number]}})
            time.sleep(rng.uniform(0, 2))  # at any moment of a batch
            killed[kind] += strike(topology, postgres, kafka, kind, rng)
            goes_on(postgres)
    finally:
        count = messages.stop()
    print(f"killed: {dict(killed)}; messages: {count}")
    assert all(killed[kind] for kind in KINDS)
    eventually(lambda: written(postgres), lambda n: n >= count, GOES_ON_SECONDS, "all rows")
    time.sleep(5)  # in which one more would come
    assert rows(postgres) == Counter(range(count))
    eventually(
        lambda: (counted(postgres), windows(messages.all, late(postgres))),
        lambda found: found[0] == found[1],
        60,
        "each window once",
    )
    assert len(counted(postgres)) > 20


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
