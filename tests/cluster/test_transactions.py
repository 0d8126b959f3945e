"""A transactional topology loses whatever can be lost, and its table in PostgreSQL stays exact.

Its source is opaque and never emits the same twice (topologies/changing.py). Whenever all that was
begun is committed, the table has the first messages of each partition, each of them once: a number
for each partition says how many, and the rest of the table follows from these numbers. Another seed
decides each time what is killed when; FULMEN_SEED repeats one.
"""

import json
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from fulmen.kube.contract import METRICS_PORT
from support.cluster import api_reads, kills
from support.cluster.kube import condition, eventually, is_ready, total
from support.cluster.numbered import START_SECONDS, fulmen, manifest, report_in
from support.servers.postgres import PASSWORD, USER

NAME = "changing"
FILE = Path(__file__).parent / "topologies" / "changing.yaml"
SECRET = "store"
COUNT, PARTITIONS = 30_000, 3
SEED = int(os.environ.get("FULMEN_SEED") or random.SystemRandom().randrange(2**32))
GOES_ON_SECONDS = 240

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def topology(operator, kube, postgres):
    metadata = {"name": SECRET}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    kube.apply({**secret, "stringData": {"password": PASSWORD}}, *objects(postgres))
    kube.wait("topology", NAME, is_ready, START_SECONDS, "Ready")
    return kube


def objects(postgres):
    """The topology and its code. Only its workers know the store, and the password by a Secret."""
    *others, topology = yaml.safe_load_all(manifest(FILE, option="--config-map"))
    given = {"PGHOST": postgres.address, "PGPORT": str(postgres.port), "PGUSER": USER}
    password = {"secretKeyRef": {"name": SECRET, "key": "password"}}
    topology["spec"]["worker"]["env"] = [
        *({"name": name, "value": value} for name, value in given.items()),
        {"name": "PGPASSWORD", "valueFrom": password},
    ]
    return *others, topology


def patch(kube, **spec):
    """Change the spec."""
    kube.patch("topology", NAME, {"spec": spec})


def configure(kube, **config):
    """Have the source go another way about its work."""
    [source] = kube.get("topology", NAME)["spec"]["transactional"]
    patch(kube, transactional=[source | {"config": source["config"] | config}])
    kube.wait("topology", NAME, is_ready, 180, "Ready by its newest configuration")


def driver(kube):
    """The name of the driver's pod."""
    running = kills.running(kube, NAME, "driver")
    assert running, "no driver runs"
    return running[-1]


def transactions(kube):
    """What the page of the driver shows of transactions."""
    path = f"/api/v1/namespaces/{kube.namespace}/pods/{driver(kube)}:{METRICS_PORT}/proxy"
    return json.loads(api_reads.text(f"{path}/api/topology"))["transactions"]


def goes_on(kube, workers=2):
    """Wait until more transactions are committed, with so many workers; the last of them."""
    first = eventually(lambda: transactions(kube)["committed_txid"], bool, GOES_ON_SECONDS, "begun")
    txid, _ = eventually(
        lambda: (transactions(kube)["committed_txid"], present(kube)),
        lambda seen: seen[0] > first + 3 and seen[1] == workers,
        GOES_ON_SECONDS,
        f"past transaction {first} with {workers} workers",
    )
    return txid


def present(kube):
    """How many workers the driver has."""
    return len(report_in(kube.get("pod", driver(kube)))["workers"])


def rests(kube):
    """Wait until nothing is begun any more, and all that was is committed."""
    eventually(
        lambda: (transactions(kube), time.sleep(2), transactions(kube)),
        lambda seen: (
            not any(seen[2]["active"].values())
            and seen[0]["committed_txid"] == seen[2]["committed_txid"] > 0
        ),
        120,
        "at rest",
    )


def table(postgres):
    return dict(postgres.run("SELECT key, value FROM sums"))


def expected(counts):
    """What the table has after so many messages of each partition: without the topology's code."""
    sums = Counter()
    for partition, count in enumerate(counts):
        sums[f"partition {partition}"] += count
        for number in range(count):
            sums[f"sevens {number % 7}"] += number
            sums[f"elevens {(31 * number + partition) % 11}"] += 1
    return +sums


