"""What a run may leave behind: no more than follows from what it has produced.

A checkpoint may hold what its newest commit needs, and what is deleted some commits later by rule
(docs/checkpoint.md). So if nothing is deleted, each of these checks fails: not because of a fixed
number, but because the run has made more than its newest commit needs.
"""

from fulmen.checkpoint import CommitLog, Store, read_newest
from fulmen.checkpoint.garbage import FENCE_SECONDS, LAG
from fulmen.checkpoint.names import COMMITS, STATE, number_in
from fulmen.checkpoint.record import MANIFEST_EVERY
from fulmen.engine.protocol.limits import LIMITS

SETTLED_COMMITS = LAG + 3 * LIMITS.collect_every
"""After so many commits a driver has collected what others left, and what it did not need itself.

A collection that was still running when the next one was due makes that the one after it.
"""
FILES_TO_TELL = 1000
"""So many files of shuffles must have been written before their number says anything."""


def is_settled(manifest):
    """Whether the driver has run for so long since its claim that `left_behind` can tell."""
    return manifest.number - manifest.claims[-1] >= SETTLED_COMMITS


def left_behind(checkpoint):
    """What a checkpoint still holds that should be gone. It may be that of a topology that runs.

    Returns:
        Names of objects; none if all is well. While the driver has not run for long enough since
        its claim, what it has left behind is not known, which is told in place of names.
    """
    store = Store.open(checkpoint)
    manifest = read_newest(store)
    if not is_settled(manifest):
        return [f"too early to tell at commit {manifest.number}, claimed at {manifest.claims[-1]}"]
    old = manifest.number - SETTLED_COMMITS
    in_chains = (
        min(manifest.base, old) - MANIFEST_EVERY
    )  # all before the manifest that was new then
    needed = manifest.inline.keys() | set(manifest.claims)
    commits = [key for key in store.list(COMMITS) if number_in(key) < in_chains]
    found = [key for key in commits if number_in(key) not in needed]
    files = [key for key in store.list(STATE) if number_in(key) <= old]
    found += [key for key in files if key not in manifest.files]
    # what was needed for long, and was dropped just now, is deleted in some commits
    return found if len(found) > 2 * len(manifest.tasks) else []


def check_growth(checkpoint):
    """Assert that a checkpoint whose driver has run for a while holds little that nobody needs."""
    assert left_behind(checkpoint) == []


def check_cleared(checkpoint):
    """Assert that a driver that takes over leaves nothing but what its commit needs.

    It is this process, and fences any other: call it when the run is over.
    """
    store, now = Store.open(checkpoint), [0.0]
    log = CommitLog(store, read_newest(store).topology, "the test", clock=lambda: now[0])
    log.claim()
    now[0] += FENCE_SECONDS
    log.collect()
    manifest = log.manifest
    assert set(store.list(STATE)) == manifest.files.keys()
    commits = {number_in(key) for key in store.list(COMMITS)}
    assert commits == manifest.inline.keys() | {manifest.number}


def check_shuffles(files, made):
    """Assert that Spark keeps few of the shuffle files that its jobs made.

    Args:
        files: How many there are.
        made: How many all jobs have made.
    """
    assert made < FILES_TO_TELL or files <= made / 2, f"{files} of {made} files are still there"
