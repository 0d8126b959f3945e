"""The table of functions in docs/guide/expressions.md is that of the language."""

from fulmen.expressions.library.functions import BY_NAME, MEANINGS, OWN
from support.docs.scripts import script

TABLE = script("function_table")


def test_the_table_of_functions_is_that_of_the_language():
    page = TABLE.PAGE.read_text(encoding="utf-8")
    assert TABLE.with_table(page) == page, "run scripts/function_table.py"


def test_each_function_is_explained():
    assert {*MEANINGS} == {*BY_NAME, *OWN}
