"""A second signal ends a run, whatever the code that it interrupts makes of it."""

import signal

import pytest

from fulmen.cli.local.signals import Signals, StoppedAtOnce
from fulmen.engine.driver.driver import Stop


def test_the_first_signal_drains():
    stop = Stop()
    with Signals(stop) as signals:
        signal.raise_signal(signal.SIGINT)
    assert signals.asked
    assert (stop.drain, stop.interrupted, stop.now) == (True, True, False)


def test_the_second_stops_although_a_library_raises_something_else():
    def fetch():
        signal.raise_signal(signal.SIGINT)
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            raise UnboundLocalError("sockfile")

    stop = Stop()
    with pytest.raises(StoppedAtOnce) as stopped, Signals(stop):
        fetch()
    assert isinstance(stopped.value.__cause__, UnboundLocalError)
    assert stop.now


def test_an_error_after_one_signal_stays_what_it_is():
    def write():
        signal.raise_signal(signal.SIGINT)
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"), Signals(Stop()):
        write()


def test_handlers_of_before_are_back():
    before = signal.getsignal(signal.SIGINT)
    with Signals(Stop()):
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
