"""Formats read many messages at once as they read each of them."""

import json
from contextlib import suppress
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fulmen.connectors.formats import FormatOptions, Malformed
from fulmen.connectors.formats.csv_format import CsvFormat
from fulmen.connectors.formats.json_format import JsonFormat
from fulmen.connectors.formats.plain import BytesFormat, TextFormat
from fulmen.connectors.formats.types import Type


def dumped(value):
    return json.dumps(value).encode()


NUMBERS = (
    st.integers(-(2**53), 2**53) | st.integers(2**63 - 1, 2**66) | st.integers(-(2**66), -(2**63))
)
VALUES = st.none() | st.booleans() | NUMBERS | st.text(max_size=3)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES | st.lists(VALUES, max_size=2))
WHOLE = st.fixed_dictionaries({"a": VALUES, "b": VALUES})
JSON = (OBJECTS | VALUES | st.lists(VALUES, max_size=3)).map(dumped)
OTHERS = st.sampled_from([b"", b"\xff\xfe", b"\x00", b'"', b"{", b"a,b", b'{"a": NaN}', b"1e999"])
FORMATS = [
    TextFormat(),
    BytesFormat(),
    CsvFormat(["a", "b"]),
    JsonFormat(),
    JsonFormat(["a"]),
    JsonFormat(["a", "b"]),
    JsonFormat(["a", "b"], ["b"]),
    JsonFormat([], ["a"]),
]


def one_by_one(form, messages):
    """What `decode` says of each: values, or the text of Malformed."""
    for data in messages:
        try:
            yield form.decode(data)
        except Malformed as error:
            yield str(error)


def name(form):
    return f"{type(form).__name__} {','.join(form.fields)}"


@pytest.mark.parametrize("form", FORMATS, ids=name)
@given(
    messages=st.lists(WHOLE.map(dumped), max_size=5)
    | st.lists(OBJECTS.map(dumped), max_size=5)
    | st.lists(WHOLE.map(dumped) | JSON | OTHERS | st.binary(max_size=4), max_size=5)
)
def test_many_messages_are_read_as_each_of_them(form, messages):
    found = form.decode_each(messages)
    assert [str(one) if isinstance(one, Malformed) else one for one in found] == list(
        one_by_one(form, messages)
    )


READ = TypeAdapter(FormatOptions)
ODD = [
    *("yes", "-", "", "NaN", "1e999", "1e999999999", "9" * 400, "9" * 5000, "null", "[1]", "=="),
    *(
        "0000-00-00",
        "9999-12-31T23:59:59-14:00",
        "24:00:00",
        "P99999999999D",
        "PT1e9S",
        "\u0661",
        "1_0",
    ),
]


@pytest.mark.parametrize("kind", get_args(Type))
@pytest.mark.parametrize("text", ODD, ids=[odd[:9] for odd in ODD])
def test_a_value_is_of_its_type_or_its_message_malformed(kind, text):
    """Nothing else is raised: it would stop the source at that message."""
    for name, data in (
        ("json", json.dumps({"a": text}).encode()),
        ("json", b'{"a": %s}' % text.encode()),
        ("csv", text.encode()),
    ):
        form = READ.validate_python({"type": name, "fields": {"a": kind}}).make()
        with suppress(Malformed):
            assert len(form.decode(data)) == 1
        [found] = form.decode_each([data])
        assert isinstance(found, Malformed | list)
