"""Connections of a process."""

import os

import pytest

from fulmen.services.pools import Pool, pool_of, shared


class Connection:
    def __init__(self):
        self.usable, self.closed = True, False

    def is_usable(self):
        return self.usable

    def close(self):
        self.closed = True


def test_a_connection_is_lent_again():
    pool = Pool()
    with pool.lent(Connection) as first:
        pass
    with pool.lent(Connection) as again, pool.lent(Connection) as other:
        assert again is first
        assert other is not first


def test_a_connection_with_an_error_is_closed():
    pool = Pool()
    with pytest.raises(ZeroDivisionError), pool.lent(Connection) as first:
        raise ZeroDivisionError
    assert first.closed
    with pool.lent(Connection) as next_one:
        assert next_one is not first


def test_a_connection_that_died_meanwhile_is_closed():
    pool = Pool()
    with pool.lent(Connection) as first:
        pass
    first.usable = False
    with pool.lent(Connection) as next_one:
        assert next_one is not first
    assert first.closed


def test_a_forked_process_begins_without_connections_and_closes_none():
    with pool_of("test").lent(Connection) as first:
        pass
    assert shared("test-2", lambda: 1) == shared("test-2", lambda: 2) == 1
    pid = os.fork()
    if pid == 0:
        wrong = 1
        try:
            with pool_of("test").lent(Connection) as own:
                assert own is not first
            assert not first.closed
            assert shared("test-2", lambda: 2) == 2
            wrong = 0
        finally:
            os._exit(wrong)
    assert os.waitpid(pid, 0)[1] == 0
