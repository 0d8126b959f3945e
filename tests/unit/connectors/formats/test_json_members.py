"""Of JSON objects, members that nobody asked for cost little, and are looked at all the same."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.connectors.formats import Malformed, exact
from fulmen.connectors.formats.json_format import JsonFormat

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.text(max_size=3),
    lambda some: st.lists(some, max_size=2) | st.dictionaries(st.text(max_size=2), some),
    max_leaves=4,
)
BROKEN = [b"", b'"', b",", b"}", b"]", b"\\", b"\\q", b"\xff", b"\xed\xa0\x80", b"\x01", b"0", b"-"]


@given(
    json_of=st.dictionaries(st.sampled_from("abcd"), VALUES, min_size=2).map(
        lambda one: json.dumps(one, ensure_ascii=False).encode(errors="surrogatepass")
    ),
    place=st.integers(0, 60),
    put_in=st.sampled_from(BROKEN),
)
def test_what_is_no_json_is_refused_wherever_it_is(json_of, place, put_in):
    message = json_of[:place] + put_in + json_of[place:]
    try:
        value = exact.loads(message)
    except ValueError:
        value = None
    [found] = JsonFormat(["a", "b"]).decode_each([message])
    if isinstance(value, dict):
        assert found == [value.get("a"), value.get("b")]
    else:
        assert isinstance(found, Malformed)


@pytest.mark.parametrize(
    "value",
    [
        *(b"01", b"1.", b"-", b"NaN", b"tru", b"'x'", b"[1,]", b'{"x" 1}', b"1_0", b"/**/1"),
        *(b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'{"\xff":1}', b'"\\ud800"', b'"\\x41"'),
        *(b'"a\nb"', b'"abc', b"[" * 5000 + b"]" * 5000),
    ],
)
def test_a_member_that_nobody_asked_for_is_refused_if_it_is_no_json(value):
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(value)
    form, good = JsonFormat(["a"]), b'{"a": 1}'
    message = b'{"a": 1, "b": %s}' % value
    first, found, last = form.decode_each([good, message, good])
    assert (first, last) == ([1], [1])
    assert isinstance(found, Malformed)
    with pytest.raises(Malformed, match="it is not JSON"):
        form.decode(message)


@pytest.mark.parametrize("value", [b"1e400", b"9" * 400, b"-1e-400"])
def test_a_number_that_nobody_asked_for_may_be_of_any_size(value):
    message = b'{"a": 1, "b": [%s]}' % value
    form = JsonFormat(["a"])
    assert form.decode(message) == [1]
    assert form.decode_each([message] * 20) == [[1]] * 20


@pytest.mark.parametrize("name", ["a b", "é", 'a"b', "a\\b", "\x01", "class"])
def test_members_have_any_names(name):
    form = JsonFormat([name, "other"], required=["third"])
    one = {"third": 0, "other": [1], name: 2**70, "x": None}
    messages = [json.dumps(one).encode(), json.dumps({name: 3}).encode()]
    found = form.decode_each(messages)
    assert found[0] == [2**70, [1]]
    assert str(found[1]) == "the JSON object has no member 'third'"
