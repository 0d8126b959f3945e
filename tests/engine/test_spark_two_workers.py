"""Two workers on this machine: a JVM and a Python process each."""

import os
import re
import signal

import pytest

from fulmen.errors import JobFailed, JobTimedOut
from support.spark_runs import DEADLINE_SECONDS, Runs, Void, is_alive, is_partitioned, wait_until

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
    places, _ = runs.until_it_counts()
    wait_until(lambda: runs.session.workers.alive() == (0, 1), "both workers")
    return places


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def assert_ours(error):
    """One line, in our words."""
    assert not re.search(r"java|py4j|org\.apache|Exception|TID|\n", str(error)), str(error)


def test_each_partition_stays_in_its_process(runs, places):
    assert is_partitioned(places, 2)
    assert all(runs.once() == places for _ in range(200))


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
    with pytest.raises(Void, match="ValueError: a component failed"):
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


@pytest.mark.parametrize("stage", [0, STAGES - 1])
def test_a_killed_worker_fails_the_batch_and_comes_back(runs, places, stage):
    with pytest.raises(JobFailed, match=r"worker 1 was lost \(exit code 137") as failed:
        runs.once(fault=[stage, 1, "kill jvm"])
    assert_ours(failed.value)
    assert runs.jobs.recover(patience_seconds=DEADLINE_SECONDS) == (0, 1)
    after = runs.once()
    assert is_partitioned(after, 2)
    assert after[0, 0][1] == places[0, 0][1]
    assert not is_alive(places[0, 1][0])


def test_a_worker_killed_between_jobs_is_noticed(runs, places):
    kill(places[0, 1][1])
    after, failures = runs.until_it_counts()
    assert is_partitioned(after, 2)
    for failure in failures:
        assert_ours(failure)
    assert after[0, 1] != places[0, 1]


@pytest.mark.parametrize("stage", range(STAGES))
def test_a_worker_killed_after_its_task_makes_no_batch_count_with_a_part_run_twice(
    runs, places, stage, tmp_path
):
    attempt = runs.in_thread(wait=[stage, 0, str(tmp_path / "file")])
    wait_until((tmp_path / "file.reached").exists)
    wait_until(lambda: completed_tasks(runs) == stage * 2 + 1, "the other partition's task")
    kill(places[0, 1][1])
    wait_until(lambda: runs.session.workers.alive() == (0,), "the loss to be noticed")
    (tmp_path / "file.go").touch()
    attempt.end()
    if stage == STAGES - 1:  # nothing that is missing was needed again
        assert attempt.places == places
    else:
        assert isinstance(attempt.error, JobFailed | Void)
        assert_ours(attempt.error)
    runs.jobs.recover(patience_seconds=DEADLINE_SECONDS)
    after, _ = runs.until_it_counts()
    assert is_partitioned(after, 2)


def completed_tasks(runs):
    """Of the job that runs."""
    tracker = runs.session.sc.statusTracker()
    (job,) = tracker.getActiveJobsIds()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getJobInfo(job).stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage)


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


def test_files_do_not_accumulate(runs, places):
    def files():
        return sum(len(names) for _, _, names in os.walk(runs.session.work_dir))

    counts = []
    for _ in range(3):
        for _ in range(100):
            runs.once(size=10_000)
        counts.append(files())
    wait_until(lambda: files() <= counts[0] + 10, "the end of the growth")
