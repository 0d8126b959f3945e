"""What a format writes, it reads as the same values, and so does Arrow's reader."""

import codecs
import io
import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from fulmen.api.components.sinks import Rows
from fulmen.connectors.files.contents import content_of
from fulmen.connectors.files.options import FileSinkOptions
from fulmen.connectors.files.reading.records import blocks, each_of
from fulmen.connectors.formats import CsvOptions, JsonOptions, Malformed, TextOptions, encode_each
from fulmen.connectors.formats.csv_format import Quotes

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["", "NA", '"', '""', ",", "\r", "\n", "a\r\nb", "\ufeff", "\ufeffa", " ", "x" * 200_000, "\0"]
)
ZONES = st.sampled_from([None, UTC, timezone(timedelta(seconds=-3208)), timezone(timedelta(0, 60))])
UNFINITE = st.sampled_from([math.nan, math.inf, -math.inf])
LONG = [Decimal("0.1234567890123456789"), Decimal("1E+400"), 10**30, 1e300, 0.1 + 0.2]
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | st.sampled_from([*LONG, "123", "null"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
TYPED = {
    "string": TEXTS,
    "binary": TEXTS.map(str.encode),
    "base64": st.binary(max_size=6),
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "integer": st.integers() | st.integers(2**62, 2**66) | st.integers(-(2**66), -(2**62)),
    "float32": st.floats(width=32) | UNFINITE,
    "float64": st.floats() | UNFINITE,
    "decimal": st.decimals(allow_nan=False),
    "date32": st.dates(),
    "time": st.times(timezones=ZONES),
    "timestamp": st.datetimes(timezones=ZONES),
    "duration": st.timedeltas(),
    "uuid": st.uuids(),
    "json": DOCUMENTS,
}


def same(one, other):
    """Equal, of one type, and NaN like NaN."""
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return type(one) is type(other) and one == other


def form(kind, **options):
    binary = {"binary": "base64"} if "base64" in dict(options.get("fields", {})).values() else {}
    return kind(**options, **binary).make()


@pytest.mark.parametrize("kind", TYPED)
@given(data=st.data())
def test_a_value_of_json_with_a_type_is_read_as_it_was_written(kind, data):
    value = data.draw(st.none() | TYPED[kind])
    made = form(JsonOptions, type="json", fields={"v": kind})
    written = made.encoder(["v"])([value])
    (found,) = made.decode(written)
    assert same(found, value), written
    assert made.decode_each([written]) == [[found]] or found != found
    assert same(made.decode(codecs.BOM_UTF8 + written)[0], value)
    json.loads(written, parse_constant=pytest.fail)  # another reader takes it for JSON


@pytest.mark.parametrize("kind", TYPED)
@given(data=st.data())
def test_a_value_of_csv_with_a_type_is_read_as_it_was_written(kind, data):
    value = data.draw(st.none() | TYPED[kind])
    assume(kind != "json" or value is None or isinstance(value, list | dict))
    made = form(CsvOptions, type="csv", fields={"v": kind, "w": "string"}, nulls=["NA", ""])
    written = made.encoder(["v", "w"])([value, "w"])
    found, _ = made.decode(written)
    assert same(found, value), written


ROWS = st.lists(st.tuples(st.none() | TEXTS, st.none() | TEXTS), min_size=1, max_size=4)


@given(rows=ROWS, nulls=st.sampled_from([[""], ["NA"], ["NA", ""]]))
@example(rows=[("two\nlines", "a\rb"), (None, "NA"), ("\ufeffx", 'q"\n"')], nulls=["NA", ""])
def test_files_of_csv_are_read_as_they_were_written_by_us_and_by_arrow(rows, nulls):
    config = {"path": "x", "format": {"type": "csv", "nulls": nulls, "fields": ["a", "b"]}}
    content = content_of(FileSinkOptions(**config))
    encode = content.encoder(["a", "b"])
    file = content.file([content.chunk([encode(row) for row in rows])])

    made = CsvOptions(type="csv", fields=["a", "b"], nulls=nulls).make()
    found = [made.decode(line) for line in lines_of(file, Quotes(",", "utf-8"))]
    assert found == [list(row) for row in rows]

    if any("\r" in text.replace("\r\n", "") for row in rows for text in row if text):
        return  # Arrow takes a CR between quotes for a place to cut blocks of long files at
    table = pa.csv.read_csv(
        io.BytesIO(file),
        pa.csv.ReadOptions(column_names=["a", "b"], block_size=1 << 24),
        pa.csv.ParseOptions(newlines_in_values=True),
        pa.csv.ConvertOptions(
            column_types={"a": pa.string(), "b": pa.string()},
            null_values=nulls,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    assert [tuple(row.values()) for row in table.to_pylist()] == rows


def lines_of(file, quotes=None):
    opened = io.BytesIO(file.removeprefix(b"\xef\xbb\xbf"))
    limits = {"is_complete": True, "quotes": quotes, "most_bytes": 1 << 20}
    return [record.data for record in each_of(blocks(opened, 0, len(file), **limits))]


@given(rows=st.lists(TEXTS, min_size=1, max_size=4))
def test_files_of_text_are_read_as_they_were_written_or_rows_are_refused(rows):
    content = content_of(FileSinkOptions(path="x", format=TextOptions()))
    encode, kept, items = content.encoder(["v"]), [], []
    for text in rows:
        try:
            items.append(encode([text]))
            kept.append(text)
        except Malformed:
            assert "\n" in text or text.endswith("\r")
    file = content.file([content.chunk(items)])
    assert [data.decode() for data in lines_of(file)] == kept


OF_PARQUET = {
    "string": TYPED["string"],
    "binary": TYPED["base64"],
    "bool": TYPED["bool"],
    "int32": TYPED["int32"],
    "int64": TYPED["int64"],
    "float32": TYPED["float32"],
    "float64": TYPED["float64"],
    "date32": TYPED["date32"],
    "time": st.times(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "decimal(9,2)": st.decimals(-9_999_999, 9_999_999, places=2),
}


@pytest.mark.parametrize("kind", OF_PARQUET)
@given(data=st.data())
def test_a_value_of_parquet_is_read_as_it_was_written(kind, data):
    values = data.draw(st.lists(st.none() | OF_PARQUET[kind], min_size=1, max_size=3))
    columns = {"type": "parquet", "columns": {"v": kind}}
    content = content_of(FileSinkOptions(path="x", format=columns))
    encode = content.encoder(["v"])
    file = content.file([content.chunk([encode([value]) for value in values])])
    found = pq.read_table(io.BytesIO(file)).column("v").to_pylist()
    assert all(map(same, found, values)), (found, values)


def refused_or(encode, row):
    """The item; None: the row is refused, with the column's name."""
    try:
        return encode(row)
    except Malformed as error:
        said = str(error)
    assert said.startswith("column 'v': ")
    return None


EXTREMES = [
    True,
    7,
    Decimal("1.25"),
    2**31,
    -(2**31) - 1,
    2**63,
    1.5,
    1e300,
    math.nan,
    math.inf,
    Decimal("1.005"),
]
EXTREMES += [
    "x",
    b"\xff",
    date(2026, 1, 2),
    datetime(2026, 1, 2, 3, tzinfo=UTC),
    time(1),
    "\ud800",
    [1],
]


@pytest.mark.parametrize("kind", OF_PARQUET)
def test_a_column_of_parquet_has_a_value_as_it_is_or_not_at_all(kind):
    content = content_of(
        FileSinkOptions(path="x", format={"type": "parquet", "columns": {"v": kind}})
    )
    encode = content.encoder(["v"])
    items = [refused_or(encode, [value]) for value in EXTREMES]
    taken = [(value, item) for value, item in zip(EXTREMES, items, strict=True) if item is not None]
    file = io.BytesIO(content.file([content.chunk([item for _, item in taken])]))
    kept = pq.read_table(file).column("v").to_pylist()
    assert len(kept) == len(taken) > 0
    for (value, _), found in zip(taken, kept, strict=True):
        if kind == "string" and not isinstance(value, str):
            assert isinstance(found, str)
        elif kind == "float32":
            assert found == pytest.approx(float(value), nan_ok=True)
        elif isinstance(value, str | Decimal):
            given = {str: str.encode, Decimal: float}
            assert found in (value, given[type(value)](value))
        else:
            assert found == value or value != value


CSV = {"type": "csv", "nulls": ["NA", ""]}
WRITTEN = [
    *(CSV, {**CSV, "fields": ["w"]}, {**CSV, "nulls": [], "fields": ["w"]}, {"type": "json"}),
    *({"type": "text", "field": "w"}, {**CSV, "encoding": "latin-1", "delimiter": ";"}),
    *({"type": "parquet", "columns": {"w": kind}} for kind in [*OF_PARQUET, "decimal(6,2)"]),
]
OF_KIND = {**TYPED, "decimal(9,2)": OF_PARQUET["decimal(9,2)"], "decimal(6,2)": TYPED["decimal"]}


@pytest.mark.parametrize("written", WRITTEN, ids=repr)
@given(data=st.data())
def test_many_rows_are_written_as_each_of_them(written, data):
    of_column = list(written.get("columns", {}).values())
    kind = st.sampled_from([*TYPED, *of_column * len(TYPED)])
    values = OF_KIND[data.draw(kind)]
    if data.draw(st.booleans()):
        values = values | st.sampled_from(EXTREMES)
    rows = data.draw(st.lists(st.tuples(st.none() | TEXTS, st.none() | values), max_size=5))
    content = content_of(FileSinkOptions(path="x", format=written))
    encode, many = content.encoder(["v", "w"]), content.encoder_of_many(["v", "w"])
    each, at_once = Rows(("v", "w"), rows), Rows(("v", "w"), rows)
    singly = list(map(repr, encode_each(each, encode)))
    assert list(map(repr, encode_each(at_once, encode, many))) == singly
    assert at_once.failed == each.failed


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *((CSV, value) for value in (None, "NA", "", "a", 1, 1.5, True, date(2026, 1, 2))),
        *((CSV, value) for value in ("a\r\nb", "\ufeff")),
        *(({"type": "json"}, value) for value in (None, 1.5, Decimal("1.0"), ["},{", {"w": 1}])),
        *(({"type": "parquet", "columns": {"w": "int32"}}, value) for value in (None, 1, 2.0)),
    ],
)
def test_usual_rows_are_written_at_once(written, value):
    content = content_of(FileSinkOptions(path="x", format=written))
    rows = [["a", value], ["b", value]]
    encode, many = content.encoder(["v", "w"]), content.encoder_of_many(["v", "w"])
    assert many(rows) == list(map(encode, rows))
