"""Options of tables that contradict each other."""

import pytest
from pydantic import ValidationError

from fulmen.connectors.sqlite import SqliteSinkOptions

MISTAKES = [
    ({"mode": "upsert"}, "mode 'upsert' needs key: the columns that tell which row to replace"),
    ({"key": ["id"]}, "mode 'insert' uses no key. Write mode: upsert, or leave it out"),
    ({"columns": {"a": "x", "b": "x"}}, "two fields go to column 'x'"),
    (
        {"mode": "upsert", "key": ["id"], "columns": {"a": "x"}},
        "no field goes to column 'id', which is in key",
    ),
    (
        {"columns": {"a": "x"}, "create": {"y": "text"}},
        "column 'x' is not in create, which has 'y'",
    ),
    ({"key": ["id"], "create": {"y": "text"}}, "column 'id' is not in create, which has 'y'"),
    ({"mode": "copy"}, "Input should be 'insert' or 'upsert'"),
    ({"tabel": "t"}, "Extra inputs are not permitted"),
]


@pytest.mark.parametrize(("options", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_what_can_not_be_right_is_told(options, said):
    with pytest.raises(ValidationError) as raised:
        SqliteSinkOptions(path="x", table="t", **options)
    assert said in str(raised.value)


def test_a_key_may_be_made_with_a_table_that_is_only_inserted_into():
    options = SqliteSinkOptions(path="x", table="t", key=["id"], create={"id": "integer"})
    assert options.key == ("id",)
