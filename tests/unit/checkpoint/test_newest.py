"""Reading the newest state, of which parts are gone by the time they are asked for."""

import itertools

import pytest

from fulmen.checkpoint import CommitLog, Store, read_newest
from fulmen.checkpoint.names import COMMITS, commit_key
from fulmen.errors import CheckpointError
from support.stores.checkpoint import memory_store


class Moving:
    """A store's backend that also lists a commit which nobody can read.

    Args:
        backend: What it is based on.
        numbers: Of that commit, each time when commits are listed. At the end there is none.
    """

    def __init__(self, backend, numbers):
        self.backend, self.numbers = backend, iter(numbers)
        self.lists = 0

    def list(self, prefix):
        keys = list(self.backend.list(prefix))
        if prefix == COMMITS:
            self.lists += 1
            keys += [commit_key(number) for number in itertools.islice(self.numbers, 1)]
        return keys

    def __getattr__(self, verb):
        return getattr(self.backend, verb)


def moving(numbers):
    store = memory_store()
    CommitLog(store, "wc", "one").claim()
    return Store(store.uri, Moving(store._backend, numbers))


def test_the_newest_commit_is_read_however_often_the_driver_was_faster():
    assert read_newest(moving(range(2, 52))).number == 1


def test_a_commit_that_stays_the_newest_and_is_not_there_is_refused_soon():
    store = moving(itertools.repeat(7))
    with pytest.raises(CheckpointError, match=f"'{commit_key(7)}' is missing"):
        read_newest(store)
    assert 2 < store._backend.lists < 20
