"""Says in one line of ours what an exception of Spark's means: which worker, what happened. Pure.

The text of the exception itself, with its stack traces, is for the log file only.
"""

import re
import signal
from collections.abc import Mapping, Sequence

SIGKILL = int(signal.SIGKILL)
KILLED = 128 + SIGKILL
FROM_OUTSIDE = (KILLED, 128 + int(signal.SIGTERM))
"""How a JVM ends that somebody else ends."""
OUT_OF_MEMORY = (3, 52)  # Java's -XX:+ExitOnOutOfMemoryError, and Spark's own

_TASK = re.compile(r"Lost task (\d+)\.\d+ in stage [^(]*\(TID \d+\) \(\S+ executor (\S+)\)")
_FETCHED_FROM = re.compile(r"FetchFailed\(BlockManagerId\(([^,]+),")
_LOST = re.compile(
    r"ExecutorLostFailure \(executor [^\n]*? Reason:\s*(.*?)\s*(?:^Driver stacktrace|\Z)",
    re.DOTALL | re.MULTILINE,  # Kubernetes explains it in several lines
)
_EXIT_CODE = re.compile(r"\bcode[: ]+(-?\d+)")  # negative: nobody knows it
_HEARTBEAT = re.compile(r"heartbeat timed out after (\d+) ms")
_ERROR_LINE = re.compile(r"^(?:[\w.]+(?:Error|Exception|Exit|Interrupt)|\[\w+\])\b.*")
_JAVA_CLASS = re.compile(r"\b(?:[a-z_]\w*\.)+[A-Z]\w*(?:: )?")
_TRACEBACK = re.compile(
    r"(Traceback \(most recent call last\):\n.*?)"
    r"(?:^\tat |^ ?SQLSTATE|^Driver stacktrace|^Caused by|\Z)",
    re.DOTALL | re.MULTILINE,
)
_OVER = ("SparkContext was shut down", "stopped SparkContext", "SparkContext has been shutdown")


_NO_MODULE = re.compile(
    r"Error while finding module specification for '[^']*' \((.*)\)$", re.MULTILINE
)
"""What Python says if it can't even find the daemon of workers."""
_CANT_IMPORT = re.compile(r"\b(ModuleNotFoundError|ImportError): .*")


def is_incomplete(reason: str, python: str) -> str | None:
    """The message if `explain` says that a worker could not even import Fulmen."""
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
    """Whether the cluster took workers away, so that no tuple is to blame.

    Evidence against a tuple is the end of a Python process, the end of a JVM by itself, and a pod
    that ran out of memory. A JVM that was ended from outside is none: somebody deleted its pod, its
    node is gone, or a signal killed it. Nor is a JVM that is gone without a reason.
    """
    if lost := _LOST.search(text):
        code = _exit_code(lost[1])
        return not _ran_out_of_memory(lost[1]) and (code is None or code in FROM_OUTSIDE)
    return "FetchFailed" in text


def traceback_in(text: str) -> str:
    """The Python traceback in it, if there is one."""
    found = _TRACEBACK.search(text)
    return found[1].rstrip() if found else ""


def _ran_out_of_memory(reason: str) -> bool:
    """Whether Kubernetes says so of the JVM's pod. An exit code alone does not tell who killed."""
    return "OOMKilled" in reason


def _exit_code(reason: str) -> int | None:
    found = _EXIT_CODE.search(reason)
    return int(found[1]) if found and not found[1].startswith("-") else None


def explain(text: str, workers: Sequence[int], by_executor: Mapping[str, Sequence[int]]) -> str:
    """Say why a job failed."""
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
    if no_module := _NO_MODULE.search(text):
        return f"the Python process of {worker} failed: {no_module[1]}"
    if "[PYTHON_EXCEPTION]" in text or "Traceback (most recent call last)" in text:
        return f"the Python process of {worker} failed: {_last_python_error(text)}"
    if re.search(r"\bJob \d+ (?:was )?cancelled\b", text):
        return "the job was cancelled"
    if program := re.search(r'Cannot run program "([^"]*)"', text):
        return f"{worker} could not start its Python process: '{program[1]}' can't be run"
    return f"Spark: {java_message(text)}"


def ended_worker(text: str, workers: Sequence[int]) -> int | None:
    """The worker whose Python process ended; None: that is not what made the job fail."""
    task = _TASK.search(text)
    if task is None or "Python worker exited unexpectedly" not in text:
        return None
    return workers[int(task[1])]


def _all_of(executor: str | None, by_executor: Mapping[str, Sequence[int]]) -> str:
    """Name who was lost with one of Spark's executors, and the verb that follows."""
    if executor is None and len(by_executor) == 1:
        (lost,) = by_executor.values()
    else:
        lost = by_executor.get(executor or "", ())
    if not lost:
        return "a worker was"
    if len(lost) == 1:
        return f"worker {lost[0]} was"
    return f"workers {', '.join(map(str, lost[:-1]))} and {lost[-1]} were"


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
    code = _exit_code(reason)
    if code is None:
        return "its connection closed"
    if _ran_out_of_memory(reason):
        cure = "emit smaller tuples, or raise the memory limit of workers"
        return f"exit code {code}: its pod ran out of memory (OOMKilled): {cure}"
    if code == KILLED:
        return f"exit code {code}: killed, often for lack of memory"
    if code in OUT_OF_MEMORY:
        cure = "emit smaller tuples, or give workers more memory"
        return f"exit code {code}: its JVM had too little memory: {cure}"
    return f"exit code {code}"


def _last_python_error(text: str) -> str:
    """The last line of the last Python traceback, such as `ModuleNotFoundError: No module …`."""
    last = "no reason given"
    for line in text.splitlines():
        if line.startswith(("Driver stacktrace", "Caused by:")) and last != "no reason given":
            break
        if _ERROR_LINE.match(line) and not _JAVA_CLASS.match(line):
            last = line.strip()
    return last
