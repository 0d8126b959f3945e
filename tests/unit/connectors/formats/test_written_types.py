"""Dates and times whose texts have a form of their own: `timestamp(%d/%m/%Y)`."""

import json
import pickle
from datetime import UTC, date, datetime, time

import pytest
from pydantic import TypeAdapter, ValidationError

from fulmen.api.declarer import Stream
from fulmen.connectors.formats import FormatOptions, Malformed

FIELDS = {
    "at": "timestamp(%d/%m/%Y %H:%M)",
    "day": "date32(%b %d, %y)",
    "hour": "time(%I:%M %p)",
    "zoned": "timestamp(%Y%m%dT%H%M%S%z)",
}
TEXTS = ("31/01/2020 12:30", " Mar 01, 99", "1:05 PM", "20200131T123000+0100")
VALUES = [
    datetime(2020, 1, 31, 12, 30),  # noqa: DTZ001 (its text has no offset)
    date(1999, 3, 1),
    time(13, 5),
    datetime(2020, 1, 31, 11, 30, tzinfo=UTC),
]


def chosen(**options):
    made = TypeAdapter(FormatOptions).validate_python(options)
    return pickle.loads(pickle.dumps(made))  # as a worker gets it


def as_json(texts):
    return json.dumps(dict(zip(FIELDS, texts, strict=True))).encode()


FORMATS = {
    "csv": ({"delimiter": ";"}, lambda texts: ";".join(texts).encode()),
    "json": ({}, as_json),
    "regex": (
        {"pattern": ";".join(f"(?P<{name}>[^;]*)" for name in FIELDS)},
        lambda texts: ";".join(texts).encode(),
    ),
    "logfmt": ({}, lambda texts: " ".join(f'{n}="{t}"' for n, t in zip(FIELDS, texts)).encode()),  # noqa: B905 (3.11 checks lengths in the others)
}


@pytest.mark.parametrize("kind", FORMATS)
def test_each_format_reads_them_alone_and_together(kind):
    options, line = FORMATS[kind]
    made = chosen(type=kind, fields=FIELDS, **options).make()
    assert made.decode(line(TEXTS)) == VALUES
    iso = line(("2020-01-31T12:30", *TEXTS[1:]))
    first, refused, last = made.decode_each([line(TEXTS), iso, line(TEXTS)])
    assert [first, last] == [VALUES, VALUES]
    assert isinstance(refused, Malformed)
    assert "is no timestamp in the form %d/%m/%Y %H:%M" in str(refused)


def test_others_see_the_type_alone():
    made = chosen(type="csv", fields=FIELDS).make()
    assert made.types == dict(
        zip(FIELDS, ("timestamp", "date32", "time", "timestamp"), strict=True)
    )


def test_a_column_of_iso_times_is_no_column_of_another_form():
    made = chosen(type="csv", fields={"day": "date32(%Y%d%m)", "n": "int64"}).make()
    (value,) = made.decode_each([b"20200102,1"])
    assert value == [date(2020, 2, 1), 1]  # `date.fromisoformat` reads it as the second of January


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("timestamp(%H:%M)", "names no day"),
        ("date32(%d %m)", "names no day"),
        ("timestamp(%Y-%m-%d %I:%M)", "only one of %I and %p"),
        ("timestamp(%Y-%m-%d %Q)", "has '%Q'. There are %Y"),
        ("timestamp(%Y-%m-%d %)", "has '%'"),
        ("time(%M)", "has no hour"),
        ("int64(%d)", "'int64' has no form, only timestamp, date32, time"),
        ("timestmp", "Input should be 'string'"),
    ],
)
def test_a_form_that_is_none_is_refused(kind, said):
    with pytest.raises(ValidationError, match=said.replace("(", r"\(")):
        chosen(type="json", fields={"at": kind})


def test_a_sink_takes_none():
    told = next(iter(chosen(type="csv", fields=FIELDS).mistakes(Stream(list(FIELDS)))))
    assert "strftime(at, '%d/%m/%Y %H:%M')" in told
