"""Four workers, two in each of two JVMs, as in pods: what is lost with a JVM, and what is not."""

import os
import re
import signal

import pytest

from fulmen.errors import JobFailed
from support.runs.spark_runs import (
    DEADLINE_SECONDS,
    Failure,
    Runs,
    is_alive,
    is_partitioned,
    several_jvms,
    wait_until,
)

pytestmark = pytest.mark.timeout(600)

WORKERS, STAGES = 4, 2
LOST = "when a JVM is lost"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jvms")
    runs = Runs(WORKERS, STAGES, folder, conf=several_jvms(2, 2), slots=2)
    yield runs
    runs.close()


@pytest.fixture
def places(runs):
    """Where each partition runs before the test does something to it."""
    wait_until(lambda: runs.jobs.alive() == (0, 1, 2, 3), "all workers")
    return runs.until_it_counts()[0]


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def assert_ours(error):
    """One line, in our words."""
    assert not re.search(r"java|py4j|org\.apache|Exception|TID|\n", str(error)), str(error)


def of_workers(places, *workers):
    """The places of these workers' tasks."""
    return {place for (_, partition), place in places.items() if partition in workers}


def test_each_partition_stays_in_its_process_and_two_share_a_jvm(runs, places):
    assert is_partitioned(places, WORKERS)
    jvms = [places[0, partition][1] for partition in range(WORKERS)]
    assert jvms[0] == jvms[1] != jvms[2] == jvms[3]
    assert all(runs.once() == places for _ in range(20))


def test_a_killed_process_is_the_loss_of_one_slot(runs, places):
    with pytest.raises(JobFailed, match="the Python process of worker 3 ended"):
        runs.once(fault=[1, 3, "kill"])
    after, failures = runs.until_it_counts()
    assert is_partitioned(after, WORKERS)
    assert after[0, 3][1] == places[0, 3][1]  # its JVM has another process for it
    assert len(failures) <= 1


@pytest.mark.matrix(share=1 / 2)
@pytest.mark.parametrize("stage", range(STAGES))
def test_a_killed_jvm_is_the_loss_of_its_slots_and_comes_back(runs, places, stage):
    with pytest.raises(JobFailed, match=r"workers 2 and 3 were lost \(exit code 137") as failed:
        runs.once(fault=[stage, 3, "kill jvm"])
    assert_ours(failed.value)
    assert runs.jobs.recover(patience_seconds=DEADLINE_SECONDS) == (0, 1, 2, 3)
    after, _ = runs.until_it_counts()
    assert is_partitioned(after, WORKERS)
    assert {jvm for _, jvm in of_workers(after, 0, 1)} == {places[0, 0][1]}
    assert not is_alive(places[0, 2][0])
    assert not is_alive(places[0, 3][0])


@pytest.mark.matrix(share=1 / 3, name=LOST, cell="between jobs")
def test_a_jvm_killed_between_jobs_is_noticed(runs, places):
    kill(places[0, 1][1])
    after, failures = runs.settled()
    assert is_partitioned(after, WORKERS)
    for failure in failures:
        assert_ours(failure)
    assert after[0, 1] != places[0, 1]


@pytest.mark.matrix(share=1 / 2)
@pytest.mark.parametrize("stage", range(STAGES))
def test_a_jvm_killed_after_its_tasks_makes_no_batch_count_with_a_part_run_twice(
    runs, places, stage, tmp_path
):
    attempt = runs.in_thread(wait=[stage, 0, str(tmp_path / "file")])
    wait_until((tmp_path / "file.reached").exists)
    others = stage * WORKERS + WORKERS - 1
    wait_until(lambda: completed_tasks(runs) == others, "the other partitions' tasks")
    kill(places[0, 3][1])
    wait_until(lambda: runs.session.workers.alive() == (0, 1), "the loss to be noticed")
    (tmp_path / "file.go").touch()
    attempt.end()
    if stage == STAGES - 1:  # nothing that is missing was needed again
        assert attempt.places == places
    else:
        assert isinstance(attempt.error, JobFailed | Failure)
        assert_ours(attempt.error)
    assert runs.jobs.recover(patience_seconds=DEADLINE_SECONDS) == (0, 1, 2, 3)
    after, _ = runs.until_it_counts()
    assert is_partitioned(after, WORKERS)


def completed_tasks(runs):
    """Of the job that runs."""
    tracker = runs.session.sc.statusTracker()
    (job,) = tracker.getActiveJobsIds()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getJobInfo(job).stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage)


@pytest.mark.matrix(share=1 / 3, name=LOST, cell="for a while")
def test_work_goes_on_without_a_lost_jvm_and_includes_it_when_it_is_back(runs, places):
    executors = runs.session.workers.by_executor()
    (lost,) = (i for i, workers in executors.items() if 0 in workers)
    runs.remove_jvm(lost)
    wait_until(lambda: runs.jobs.alive() == (2, 3), "the loss to be noticed")
    runs.use(STAGES, (2, 3))
    without = runs.once()
    assert [without[0, 0], without[0, 1]] == [places[0, 2], places[0, 3]]
    runs.add_jvm()
    wait_until(lambda: runs.jobs.alive() == (0, 1, 2, 3), "the JVM's return")
    runs.use(STAGES, range(WORKERS))
    after, _ = runs.until_it_counts()
    assert is_partitioned(after, WORKERS)
    assert of_workers(after, 2, 3) == of_workers(places, 2, 3)
    assert not of_workers(after, 0, 1) & of_workers(places, 0, 1)


@pytest.mark.matrix(share=1 / 3, name=LOST, cell="all")
def test_all_jvms_lost_at_once_come_back(runs, places):
    for jvm in {jvm for _, jvm in places.values()}:
        kill(jvm)
    after, failures = runs.settled()
    assert is_partitioned(after, WORKERS)
    for failure in failures:
        assert_ours(failure)
    assert not set(after.values()) & set(places.values())
