"""Formats read many messages at once as they read each of them."""

import json
import random
from contextlib import suppress
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fulmen.api import ServiceUnavailable
from fulmen.connectors.formats import Format, FormatOptions, Malformed
from fulmen.connectors.formats import json_format as json_module
from fulmen.connectors.formats.csv_format import CsvFormat
from fulmen.connectors.formats.json_format import JsonFormat
from fulmen.connectors.formats.json_members import members_of_objects
from fulmen.connectors.formats.plain import BytesFormat, TextFormat
from fulmen.connectors.formats.types import Kind
from fulmen.interruptions import Interruption
from support.parts.raising_decoders import RAISED, is_marked, marked, put_in, raising


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


CELLS = (
    st.sampled_from(ODD)
    | st.sampled_from(
        [
            "NA",
            "7",
            "7",
            "-1.5",
            "2147483648",
            "true",
            "2026-01-31",
            " 2026-01-31 ",
            "12:30",
            "[1, {}]",
        ]
    )
    | st.sampled_from(["2026-01-31T12:00:00+00:00", "PT1H", "00000000-0000-0000-0000-000000000007"])
)
QUOTED = CELLS.map('"{}"'.format) | st.sampled_from(
    ['"a', 'b"', '"a,b"', 'a"b', '"a""b"', '"a\nb"']
)


def few_of(values):
    """Many of few values: all of them may be of one type."""
    some = st.lists(values, min_size=1, max_size=3)
    return some.flatmap(lambda found: st.lists(st.sampled_from(found), max_size=20))


def shown(found):
    """What was read, as a text that also tells types, zones and NaN."""
    return repr(str(found) if isinstance(found, Malformed) else found)


def one_each(form, messages):
    return [shown(found) for data in messages for found in Format.decode_each(form, [data])]


@pytest.mark.parametrize("kind", get_args(Kind))
@given(
    cells=few_of(CELLS) | few_of(CELLS | QUOTED) | st.lists(CELLS | QUOTED, max_size=20),
    columns=st.sampled_from([None, ["x", "a"], ["a", "x"]]),
    nulls=st.sampled_from([(), ("NA", "")]),
)
@example(cells=['"a', 'b"'], columns=None, nulls=())
@example(cells=["7", "2147483648"], columns=None, nulls=())
def test_many_records_of_a_type_are_read_as_each_of_them(kind, cells, columns, nulls):
    options = {"type": "csv", "fields": {"a": kind}, "nulls": nulls}
    form = READ.validate_python(options).make()
    messages = [cell.encode() for cell in cells]
    if columns is not None:
        form = form.of_columns(columns)
        line = b'"NA",%s' if columns[0] == "x" else b"%s,NA"
        messages = [line % cell for cell in messages]
    assert list(map(shown, form.decode_each(messages))) == one_each(form, messages)


MEMBERS = st.sampled_from([None, True, 1, 1.0, 0, 2**31, 2**70, 1.5, 1e300, [], {"b": [1]}])


@pytest.mark.parametrize("kind", get_args(Kind))
@given(members=few_of(MEMBERS) | few_of(CELLS) | st.lists(MEMBERS | CELLS, max_size=20))
@example(members=[1, 2**31])
def test_many_objects_of_a_type_are_read_as_each_of_them(kind, members):
    form = READ.validate_python({"type": "json", "fields": {"a": kind, "b": "string"}}).make()
    messages = [dumped({"a": member} if member is not None else {"b": 1}) for member in members]
    assert list(map(shown, form.decode_each(messages))) == one_each(form, messages)


def test_values_of_a_column_that_can_be_changed_are_not_shared():
    form = READ.validate_python({"type": "csv", "fields": {"a": "json"}}).make()
    (first,), (second,) = form.decode_each([b"[]", b"[]"])
    first.append(1)
    assert second == []


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_value_is_of_its_type_or_its_message_malformed(kind):
    """Nothing else is raised: it would stop the source at that message."""
    for name, made_of in (("json", dumped), ("json", str.encode), ("csv", str.encode)):
        form = READ.validate_python({"type": name, "fields": {"a": kind}}).make()
        for text in ODD:
            data = made_of(text)
            if name == "json":
                data = b'{"a": %s}' % data
            with suppress(Malformed):
                assert len(form.decode(data)) == 1, data
            [found] = form.decode_each([data])
            assert isinstance(found, Malformed | list), data


def test_whatever_a_decoder_raises_costs_that_message_alone(monkeypatch):
    put_in(monkeypatch, raising(TextFormat.decode))
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
    monkeypatch.setattr(json_module, "members_reader", members_of_objects)
    messages = [dumped({"a": marked(i) if i % 3 else i}) for i in range(2 * len(RAISED))]
    found = JsonFormat(["a"]).decode_each(messages)
    assert [isinstance(one, Malformed) for one in found] == [i % 3 > 0 for i in range(len(found))]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Interruption])
def test_what_is_no_error_of_a_decoder_passes(monkeypatch, kind):
    def stop(*_):
        raise kind

    monkeypatch.setattr(json_module.orjson, "loads", stop)
    monkeypatch.setattr(json_module, "members_reader", members_of_objects)
    with pytest.raises(kind):
        JsonFormat(["a"]).decode_each([b"{}"])


def test_a_service_that_is_away_is_no_fault_of_the_message(monkeypatch):
    def away(*_):
        raise ServiceUnavailable("the registry", "it is away")

    put_in(monkeypatch, away)
    with pytest.raises(ServiceUnavailable):
        TextFormat().decode_each([b"a"])


@pytest.mark.parametrize("depth", [600, 5000])
def test_a_deep_list_beside_a_large_number_costs_that_message_alone(depth):
    deep = b'{"a": %s, "b": 12345678901234567890}' % (b"[" * depth + b"]" * depth)
    found = JsonFormat(["a", "b"]).decode_each([b'{"a": 1, "b": 2}', deep, b'{"a": 3, "b": 4}'])
    assert found[::2] == [[1, 2], [3, 4]]
    assert isinstance(found[1], Malformed | list)
