import pytest

from fulmen.engine.spark.failures import explain, is_clusters, is_over, java_message, traceback_in

NO_MODULE = """Lost task 0.0 in stage 0.0 (TID 0) (10.0.0.2 executor 0): \
org.apache.spark.SparkException:
Error from python worker:
  /usr/bin/python: Error while finding module specification for \
'fulmen.engine.spark.python_daemon' (ModuleNotFoundError: No module named 'fulmen')
PYTHONPATH was:
  /opt/code
org.apache.spark.SparkException: EOFException occurred while reading the port number from \
fulmen.engine.spark.python_daemon's stdout."""

WORKERS = (2, 0, 3, 1)
"""Of each task: those in the first slots come first."""

BY_EXECUTOR = {"0": (0,), "1": (1,), "7": (2, 3), "8": (4, 5, 6)}

ABORTED = """An error occurred while calling o546.get.
: java.util.concurrent.ExecutionException: Exception thrown by job
\tat org.apache.spark.JavaFutureActionWrapper.getImpl(FutureAction.scala:284)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 30.0 \
failed 1 times, most recent failure: {}
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:3060)
"""
LOST = (
    "Lost task 1.0 in stage 30.0 (TID 56) (10.0.0.3 executor 1): ExecutorLostFailure "
    "(executor 1 exited caused by one of the running tasks) Reason: "
)
CRASHED = (
    "Lost task 2.0 in stage 9.0 (TID 9) (10.0.0.2 executor 7): org.apache.spark.SparkException: "
    "Python worker exited unexpectedly (crashed). Consider setting 'spark.python.worker."
    "faulthandler.enabled' configuration to 'true' for the better Python traceback."
)
FETCH = (
    "Lost task 0.0 in stage 9.0 (TID 9) (10.0.0.2 executor 0): FetchFailed(BlockManagerId(1, "
    "10.0.0.3, 38347, None), shuffleId=5, mapIndex=1, mapId=24, reduceId=0, message="
)
FETCH_WITHOUT_A_PLACE = """An error occurred while calling o163.get.
: java.util.concurrent.ExecutionException: Exception thrown by job
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: ResultStage 12 \
(collectAsync at NativeMethodAccessorImpl.java:0) has failed the maximum allowable number of \
times: 1. Most recent failure reason: org.apache.spark.shuffle.FetchFailedException
\tat org.apache.spark.errors.SparkCoreErrors$.fetchFailedError(SparkCoreErrors.scala:398)
Caused by: io.netty.channel.unix.Errors$NativeIoException: recvAddress(..) failed with error(-104)
"""
PYTHON = """An error occurred while calling o163.get.
: java.util.concurrent.ExecutionException: Exception thrown by job
\tat org.apache.spark.JavaFutureActionWrapper.getImpl(FutureAction.scala:284)
Caused by: org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown \
from the Python worker: Traceback (most recent call last):
  File "worker.py", line 4327, in invoke_udf
    run_process()
ModuleNotFoundError: No module named 'wordcount'
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:740)
"""
CANCELLED = """An error occurred while calling o1.get.
: java.util.concurrent.ExecutionException: Exception thrown by job
Caused by: org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 7 cancelled  SQLSTATE: XXKDA
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            ABORTED.format(LOST + "Command exited with code 137"),
            "worker 1 was lost (exit code 137: killed, often for lack of memory)",
            id="killed",
        ),
        pytest.param(
            ABORTED.format(LOST + "Command exited with code 3"),
            "worker 1 was lost (exit code 3: its JVM had too little memory: emit "
            "smaller tuples, or give workers more memory)",
            id="out-of-memory",
        ),
        pytest.param(
            ABORTED.format(LOST + "The executor with id 1 exited with exit code 1(unexpected)."),
            "worker 1 was lost (exit code 1)",
            id="pod",
        ),
        pytest.param(
            ABORTED.format(LOST + "Executor heartbeat timed out after 34121 ms"),
            "worker 1 was lost (it did not answer for 34.121 seconds)",
            id="hangs",
        ),
        pytest.param(
            ABORTED.format(LOST + "Remote RPC client disassociated. Likely due to containers"),
            "worker 1 was lost (its connection closed)",
            id="disconnected",
        ),
        pytest.param(
            ABORTED.format(FETCH),
            "worker 1 was lost, with what the stage before had made",
            id="fetch",
        ),
        pytest.param(
            ABORTED.format(LOST.replace("executor 1", "executor 7") + "Heartbeat"),
            "workers 2 and 3 were lost (its connection closed)",
            id="two-in-a-jvm",
        ),
        pytest.param(
            ABORTED.format(LOST.replace("executor 1", "executor 8") + "exit code 137"),
            "workers 4, 5 and 6 were lost (exit code 137: killed, often for lack of memory)",
            id="three-in-a-jvm",
        ),
        pytest.param(
            ABORTED.format(LOST.replace("executor 1", "executor 9") + "exit code 137"),
            "a worker was lost (exit code 137: killed, often for lack of memory)",
            id="replaced-already",
        ),
        pytest.param(
            FETCH_WITHOUT_A_PLACE,
            "a worker was lost, with what the stage before had made",
            id="fetch-without-a-place",
        ),
        pytest.param(
            ABORTED.format(CRASHED),
            "the Python process of worker 3 ended: it was killed, often for lack of memory, or a"
            " component ended it",
            id="python-killed",
        ),
        pytest.param(
            PYTHON,
            "the Python process of a worker failed: ModuleNotFoundError: No module named "
            "'wordcount'",
            id="python-raised",
        ),
        pytest.param(CANCELLED, "the job was cancelled", id="cancelled"),
        pytest.param(
            ABORTED.format(NO_MODULE),
            "the Python process of worker 2 failed: ModuleNotFoundError: No module named 'fulmen'",
            id="no-fulmen",
        ),
        pytest.param(
            ABORTED.format("java.lang.IllegalStateException: no more"),
            "Spark: Job aborted due to stage failure: Task 1 in stage 30.0 failed 1 times, most "
            "recent failure: no more",
            id="unknown",
        ),
    ],
)
def test_a_failure_is_told_in_one_line(text, said):
    assert explain(text, WORKERS, BY_EXECUTOR) == said


KUBERNETES = """

