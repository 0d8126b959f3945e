"""Workers that are lost in a row: what the cluster takes away is no evidence against a tuple."""

from types import SimpleNamespace

import pytest

from fulmen import TopologyBuilder
from fulmen.engine.driver.driver import Stop
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.jobs import Cause, read_rows
from fulmen.engine.state.letters.kept_letters import read_letters
from fulmen.engine.worker.worker import Worker
from fulmen.errors import JobFailed
from support.parts.hooks import HookBasicBolt, hooks
from support.runs.engine_runs import Losing, Numbers, make_driver, new_store, state_of

NUMBERS = 5
LOSSES_THAT_DROP = 4
"""Two before a tuple is suspected at all, and two with it alone."""
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: a mistake'


def count(bolt, tup, collector):
    bolt.state[tup[0]] = bolt.state.get(tup[0], 0) + 1


def ran(losses, **failure):
    """A driver at its end, whose jobs were lost so often, each time that they had a tuple."""
    builder = TopologyBuilder(name="losses")
    builder.set_spout("source", Numbers).set_config({"limit": NUMBERS})
    bolt = builder.set_bolt("count", HookBasicBolt).set_config(hooks(execute=count))
    bolt.shuffle_grouping("source")
    store = new_store()
    failed = JobFailed("worker 0 was lost", **failure)
    driver = make_driver(builder, store=store, jobs=Losing(losses, failed, store)).start()
    driver.run(Stop(when_drained=True))
    driver.close()
    assert driver.totals.failed_attempts == losses
    return driver


@pytest.mark.parametrize("losses", [LOSSES_THAT_DROP, 8, 30])
def test_losses_that_the_cluster_causes_drop_no_tuple_however_many_in_a_row(losses):
    driver = ran(losses, is_clusters=True)
    assert driver.totals.trees.dropped == 0
    assert state_of(driver, "count") == dict.fromkeys(range(NUMBERS), 1)


def test_as_many_losses_for_which_a_tuple_may_be_to_blame_drop_it_alone():
    driver = ran(LOSSES_THAT_DROP, is_clusters=False)
    assert driver.totals.trees.dropped == 1
    assert state_of(driver, "count") == dict.fromkeys(range(1, NUMBERS), 1)


def test_a_dropped_tuple_does_not_count_as_emitted():
    driver = ran(LOSSES_THAT_DROP, is_clusters=False)
    assert driver.totals.counts["source", "emitted", "default"] == NUMBERS - 1
    assert driver.totals.counts["source", "transferred", "default"] == NUMBERS - 1


def dropped(**failure):
    driver = ran(LOSSES_THAT_DROP, **failure)
    [kept] = read_letters(driver.store).letters
    return kept.letter


def test_a_dropped_tuple_is_kept_with_how_its_batch_failed():
    letter = dropped(traceback=TRACEBACK)
    assert (letter.shown, letter.reason) == ([0], "crashed worker: worker 0 was lost")
    assert letter.cause.traceback == TRACEBACK


def test_of_a_long_traceback_its_end_is_kept():
    letter = dropped(traceback="x" * 1_000_000 + TRACEBACK)
    assert letter.cause.traceback.endswith(TRACEBACK)
    assert len(letter.cause.traceback) < 10_000


def test_an_exception_in_a_stage_makes_its_batch_void_with_its_traceback(capfd):
    header = Header(1, "tag", "base", 0.0, 0.0, 1)
    without_checkpoint = SimpleNamespace(workers=(0,))
    rows = [row for _, row in Worker().run_stage(without_checkpoint, 0, 0, header, None, [])]
    _, failure, _ = read_rows(rows)
    assert failure.cause is Cause.TUPLES
    assert failure.reason.startswith("AttributeError: ")
    assert "in _tasks_of" in failure.traceback
    assert failure.traceback.strip() in capfd.readouterr().err
