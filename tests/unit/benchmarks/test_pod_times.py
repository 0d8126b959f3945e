"""What the start of a topology on pods is spent on."""

import pytest
from benchmarks.cluster.pod_times import BEGINS, COMMITTED, PodTimes, parts


def pod(name, component, placed=False, state=None):
    status = {"conditions": [{"type": "PodScheduled", "status": str(placed)}]}
    if state:
        status["containerStatuses"] = [{"state": {state: {}}}]
    labels = {"app.kubernetes.io/component": component}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


@pytest.fixture
def times():
    """A driver and two workers, one of which starts later."""
    seen = PodTimes()
    for now, *what in [
        (101, "d-1", "driver"),
        (102, "d-1", "driver", True),
        (103, "d-1", "driver", True, "waiting"),
        (105, "d-1", "driver", True, "running"),
        (106, "d-1", "driver", True, "running"),
        (112, "w-1", "worker"),
        (112, "w-2", "worker"),
        (113, "w-1", "worker", True),
        (114, "w-2", "worker", True),
        (115, "w-1", "worker", True, "running"),
        (117, "w-2", "worker", True, "running"),
    ]:
        seen.see(pod(*what), now)
    return seen


LOG = {BEGINS: 108.0, COMMITTED: 120.0}


def test_each_part_takes_until_the_next_begins(times):
    assert parts(100.0, times, LOG, workers=2, acked=121.5) == {
        "operator": 1,
        "placing the driver's pod": 1,
        "its volumes, image and container": 3,
        "the driver's Python and code": 3,
        "its checkpoint and JVM": 4,
        "placing workers' pods": 2,
        "their images and containers": 3,
        "their JVMs and Python, the first batch": 3,
        "batches until the ack is seen": 1.5,
    }


def test_a_part_whose_end_nobody_saw_counts_for_the_next(times):
    found = parts(100.0, times, {}, workers=2, acked=121.5)
    assert "the driver's Python and code" not in found
    assert found["its checkpoint and JVM"] == 7
    assert sum(found.values()) == 21.5


def test_pods_that_were_there_before_do_not_count(times):
    times.see(pod("d-2", "driver"), 203)
    found = parts(200.0, times, {}, workers=2, acked=210)
    assert found == {"operator": 3, "batches until the ack is seen": 7}
