"""Sinks under `fulmen run`: whatever is killed, each row is there once, or at least once.

The seed decides what is killed; the moments are those of real processes, and what the source emits
nobody foresees. Longer ones: `make soak SOAK_ARGS="--sinks postgres"`.
"""

import signal
from contextlib import ExitStack
from functools import cache

import pytest

from support.lives.processes import send, stop_tree
from support.soaks.sink_soak import (
    EXACT,
    KINDS,
    KilledSinks,
    SinkRun,
    faults,
    maker,
    soak,
)
from support.soaks.transaction_soak import Figures
from support.suite import seeds

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def servers():
    """What runs until the last test has ended, by kind."""
    with ExitStack() as stack:
        yield cache(lambda kind: maker(kind, stack))


@pytest.fixture
def tables(servers, tmp_path, request):
    return servers(request.param)(tmp_path)


@pytest.mark.matrix(share=2 / 9, name="connectors under kills", cell="to")
@pytest.mark.parametrize("tables", KINDS, indirect=True)
def test_each_row_is_there_whatever_is_killed(tmp_path, tables):
    figures = Figures()
    with KilledSinks(tmp_path, str(seeds.FIRST), tables, figures) as killed:
        killed.round()
        killed.drain()
    print(figures)
    assert faults(figures) >= 1


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_each_row_is_there_after_fifty_faults(kind):
    figures = soak(kind, seeds.FIRST, 50)
    print(figures)


@pytest.mark.matrix(share=1 / 7, name="drivers that wake up in a write", cell="of a sink")
@pytest.mark.parametrize("tables", EXACT, indirect=True)
def test_a_driver_that_wakes_up_in_a_write_changes_nothing(tmp_path, tables):
    """All processes of a run are stopped when its sinks begin to write, and another run begins."""
    with SinkRun(tmp_path, tables) as run:
        run.limits = [300, 300]
        run.set_limits()
        (tmp_path / "hold").touch()
        old = run.start()
        run.wait_for_commit_phase()
        stopped = stop_tree(old)
        (tmp_path / "hold").unlink()
        new = run.start()
        before = run.newest_commit()
        run.limits = [600, 600]
        run.set_limits()
        run.wait_until(lambda: run.newest_commit() > before + 3, "commits")
        for pid in stopped:
            send(pid, signal.SIGCONT)
        assert run.end(old) == 1
        assert "has taken over" in run.output(old)
        assert run.refused() > 0
        run.wait_until(run.is_complete, "all rows")
        new.send_signal(signal.SIGTERM)
        assert run.end() == 0, run.output()
        assert run.is_complete()
