"""Pods and processes are killed at random, several at once, under a topology that repeats nothing.

What it emits is os.urandom (worlds/unrepeatable.py); what was emitted and received is in its
committed state, and must agree after each round and at last. Its four workers are in one pod, in
two, and in four. Each of these loses a process, a JVM and a pod at least. A seed decides the rest;
it is another one each time, and printed. FULMEN_SEED repeats one, FULMEN_ROUNDS or FULMEN_SECONDS
ask for more rounds.
"""

import os
import random
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from fulmen.topology.reading.documents import to_document
from support.cluster import kills
from support.cluster.kube import eventually, is_ready
from support.cluster.numbered import START_SECONDS, report_in
from support.runs.spark_topologies import NOTHING_PENDING, Committed
from support.soaks.growth import left_behind
from support.soaks.soak_length import most_seconds, rounds
from support.worlds import unrepeatable
from support.worlds.unrepeatable import chaotic, check_commit

WORKERS = 4
SECRET = "bucket"
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
SEED = int(os.environ.get("FULMEN_SEED") or random.SystemRandom().randrange(2**32))
PYTHON, JVM, POD = "worker's Python", "worker's JVM", "worker's pod"
KINDS = [PYTHON, JVM, POD]
"""What is killed in the first rounds, in random order."""
ROUND_SECONDS = 180

pytestmark = [
    pytest.mark.timeout(600 + most_seconds(ROUND_SECONDS)),
    pytest.mark.matrix(share=1 / 3, name="shapes of pods"),
]


@pytest.fixture(scope="module", params=[4, 2, 1], ids=["1-pod-of-4", "2-of-2", "4-of-1"])
def name(request, operator, kube, s3):
    """It runs, with its checkpoint in a bucket that this process reads as well."""
    name = f"chaotic-{request.param}"
    kube.apply(secret(s3), resource(name, request.param, s3))
    kube.wait("topology", name, is_ready, START_SECONDS, "Ready")
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in s3.environment().items():
            patch.setenv(variable, value)
        yield name
    kube.run("delete", "topology", name)


def secret(s3):
    content = {name: s3.environment()[name] for name in CREDENTIALS}
    metadata = {"name": SECRET}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": content}


def resource(name, slots, s3):
    """The topology, with its code inline, and so many workers in a pod."""
    document = to_document(chaotic(WORKERS, maxSpoutPending=300).build())
    document["metadata"]["name"] = name
    spec = document["spec"]
    spec["slots"] = slots
    for component in (*spec["spouts"], *spec["bolts"]):
        component["class"] = re.sub(r"^support\.\w+\.", "", component["class"])
    code = Path(unrepeatable.__file__).read_text(encoding="utf-8")
    spec["code"] = {"files": {"unrepeatable.py": code}}
    spec["checkpoint"] = {"uri": s3.uri(name)}
    env = [
        {"name": variable, "value": value}
        for variable, value in s3.environment().items()
        if variable not in CREDENTIALS
    ]
    env += [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": SECRET, "key": variable}}}
        for variable in CREDENTIALS
    ]
    for pod in ("driver", "worker"):
        spec[pod] = {"env": env, "resources": {"requests": {"cpu": "100m"}}}
    return document


def possible_victims(kube, name, rng):
    """All that there is to kill: what it is called, in which pod it is, and how it is done."""
    drivers = kills.running(kube, name, "driver")
    workers = kills.running(kube, name, "worker")
    possible = [("operator's pod", "", kills.delete_operator)]
    for pod in drivers[-1:]:
        possible += [
            ("driver's pod", pod, partial(kills.delete_pod, kube, pod)),
            ("driver's process", pod, partial(kills.kill_process, kube, pod, kills.DRIVER)),
        ]
    for pod in workers:
        slot = kills.slot(rng.random())
        possible += [
            (POD, pod, partial(kills.delete_pod, kube, pod)),
            (JVM, pod, partial(kills.kill_process, kube, pod, kills.JAVA)),
            (PYTHON, pod, partial(kills.kill_process, kube, pod, kills.PYTHON, slot)),
        ]
    return possible


