"""Three workers, of which one is lost and planned around until it is back."""

import os
import signal

import pytest

from fulmen.errors import JobFailed
from support.spark_runs import DEADLINE_SECONDS, Runs, Void, is_partitioned, wait_until

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    runs = Runs(workers=3, stages=2, folder=tmp_path_factory.mktemp("three"))
    yield runs
    runs.close()


def test_each_partition_stays_in_its_process(runs):
    places, _ = runs.until_it_counts()
    assert is_partitioned(places, 3)
    assert all(runs.once() == places for _ in range(50))


def test_work_goes_on_without_a_lost_worker_and_includes_it_when_it_is_back(runs):
    before, _ = runs.until_it_counts()
    os.kill(before[0, 1][1], signal.SIGKILL)
    wait_until(lambda: runs.jobs.alive() == (0, 2), "the loss to be noticed")
    if runs.jobs.recover(patience_seconds=0) == (0, 2):  # it may be back already
        runs.use(2, (0, 2))
        without = runs.once()
        assert without[0, 0] == before[0, 0]
        assert without[0, 1] == before[0, 2]
    wait_until(lambda: runs.jobs.alive() == (0, 1, 2), "the worker's return")
    runs.use(2, (0, 1, 2))
    after, _ = runs.until_it_counts()
    assert is_partitioned(after, 3)
    assert after[0, 0] == before[0, 0]
    assert after[0, 2] == before[0, 2]
    assert after[0, 1] != before[0, 1]


def test_all_workers_lost_at_once_come_back(runs):
    before, _ = runs.until_it_counts()
    for partition in range(3):
        os.kill(before[0, partition][1], signal.SIGKILL)
    with pytest.raises((JobFailed, Void)):
        runs.once()
    assert runs.jobs.recover(patience_seconds=DEADLINE_SECONDS) == (0, 1, 2)
    after, _ = runs.until_it_counts()
    assert is_partitioned(after, 3)
    assert not set(after.values()) & set(before.values())
