"""State of components that are gone: kept until its time is over, if it has one."""

import pytest

from fulmen.checkpoint import read_newest, tasks_in
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.edits.changes import changes_in
from fulmen.engine.driver.observer import Silent
from fulmen.engine.protocol.placed_topology import UnusedState
from support.parts.refusing import LIMIT, Mended, refusing
from support.runs.engine_runs import make_driver, new_store, state_of


class Notes(Silent):
    def __init__(self):
        self.told = []

    def note(self, text):
        self.told.append(text)


@pytest.fixture
def store():
    return new_store()


def started(store, now, *names, **spec):
    """A driver of a topology with these bolts more, at that time."""
    builder = refusing(Mended, **spec)
    for name in names:
        builder.set_bolt(name, Mended).fields_grouping("source", ["number"])
    return make_driver(builder, store=store, observer=Notes(), wall=lambda: now[0]).start()


def ran(store, now, *names, **spec):
    driver = started(store, [now], *names, **spec)
    driver.run(Stop(when_drained=True))
    driver.close()
    return driver


def test_kept_state_is_removed_when_its_time_is_over_and_not_before(store):
    ran(store, 0, "extra")
    limit = {"forget_removed_after": "1h"}
    notes = ran(store, 1000, **limit).observer.told
    assert any("(1 task) until 1970-01-01 01:16:40" in text for text in notes)
    ran(store, 1000 + 3599, **limit)
    assert "extra" in tasks_in(read_newest(store))
    driver = ran(store, 1000 + 3600, **limit)
    manifest = read_newest(store)
    assert "extra" not in tasks_in(manifest)
    assert not any(key.startswith("extra/") for key in manifest.tasks)
    told = "the state of component 'extra' is removed: it has not been in the topology for 1h"
    assert any(text.startswith(told) for text in driver.observer.told)
    [change] = changes_in(manifest)
    assert (change.action, change.component, change.author, change.count) == (
        "forget",
        "extra",
        "spec.forgetRemovedAfter",
        1,
    )
    assert state_of(driver, "count") == dict.fromkeys(range(LIMIT), 1)


def test_a_driver_that_runs_removes_it_as_well_and_tells_it_no_more(store):
    ran(store, 0, "extra")
    now = [1000]
    driver = started(store, now, forget_removed_after="1h")
    driver.step()
    assert driver.placed.kept == {"extra": UnusedState(1, "1970-01-01 01:16:40 UTC")}
    now[0] += 3600
    driver.step()
    driver.close()
    assert driver.placed.kept == {}
    assert "extra" not in tasks_in(read_newest(store))


def test_without_a_limit_it_stays_and_whoever_comes_back_in_time_has_it(store):
    driver = ran(store, 0, "extra")
    had = state_of(driver, "extra")
    ran(store, 1000)
    ran(store, 1e9)
    assert state_of(ran(store, 2e9, "extra", forget_removed_after="1h"), "extra") == had != {}
