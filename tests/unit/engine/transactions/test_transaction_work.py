"""What a batch is told of transactions: through a header, as stages get it."""

from base64 import b64decode
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fulmen import TransactionAttempt
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.transaction_work import Opened, TransactionWork

ATTEMPTS = st.builds(
    TransactionAttempt, st.integers(1, 2**70), st.integers(1, 2**32).map(lambda n: n << 32 | 7)
)
PARTS = st.dictionaries(st.text(), st.binary(), max_size=3)
WORK = st.builds(
    TransactionWork,
    processes=st.lists(st.builds(Opened, ATTEMPTS, PARTS, st.booleans()), max_size=4),
    commits=st.none() | ATTEMPTS,
    waiting=st.lists(ATTEMPTS, max_size=4),
    committed=st.integers(0, 2**70),
)
HEADER = Header(7, "tag", "base", 1.0, 0.5, 64)


def through_a_header(work):
    return Header.decode(replace(HEADER, transactions=work).encode()).transactions


@given(WORK)
def test_work_is_the_same_behind_a_header(work):
    found = through_a_header(work)
    assert (list(found.processes), found.commits) == (list(work.processes), work.commits)
    assert (list(found.waiting), found.committed) == (list(work.waiting), work.committed)
    assert bool(found) == bool(work)
    for phase in (True, False):
        told = found.finishing(in_commit_phase=phase)
        assert list(told) == list(work.finishing(in_commit_phase=phase))


def test_a_header_without_transactions_has_no_word_of_them():
    assert b"transactions" not in b64decode(HEADER.encode())
    assert not Header.decode(HEADER.encode()).transactions


def test_that_something_waits_is_told_although_there_is_nothing_to_do():
    work = TransactionWork(waiting=[TransactionAttempt(3, 4)], committed=2)
    assert not work
    found = through_a_header(work)
    assert (found.waiting, found.committed) == ([TransactionAttempt(3, 4)], 2)


def test_what_is_given_up_is_not_finished():
    first, second = TransactionAttempt(1, 1), TransactionAttempt(2, 2)
    work = TransactionWork(
        [Opened(first, {}, is_dropped=True), Opened(second, {})], commits=TransactionAttempt(9, 9)
    )
    assert work.finishing(in_commit_phase=False) == [second]
    assert work.finishing(in_commit_phase=True) == (TransactionAttempt(9, 9),)
    assert TransactionWork().finishing(in_commit_phase=True) == ()
