"""The stages of a batch as chains of Spark's RDDs, which are built once and run again.

What Spark calls for each stage in a worker's Python process is in engine/spark/stage_runner.py.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyspark.cloudpickle import dumps

from fulmen.engine.spark.placement import SLOT, Anchors, Lanes
from fulmen.engine.spark.session import Session
from fulmen.engine.spark.stage_runner import Raw, StageFunction, run_stage


class Chain:
    """The RDDs of all stages, one out of the other. Runs again if cleaned in between."""

    def __init__(
        self,
        session: Session,
        anchors: Anchors,
        lanes: Sequence[Sequence[int]],
        functions: Sequence[Sequence[Any]],
    ) -> None:
        jvm: Any = session.sc._jvm
        pairs = jvm.org.apache.spark.api.java.JavaPairRDD
        inputs = [anchors.first(lane) for lane in lanes]
        self.shuffles: list[int] = []
        for of_lanes in functions[:-1]:
            keyed = jvm.PairwiseRDD(anchors.union(_python(jvm, inputs, of_lanes)))
            # Not asJavaPairRDD(): it tells Spark the classes, and Spark then chooses Kryo, which
            # costs half of the executors' time in small jobs.
            shuffled = pairs.fromJavaRDD(keyed.toJavaRDD()).partitionBy(anchors.partitioner)
            self.shuffles.append(shuffled.rdd().dependencies().head().shuffleId())
            rows = jvm.PythonRDD.valueOfPair(shuffled).rdd()
            inputs = [anchors.pin(rows, lane) for lane in lanes]
        last = anchors.union(_python(jvm, inputs, functions[-1]))
        self.rdd = jvm.org.apache.spark.api.java.JavaRDD(last, anchors.tag)


def _python(jvm: Any, inputs: Sequence[Any], functions: Sequence[Any]) -> list[Any]:
    return [jvm.PythonRDD(i, f, False, False) for i, f in zip(inputs, functions, strict=True)]


class Ring:
    """Chains of the same stages, used in turn; each is made when it is first needed.

    Spark keeps what a chain wrote until its shuffles are cleaned. That is some batches after its
    use, when nothing reads it any more, not even a task that was left running by a failure.
    """

    SIZE = 8
    LAG = 4

    def __init__(
        self,
        session: Session,
        function: StageFunction,
        stages: range,
        lanes: Lanes,
        anchors: Anchors,
    ) -> None:
        functions = [
            _java_functions(
                session, partial(run_stage, function, s, lanes.order, s == stages[-1]), lanes.slots
            )
            for s in stages
        ]
        self._make = partial(Chain, session, anchors, lanes.partitions, functions)
        self._size = self.SIZE if len(stages) > 1 else 1
        self._chains: list[Chain] = []
        self._used: deque[Chain] = deque()
        self._next = 0
        self._cleaner = session.sc._jsc.sc().cleaner().get()

    def take(self) -> Chain:
        """The next chain to run."""
        if len(self._chains) <= self._next:
            self._chains.append(self._make())
        chain = self._chains[self._next]
        self._next = (self._next + 1) % self._size
        if chain.shuffles:
            self._used.append(chain)
        return chain

    def clean(self, keep: int = LAG) -> None:
        """Clean the chains that were used longest ago, all but `keep`."""
        while len(self._used) > keep:
            for shuffle in self._used.popleft().shuffles:
                self._cleaner.doCleanupShuffle(shuffle, False)


def _java_functions(
    session: Session, function: Callable[..., Any], slots: Sequence[int]
) -> list[Any]:
    """A Python function as Spark's JVM sends it to the workers: one for each of these slots.

    They share all but their environments, so that what is sent to a task holds the rest once.
    """
    sc = session.sc
    jvm: Any = sc._jvm
    first = jvm.SimplePythonFunction(
        bytearray(dumps((function, None, Raw(), Raw()))),
        {**sc.environment, **environment_of(session, slots[0])},
        sc._python_includes,
        session.settings.python,
        sc.pythonVer,
        [],
        None,  # no accumulator: Spark would call this process at the end of each task
    )
    return [first, *(_of_slot(session, first, slot) for slot in slots[1:])]


def _of_slot(session: Session, first: Any, slot: int) -> Any:
    """The same function for another slot."""
    jvm: Any = session.sc._jvm
    environment = jvm.java.util.HashMap(first.envVars())
    environment.putAll(environment_of(session, slot))
    return jvm.SimplePythonFunction(
        first.command(),
        environment,
        first.pythonIncludes(),
        session.settings.python,
        session.sc.pythonVer,
        first.broadcastVars(),
        None,
    )


def environment_of(session: Session, slot: int) -> dict[str, str]:
    """What tells a slot's Python processes from those of the others in its JVM."""
    return {SLOT: str(slot)} if session.workers.slots > 1 else {}
