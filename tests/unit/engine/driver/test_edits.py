"""Commits that people make instead of a driver."""

from fulmen.checkpoint import CommitLog, read_newest
from fulmen.engine.driver.edits.changes import StateChange
from fulmen.engine.driver.edits.edit import Edit
from support.runs.engine_runs import A_PERSON, new_store


def test_what_was_to_be_delivered_after_the_last_commit_still_is_after_an_edit():
    store = new_store()
    log = CommitLog(store, "shop", "a driver")
    log.claim()
    log.commit(log.draft(tag="a", clock=7.5, transient={"deliveries": b"acked"}))
    edit = Edit(store, A_PERSON)
    edit.put("bolt/0", "state", b"left")
    edit.commit(StateChange("set", "bolt"))
    newest = read_newest(store)
    assert (newest.clock, newest.transient) == (7.5, {"deliveries": b"acked"})
    assert list(newest.tasks) == ["bolt/0"]
