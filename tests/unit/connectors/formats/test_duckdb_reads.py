"""DuckDB reads what was written to files of CSV, JSON lines and Parquet.

A file has rows with columns of all types, so that one query reads many values.
"""

import math
from datetime import UTC, datetime, timedelta

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.connectors.files.contents import content_of
from fulmen.connectors.files.options import FileSinkOptions

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["", "NA", '"', "\r", "\n", "a\r\nb", "\ufeff", " ", "x" * 200_000, "\0", "\\", "null", "{}"]
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
VALUES = {
    "VARCHAR": TEXTS,
    "BOOLEAN": st.booleans(),
    "INTEGER": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(),
    "DECIMAL(9,2)": st.decimals(-9_999_999, 9_999_999, places=2),
    "DATE": st.dates(),
    "TIME": st.times(),
    "TIMESTAMPTZ": st.datetimes(timezones=st.just(UTC)),
    "BLOB": st.binary(max_size=6),
    "UUID": st.uuids(),
}
IN_PARQUET = ["string", "bool", "int32", "int64", "float64", "decimal(9,2)", "date32", "time"]
IN_PARQUET += ["timestamp", "binary", "string"]
NAMES = [f"c{i}" for i in range(len(VALUES))]
CSV = (
    "columns = {c0: 'VARCHAR', c1: 'VARCHAR', c2: 'VARCHAR'}, auto_detect = false, header = false,"
    " delim = ',', quote = '\"', escape = '\"', new_line = '\\n', allow_quoted_nulls = false,"
    " max_line_size = 2000000, parallel = false"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("files") / "file"


def rows(kinds):
    columns = [st.none() | VALUES[kind] for kind in kinds]
    return st.lists(st.tuples(*columns), min_size=1, max_size=10)


def write(path, rows, form):
    content = content_of(FileSinkOptions(path="x", format=form))
    encode = content.encoder(NAMES[: len(rows[0])])
    path.write_bytes(content.file([content.chunk([encode(row) for row in rows])]))


def found(value):
    """A value as it is to be found: NaN equals itself, and an instant is in microseconds."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(microseconds=1)
    return value


def read(source, expression=lambda name, kind: f"{name}::{kind}"):
    """The rows of a file with columns of all kinds."""
    columns = [
        f"epoch_us({name}::{kind})" if kind == "TIMESTAMPTZ" else expression(name, kind)
        for name, kind in zip(NAMES, VALUES, strict=True)
    ]
    query = f"SELECT {', '.join(columns)} FROM {source}"
    return [tuple(map(found, row)) for row in duckdb.sql(query).fetchall()]


@given(rows=rows(["VARCHAR"] * 3), nulls=st.sampled_from([[""], ["NA"], ["NA", ""]]))
def test_duckdb_reads_texts_and_nulls_of_csv(path, rows, nulls):
    write(path, rows, {"type": "csv", "nulls": nulls})
    source = f"read_csv('{path}', nullstr = {nulls}, {CSV})"
    assert duckdb.sql(f"FROM {source}").fetchall() == rows


@given(rows=rows(VALUES))
def test_duckdb_reads_values_of_json(path, rows):
    write(path, rows, {"type": "json", "binary": "base64"})

    def expression(name, kind):
        return f"from_base64({name}::VARCHAR)" if kind == "BLOB" else name

    kinds = [kind if kind != "BLOB" else "VARCHAR" for kind in VALUES]
    columns = dict(zip(NAMES, kinds, strict=True))
    options = "format = 'newline_delimited', maximum_object_size = 2000000"
    source = f"read_json('{path}', columns = {columns}, {options})"
    assert read(source, expression) == [tuple(map(found, row)) for row in rows]


@given(rows=rows(VALUES))
def test_duckdb_reads_values_of_parquet(path, rows):
    columns = dict(zip(NAMES, IN_PARQUET, strict=True))
    write(path, rows, {"type": "parquet", "columns": columns})
    assert read(f"read_parquet('{path}')") == [tuple(map(found, row)) for row in rows]
