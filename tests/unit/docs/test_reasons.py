"""The table of reasons in docs/operations.md is what `fulmen why` says of them."""

from support.scripts import script

TABLE = script("reason_table")


def test_the_table_of_reasons_is_that_of_the_command():
    page = TABLE.PAGE.read_text(encoding="utf-8")
    assert TABLE.with_table(page) == page, (
        "change runtime/fulmen/cli/display/why/explanations.py, and run scripts/reason_table.py"
    )
