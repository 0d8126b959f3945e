"""dealt_files.py: what several tasks have kept of one file or folder becomes one."""

from dataclasses import replace

import pytest

from fulmen import Kept
from fulmen.connectors.files.dealt_files import deal
from fulmen.connectors.files.positions import FileProgress, Position, message_id

FOUND = Position((0, 5), "/logs/a.log", offset=10, size=10, stamp=7)
ORDERS = pytest.mark.parametrize("order", [1, -1], ids=["older first", "newer first"])


@ORDERS
@pytest.mark.parametrize(
    ("older", "newer"),
    [
        pytest.param(FOUND, replace(FOUND, stamp=8, offset=12), id="looked at later"),
        pytest.param(FOUND, replace(FOUND, offset=12), id="read further"),
        pytest.param(replace(FOUND, offset=99), replace(FOUND, stamp=0), id="read to its end now"),
    ],
)
def test_of_a_finished_file_that_two_tasks_know_the_newest_counts(older, newer, order):
    kept = [
        Kept({"progress": FileProgress({}, 1, ["/logs"])}, {one.key: one.summary()})
        for one in (older, newer)[::order]
    ]
    [dealt] = deal(kept, 1)
    assert dealt.state == {FOUND.key: newer.summary()}


@ORDERS
def test_of_an_open_file_that_two_tasks_know_the_newest_counts(order):
    newer = replace(FOUND, stamp=8, offset=12)
    pairs = ((4, FOUND), (3, newer))[::order]
    kept = [Kept({"progress": FileProgress({n: p}, 5, ["/logs"])}) for n, p in pairs]
    [dealt] = deal(kept, 1)
    assert dealt.fields["progress"].positions == {3: newer}


@pytest.mark.parametrize("tasks", [1, 2, 3, 5])
def test_messages_that_are_held_or_have_failed_go_with_their_file(tasks):
    files = {n: replace(FOUND, key=(0, n), path=f"/logs/{n}.log") for n in range(6)}
    progress = FileProgress(files, 6, ["/logs"])
    progress.held = [message_id(n, 1) for n in range(6)]
    progress.again.extend(message_id(n, 2) for n in range(6))
    dealt = deal([Kept({"progress": progress}, {}, [message_id(n, 3) for n in range(6)])], tasks)
    for one in dealt:
        there = one.fields["progress"]
        assert sorted(there.held) == sorted(message_id(n, 1) for n in there.positions)
        assert sorted(there.again) == sorted(message_id(n, 2) for n in there.positions)
        assert sorted(one.failed) == sorted(message_id(n, 3) for n in there.positions)
    assert sum(len(one.fields["progress"].positions) for one in dealt) == 6


def test_a_folder_is_known_again_only_if_all_tasks_that_know_it_agree():
    """The second task has the folders by other numbers."""
    kept = [
        Kept({"progress": FileProgress({}, 0, ["/a", "/b", "/c"], {0: 11, 1: 12})}),
        Kept({"progress": FileProgress({}, 0, ["/b", "/a"], {0: 99, 1: 11})}),
    ]
    for one in deal(kept, 2):
        progress = one.fields["progress"]
        known = {progress.folders[n]: inode for n, inode in progress.inodes.items()}
        assert known == {"/a": 11}
