"""Records by their places, however the file is cut into pieces."""

import csv
import io

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.connectors.files.reading.records import blocks, each_of
from fulmen.connectors.formats import Malformed
from fulmen.connectors.formats.csv_format import CsvFormat, Quotes


def read(data, start=0, end=1 << 30, *, complete=True, quotes=False, most=1000):
    return list(
        each_of(
            blocks(
                io.BytesIO(data),
                start,
                end,
                is_complete=complete,
                quotes=Quotes(",", "utf-8") if quotes else None,
                most_bytes=most,
            )
        )
    )


@given(
    st.lists(st.binary(max_size=8).filter(lambda b: b"\n" not in b and b"\r" not in b)), st.data()
)
def test_reading_on_from_any_record_gives_the_same_records(lines, data):
    content = b"".join(line + b"\n" for line in lines)
    whole = read(content)
    assert [record.data for record in whole] == lines
    at = data.draw(st.integers(0, len(lines)))
    start = whole[at].start if at < len(lines) else len(content)
    assert read(content, start) == whole[at:]


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(st.binary(max_size=30), st.integers(1, 9), st.booleans(), st.booleans())
def test_records_leave_no_byte_out(content, most, complete, quotes):
    found = read(content, complete=complete, quotes=quotes, most=most)
    ends = [0, *(record.end for record in found)]
    assert [record.start for record in found] == ends[:-1]
    assert all(
        record.is_too_long == (len(record.data) >= most) or not record.is_too_long
        for record in found
    )
    if complete:
        assert ends[-1] == len(content)
    else:
        assert b"\n" not in content[ends[-1] :] or quotes


@pytest.mark.parametrize(
    ("content", "complete", "found"),
    [
        pytest.param(b'"a\nb",1\n2\n', True, [b'"a\nb",1', b"2"], id="quoted"),
        pytest.param(b'"a\nb', False, [], id="not-closed-yet"),
        pytest.param(b'"a\nb', True, [b'"a', b"b"], id="never-closed"),
        pytest.param(b'"a\nb"', True, [b'"a\nb"'], id="closed-at-the-end-without-line-feed"),
        pytest.param(b'"a\nb"', False, [], id="closed-but-perhaps-not-over"),
        pytest.param(b'"a""\n"\n', True, [b'"a""\n"'], id="doubled"),
        pytest.param(b'"' + b"x\n" * 20, False, [b'"x'] + [b"x"] * 19, id="too-long-to-close"),
        pytest.param(b'"a\n"bcdefghi\n', True, [b'"a', b'"bcdefghi'], id="too-long-when-closed"),
    ],
)
def test_a_line_feed_between_quotes_belongs_to_the_record(content, complete, found):
    result = read(content, complete=complete, quotes=True, most=10)
    assert [record.data for record in result] == found


def test_a_long_line_is_read_over_and_its_beginning_kept():
    found = read(b"x" * 200_000 + b"\nnext\n", most=10)
    assert [(r.data, r.is_too_long) for r in found] == [(b"x" * 10, True), (b"next", False)]
    assert read(b"x" * 200_000, complete=False, most=10) == []


def test_what_is_behind_the_end_is_not_read():
    assert [r.data for r in read(b"one\ntwo\n", end=6, complete=False)] == [b"one"]


DELIMITERS = [",", ";", "\t", "|", " ", "§"]
ENDS = ["\n", "\r\n", "\r"]
TEXTS = ["", "a", '5"', '"', '""', "é", "a b", " ", "NA", 'q"r"s', "\\", "x\ny", "x\ry", "x\r\ny"]


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


@st.composite
def dialects(draw):
    """A delimiter, an end of lines, and values as such a file has them."""
    between, end = draw(st.sampled_from(DELIMITERS)), draw(st.sampled_from(ENDS))
    texts = st.sampled_from([*TEXTS, f"x{between}y"])
    special = {"\n", "\r", '"', between}
    values = st.builds(
        lambda text, is_quoted: quoted(text) if is_quoted or special & set(text) else text,
        texts,
        st.booleans(),
    )
    return between, end, values


DIRT = [",", ",", ",", "\n", "\n", "\r", "\r\n", '"', '"', '""', '5"', "a", " ", "é"]


def read_csv(data, between):
    """The values of each record; None, if it is malformed."""
    made, rows = CsvFormat((), between), []
    for record in read_records(data, Quotes(between, "utf-8")):
        try:
            rows.append(made.names(record.data))
        except Malformed:
            rows.append(None)
    return rows


def read_records(data, quotes, start=0):
    limits = {"is_complete": True, "quotes": quotes, "most_bytes": 1000}
    return list(each_of(blocks(io.BytesIO(data), start, 1 << 30, **limits)))


def as_python_reads(text, between):
    """The same, of Python's reader. A record that it can't read costs its first line."""
    lines, at, rows = io.StringIO(text, newline="").readlines(), 0, []
    while at < len(lines):
        reader = csv.reader(lines[at:], delimiter=between, strict=True)
        try:
            rows.append(next(reader))
            at += reader.line_num
        except csv.Error:
            rows.append(None)
            at += 1
    return rows


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(st.lists(st.sampled_from(DIRT), max_size=20), st.sampled_from(DELIMITERS))
def test_records_of_csv_end_where_pythons_reader_ends_them(dirt, between):
    text = "".join(dirt).replace(",", between)
    data, quotes = text.encode(), Quotes(between, "utf-8")
    assert read_csv(data, between) == as_python_reads(text, between)
    for record in (whole := read_records(data, quotes)):
        again = read_records(data, quotes, record.start)
        assert again == [other for other in whole if other.start >= record.start]


@pytest.fixture(scope="module")
def database():
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@given(dialect=dialects(), data=st.data())
def test_duckdb_reads_clean_csv_alike(database, tmp_path_factory, dialect, data):
    """It passes over blank lines of files with one column, too."""
    between, end, values = dialect
    width = data.draw(st.integers(2, 4))
    rows = data.draw(st.lists(st.lists(values, min_size=width, max_size=width), min_size=1))
    path = tmp_path_factory.getbasetemp() / "clean.csv"
    text = "".join(between.join(row) + end for row in rows)
    path.write_text(text, newline="")
    types = ", ".join(f"c{i}: 'VARCHAR'" for i in range(width))
    found = database.execute(
        f"SELECT * FROM read_csv(?, columns = {{{types}}}, auto_detect = false, header = false,"
        " delim = ?, quote = '\"', escape = '\"', new_line = ?, nullstr = '\1', parallel = false)",
        [str(path), between, end.replace("\r", "\\r").replace("\n", "\\n")],
    ).fetchall()
    assert read_csv(text.encode(), between) == [list(row) for row in found]


def test_no_line_is_looked_at_again_for_each_of_those_before_it():
    """Each line opens quotes that the next one closes and opens again."""
    lines = 20_000
    counted = Counted(",", "utf-8")
    limits = {"is_complete": True, "quotes": counted, "most_bytes": 1 << 20}
    found = list(each_of(blocks(io.BytesIO(b'x","""\n' * lines), 0, 1 << 30, **limits)))
    assert (len(found), counted.calls <= 2 * lines) == (lines, True)


class Counted(Quotes):
    calls = 0

    def are_open(self, *args, **options):
        self.calls += 1
        return super().are_open(*args, **options)
