"""`python -m benchmarks.cluster.first`: Kafka to PostgreSQL in each of the first seconds, on pods.

As `python -m benchmarks.kafka --first`, but on the cluster of KUBECONFIG, where the operator has to
be installed. Broker and database are started on this machine, at `MACHINE_ADDRESS`, which pods have
to reach. The first message is sent when the topology is ready.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator

from benchmarks import goals
from benchmarks.cluster.kubectl import NAME, NAMESPACE, kubectl, manifested
from benchmarks.kafka import PARTITIONS, Result, Servers, of_first_seconds, producing, servers
from benchmarks.machine import machine


def first(
    at: Servers, workers: int, form: str, image: str = "", java: str = ""
) -> Iterator[Result]:
    """Latency from the broker's timestamp to the commit of the row, exactly once.

    Args:
        at: Where the messages are, and the rows go.
        workers: How many there are; they share a pod.
        form: `deployment` of the topology.
        image: Of its pods; empty: the operator's.
        java: Options of its JVMs.
    """
    at.new_table()
    topic = f"first-{workers}-{form}"
    at.kafka.make_topic(topic, PARTITIONS, message_timestamp_type="LogAppendTime")
    content = at.topology(topic, workers, "exactly-once")
    content["spec"] |= {"deployment": form, "slots": workers}
    if java:
        content["spec"]["env"] = [{"name": "JDK_JAVA_OPTIONS", "value": java}]
    if image:
        content["spec"]["driver"] = {"image": image}
        if form == "pods":
            content["spec"]["worker"] = {"image": image}
    kubectl("create", "namespace", NAMESPACE)
    try:
        starts = time.monotonic()
        kubectl("apply", "-f", "-", content=manifested(content))
        kubectl("wait", "--for=condition=Ready", f"topology/{NAME}", "--timeout=5m")
        started = time.monotonic() - starts
        with producing(at, topic) as all_written:
            while not all_written():
                time.sleep(0.5)
    finally:
        kubectl("delete", "namespace", NAMESPACE)
    yield from of_first_seconds(
        at, topic, {"workers": workers, "deployment": form, "start_s": round(started, 1)}
    )


def main() -> None:
    """Measure, print a line of JSON for each figure, and then the goals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.first", description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="default: 1 2")
    parser.add_argument("--deployment", nargs="+", default=["pods"], help="pods, single-pod")
    parser.add_argument("--image", default="", help="of pods; default: the operator's")
    parser.add_argument("--java", default="", help="options of their JVMs")
    given = parser.parse_args()
    results = goals.Results()
    print(machine())
    with servers(0, os.environ["MACHINE_ADDRESS"]) as at:
        for form in given.deployment:
            for workers in given.workers:
                for result in first(at, workers, form, given.image, given.java):
                    results.add("kafka-first", result)
                    print(json.dumps({"benchmark": "kafka-first", **result}), flush=True)
    print(f"\nOn {machine()}, on a cluster:")
    print("\n".join(goals.table(results)))


if __name__ == "__main__":
    main()
