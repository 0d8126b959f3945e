"""Two workers on this machine: a Python process each, in slots of one JVM."""

import json
import os
import re
import signal

import pytest

from fulmen.engine.spark.rdds import chains
from fulmen.errors import JobFailed, JobTimedOut
from support.runs.spark_runs import Failure, Runs, is_alive, is_partitioned, wait_until
from support.runs.toy_stages import parent_of

pytestmark = pytest.mark.timeout(400)

STAGES = 3


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    runs = Runs(workers=2, stages=STAGES, folder=tmp_path_factory.mktemp("two"))
    yield runs
    runs.close()


@pytest.fixture
def places(runs):
    """Where each partition runs before the test does something to it."""
    return runs.until_it_counts()[0]


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def assert_ours(error):
    """One line, in our words."""
    assert not re.search(r"java|py4j|org\.apache|Exception|TID|\n", str(error)), str(error)


def test_each_partition_stays_in_its_process(runs, places):
    assert is_partitioned(places, 2)
    assert all(runs.once() == places for _ in range(200))


def test_a_stage_alone_runs_where_whole_batches_do(runs, places):
    for _ in range(2):
        rows = [json.loads(row) for row in runs.jobs.run("{}", 60, first=1, end=2)]
        alone = {(s, p): (pid, jvm) for row in rows for s, p, pid, jvm in row["seen"]}
        assert alone == {(1, p): places[1, p] for p in range(2)}
        assert runs.once() == places


def test_a_process_that_ends_in_a_stage_alone_leaves_the_other_one(runs, places):
    fault = json.dumps({"fault": [1, 1, "kill"]})
    with pytest.raises(JobFailed, match=r"^the Python process of worker 1 ended"):
        runs.jobs.run(fault, 60, first=1, end=2)
    runs.jobs.recover()
    after = runs.once()
    assert after[1, 0] == places[1, 0]
    assert after[1, 1] != places[1, 1]


def test_what_components_print_is_in_the_log_file(runs, places, capfd):
    runs.once(say="magnificat")
    assert runs.log_file.read_text().count("magnificat to stdout\n") == 2 * STAGES
    assert capfd.readouterr() == ("", "")


def test_rows_of_any_size_reach_the_driver(runs, places):
    for size in (10, 5_000_000, 10):
        rows = runs.jobs.run(f'{{"size": {size}}}')
        assert [row.count(b"x" * 10) for row in rows] == [size // 10] * 2


@pytest.mark.parametrize("stage", range(STAGES))
def test_an_exception_makes_the_batch_void_and_keeps_all_processes(runs, places, stage):
    with pytest.raises(Failure, match="ValueError: a component failed"):
        runs.once(fault=[stage, 1, "raise"])
    assert runs.once() == places


@pytest.mark.parametrize("stage", range(STAGES))
def test_a_killed_python_process_fails_the_batch(runs, places, stage):
    with pytest.raises(JobFailed, match="the Python process of worker 1 ended") as failed:
        runs.once(fault=[stage, 1, "kill"])
    assert_ours(failed.value)
    after, failures = runs.until_it_counts()
    assert is_partitioned(after, 2)
    assert len(failures) <= 1  # `recover` has not been called before


def test_a_process_that_hangs_is_cancelled_and_dies(runs, places):
    with pytest.raises(JobTimedOut):
        runs.once(timeout_seconds=2, fault=[1, 1, "deaf"])
    runs.jobs.recover()
    after = runs.once()
    assert is_partitioned(after, 2)
    assert after[0, 1] != places[0, 1]
    wait_until(lambda: not is_alive(places[0, 1][0]), "the end of the process")


def test_a_python_process_killed_between_jobs_fails_one_batch_at_most(runs, places):
    kill(places[0, 1][0])
    after, failures = runs.until_it_counts()
    assert is_partitioned(after, 2)
    assert len(failures) <= 1


@pytest.mark.thorough
@pytest.mark.matrix(share=1 / 3, name="long runs", cell="cancelled")
def test_cancelled_again_and_again_each_partition_keeps_to_one_process(runs, places):
    for turn in range(20):
        attempt = runs.in_thread(fault=[turn % STAGES, turn % 2, "sleep"])
        wait_until(runs.session.workers.are_busy, "a task")
        runs.jobs.cancel()
        attempt.end()
        assert isinstance(attempt.error, JobFailed)
        runs.jobs.recover()
    after, _ = runs.until_it_counts()
    assert is_partitioned(after, 2)
    assert all(runs.once() == after for _ in range(20))


def test_a_killed_daemon_is_replaced(runs, places):
    process, _ = places[0, 1]
    kill(parent_of(process))
    wait_until(lambda: not is_alive(process), "the end of its process")
    after, failures = runs.until_it_counts()
    assert is_partitioned(after, 2)
    assert after[0, 1] != places[0, 1]  # the other one's may stay: Spark kills a void batch's tasks
    assert len(failures) <= 1


def test_without_an_environment_of_its_own_a_slot_has_no_process_of_its_own(
    runs, places, monkeypatch
):
    """That a partition stays is the doing of its slot: here is what Spark does otherwise."""
    with monkeypatch.context() as patch:
        patch.setattr(chains, "environment_of", lambda session, slot: {})
        runs.use(STAGES, range(2))
        assert not all(stays(runs) for _ in range(100))
    runs.use(STAGES, range(2))
    after, _ = runs.until_it_counts()
    assert is_partitioned(after, 2)


def stays(runs):
    """Whether each partition runs in a process of its own."""
    try:
        return is_partitioned(runs.once(), 2)
    except Failure:  # the process has noticed it
        return False


@pytest.mark.thorough
@pytest.mark.matrix(share=1 / 3, name="long runs", cell="files")
def test_files_do_not_accumulate(runs, places):
    def files():
        return sum(len(names) for _, _, names in os.walk(runs.session.work_dir))

    counts = []
    for _ in range(3):
        for _ in range(100):
            runs.once(size=10_000)
        counts.append(files())
    wait_until(lambda: files() <= counts[0] + 10, "the end of the growth")
