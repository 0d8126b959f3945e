"""A version that starts and then fails: the one before it comes back."""

import pytest

from fulmen.kube.contract.endings import Ended
from fulmen.kube.contract.reports import DriverPhase, Report, ReportedError
from support.operator.fake_cluster import FakeCluster
from support.operator.operated import CODE, OTHER_CODE, summary, waiting

THIRD_CODE = {"spec.code": {"files": {"wordcount.py": "class C: ..."}}}
BOOM = Ended(reason="Error", message="bolt 'split', task 3: in prepare: RuntimeError: boom")


class Started:
    """A cluster whose drivers of other code than the first start, and never run a batch."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.good = cluster.revision.input_hash
        self.run = cluster.run
        cluster.run = self._run

    def _run(self, pod):
        if pod["metadata"]["annotations"]["fulmen.dev/input"] == self.good:
            self.run(pod)
        else:
            self.cluster.set_status(pod, {"phase": "Running"})
            self.cluster.drive = self._drive

    def _drive(self, pod):
        if pod["metadata"]["annotations"]["fulmen.dev/input"] == self.good:
            FakeCluster.drive(self.cluster, pod)
        else:
            self.cluster.say(pod, Report(phase=DriverPhase.STARTING, generation=2))


@pytest.fixture
def bad(cluster):
    """A running topology whose other code can't run."""
    Started(cluster)
    return cluster


def until_started(cluster, attempt):
    for _ in range(12):
        cluster.reconcile_once_more()
        if cluster.status["attempt"] == attempt and f"word-count-driver-{attempt}" in (
            cluster.names("Pod")
        ):
            cluster.tick()
            return
        cluster.tick()
    raise AssertionError(f"no driver {attempt}")


def fail_until_given_up(cluster, first=2, ended=BOOM):
    for attempt in range(first, first + 3):
        until_started(cluster, attempt)
        cluster.end(f"word-count-driver-{attempt}", 1, ended)
        wait = cluster.reconcile()
        cluster.later(wait or 0)
    cluster.settle()


