"""Texts as a terminal may show them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.visible import visible, visible_lines

TEXTS = st.text(st.sampled_from("a \t\n\r\x00\x07\x1b\x7f\x85\x9b\xa0\u200b\u2028\u202eé😀\ud800"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain  text", "plain  text"),
        ("1\xa0000 €", "1\xa0000 €"),
        ("a \r\n\tb\n", "a b"),
        ("\x1b[2J\x00\x9b1m", "\\u001b[2J\\u0000\\u009b1m"),
        ("abc\u202egnp", "abc\\u202egnp"),
        ("half \udcff", "half \\udcff"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text, line):
    assert visible(text) == line


@given(TEXTS)
def test_a_line_is_one_line_and_has_nothing_to_obey(text):
    line = visible(text)
    assert len(line.splitlines()) < 2
    assert line.replace("\xa0", " ").isprintable()
    assert visible(line) == line


@given(TEXTS)
def test_json_stays_what_it_is(text):
    document = json.dumps({"key": text}, indent=2, ensure_ascii=False)
    shown = visible_lines(document)
    assert json.loads(shown) == {"key": text}
    assert all(line.replace("\xa0", " ").isprintable() for line in shown.split("\n"))
