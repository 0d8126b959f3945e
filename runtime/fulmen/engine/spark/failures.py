"""Says in one line of ours what an exception of Spark's means: which worker, what happened. Pure.

The text of the exception itself, with its stack traces, is for the log file only.
"""

import re
import signal
from collections.abc import Mapping, Sequence

SIGKILL = int(signal.SIGKILL)
KILLED = 128 + SIGKILL
OUT_OF_MEMORY = (3, 52)  # Java's -XX:+ExitOnOutOfMemoryError, and Spark's own

_TASK = re.compile(r"Lost task (\d+)\.\d+ in stage [^(]*\(TID \d+\) \(\S+ executor (\S+)\)")
_FETCHED_FROM = re.compile(r"FetchFailed\(BlockManagerId\(([^,]+),")
_LOST = re.compile(r"ExecutorLostFailure \(executor .*? Reason: (.*)")
_EXIT_CODE = re.compile(r"\bcode[: ]+(\d+)")
_HEARTBEAT = re.compile(r"heartbeat timed out after (\d+) ms")
_ERROR_LINE = re.compile(r"^(?:[\w.]+(?:Error|Exception|Exit|Interrupt)|\[\w+\])\b.*")
_JAVA_CLASS = re.compile(r"\b(?:[a-z_]\w*\.)+[A-Z]\w*(?:: )?")
_OVER = ("SparkContext was shut down", "stopped SparkContext", "SparkContext has been shutdown")


_CANT_IMPORT = re.compile(r"\b(ModuleNotFoundError|ImportError): .*")


def is_incomplete(reason: str, python: str) -> str | None:
    """What is to be said if `explain` says that a worker could not even import Fulmen."""
    found = _CANT_IMPORT.search(reason)
    return found and (
        f"the workers' Python, '{python}', can't import Fulmen ({found[0]}). Install the same"
        " packages there as here, in the same versions, and give no file in the code's folder the"
        " name of one of their modules."
    )


def is_over(text: str) -> bool:
    """Whether Spark itself has ended, so that no further job can run."""
    return any(sign in text for sign in _OVER)


def is_clusters(text: str) -> bool:
    """Whether the cluster took the worker away, and no tuple can have done it.

    A container that is killed for want of memory says so by its exit code, and counts as killed.
    """
    lost = _LOST.search(text)
    return lost is not None and (
        "deleted by a user or the framework" in lost[1] or not _EXIT_CODE.search(lost[1])
    )


def explain(text: str, workers: Sequence[int], by_executor: Mapping[str, Sequence[int]]) -> str:
    """What made a job fail.

    Args:
        text: The text of the Java exception, with its causes.
        workers: The worker of each of the job's tasks.
        by_executor: The workers of each of Spark's executors, by its id.
    """
    task = _TASK.search(text)
    fetched_from = _FETCHED_FROM.search(text)
    executor = fetched_from[1] if fetched_from else task[2] if task else None
    if lost := _LOST.search(text):
        return f"{_all_of(executor, by_executor)} lost ({_loss(lost[1])})"
    if fetched_from or "FetchFailedException" in text:
        return f"{_all_of(executor, by_executor)} lost, with what the stage before had made"
    if task:
        worker = f"worker {workers[int(task[1])]}"
    else:
        worker = f"worker {workers[0]}" if len(workers) == 1 else "a worker"
    if "Python worker exited unexpectedly" in text:
        return (
            f"the Python process of {worker} ended: it was killed, often for lack of memory, or a"
            " component ended it"
        )
    if "[PYTHON_EXCEPTION]" in text or "Traceback (most recent call last)" in text:
        return f"the Python process of {worker} failed: {_last_python_error(text)}"
    if re.search(r"\bJob \d+ (?:was )?cancelled\b", text):
        return "the job was cancelled"
    if program := re.search(r'Cannot run program "([^"]*)"', text):
        return f"{worker} could not start its Python process: '{program[1]}' can't be run"
    return f"Spark: {java_message(text)}"


def _all_of(executor: str | None, by_executor: Mapping[str, Sequence[int]]) -> str:
    """Who was lost with one of Spark's executors, and the verb that follows."""
    if executor is None and len(by_executor) == 1:
        (found,) = by_executor.values()
    else:
        found = by_executor.get(executor or "", ())
    if not found:
        return "a worker was"
    if len(found) == 1:
        return f"worker {found[0]} was"
    return f"workers {', '.join(map(str, found[:-1]))} and {found[-1]} were"


def java_message(text: str) -> str:
    """The message of the innermost cause, without the names of Java's classes."""
    lines = text.splitlines()
    causes = [line.removeprefix("Caused by:") for line in lines if line.startswith("Caused by:")]
    heads = [line.removeprefix(":") for line in lines if line.startswith(":")]
    innermost = (causes or heads or lines or [""])[-1]
    return _JAVA_CLASS.sub("", innermost).strip(" :") or "no reason given"


def jvm_end(code: int) -> str:
    """How the driver's JVM ended.

    Args:
        code: Its exit code, or minus the signal that ended it.
    """
    if code == -SIGKILL:
        return f"its JVM was killed by signal {SIGKILL}, often for lack of memory on the machine"
    if code < 0:
        return f"its JVM was killed by signal {-code}"
    if code in OUT_OF_MEMORY:
        return (
            f"its JVM ended ({code}), as it had too little memory: emit smaller tuples, or set"
            " spark.driver.memory in spec.spark.conf"
        )
    return f"its JVM ended ({code})"


def _loss(reason: str) -> str:
    if heartbeat := _HEARTBEAT.search(reason):
        return f"it did not answer for {int(heartbeat[1]) / 1000:g} seconds"
    if not (found := _EXIT_CODE.search(reason)):
        return "its connection closed"
    code = int(found[1])
    if code == KILLED:
        return f"exit code {code}: killed, often for lack of memory"
    if code in OUT_OF_MEMORY:
        cure = "emit smaller tuples, or give workers more memory"
        return f"exit code {code}: its JVM had too little memory: {cure}"
    return f"exit code {code}"


def _last_python_error(text: str) -> str:
    """The last line of the last Python traceback, such as `ModuleNotFoundError: No module …`."""
    found = "no reason given"
    for line in text.splitlines():
        if line.startswith(("Driver stacktrace", "Caused by:")) and found != "no reason given":
            break
        if _ERROR_LINE.match(line) and not _JAVA_CLASS.match(line):
            found = line.strip()
    return found
