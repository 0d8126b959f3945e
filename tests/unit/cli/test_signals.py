"""A second signal ends a run, whatever the code that it interrupts makes of it."""

import signal
import threading

import pytest

from fulmen.cli.local.signals import StoppedAtOnce, StopSignals
from fulmen.engine.driver.driver import Stop
from fulmen.interruptions import UNBROKEN


def test_the_first_signal_drains():
    stop = Stop()
    with StopSignals(stop) as signals:
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
    with pytest.raises(StoppedAtOnce) as stopped, StopSignals(stop):
        fetch()
    assert isinstance(stopped.value.__cause__, UnboundLocalError)
    assert stop.now


def test_a_call_that_does_not_end_after_the_first_is_cut_off():
    def wait(stop):
        signal.raise_signal(signal.SIGTERM)
        threading.Thread(target=stop.cut_off).start()
        threading.Event().wait()  # the test's timeout would end it

    with pytest.raises(StoppedAtOnce), StopSignals(stop := Stop()):
        wait(stop)


def test_an_error_after_one_signal_stays_what_it_is():
    def write():
        signal.raise_signal(signal.SIGINT)
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"), StopSignals(Stop()):
        write()


def test_handlers_of_before_are_back():
    before = signal.getsignal(signal.SIGINT)
    with StopSignals(Stop()):
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_what_is_not_to_be_broken_comes_to_its_end_before_the_second_signal_counts():
    done = []

    def start():
        with UNBROKEN:
            with UNBROKEN:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
                done.append("started")
            done.append("noted")
        done.append("never")

    with pytest.raises(StoppedAtOnce), StopSignals(Stop()):
        start()
    assert done == ["started", "noted"]
    with UNBROKEN:  # nothing is left of it
        pass


def test_while_all_is_ended_a_second_signal_breaks_nothing():
    with StopSignals(Stop()) as signals:
        signals.over()
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