def victims(kube, name, rng, first):
    """One to three things to kill at once.

    Args:
        kube: Where they are.
        name: The topology's.
        rng: Chooses.
        first: What the first of them is called; None: anything.
    """
    possible = possible_victims(kube, name, rng)
    rng.shuffle(possible)
    if first is not None:
        at = [what for what, _, _ in possible].index(first)
        possible.insert(0, possible.pop(at))
    by_pod = {}
    for victim in possible[: rng.choice([1, 2, 2, 3])]:
        # a pod that is deleted has no process left to be killed
        by_pod.setdefault(victim[1], victim)
    return list(by_pod.values())


def strike(kube, name, rng, first):
    """Kill some of them at the same moment; what was killed: one thing at least.

    If it matters what is killed, that is killed a moment before the others, which might take it
    with them.
    """
    chosen = victims(kube, name, rng, first)
    killed = []
    if first is not None:
        what, pod, how = chosen.pop(0)
        assert how(), f"the {what} in {pod} was not there to be killed"
        killed.append(what)
    with ThreadPoolExecutor(max(1, len(chosen))) as pool:
        done = [pool.submit(how) for _, _, how in chosen]
    killed += [what for (what, _, _), kill in zip(chosen, done, strict=True) if kill.result()]
    assert killed, f"nothing was killed of {[what for what, _, _ in chosen]}"
    return killed


def goes_on(kube, name, uri):
    """Wait until all workers take part in batches that were committed after now."""
    before = Committed(uri).manifest.number
    eventually(
        lambda: (Committed(uri).manifest.number, workers_of(kube, name)),
        lambda seen: seen[0] > before + 2 and seen[1] == [WORKERS],
        ROUND_SECONDS,
        f"past batch {before} with all workers",
    )


def workers_of(kube, name):
    """How many workers each driver that runs says it has."""
    drivers = [kube.get("pod", pod) for pod in kills.running(kube, name, "driver")]
    return [len(report_in(pod)["workers"]) for pod in drivers if pod]


def test_workers_are_in_the_pods_and_slots_that_the_status_tells(name, kube):
    status = kube.get("topology", name)["status"]
    rows = [(row["worker"], row["pod"], row.get("slot", 0)) for row in status["assignment"]]
    slots = int(name.rpartition("-")[2])
    assert [worker for worker, _, _ in rows] == list(range(WORKERS))
    assert [slot for _, _, slot in rows] == [worker % slots for worker in range(WORKERS)]
    pods = list(dict.fromkeys(pod for _, pod, _ in rows))
    assert len(pods) == WORKERS // slots
    assert [pods.index(pod) for _, pod, _ in rows] == [w // slots for w in range(WORKERS)]
    assert sorted(pods) == kills.running(kube, name, "worker")


def test_whatever_is_killed_nothing_is_lost_or_counted_twice(name, kube, s3):
    print(f"FULMEN_SEED={SEED}")
    rng, uri, kinds = random.Random(f"{SEED} {name}"), s3.uri(name), Counter()
    emitted, firsts = 0, rng.sample(KINDS, len(KINDS))
    for number in rounds():
        time.sleep(rng.uniform(0, 2))  # at any moment of a batch
        killed = strike(kube, name, rng, firsts[number] if number < len(firsts) else None)
        kinds.update(killed)
        goes_on(kube, name, uri)
        before, (emitted, _) = emitted, check_commit(Committed(uri))
        assert emitted > before, f"nothing was emitted after the loss of {killed}"
    print(f"killed: {dict(kinds)}; messages: {emitted}; differences: 0 in {number + 1} commits")
    assert all(kinds[kind] for kind in KINDS)
    eventually(lambda: left_behind(uri), lambda found: not found, ROUND_SECONDS, "cleared")


def test_suspended_afterwards_nothing_is_pending(name, kube, s3):
    kube.patch("topology", name, {"spec": {"state": "Suspended"}})
    kube.wait(
        "topology",
        name,
        lambda found: is_ready(found) and found["status"]["state"] == "Suspended",
        180,
        "suspended",
    )
    committed = eventually(
        lambda: Committed(s3.uri(name)), lambda c: c.pending() == NOTHING_PENDING, 10, "drained"
    )
    emitted, waiting = check_commit(committed)
    assert (emitted > 0, waiting) == (True, 0)
