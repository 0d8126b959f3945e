"""A topology that was told to drain ends, though a transaction can't be committed."""

import pytest

from fulmen.engine.driver.driver import Stop
from fulmen.errors import TopologyFailed, Unreachable
from fulmen.testing import ManualClock
from support.transactions.transacted import PLAIN, transacted_driver

TOLD = {"interrupted": True, "drain_seconds": 30.0}


def told_to_drain(rows, harm=None, clock=None, **stop):
    """Have a driver drain while transactions are active."""
    driver = transacted_driver(rows, seconds=0.1, max_replays=None, clock=clock).start()
    try:
        for _ in range(3):
            driver.step()
        if harm is not None:
            harm(driver)
        driver.run(Stop(drain=True, **stop))
    finally:
        driver.close()
    return driver


@pytest.mark.parametrize("stop", [TOLD, {"drain_seconds": 30.0}], ids=["signal", "after a time"])
def test_one_that_always_fails_ends_it_after_the_message_timeout(stop):
    with pytest.raises(TopologyFailed) as caught:
        told_to_drain(["fail always", PLAIN], **stop)
    assert str(caught.value).startswith(
        "it is not drained, and nothing was acked or newly emitted for 30 s. What is committed"
        " stays.\n- transaction 1 has failed "
    )
    assert "times, and holds up all behind it: fail always, as it was told" in str(caught.value)


def test_the_others_are_committed_first():
    driver = told_to_drain([PLAIN] * 3, **TOLD)
    assert driver.coordinator.transactions.ledger.committed == 3


def test_a_checkpoint_that_is_away_ends_it_too():
    def cut(driver):
        def commit(_):
            raise Unreachable("s3://shop", "commits/4", "it is away")

        driver.log.commit = commit

    clock = ManualClock()
    with pytest.raises(Unreachable):
        told_to_drain([PLAIN] * 3, cut, clock, **TOLD)
    assert 30 <= clock() < 60
