"""Counts what a run of tests has started: JVMs, drivers, brokers, databases, rollouts.

    python -m support.suite.started FILE

It looks at the machine's processes several times a second until it is ended, then writes the counts
as JSON. What lives shorter than that is not seen; what a container runs is, as on any machine.
"""

import json
import signal
import sys
import threading
from collections import Counter
from pathlib import Path

KINDS = {
    "Spark's JVM of a driver": "org.apache.spark.deploy.SparkSubmit",
    "JVM of workers": "ExecutorBackend",
    "Kafka": "kafka.Kafka",
    "schema registry": "apicurio",
    "PostgreSQL": "/bin/postgres -D",
    "Redis": "redis-server",
    "RabbitMQ": "beam.smp",
    "S3 server": "versitygw",
    "collector of traces": "collector-0.",
    "Prometheus": "prometheus --config",
    "operator (rollouts)": "fulmen_operator",
    "driver's pod": "fulmen.kube driver",
    "preflight": "fulmen.kube preflight",
}
"""What each kind has in its command line."""
EVERY_SECONDS = 0.5


def kind_of(command):
    """Which of the kinds a command line is of; None for all others."""
    return next((kind for kind, part in KINDS.items() if part in command), None)


def processes():
    """(id and start of a process, its command line) of all that there are."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            start = (folder / "stat").read_text().rpartition(")")[2].split()[19]
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        yield (folder.name, start), " ".join(words)


def watch(ended):
    """Counts by kind of what is started from now on, until `ended` is set."""
    before = {key for key, _ in processes()}
    found = {}
    while not ended.wait(EVERY_SECONDS):
        for key, command in processes():  # all of them: a process becomes another program
            if key not in before and (kind := kind_of(command)):
                found[key] = kind
    return Counter(found.values())


if __name__ == "__main__":
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    Path(sys.argv[1]).write_text(json.dumps(watch(ended), indent=1))
