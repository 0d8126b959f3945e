"""The rows of a job, as they come out of Spark's JVM."""

from typing import Any

from pyspark.util import _load_from_socket

from fulmen.engine.spark.rdds.stage_runner import Raw
from fulmen.engine.spark.session import RunningSpark


class JobRows:
    """Fetches the rows of jobs, one of each partition.

    Attributes:
        milliseconds: Java's unit.

    Small ones as py4j sends them. It writes a long answer in pieces over TCP, and each row above
    some 6 KB waits 40 ms for a delayed acknowledgement: then they are read from a Unix socket of
    Spark's, which costs 1 to 2 ms. Which way is chosen by the jobs before.
    """

    LARGE_BYTES = 3000
    STAY_LARGE_JOBS = 20

    def __init__(self, session: RunningSpark) -> None:
        jvm: Any = session.sc._jvm
        self.milliseconds = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        self._as_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
        self._serve = jvm.PythonRDD.serveIterator
        self._large_jobs_left = self.STAY_LARGE_JOBS

    def fetch(self, future: Any, partitions: int, timeout_seconds: float | None) -> list[bytes]:
        """Wait for a job and return its rows."""
        if timeout_seconds is None:
            results = future.get()
        else:
            results = future.get(max(1, int(timeout_seconds * 1000)), self.milliseconds)
        if self._large_jobs_left > 0:
            self._large_jobs_left -= 1
            served = self._serve(self._as_scala(results.iterator()), "rows")
            with _load_from_socket(served, Raw()) as stream:
                rows = list(stream)
            if len(rows) < partitions:
                raise ConnectionResetError(f"{len(rows)} of {partitions} rows could be read")
        else:
            rows = [bytes(results.get(index)) for index in range(partitions)]
        if any(len(row) > self.LARGE_BYTES for row in rows):
            self._large_jobs_left = self.STAY_LARGE_JOBS
        return rows
