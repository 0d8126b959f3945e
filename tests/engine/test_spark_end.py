"""How Spark starts and ends: nothing on the terminal, no process and no file left behind."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from fulmen.engine.spark.job_runner import JobRunner
from fulmen.errors import FulmenError, JobFailed, SparkLost
from support.runs.spark_runs import (
    Runs,
    environment,
    is_alive,
    settings,
    several_jvms,
    started,
    wait_until,
)
from support.runs.toy_stages import Toy, parent_of

pytestmark = pytest.mark.timeout(400)

TOLD = "what is told of a start that fails"

PROGRAM = """
import sys
from pathlib import Path
from support.runs.spark_runs import Runs

runs = Runs(workers=int(sys.argv[1]), stages=2, folder=Path(sys.argv[2]))
places, failures = runs.until_it_counts(say="hello", fault=[1, 0, "kill"])
assert failures
pids = {pid for place in places.values() for pid in place}
print(runs.session.work_dir, *pids, flush=True)
sys.stdin.read()
runs.close()
print("closed")
"""


@contextmanager
def running_program(workers, folder):
    """The program, and the words of its first line: it says that when all is well."""
    cwd = folder / "cwd"
    cwd.mkdir()
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(workers), str(folder)],
        env=environment(),
        cwd=cwd,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
    ) as program:
        try:
            words = program.stdout.readline().split()
            assert words, program.communicate()
            yield program, words
        finally:
            program.kill()


def processes_below(pid):
    """That process and all that it has started."""
    found = {pid}
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parents[int(name)] = parent_of(int(name))
            except FileNotFoundError:
                continue  # it has ended
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


@pytest.mark.matrix(share=1 / 2)
@pytest.mark.parametrize("workers", [1, 2])
def test_an_orderly_end_leaves_nothing(workers, tmp_path):
    with running_program(workers, tmp_path) as (program, (folder, *pids)):
        processes = processes_below(program.pid)
        assert processes >= {int(pid) for pid in pids}
        assert not [pid for pid in processes if "secret" in command_line(pid)]
        assert program.communicate("") == ("closed\n", "")
    wait_until(lambda: not any(map(is_alive, processes)), "the end of all processes")
    assert not Path(folder).exists()
    assert list((tmp_path / "cwd").iterdir()) == []
    assert "hello to stdout" in (tmp_path / "spark.log").read_text()


def command_line(pid):
    return Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.matrix(share=1 / 2)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_driver_takes_everything_with_it(workers, tmp_path):
    with running_program(workers, tmp_path) as (program, _):
        processes = processes_below(program.pid)
        assert len(processes) >= 2 + 2 * workers  # driver, JVM, daemons, Python processes
        program.kill()
        assert program.communicate() == ("", "")
    wait_until(lambda: not any(map(is_alive, processes)), "the end of all processes")


def test_the_end_of_sparks_jvm_is_told_apart_from_a_failed_job(tmp_path, capfd):
    runs = Runs(workers=1, stages=1, folder=tmp_path)
    ((process, jvm),) = runs.once().values()
    os.kill(jvm, signal.SIGKILL)
    wait_until(lambda: not is_alive(process), "the end of the Python process")
    with pytest.raises(SparkLost, match=r"^Spark is gone: its JVM was killed by signal 9,"):
        runs.once()
    with pytest.raises(SparkLost):
        runs.jobs.recover()
    runs.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.matrix(share=1 / 3, name=TOLD, cell="interpreter")
def test_an_interpreter_that_is_not_there_is_named(tmp_path):
    session = started(settings(1, tmp_path, python="/nowhere/python"))
    try:
        jobs = JobRunner(session, Toy(1, 1), 1, [0], patience_seconds=0)
        said = "worker 0 could not start its Python process: '/nowhere/python' can't be run"
        with pytest.raises(JobFailed, match=f"^{re.escape(said)}$"):
            jobs.run("{}")
    finally:
        session.close()


@pytest.mark.matrix(share=1 / 3, name=TOLD, cell="options")
def test_java_options_that_java_refuses_are_told(tmp_path):
    given = {"spark.driver.extraJavaOptions": "-Xms900g"}
    with pytest.raises(FulmenError, match=r"Java ended at once\. The reason is in '.*spark\.log'"):
        started(settings(1, tmp_path, conf=given))
    assert "heap size" in (tmp_path / "spark.log").read_text()


@pytest.mark.matrix(share=1 / 3, name=TOLD, cell="workers")
def test_workers_that_do_not_start_are_told(tmp_path):
    conf = {**several_jvms(2, 1), "spark.executor.extraJavaOptions": "-Xms900g"}
    with pytest.raises(FulmenError, match="0 of 2 workers started within 1 seconds"):
        started(settings(2, tmp_path, conf=conf, start_timeout_seconds=1))
