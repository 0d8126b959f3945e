"""The watch for the driver's revision, while the API server does not answer."""

import threading

from fulmen.kube.contract import REVISION_KEY
from fulmen.kube.contract.revisions import Revision
from fulmen.kube.driver.api import ApiError
from fulmen.kube.driver.revisions import LONGEST_PAUSE_SECONDS, Revisions

REVISION = Revision(generation=3, topology={"kind": "Topology"})


class FakeApi:
    """Fails so many times, and then has a revision."""

    def __init__(self, failures):
        self.failures = failures

    def watch_config_map(self, name):
        if self.failures:
            self.failures -= 1
            raise ApiError("GET revision", 0, "no route to host")
        yield "ADDED", {"data": {REVISION_KEY: REVISION.to_json()}}


class Hasty(threading.Event):
    """Writes down for how long to wait instead of waiting."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def wait(self, timeout=None):
        self.waits.append(timeout)


def test_a_plan_is_taken_over_after_an_outage_of_days():
    revisions, seen = Revisions(FakeApi(20_000), "shop"), []
    revisions._stopped = Hasty()

    def take(revision):
        seen.append(revision)
        revisions.stop()

    revisions._run(take)
    assert seen == [REVISION]
    assert len(revisions._stopped.waits) == 20_000
    assert revisions._stopped.waits[-1] == max(revisions._stopped.waits) == LONGEST_PAUSE_SECONDS
