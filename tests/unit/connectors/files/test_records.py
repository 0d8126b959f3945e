"""Records by their places, however the file is cut into pieces."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.connectors.files.reading.records import records


def read(data, start=0, end=1 << 30, *, complete=True, quotes=False, most=1000):
    return list(
        records(
            io.BytesIO(data),
            start,
            end,
            is_complete=complete,
            has_quotes=quotes,
            most_bytes=most,
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
