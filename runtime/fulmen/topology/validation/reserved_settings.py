"""Settings of Spark and environment variables that the engine or pods need as they are."""

from collections.abc import Iterator, Mapping

NEEDED: Mapping[str, str] = {
    # The batch is the unit of retry: Spark repeats nothing by itself.
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.stage.maxAttempts": "1",
    "spark.speculation": "false",
    "spark.excludeOnFailure.enabled": "false",
    # A worker has one core and one Python process, which Spark keeps for its slot.
    "spark.task.cpus": "1",
    "spark.python.worker.reuse": "true",
    "spark.python.use.daemon": "true",
    "spark.python.factory.idleWorkerMaxPoolSize": "1",
    "spark.dynamicAllocation.enabled": "false",
    "spark.shuffle.reduceLocality.enabled": "false",  # anchors place reducers, not the data
    "spark.scheduler.mode": "FIFO",
    "spark.scheduler.minRegisteredResourcesRatio": "1",
}

OF_PODS = (
    "spark.master",
    "spark.app.id",
    "spark.submit.",
    "spark.authenticate",
    "spark.authenticate.",
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.driver.port",
    "spark.driver.memory",
    "spark.driver.blockManager.port",
    "spark.blockManager.port",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
    "spark.executor.pyspark.memory",
    "spark.executor.maxNumFailures",
    "spark.executor.failuresValidityInterval",
    "spark.executorEnv.",
    "spark.io.encryption.",
    "spark.local.dir",
    "spark.network.crypto.",
    "spark.kubernetes.",
    "spark.python.unix.domain.socket.",
    "spark.ui.killEnabled",
)
"""Settings that Fulmen makes on Kubernetes, or for which the resource has a field. With a dot at
the end: all that begin so."""

INSTEAD = {
    "spark.driver.memory": "Write spec.driver.resources: {limits: {memory: 4Gi}}.",
    "spark.executor.cores": "Write spec.slots, the number of workers that share a pod.",
    "spark.executor.instances": "Write spec.workers.",
    "spark.executor.memory": "Write spec.worker.resources: {limits: {memory: 2Gi}}.",
    "spark.executor.memoryOverhead": "Write spec.worker.resources: {limits: {memory: 2Gi}}.",
    "spark.executor.pyspark.memory": "Write spec.worker.resources: {limits: {memory: 2Gi}}.",
}
"""The fields of the resource to use instead."""


def contradictions(
    conf: Mapping[str, str], needed: Mapping[str, str] = NEEDED
) -> Iterator[tuple[str, str]]:
    """Settings of a user's that say otherwise: (name, what is wrong)."""
    for name, value in sorted(needed.items()):
        if conf.get(name, value) != value:
            yield name, f"{name!r} is {conf[name]!r}, but Fulmen's batches need {value!r}"


def of_pods(conf: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """A user's settings that pods can't have: (name, what to do instead)."""
    for name in sorted(conf):
        if any(name == r or (name.startswith(r) and r.endswith(".")) for r in OF_PODS):
            yield name, INSTEAD.get(name, "Leave it out.")


VARIABLES = "FULMEN_"
"""The prefix of the environment variables that Fulmen sets for its containers."""
OF_USERS = (
    "FULMEN_LOG_FORMAT",
    "FULMEN_LOG_LEVEL",
    "FULMEN_METRICS_HOSTS",
    "FULMEN_METRICS_TOKEN",
    "FULMEN_TRACEBACK",
)
"""Variables that users may set."""


def is_reserved(variable: str) -> bool:
    """Whether only Fulmen may set an environment variable of its containers."""
    return variable.startswith(VARIABLES) and variable not in OF_USERS
