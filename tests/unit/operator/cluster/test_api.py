"""What is made of the API server's answers when they are errors."""

import pytest

from fulmen_operator.cluster.api import CallFailed, words_of


@pytest.mark.parametrize(
    ("status", "message", "refused"),
    [
        (422, "invalid", True),
        (403, "forbidden", True),
        (500, "failed to create typed patch object: field not declared", True),
        (500, "etcd is away", False),
        (429, "slow down", False),
        (0, "no route", False),
    ],
)
def test_what_would_be_refused_again(status, message, refused):
    assert CallFailed(status, message, "GET /x").is_refusal == refused


@pytest.mark.parametrize(
    ("body", "words"),
    [('{"message": "no such pod"}', "no such pod"), ("<html>", "<html>"), ("[1]", "[1]")],
)
def test_the_servers_words(body, words):
    assert words_of(body) == words