The executor with id 1 exited with exit code {}.
{}


The API gave the following container statuses:


\t container name: spark-kubernetes-executor
\t container image: example.org/spark:4
\t container state: terminated
\t exit code: {}
\t termination reason: {}
      """


def of_pod(described, code, termination, reason=""):
    return ABORTED.format(LOST + KUBERNETES.format(described, reason, code, termination))


OUT_OF_MEMORY = of_pod("137(SIGKILL, possible container OOM)", 137, "OOMKilled")
KILLED = of_pod("137(SIGKILL, possible container OOM)", 137, "Error")
EVICTED = of_pod("143(SIGTERM)", 143, "Error", "The API gave the following brief reason: Evicted")
PREEMPTED = of_pod(
    "-1(unexpected)", 0, "Completed", "The API gave the following brief reason: Preempting"
)
DELETED = ABORTED.format(
    LOST.replace("caused by one of the running", "unrelated to the running")
    + "The executor with id 1 was deleted by a user or the framework."
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(DELETED, True, id="pod-deleted"),
        pytest.param(EVICTED, True, id="pod-evicted"),
        pytest.param(PREEMPTED, True, id="pod-preempted"),
        pytest.param(KILLED, True, id="jvm-of-a-pod-killed"),
        pytest.param(ABORTED.format(LOST + "Command exited with code 137"), True, id="jvm-killed"),
        pytest.param(ABORTED.format(LOST + "Command exited with code 143"), True, id="jvm-ended"),
        pytest.param(
            ABORTED.format(LOST + "Executor heartbeat timed out after 9 ms"), True, id="node-lost"
        ),
        pytest.param(
            ABORTED.format(LOST + "Remote RPC client disassociated."), True, id="disconnected"
        ),
        pytest.param(ABORTED.format(FETCH), True, id="jvm-gone-between-stages"),
        pytest.param(FETCH_WITHOUT_A_PLACE, True, id="some-jvm-gone-between-stages"),
        pytest.param(OUT_OF_MEMORY, False, id="pod-out-of-memory"),
        pytest.param(
            ABORTED.format(LOST + "Command exited with code 3"), False, id="jvm-out-of-memory"
        ),
        pytest.param(
            ABORTED.format(LOST + "Command exited with code 134"), False, id="jvm-crashed"
        ),
        pytest.param(ABORTED.format(CRASHED), False, id="python-process-ended"),
        pytest.param(PYTHON, False, id="python-raised"),
        pytest.param(CANCELLED, False, id="cancelled"),
    ],
)
def test_only_what_a_process_or_its_memory_ends_is_evidence_against_a_tuple(text, expected):
    assert is_clusters(text) is expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            OUT_OF_MEMORY,
            "exit code 137: its pod ran out of memory (OOMKilled): emit smaller tuples, or raise"
            " the memory limit of workers",
        ),
        (KILLED, "exit code 137: killed, often for lack of memory"),
        (EVICTED, "exit code 143"),
        (PREEMPTED, "its connection closed"),
        (DELETED, "its connection closed"),
    ],
)
def test_why_a_pod_was_lost_is_told_in_one_line(text, why):
    assert explain(text, WORKERS, BY_EXECUTOR) == f"worker 1 was lost ({why})"


def test_a_traceback_is_found_among_those_of_java():
    assert traceback_in(PYTHON) == (
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 4327, in invoke_udf\n'
        "    run_process()\n"
        "ModuleNotFoundError: No module named 'wordcount'"
    )
    assert traceback_in(CANCELLED) == ""


def test_the_only_worker_is_meant_even_if_it_is_not_named():
    assert explain(PYTHON, (0,), {"driver": (0,)}).startswith(
        "the Python process of worker 0 failed"
    )


def test_the_end_of_spark_itself_is_told_apart():
    assert is_over("Caused by: SparkException: Job 3 cancelled because SparkContext was shut down")
    assert is_over(
        "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."
    )
    assert not is_over(CANCELLED)


def test_a_message_of_java_without_its_classes():
    assert java_message("x\n: java.net.BindException: in use\n\tat y") == "in use"
    assert java_message("") == "no reason given"