def check(postgres):
    """Assert that the table is that of whole partitions up to some message; how far each is."""
    found = table(postgres)
    counts = [found.get(f"partition {n}", 0) for n in range(PARTITIONS)]
    assert {key: value for key, value in found.items() if value} == expected(counts)
    return counts


# ---- what is shown of it


def test_its_status_tells_its_components_and_where_they_are(topology):
    status = topology.wait("topology", NAME, is_placed, 120, "placed")["status"]
    assert [(c["name"], c["tasks"], c["executors"]) for c in status["components"]] == [
        ("messages", 2, 2),
        ("keys", 2, 2),
        ("sums", 4, 2),
    ]
    assert (status["ackers"], status["tasks"], status["executors"]) == (0, 8, 6)
    hosted = [name for row in status["assignment"] for name in row["executors"]]
    assert sorted(name.partition("[")[0] for name in hosted) == [
        *("keys", "keys", "messages", "messages", "sums", "sums"),
    ]
    assert condition(topology.get("topology", NAME), "SpecAccepted")["reason"] == "Accepted"


def is_placed(found):
    return is_ready(found) and condition(found, "Placed").get("status") == "True"


def test_columns_of_kubectl(topology):
    titles, values = topology.run("get", "topology", NAME).splitlines()
    shown = dict(zip(titles.split(), values.split(), strict=True))
    del shown["AGE"], shown["RESTARTS"]
    assert shown == {
        "NAME": NAME,
        "STATE": "Active",
        "READY": "True",
        "WORKERS": "2",
        "EXECUTORS": "6",
        "TASKS": "8",
        "ACKERS": "0",
    }


def test_transactions_are_on_the_page_in_metrics_and_in_fulmen_top(topology):
    committed = goes_on(topology)
    shown = fulmen(topology, "top", NAME, "--once")
    assert "commits/s" in shown
    assert "trees" not in shown
    found = topology.metrics(driver(topology))
    assert total(found, "fulmen_transaction_committed_txid") >= committed
    assert total(found, "fulmen_transaction_attempts_total", outcome="committed") >= committed


# ---- what happens to it

PYTHON, POD, JVM = "worker's Python", "worker's pod", "worker's JVM"
DRIVER, OPERATOR, POSTGRES = "driver's pod", "operator's pod", "PostgreSQL"
KINDS = [PYTHON, DRIVER, OPERATOR, POSTGRES]
"""What is killed in each run, in random order, and one of `DRAWN`."""
DRAWN = [POD, JVM]


def strike(kube, postgres, kind, rng):
    """Kill one of that kind; whether there was one."""
    if kind == OPERATOR:
        return kills.delete_operator()
    if kind == POSTGRES:
        postgres.kill()
        time.sleep(rng.uniform(1, 5))
        postgres.start()
        return True
    if kind == DRIVER:
        return kills.delete_pod(kube, driver(kube))
    workers = kills.running(kube, NAME, "worker")
    if not workers:
        return False
    pod = rng.choice(workers)
    if kind == POD:
        return kills.delete_pod(kube, pod)
    return kills.kill_process(kube, pod, kills.JAVA if kind == JVM else kills.PYTHON)


def test_whatever_is_killed_every_message_counts_once(topology, postgres):
    print(f"FULMEN_SEED={SEED}")
    rng, killed = random.Random(SEED), Counter()
    kinds = [*KINDS, rng.choice(DRAWN)]
    rng.shuffle(kinds)
    while kinds:
        for kind in [kinds.pop() for _ in range(min(len(kinds), rng.choice([1, 2])))]:
            time.sleep(rng.uniform(0, 2))  # at any moment of a transaction
            killed[kind] += strike(topology, postgres, kind, rng)
        goes_on(topology)
    print(f"killed: {dict(killed)}; rows: {table(postgres)}")
    assert all(killed[kind] for kind in (DRIVER, OPERATOR, POSTGRES))
    assert killed[PYTHON] + killed[JVM] + killed[POD] > 0
    configure(topology, rate=0)
    rests(topology)
    assert all(check(postgres))
    configure(topology, rate=4)
    goes_on(topology)