def test_a_version_that_fails_three_times_gives_way_to_the_last_one_that_worked(bad):
    good = bad.revision
    bad.change(OTHER_CODE)
    fail_until_given_up(bad)
    assert summary(bad) == ("Active", "True", "Active")
    assert bad.revision.input_hash == good.input_hash
    assert bad.revision.topology == good.topology
    accepted = bad.condition("SpecAccepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "RolledBack")
    assert "generation 2 was tried" in accepted["message"]
    assert "RuntimeError: boom" in accepted["message"]
    assert bad.condition("Stalled")["reason"] == "RolledBack"
    assert bad.condition("Ready")["observedGeneration"] == 1
    assert bad.events().count("RolledBack") == 1
    assert bad.status["attempt"] == 5


def test_the_code_that_comes_back_is_kept_until_the_new_one_has_committed(bad):
    code = next(name for name in bad.names("ConfigMap") if "-code-" in name)
    bad.change(OTHER_CODE)
    until_started(bad, 2)
    bad.remove("Pod", "word-count-driver-2")
    bad.reconcile()
    assert code in bad.names("ConfigMap")


def test_what_was_given_up_is_not_tried_again_by_another_operator(bad):
    bad.change(OTHER_CODE)
    fail_until_given_up(bad)
    bad.forget()
    bad.settle()
    bad.end("word-count-driver-5", 143)
    bad.settle()
    assert summary(bad) == ("Active", "True", "Active")
    assert bad.condition("SpecAccepted")["reason"] == "RolledBack"


def test_a_restart_nonce_tries_once_more_and_the_old_spec_is_accepted(bad):
    bad.change(OTHER_CODE)
    fail_until_given_up(bad)
    bad.change({**OTHER_CODE, "spec.restartNonce": 1})
    until_started(bad, 6)
    assert bad.condition("SpecAccepted")["status"] == "True"
    fail_until_given_up(bad, 6)
    assert bad.condition("SpecAccepted")["reason"] == "RolledBack"
    bad.change(CODE)
    bad.settle()
    assert bad.condition("SpecAccepted")["status"] == "True"
    assert bad.revision.rolled_back is None
    assert summary(bad) == ("Active", "True", "Active")


def test_a_version_without_a_commit_in_time_is_given_up_with_what_it_waited_for(bad):
    bad.change(OTHER_CODE)
    until_started(bad, 2)
    driver = bad.pod("word-count-driver-2")
    bad.set_status(driver, waiting("ImagePullBackOff", "no such image"))
    wait = bad.reconcile()
    assert 0 < wait <= 301
    bad.later(wait)
    bad.settle()
    assert summary(bad) == ("Active", "True", "Active")
    message = bad.condition("SpecAccepted")["message"]
    assert "no commit within startTimeoutSeconds (300 s)" in message
    assert "no such image" in message


def test_a_mistake_that_only_the_driver_finds_is_given_up_at_once(bad):
    bad.change(OTHER_CODE)
    until_started(bad, 2)
    bad.end("word-count-driver-2", 2, Ended(reason="InvalidSpec", message="bad grouping"))
    bad.settle()
    assert summary(bad) == ("Active", "True", "Active")
    assert "bad grouping" in bad.condition("SpecAccepted")["message"]
    assert bad.status["attempt"] == 3


def test_a_version_that_has_committed_is_not_given_up(cluster):
    cluster.change(OTHER_CODE)
    cluster.settle()
    assert (cluster.revision.worked, cluster.revision.previous) == (True, None)
    for attempt in (2, 3, 4, 5):
        cluster.end(f"word-count-driver-{attempt}", 1, BOOM)
        cluster.later(cluster.reconcile())
        cluster.reconcile()
        cluster.tick()
    cluster.settle()
    assert cluster.condition("SpecAccepted")["status"] == "True"


def test_a_store_that_is_away_gives_no_version_up(bad):
    bad.change(OTHER_CODE)
    away = Ended(reason="CheckpointUnreachable", message="no answer")
    for attempt in range(2, 7):
        until_started(bad, attempt)
        bad.end(f"word-count-driver-{attempt}", 3, away)
        bad.later(bad.reconcile())
    assert bad.revision.previous is not None
    assert bad.condition("SpecAccepted")["status"] == "True"


def test_a_third_version_is_tried_while_the_second_fails_and_the_first_comes_back(bad):
    good = bad.revision.input_hash
    bad.change(OTHER_CODE)
    until_started(bad, 2)
    bad.change(THIRD_CODE)
    fail_until_given_up(bad, 3)
    assert bad.revision.input_hash == good
    assert bad.revision.rolled_back.generation == 3


def test_suspended_in_between_the_time_begins_anew(bad):
    bad.change(OTHER_CODE)
    until_started(bad, 2)
    bad.change({**OTHER_CODE, "spec.state": "Suspended"})
    for _ in range(4):
        bad.reconcile_once_more()
        bad.tick()
        bad.later(200)
    bad.change(OTHER_CODE)
    until_started(bad, 3)
    bad.reconcile()
    assert bad.revision.previous is not None


def test_a_first_version_that_fails_has_its_error_in_the_status_all_the_time():
    cluster = FakeCluster(CODE)
    cluster.reconcile()
    cluster.tick()
    error = ReportedError(component="split", task=3, message="in prepare: boom", time=1.0, count=12)
    pod = cluster.pod("word-count-driver-1")
    cluster.say(pod, Report(phase=DriverPhase.ACTIVE, generation=1, epoch=1, errors=(error,)))
    cluster.end("word-count-driver-1", 1, BOOM)
    wait = cluster.reconcile()
    assert summary(cluster) == ("Pending", "False", "Error")
    assert "boom" in cluster.condition("Ready")["message"]
    assert cluster.status["errors"][0]["message"] == "in prepare: boom"
    assert cluster.status["errors"][0]["count"] == 12
    cluster.later(wait)
    cluster.reconcile()
    assert "boom" in cluster.condition("Ready")["message"]
    cluster.set_status(cluster.pod("word-count-driver-2"), {"phase": "Running"})
    cluster.reconcile()
    assert summary(cluster)[:2] == ("Starting", "False")
    assert "boom" in cluster.condition("Ready")["message"]
    assert cluster.status["errors"][0]["message"] == "in prepare: boom"
    assert cluster.revision.previous is None


def test_a_first_version_whose_drivers_all_fail_is_stalled_until_one_works():
    cluster = FakeCluster(CODE)
    stalled = []
    for attempt in range(1, 6):
        until_started(cluster, attempt)
        cluster.end(f"word-count-driver-{attempt}", 1, BOOM)
        wait = cluster.reconcile()
        stalled.append(cluster.condition("Stalled")["status"])
        if attempt >= 3:
            assert cluster.condition("Stalled")["reason"] == "Error"
            assert "boom" in cluster.condition("Stalled")["message"]
            assert cluster.condition("Reconciling")["status"] == "False"
        cluster.later(wait)
        cluster.reconcile_once_more()
        assert cluster.condition("Stalled")["status"] == stalled[-1]  # the next one starts
    assert stalled == ["False", "False", "True", "True", "True"]
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.condition("Stalled")["status"] == "False"
    assert cluster.status["restarts"]["failures"] == 5


def test_another_version_after_a_stalled_first_one_is_not_stalled():
    cluster = FakeCluster(CODE)
    for attempt in range(1, 4):
        until_started(cluster, attempt)
        cluster.end(f"word-count-driver-{attempt}", 1, BOOM)
        cluster.later(cluster.reconcile())
    assert cluster.condition("Stalled")["status"] == "True"
    cluster.change(OTHER_CODE)
    until_started(cluster, 4)
    assert cluster.condition("Stalled")["status"] == "False"
    assert cluster.condition("Reconciling")["status"] == "True"


def test_a_version_after_a_first_one_that_never_worked_has_none_to_go_back_to():
    cluster = FakeCluster(CODE)
    cluster.reconcile()
    pod = cluster.pod("word-count-driver-1")
    cluster.set_status(pod, {"phase": "Running"})
    cluster.say(
        cluster.pod("word-count-driver-1"), Report(phase=DriverPhase.STARTING, generation=1)
    )
    cluster.end("word-count-driver-1", 1, BOOM)
    cluster.reconcile()
    cluster.change(OTHER_CODE)
    cluster.reconcile()
    assert cluster.revision.previous is None
