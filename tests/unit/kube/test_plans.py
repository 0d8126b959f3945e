"""The watch for the driver's plan, while the API server does not answer."""

import threading

from fulmen.kube.contract import PLAN_KEY, DriverPlan
from fulmen.kube.driver.api import ApiError
from fulmen.kube.driver.instructions import LONGEST_PAUSE_SECONDS, Plans

PLAN = DriverPlan(generation=3, topology={"kind": "Topology"})


class FakeApi:
    """Fails so many times, and then has a plan."""

    def __init__(self, failures):
        self.failures = failures

    def config_map(self, name):
        if self.failures:
            self.failures -= 1
            raise ApiError("GET plan", 0, "no route to host")
        return {"metadata": {"resourceVersion": "1"}, "data": {PLAN_KEY: PLAN.to_json()}}

    def watch_config_map(self, name, version):
        return iter(())


class Hasty(threading.Event):
    """Writes down for how long to wait instead of waiting."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def wait(self, timeout=None):
        self.waits.append(timeout)


def test_a_plan_is_taken_over_after_an_outage_of_days():
    plans, seen = Plans(FakeApi(20_000), "shop"), []
    plans._stopped = Hasty()

    def take(plan):
        seen.append(plan)
        plans.stop()

    plans._run(take)
    assert seen == [PLAN]
    assert len(plans._stopped.waits) == 20_000
    assert plans._stopped.waits[-1] == max(plans._stopped.waits) == LONGEST_PAUSE_SECONDS