def test_other_configuration_is_taken_over_while_transactions_are_active(topology, postgres):
    pod = driver(topology)
    configure(topology, take=50, rate=8)
    goes_on(topology)
    configure(topology, rate=0)
    rests(topology)
    before = check(postgres)
    configure(topology, take=20, rate=4)
    goes_on(topology)
    assert driver(topology) == pod
    assert all(later >= once for later, once in zip(table_counts(postgres), before, strict=True))


def table_counts(postgres):
    found = table(postgres)
    return [found[f"partition {n}"] for n in range(PARTITIONS)]


def committed_counts(topology, postgres):
    """What stays: a transaction that was only written may come again with fewer messages."""
    committed = transactions(topology)["committed_txid"]
    rows = {key: row for key, *row in postgres.run("SELECT key, value, txid FROM sums")}
    values = (rows.get(f"partition {n}", (0, 0)) for n in range(PARTITIONS))
    return [count if txid <= committed else None for count, txid in values]


def test_it_is_rebalanced_to_more_workers_and_executors(topology, postgres):
    pod = driver(topology)
    said = fulmen(topology, "rebalance", NAME, "-n", "3", "-e", "sums=4", "-e", "messages=1")
    assert "executors of 'messages' 1 (was 2)" in said
    found = topology.wait(
        "topology",
        NAME,
        lambda found: is_placed(found) and found["status"]["workers"]["ready"] == 3,
        240,
        "placed on 3 workers",
    )
    assert {c["name"]: c["executors"] for c in found["status"]["components"]} == {
        "messages": 1,
        "keys": 2,
        "sums": 4,
    }
    goes_on(topology, workers=3)
    assert driver(topology) == pod
    configure(topology, rate=0)
    rests(topology)
    check(postgres)


def test_code_that_can_not_be_opened_is_refused_by_a_preflight_that_opens(topology):
    """The preflight has what workers have: it would find the store."""
    pod, code = driver(topology), topology.get("topology", NAME)["spec"]["code"]
    text = (
        FILE.with_suffix(".py")
        .read_text()
        .replace(
            "self.attempt, self.sums = attempt, {}",
            "raise RuntimeError(f'no store at {os.environ[\"PGHOST\"]} for {attempt}')",
        )
    )
    inline = {"configMap": None, "files": {"changing.py": text}}
    patch(topology, code=inline, preflight="Open")
    refused = topology.wait(
        "topology",
        NAME,
        lambda found: condition(found, "SpecAccepted").get("status") == "False",
        180,
        "refused",
    )
    said = condition(refused, "SpecAccepted")["message"]
    assert "spec.bolts[1].class: prepare: RuntimeError: no store at 10." in said
    patch(topology, code={"files": None, **code})
    topology.wait("topology", NAME, is_ready, 180, "Ready as before")
    assert driver(topology) == pod


def test_suspended_it_has_committed_what_was_active_and_goes_on_later(topology, postgres):
    configure(topology, rate=8)
    before = goes_on(topology, workers=3)
    patch(topology, state="Suspended")
    topology.wait(
        "topology",
        NAME,
        lambda found: is_ready(found) and found["status"]["state"] == "Suspended",
        180,
        "suspended",
    )
    eventually(
        lambda: topology.list("pods", f"fulmen.dev/topology={NAME}"),
        lambda pods: all(pod["status"]["phase"] == "Succeeded" for pod in pods),
        60,
        "without pods that run",
    )
    counts = check(postgres)
    (last,) = postgres.run("SELECT max(txid) FROM fulmen_marks")[0]
    assert last >= before
    patch(topology, state="Active")
    topology.wait("topology", NAME, is_ready, START_SECONDS, "Ready again")
    assert goes_on(topology, workers=3) > last
    assert all(now >= then for now, then in zip(table_counts(postgres), counts, strict=True))


def test_in_the_end_every_message_was_counted_once(topology, postgres):
    configure(topology, take=2000, rate=50)
    eventually(
        lambda: committed_counts(topology, postgres),
        lambda counts: counts == [COUNT] * PARTITIONS,
        300,
        "all counted",
    )
    configure(topology, rate=0)
    rests(topology)
    assert check(postgres) == [COUNT] * PARTITIONS
    found = transactions(topology)
    assert found["attempts"]["failed"] > 0, "no attempt failed: nothing came twice"
