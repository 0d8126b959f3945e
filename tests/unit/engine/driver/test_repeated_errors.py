"""Errors that come again and again, and warnings."""

import threading

import pytest

from fulmen import TopologyBuilder
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.observer import Silent
from fulmen.engine.protocol.figures.statistics import ERRORS
from fulmen.engine.totals.failures import REPEAT_SECONDS
from fulmen.kube.driver.reporting import errors_of
from fulmen.testing import ListSpout, ManualClock
from support.parts.hooks import HookBolt, hooks, with_bolt
from support.runs.engine_runs import make_driver


class Heard(Silent):
    def __init__(self):
        self.errors = []

    def error(self, error):
        self.errors.append(error.message)


@pytest.fixture
def wall_clock():
    """The time of day as the driver sees it."""
    return ManualClock(1000.0)


def test_a_repeated_error_is_told_once_and_again_after_a_while_with_a_count(wall_clock):
    def execute(bolt, tup):
        wall_clock.advance(tup["x"])
        bolt.collector.ack(tup)
        raise ValueError("no")

    builder = TopologyBuilder(max_spout_pending=1)
    builder.set_spout("source", ListSpout([0, 0, 1, REPEAT_SECONDS, 0], fields=["x"]))
    builder.set_bolt("bolt", HookBolt).set_config(hooks(execute=execute)).shuffle_grouping("source")
    heard = Heard()
    driver = make_driver(builder, observer=heard, wall=wall_clock).start()
    driver.run(Stop(when_drained=True))
    driver.close()

    message = "execute: ValueError: no"
    assert heard.errors == [message, f"{message} (4 times)"]
    assert driver.totals.sum(ERRORS, "bolt") == 5
    [told] = driver.totals.report()["components"]["bolt"]["errors"]
    assert (told["message"], told["count"]) == (message, 5)
    assert [(e.message, e.count) for e in errors_of(driver.totals)] == [(message, 5)]


def test_errors_of_other_texts_are_told_meanwhile():
    def execute(bolt, tup):
        bolt.collector.ack(tup)
        raise ValueError("other" if tup["x"] == 4 else "same")

    result = with_bolt(execute, range(5), max_spout_pending=1)

    errors = result.report["components"]["bolt"]["errors"]
    assert [(e["message"], e["count"]) for e in errors] == [
        ("execute: ValueError: same", 4),
        ("execute: ValueError: other", 1),
    ]


def test_a_warning_is_told_and_not_counted_as_an_error():
    def execute(bolt, tup):
        bolt.late = threading.Lock()
        bolt.collector.ack(tup)

    result = with_bolt(execute, [1])

    assert ["late" in e.message and e.is_warning for e in result.errors] == [True]
    assert result.report["components"]["bolt"]["errors"] == []
