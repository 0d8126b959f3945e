"""The last minutes, second by second."""

import pytest

from fulmen import TopologyBuilder
from fulmen.metrics import history
from fulmen.metrics.as_json.topology import TopologyJson
from fulmen.metrics.history import History
from fulmen.metrics.snapshot import Snapshot
from fulmen.testing import CollectBolt, ListSpout, ManualClock
from support.runs.engine_runs import make_driver


@pytest.fixture
def driver():
    builder = TopologyBuilder(name="short", workers=1, max_spout_pending=10)
    builder.set_spout("numbers", ListSpout(range(100)))
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("numbers")
    driver = make_driver(builder, clock=ManualClock(), seconds=1.0).start()
    yield driver
    driver.close()


def test_a_point_says_what_happened_since_the_one_before(driver):
    past = History(lambda: driver.totals)
    past.look()
    assert past.points(0) == []
    for _ in range(3):
        driver.step()
        past.look()
    points = past.points(0)
    assert [p.number for p in points] == [0, 1, 2]
    assert [p.uptime for p in points] == pytest.approx([1, 2, 3])
    assert [p.executed for p in points] == pytest.approx([10, 10, 10])
    assert [p.acked for p in points] == pytest.approx([10, 10, 10])
    assert points[0].p50 <= points[0].p99
    past.look()
    assert past.points(3)[0].p50 is None


def test_it_is_bounded(driver, monkeypatch):
    monkeypatch.setattr(history, "POINTS_KEPT", 5)
    past = History(lambda: driver.totals)
    for _ in range(9):
        past.look()
    assert [p.number for p in past.points(0)] == [3, 4, 5, 6, 7]
    assert [p.number for p in past.points(6)] == [6, 7]
    for _ in range(12 * 7):
        past.look()
    assert [p.number for p in past.points(0, 12)] == [2, 3, 4, 5, 6]


def test_coarser_points_are_of_more_seconds(driver):
    past = History(lambda: driver.totals)
    for _ in range(2 * 12 + 1):
        past.look()
        driver.step()
    fine, coarse = past.points(0), past.points(0, 12)
    assert [p.number for p in coarse] == [0, 1]
    assert [p.uptime for p in coarse] == pytest.approx([12, 24])
    assert coarse[0].executed == pytest.approx(sum(p.executed for p in fine[:12]) / 12)
    assert coarse[0].executed > coarse[1].executed == 0  # the spout was exhausted by then
    assert coarse[0].p50 >= min(p.p50 for p in fine if p.p50)
    assert past.points(0, 288) == []


def test_rates_are_of_the_last_seconds(driver):
    past = History(lambda: driver.totals)
    for _ in range(history.RATE_SECONDS + 5):
        past.look()
        driver.step()
    now = Snapshot.of(driver.totals)
    shown = TopologyJson(now, past.before(), past.points(0)).json()
    done = now.counts["sink", "executed", "numbers:default"]
    assert done == 100  # the last seconds had nothing to do
    rate = {c["name"]: c["executed_per_second"] for c in shown["components"]}["sink"]
    assert rate == pytest.approx((100 - 40) / 11, abs=0.01)
    assert shown["edges"][0]["executed_per_second"] == rate


def test_it_waits_for_the_start():
    past = History(lambda: None)
    past.look()
    assert past.before() is None
