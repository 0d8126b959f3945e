"""The stages of a batch as chains of Spark's RDDs, which are built once and run again.

What Spark calls for each stage in a worker's Python process is in `stage_runner`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyspark.cloudpickle import dumps

from fulmen.engine.spark.rdds.placement import SLOT, Anchors, Lanes
from fulmen.engine.spark.rdds.stage_runner import Raw, StageFunction, run_stage
from fulmen.engine.spark.session import RunningSpark


class Chain:
    """The RDDs of all stages, one out of the other. Runs again if cleaned in between.

    Args:
        anchors: Where partitions run.
        lanes: The partitions of each slot.
        first: The RDD of the first stage. It keeps nothing, so chains can share it.
        functions: For each later stage, that of each slot.
    """

    def __init__(
        self,
        anchors: Anchors,
        lanes: Sequence[Sequence[int]],
        first: Any,
        functions: Sequence[Sequence[Any]],
    ) -> None:
        jvm, rdd = anchors.jvm, first
        self.shuffles: list[int] = []
        for of_lanes in functions:
            # Not asJavaPairRDD(): it tells Spark the classes, and Spark then chooses Kryo, which
            # costs half of the executors' time in small jobs.
            keyed = jvm.from_java_rdd(jvm.pairwise(rdd).toJavaRDD())
            shuffled = keyed.partitionBy(anchors.partitioner)
            self.shuffles.append(shuffled.rdd().dependencies().head().shuffleId())
            rows = jvm.value_of_pair(shuffled).rdd()
            rdd = _stage(anchors, [anchors.pin(rows, lane) for lane in lanes], of_lanes)
        self.rdd = jvm.java_rdd(rdd, anchors.tag)


def _stage(anchors: Anchors, inputs: Sequence[Any], functions: Sequence[Any]) -> Any:
    """The RDD of a stage: each slot's function, applied to its input."""
    python = anchors.jvm.python
    return anchors.union(
        [python(i, f, False, False) for i, f in zip(inputs, functions, strict=True)]
    )


class Functions:
    """The functions of stages as Spark's JVM sends them to the workers: one for each slot.

    Those of a stage share all but their environments, so that what is sent to a task holds the rest
    once. Each is made once, as rings have stages in common.
    """

    def __init__(self, session: RunningSpark, lanes: Lanes) -> None:
        self._session = session
        self._order = lanes.order
        self._environments = [self._environment(slot) for slot in lanes.slots]
        self._made: dict[tuple[StageFunction, int, bool], list[Any]] = {}

    def of(self, function: StageFunction, stage: int, *, is_last: bool) -> list[Any]:
        """Python functions for a stage; rows of the last stage go to the driver."""
        key = function, stage, is_last
        if key not in self._made:
            made = self._first(partial(run_stage, function, stage, self._order, is_last))
            others = [self._for(made, environment) for environment in self._environments[1:]]
            self._made[key] = [made, *others]
        return self._made[key]

    def _environment(self, slot: int) -> Any:
        """A map of Java's."""
        jvm: Any = self._session.sc._jvm
        environment = jvm.java.util.HashMap()
        own = environment_of(self._session, slot)
        for name, value in {**self._session.sc.environment, **own}.items():
            environment.put(name, value)
        return environment

    def _first(self, function: Callable[..., Any]) -> Any:
        session = self._session
        jvm: Any = session.sc._jvm
        return jvm.SimplePythonFunction(
            bytearray(dumps((function, None, Raw(), Raw()))),
            self._environments[0],
            session.sc._python_includes,
            session.settings.python,
            session.sc.pythonVer,
            [],
            None,  # no accumulator: Spark would call this process at the end of each task
        )

    def _for(self, first: Any, environment: Any) -> Any:
        """Copy the function for another slot."""
        jvm: Any = self._session.sc._jvm
        return jvm.SimplePythonFunction(
            first.command(),
            environment,
            first.pythonIncludes(),
            self._session.settings.python,
            self._session.sc.pythonVer,
            first.broadcastVars(),
            None,
        )


class Ring:
    """Chains of the same stages, used in turn; each is made when it is needed, or a job before.

    Spark keeps what a chain wrote until its shuffles are cleaned. That is some batches after its
    use, when nothing reads it any more, not even a task that was left running by a failure.
    """

    SIZE = 8
    LAG = 4

    def __init__(
        self,
        session: RunningSpark,
        made: Functions,
        function: StageFunction,
        stages: range,
        lanes: Lanes,
        anchors: Anchors,
    ) -> None:
        functions = [made.of(function, stage, is_last=stage == stages[-1]) for stage in stages]
        inputs = [anchors.first(lane) for lane in lanes.partitions]
        first = _stage(anchors, inputs, functions[0])
        self._make = partial(Chain, anchors, lanes.partitions, first, functions[1:])
        self._size = self.SIZE if len(stages) > 1 else 1
        self._chains: list[Chain] = []
        self._used: deque[Chain] = deque()
        self._next = 0
        self._cleaner = session.sc._jsc.sc().cleaner().get()

    @property
    def is_new(self) -> bool:
        """Whether it has no chain yet."""
        return not self._chains

    def take(self) -> Chain:
        """The next chain to run."""
        self.make_next()
        chain = self._chains[self._next]
        self._next = (self._next + 1) % self._size
        if chain.shuffles:
            self._used.append(chain)
        return chain

    def make_next(self) -> None:
        """Make the chain that `take` will return, if there is none yet."""
        if len(self._chains) <= self._next:
            self._chains.append(self._make())

    def clean(self, keep: int = LAG) -> None:
        """Clean the chains that were used longest ago, all but `keep`."""
        while len(self._used) > keep:
            for shuffle in self._used.popleft().shuffles:
                self._cleaner.doCleanupShuffle(shuffle, False)


def environment_of(session: RunningSpark, slot: int) -> dict[str, str]:
    """The environment that tells a slot's Python processes from those of the others in its JVM."""
    return {SLOT: str(slot)} if session.workers.slots > 1 else {}
