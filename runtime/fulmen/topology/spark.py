"""The settings of Spark that can't be changed, since the engine's correctness rests on them."""

from collections.abc import Iterator, Mapping

NEEDED: Mapping[str, str] = {
    # The batch is the unit of retry: Spark repeats nothing by itself.
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.stage.maxAttempts": "1",
    "spark.speculation": "false",
    "spark.excludeOnFailure.enabled": "false",
    # One worker is one executor with one core and one Python process.
    "spark.executor.cores": "1",
    "spark.task.cpus": "1",
    "spark.python.worker.reuse": "true",
    "spark.python.use.daemon": "true",
    "spark.python.factory.idleWorkerMaxPoolSize": "1",
    "spark.dynamicAllocation.enabled": "false",
    "spark.shuffle.reduceLocality.enabled": "false",  # anchors place reducers, not the data
    "spark.scheduler.mode": "FIFO",
    "spark.scheduler.minRegisteredResourcesRatio": "1",
}


def contradictions(
    conf: Mapping[str, str], needed: Mapping[str, str] = NEEDED
) -> Iterator[tuple[str, str]]:
    """Settings of a user's that say otherwise: (name, what is wrong)."""
    for name, value in sorted(needed.items()):
        if conf.get(name, value) != value:
            yield name, f"{name!r} is {conf[name]!r}, but Fulmen's batches need {value!r}"
