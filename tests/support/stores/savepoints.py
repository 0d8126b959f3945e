"""Savepoints that a test makes instead of a driver."""

from fulmen.checkpoint import CommitLog, new_tag, read_newest
from fulmen.checkpoint.savepoints.pins import PINS, pins_in, pins_section
from fulmen.engine.driver.checkpoints.savepoints import Wish, granted


def pinned(store, name):
    """Give the newest state a name."""
    log = CommitLog(store, read_newest(store).topology, "a test")
    log.claim()
    manifest = log.manifest
    pins = granted(pins_of(store), [Wish(name)], manifest.number + 1, 5.0)
    draft = log.draft(
        tag=new_tag(),
        clock=manifest.clock,
        transient=dict(manifest.transient),
        sections={PINS: pins_section(pins)},
        full=True,
    )
    log.commit(draft)
    return log


def pins_of(store):
    return pins_in(read_newest(store).sections.get(PINS))
