"""Texts with fields in braces."""

import pytest
from pydantic import TypeAdapter, ValidationError

from fulmen.connectors.formats import Malformed
from fulmen.connectors.templates import Template, filler, has_fields


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("plain", "plain"),
        ("user:{user}", "user:ann"),
        ("{n}{user}{data}", "7annx"),
        ("{{{user}}}", "{ann}"),
        ("", ""),
    ],
)
def test_fields_in_braces_are_replaced(template, text):
    assert filler(template, ["user", "n", "data"])(["ann", 7, b"x"]) == text


def test_a_null_is_no_text():
    with pytest.raises(Malformed, match="the field 'user' is null"):
        filler("{user}", ["user"])([None])


def test_a_field_that_there_is_not_is_told_before_any_row():
    with pytest.raises(Malformed, match=r"there is no field 'usr', only \['user'\]"):
        filler("{usr}", ["user"])


@pytest.mark.parametrize("template", ["{", "{a.b}", "{a[0]}", "{a:>5}", "{a!r}", "{}", "{0}"])
def test_braces_hold_names_and_nothing_else(template):
    with pytest.raises(ValidationError):
        TypeAdapter(Template).validate_python(template)


def test_a_template_without_fields_is_the_same_for_all_rows():
    assert [has_fields(text) for text in ("plain", "{{a}}", "{a}")] == [False, False, True]
