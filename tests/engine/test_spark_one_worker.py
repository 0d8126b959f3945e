"""One worker: Spark's `local[1]`, the whole of it in the driver's JVM."""

import os
import re
import signal
import threading

import pytest

from fulmen.engine.spark.job_runner import JobRunner
from fulmen.errors import JobFailed, JobTimedOut
from support.runs.spark_runs import Failure, Runs, is_alive, wait_until
from support.runs.toy_stages import misroute

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    runs = Runs(workers=1, stages=1, folder=tmp_path_factory.mktemp("one"))
    yield runs
    runs.close()


@pytest.fixture(autouse=True)
def healthy(runs):
    """What a test leaves behind must not be the next one's failure."""
    runs.until_it_counts()


def process_of(runs):
    return runs.once()[0, 0][0]


def test_the_partition_stays_in_one_process(runs):
    assert len({process_of(runs) for _ in range(200)}) == 1


def jobs_so_far(runs):
    return runs.session.sc._jsc.sc().dagScheduler().nextJobId()


def test_batches_share_a_job(runs):
    runs.once()
    before = jobs_so_far(runs)
    for _ in range(20):
        runs.once()
    assert jobs_so_far(runs) == before


def test_a_process_that_ends_between_two_batches_fails_none(runs):
    process = process_of(runs)
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{process}"), "the end of all of its threads")
    assert process_of(runs) != process


def test_rows_of_any_size_reach_the_driver(runs):
    for size in (10, 10_000, 5_000_000, 10):
        (row,) = runs.jobs.run(f'{{"size": {size}}}')
        assert row.count(b"x" * 10) == size // 10


def test_what_components_print_is_in_the_log_file(runs, capfd):
    runs.once(say="gloria")
    log = runs.log_file.read_text()
    assert "gloria to stdout\n" in log
    assert "gloria to stderr\n" in log
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("what", ["raise", "sys.exit"])
def test_an_exception_makes_the_batch_void_and_keeps_the_process(runs, what):
    process = process_of(runs)
    with pytest.raises(Failure):
        runs.once(fault=[0, 0, what])
    assert process_of(runs) == process


ENDED = (
    "the Python process of worker 0 ended: it was killed, often for lack of memory, or a component"
    " ended it"
)
FAILURES = {
    "raise even if void": "the Python process of worker 0 failed: ValueError: a component failed",
    "os._exit": ENDED,
    "kill": ENDED,
}


@pytest.mark.parametrize("what", FAILURES)
def test_a_process_that_ends_fails_the_batch_and_the_next_attempt_succeeds(runs, what):
    with pytest.raises(JobFailed, match=f"^{re.escape(FAILURES[what])}$"):
        runs.once(fault=[0, 0, what])
    assert runs.jobs.recover() == (0,)
    runs.once()


@pytest.mark.parametrize("what", ["sleep", "deaf", "stop"])
def test_a_process_that_hangs_is_cancelled_and_dies(runs, what):
    process = process_of(runs)
    with pytest.raises(JobTimedOut, match=r"more than 2 seconds"):
        runs.once(timeout_seconds=2, fault=[0, 0, what])
    runs.jobs.recover()
    assert process_of(runs) != process
    wait_until(lambda: not is_alive(process), "the end of the process")


def test_the_log_says_where_a_batch_hangs_that_hangs_twice(runs):
    for _ in range(2):
        with pytest.raises(JobTimedOut):
            runs.once(timeout_seconds=2, fault=[0, 0, "sleep"])
        runs.jobs.recover()
    assert "in for_ever" in runs.log_file.read_text()


def test_another_thread_may_cancel(runs, tmp_path):
    attempt = runs.in_thread(wait=[0, 0, str(tmp_path / "file")])
    wait_until((tmp_path / "file.reached").exists)
    runs.jobs.cancel()
    assert str(attempt.end().error) == "the job was cancelled"


def test_cancelling_nothing_does_nothing(runs):
    runs.jobs.cancel()
    runs.once()


def test_an_interrupt_ends_the_run_and_the_next_one_gets_its_own_answer(runs, tmp_path):
    def interrupt():
        wait_until((tmp_path / "file.reached").exists)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        runs.once(wait=[0, 0, str(tmp_path / "file")])
    thread.join()
    runs.jobs.recover()
    runs.once()


def test_an_interrupt_before_the_job_has_a_name_leaves_no_job_behind(runs, tmp_path, monkeypatch):
    class Interrupted:
        def __init__(self, chain):
            self.chain, self.shuffles, self.rdd = chain, [], self

        def collectAsync(self):
            self.chain.rdd.collectAsync()
            wait_until((tmp_path / "file.reached").exists)
            raise KeyboardInterrupt

    runs.use(2, [0])
    runs.once()
    ring = runs.jobs._ring(0, 0)
    take = ring.take
    with monkeypatch.context() as patch:
        patch.setattr(ring, "take", lambda: Interrupted(take()))
        with pytest.raises(KeyboardInterrupt):
            runs.once(wait=[0, 0, str(tmp_path / "file")])
    assert runs.jobs.recover() == (0,)
    runs.once()
    runs.use(1, [0])


def test_an_interrupt_before_the_job_of_many_batches_has_a_name_leaves_no_job_behind(
    runs, monkeypatch
):
    def start(*args):
        started(*args)
        raise KeyboardInterrupt

    runs.jobs.recover()  # the next batch starts such a job
    started = runs.jobs._start
    with monkeypatch.context() as patch:
        patch.setattr(runs.jobs, "_start", start)
        with pytest.raises(KeyboardInterrupt):
            runs.once()
    assert runs.jobs.recover() == (0,)
    runs.once()


def test_an_interrupt_while_chains_are_made_leaves_a_usable_connection(runs, monkeypatch):
    def made(first, end):
        interrupt = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        interrupt.start()
        runs.session.sc._jvm.java.lang.Thread.sleep(20_000)  # its answer comes too late

    runs.jobs.recover()  # the next batch starts a job, and so needs a chain
    with monkeypatch.context() as patch:
        patch.setattr(runs.jobs, "_ring", made)
        with pytest.raises(KeyboardInterrupt):
            runs.once()
    assert runs.jobs.recover() == (0,)
    runs.once()


def test_an_interrupt_leaves_the_connections_of_other_threads_alone(runs):
    java, client = runs.session.sc._jvm.java, runs.session.sc._gateway._gateway_client
    connections, is_over = [], java.util.concurrent.CountDownLatch(1)

    def call():
        java.lang.Thread.sleep(1)
        connections.append(client.get_thread_connection())
        getattr(is_over, "await")()  # it outlives the call that is interrupted
        connections.append(client.get_thread_connection())

    thread = threading.Thread(target=call)
    thread.start()
    wait_until(lambda: connections)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            java.lang.Thread.sleep(20_000)
    finally:
        is_over.countDown()
        thread.join()
    before, after = connections
    assert before is after


def test_a_row_for_a_partition_that_is_not_there_makes_the_batch_void(runs):
    jobs = JobRunner(runs.session, misroute, 2, [0])
    (row,) = jobs.run("")
    assert row == b"IndexError: a row for partition 7 of 1"
    jobs.close()
