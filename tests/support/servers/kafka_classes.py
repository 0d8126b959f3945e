"""Makes an archive of the classes that Kafka's broker loads: `make classes` runs this, once.

Of the CPU time of a start, two fifths went to unpacking and verifying them. A JVM that finds that
the archive does not fit does without.
"""

import os
import shutil
import tempfile
from pathlib import Path

from support.servers.kafka_server import KafkaBroker, class_archive, installed


def make(archive):
    """Let a broker do what tests have it do, and write down its classes when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="fulmen-kafka-"))
    made = archive.with_suffix(f".{os.getpid()}")
    try:
        broker = KafkaBroker(folder)
        try:
            broker.start(f"-XX:ArchiveClassesAtExit={made}")
            broker.make_topic("numbers", partitions=2)
            broker.produce("numbers", [b"1", b"2"])
            broker.read("numbers")
            broker.delete_topic("numbers")
            broker.terminate()
        finally:
            broker.end()
        made.replace(archive)
    finally:
        shutil.rmtree(folder)
        made.unlink(missing_ok=True)


if __name__ == "__main__":
    if installed().is_dir() and not class_archive().exists():
        make(class_archive())
