"""What the audit of a store finds (stores/audited_stores.py), and how Redis's log is read."""

import pytest

from support.servers.redis_server import parsed
from support.stores.audited_stores import check_audit

IN_ORDER = [("a", 0, 1, 7), ("a", 1, 1, 7), ("a", 1, 2, 8), ("a", 1, 2, 9), ("a", 0, 2, 9)]


def test_an_audit_in_strict_order_is_counted():
    assert check_audit(IN_ORDER, tasks=2) == (2, 5)


@pytest.mark.parametrize(
    ("later", "message"),
    [
        pytest.param([("a", 0, 2, 9)], r"\(2, 9\) after \(2, 9\)", id="written-twice"),
        pytest.param([("a", 0, 2, 8)], r"\(2, 8\) after \(2, 9\)", id="an-earlier-attempt"),
        pytest.param([("a", 0, 4, 10), ("a", 1, 3, 10)], "3 after 4", id="an-earlier-transaction"),
        pytest.param([("a", 0, 3, 10)], r"\('a', 1\) has left out \[3\]", id="a-task-is-missing"),
    ],
)
def test_an_audit_that_is_not_in_strict_order_is_refused(later, message):
    with pytest.raises(AssertionError, match=message):
        check_audit([*IN_ORDER, *later], tasks=2)


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_the_log_of_redis_is_read_up_to_a_command_that_is_not_whole(tmp_path, cut):
    log = tmp_path / "log"
    whole = b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*1\r\n$5\r\nMULTI\r\n"
    log.write_bytes(whole[: len(whole) - cut])
    commands = [[b"INCR", b"n"], [b"MULTI"]]
    assert list(parsed(log)) == (commands if cut == 0 else commands[:1])
