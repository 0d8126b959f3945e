"""Commands of rows are the same, made together or one by one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fulmen.api.components.sinks import Rows
from fulmen.connectors.base.sink import EncoderOfMany
from fulmen.connectors.formats import encode_each
from fulmen.connectors.redis.commands import commands
from fulmen.connectors.redis.options import RedisSinkOptions

FIELDS = ("word", "count")
JSON = {"format": {"type": "json"}}


@pytest.mark.parametrize(
    "options",
    [
        {"type": "list", "key": "words", **JSON},
        {"type": "list", "key": "words", "format": {"type": "text", "field": "word"}},
        {"type": "set", "key": "of:{count}", **JSON},
        {"type": "string", "key": "{word}", **JSON},
        {"type": "hash", "key": "words", "field": "{word}", **JSON},
    ],
)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "\ud800", "", None, b"\xff"]),
            st.sampled_from([-1, 0, "2", None, object()]),
        ),
        max_size=4,
    )
)
@example(rows=[("a", 1), ("b", 2)])
def test_commands_are_the_same_made_together_or_one_by_one(options, rows):
    encode = commands(RedisSinkOptions.model_validate({"url": "redis://h", **options}), FIELDS)
    many = encode.each if isinstance(encode, EncoderOfMany) else None
    together, singly = Rows(FIELDS, rows), Rows(FIELDS, rows)
    assert encode_each(together, encode, many) == encode_each(singly, encode)
    assert together.failed == singly.failed


def test_usual_rows_of_a_list_are_made_together():
    options = {"url": "redis://h", "type": "list", "key": "{{words}}", **JSON}
    encode = commands(RedisSinkOptions.model_validate(options), FIELDS)
    assert isinstance(encode, EncoderOfMany)
    rows = [("a", 1), ("b", None)]
    assert encode.each(rows) == list(map(encode, rows))
    assert encode.each(rows)[1] == (b"{words}", b"RPUSH", b'{"word":"b","count":null}')
