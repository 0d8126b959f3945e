"""Says in one line of ours what an exception of Spark's means: which worker, what happened. Pure.

The text of the exception itself, with its stack traces, is for the log file only.
"""

import re
from collections.abc import Mapping

KILLED = 137  # 128 + SIGKILL
OUT_OF_MEMORY = (3, 52)  # Java's -XX:+ExitOnOutOfMemoryError, and Spark's own

_TASK_AT = re.compile(r"Lost task [^(]*\(TID \d+\) \((\S+) executor \S+\)")
_FETCHED_FROM = re.compile(r"FetchFailed\(BlockManagerId\([^,]+, ([^,]+),")
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
        f"the workers' Python, '{python}', can't import Fulmen ({found[0]}). Install there what is"
        " installed here, with the same versions, and have no file in the code's folder that is"
        " named like one of its modules."
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


def explain(text: str, number_of: Mapping[str, int]) -> str:
    """What made a job fail.

    Args:
        text: Of the Java exception, with its causes.
        number_of: The worker at each host.
    """
    at = _FETCHED_FROM.search(text) or _TASK_AT.search(text)
    if len(number_of) == 1:
        worker = f"worker {next(iter(number_of.values()))}"
    else:
        worker = f"worker {number_of[at[1]]}" if at and at[1] in number_of else "a worker"
    if lost := _LOST.search(text):
        return f"{worker} was lost ({_loss(lost[1])})"
    if _FETCHED_FROM.search(text) or "FetchFailedException" in text:
        return f"{worker} was lost, and with it what the stage before had made"
    if "Python worker exited unexpectedly" in text:
        return (
            f"the Python process of {worker} ended: it was killed, often for want of memory, or a"
            " component ended it"
        )
    if "[PYTHON_EXCEPTION]" in text or "Traceback (most recent call last)" in text:
        return f"the Python process of {worker} failed: {_last_python_error(text)}"
    if re.search(r"\bJob \d+ (?:was )?cancelled\b", text):
        return "the job was cancelled"
    if program := re.search(r'Cannot run program "([^"]*)"', text):
        return f"{worker} could not start its Python process: '{program[1]}' can't be run"
    return f"Spark: {java_message(text)}"


def java_message(text: str) -> str:
    """The message of the innermost cause, without the names of Java's classes."""
    lines = text.splitlines()
    causes = [line.removeprefix("Caused by:") for line in lines if line.startswith("Caused by:")]
    heads = [line.removeprefix(":") for line in lines if line.startswith(":")]
    innermost = (causes or heads or lines or [""])[-1]
    return _JAVA_CLASS.sub("", innermost).strip(" :") or "no reason given"


def _loss(reason: str) -> str:
    if heartbeat := _HEARTBEAT.search(reason):
        return f"it did not answer for {int(heartbeat[1]) / 1000:g} seconds"
    if not (found := _EXIT_CODE.search(reason)):
        return "its connection closed"
    code = int(found[1])
    if code == KILLED:
        return f"exit code {code}: killed, often for want of memory"
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
