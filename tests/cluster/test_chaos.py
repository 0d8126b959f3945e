"""Pods and processes are killed at random, several at once, under a topology that repeats nothing.

What it emits is os.urandom (support/unrepeatable.py); what was emitted and received is in its
committed state, and must agree after each round and at last. A seed decides what is killed; it is
another one each time, and printed. FULMEN_SEED repeats one, FULMEN_ROUNDS asks for more rounds.
"""

import os
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fulmen.topology.documents import to_document
from support import kills, unrepeatable
from support.kube import eventually, is_ready
from support.numbered import START_SECONDS, report_in
from support.spark_topologies import NOTHING_PENDING, Committed
from support.unrepeatable import chaotic, check_commit

NAME = "chaotic"
SECRET = "bucket"
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
SEED = int(os.environ.get("FULMEN_SEED") or random.SystemRandom().randrange(2**32))
ROUNDS = int(os.environ.get("FULMEN_ROUNDS") or 5)
ROUND_SECONDS = 180

pytestmark = pytest.mark.timeout(600 + ROUNDS * ROUND_SECONDS)


@pytest.fixture(scope="module")
def topology(operator, kube, s3):
    """It runs, with its checkpoint in a bucket that this process reads as well."""
    kube.apply(secret(s3), resource(s3))
    kube.wait("topology", NAME, is_ready, START_SECONDS, "Ready")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3.environment().items():
            patch.setenv(name, value)
        yield kube


def secret(s3):
    content = {name: s3.environment()[name] for name in CREDENTIALS}
    metadata = {"name": SECRET}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": content}


def resource(s3):
    """The topology, with its code inline."""
    document = to_document(chaotic(2, maxSpoutPending=300).build())
    spec = document["spec"]
    for component in (*spec["spouts"], *spec["bolts"]):
        component["class"] = component["class"].removeprefix("support.")
    code = Path(unrepeatable.__file__).read_text(encoding="utf-8")
    spec["code"] = {"files": {"unrepeatable.py": code}}
    spec["checkpoint"] = {"uri": s3.uri(NAME)}
    env = [
        {"name": name, "value": value}
        for name, value in s3.environment().items()
        if name not in CREDENTIALS
    ]
    env += [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": SECRET, "key": name}}}
        for name in CREDENTIALS
    ]
    for pod in ("driver", "worker"):
        spec[pod] = {"env": env, "resources": {"requests": {"cpu": "100m"}}}
    return document


def victims(kube, rng):
    """One to three things to kill at once: what it is called, and how it is done."""
    drivers = kills.running(kube, NAME, "driver")
    workers = kills.running(kube, NAME, "worker")
    possible = [("operator's pod", kills.delete_operator)]
    for pod in drivers[-1:]:
        possible += [
            ("driver's pod", lambda pod=pod: kills.delete_pod(kube, pod)),
            ("driver's process", lambda pod=pod: kills.kill_process(kube, pod, kills.DRIVER)),
        ]
    for pod in workers:
        possible += [
            ("worker's pod", lambda pod=pod: kills.delete_pod(kube, pod)),
            ("worker's JVM", lambda pod=pod: kills.kill_process(kube, pod, kills.JAVA)),
            ("worker's Python", lambda pod=pod: kills.kill_process(kube, pod, kills.PYTHON)),
        ]
    chosen = rng.sample(possible, min(rng.choice([1, 2, 2, 3]), len(possible)))
    by_pod = {}
    for what, how in chosen:  # a pod that is deleted has no process left to be killed
        by_pod.setdefault(how.__defaults__, (what, how))
    return list(by_pod.values())


def strike(kube, rng):
    """Kill some of them at the same moment; what was killed: one thing at least."""
    chosen = victims(kube, rng)
    with ThreadPoolExecutor(len(chosen)) as pool:
        done = [pool.submit(how) for _, how in chosen]
    killed = [what for (what, _), kill in zip(chosen, done, strict=True) if kill.result()]
    assert killed, f"nothing was killed of {[what for what, _ in chosen]}"
    return killed


def goes_on(kube, uri):
    """Wait until two workers take part in batches that were committed after now."""
    before = Committed(uri).manifest.number
    eventually(
        lambda: (Committed(uri).manifest.number, workers_of(kube)),
        lambda seen: seen[0] > before + 2 and seen[1] == [2],
        ROUND_SECONDS,
        f"past batch {before} with two workers",
    )


def workers_of(kube):
    """How many workers each driver that runs says it has."""
    drivers = [kube.get("pod", name) for name in kills.running(kube, NAME, "driver")]
    return [len(report_in(pod)["workers"]) for pod in drivers if pod]


def test_whatever_is_killed_nothing_is_lost_or_counted_twice(topology, s3):
    print(f"FULMEN_SEED={SEED} FULMEN_ROUNDS={ROUNDS}")
    rng, uri, kinds = random.Random(SEED), s3.uri(NAME), Counter()
    emitted = 0
    for _ in range(ROUNDS):
        time.sleep(rng.uniform(0, 2))  # at any moment of a batch
        killed = strike(topology, rng)
        kinds.update(killed)
        goes_on(topology, uri)
        before, (emitted, _) = emitted, check_commit(Committed(uri))
        assert emitted > before, f"nothing was emitted after the loss of {killed}"
    print(f"killed: {dict(kinds)}; messages: {emitted}")
    assert sum(kinds.values()) >= ROUNDS


def test_suspended_afterwards_nothing_is_pending(topology, s3):
    topology.patch("topology", NAME, {"spec": {"state": "Suspended"}})
    topology.wait(
        "topology",
        NAME,
        lambda found: is_ready(found) and found["status"]["state"] == "Suspended",
        180,
        "suspended",
    )
    committed = eventually(
        lambda: Committed(s3.uri(NAME)), lambda c: c.pending() == NOTHING_PENDING, 10, "drained"
    )
    emitted, waiting = check_commit(committed)
    assert (emitted > 0, waiting) == (True, 0)
