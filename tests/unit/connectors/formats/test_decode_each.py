"""Formats read many messages at once as they read each of them."""

import json
import random
from contextlib import suppress
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fulmen.api import ServiceUnavailable
from fulmen.connectors.formats import FormatOptions, Malformed
from fulmen.connectors.formats import json_format as json_module
from fulmen.connectors.formats.csv_format import CsvFormat
from fulmen.connectors.formats.json_format import JsonFormat
from fulmen.connectors.formats.plain import BytesFormat, TextFormat
from fulmen.connectors.formats.types import Type
from fulmen.interruptions import Interruption
from support.parts.raising_decoders import RAISED, is_marked, marked, raising


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


def test_whatever_a_decoder_raises_costs_that_message_alone(monkeypatch):
    monkeypatch.setattr(TextFormat, "decode", raising(TextFormat.decode))
    texts = [*map(marked, range(len(RAISED))), *(f"good {i}" for i in range(100))]
    random.Random(1).shuffle(texts)
    found = TextFormat().decode_each([text.encode() for text in texts])
    assert [isinstance(one, Malformed) for one in found] == [is_marked(text) for text in texts]
    reasons = {str(one) for one in found if isinstance(one, Malformed)}
    assert "reading it raised RecursionError" in reasons
    assert "reading it raised PanicException" in reasons


def test_what_the_fast_way_raises_is_looked_for_message_by_message(monkeypatch):
    fast = raising(lambda _, data: json.loads(data))
    monkeypatch.setattr(json_module.orjson, "loads", lambda data: fast(None, data))
    messages = [dumped({"a": marked(i) if i % 3 else i}) for i in range(2 * len(RAISED))]
    found = JsonFormat(["a"]).decode_each(messages)
    assert [isinstance(one, Malformed) for one in found] == [i % 3 > 0 for i in range(len(found))]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Interruption])
def test_what_is_no_error_of_a_decoder_passes(monkeypatch, kind):
    def stop(*_):
        raise kind

    monkeypatch.setattr(json_module.orjson, "loads", stop)
    with pytest.raises(kind):
        JsonFormat(["a"]).decode_each([b"{}"])


def test_a_service_that_is_away_is_no_fault_of_the_message(monkeypatch):
    def away(*_):
        raise ServiceUnavailable("the registry", "it is away")

    monkeypatch.setattr(TextFormat, "decode", away)
    with pytest.raises(ServiceUnavailable):
        TextFormat().decode_each([b"a"])


@pytest.mark.parametrize("depth", [600, 5000])
def test_a_deep_list_beside_a_large_number_costs_that_message_alone(depth):
    deep = b'{"a": %s, "b": 12345678901234567890}' % (b"[" * depth + b"]" * depth)
    found = JsonFormat(["a", "b"]).decode_each([b'{"a": 1, "b": 2}', deep, b'{"a": 3, "b": 4}'])
    assert found[::2] == [[1, 2], [3, 4]]
    assert isinstance(found[1], Malformed | list)
