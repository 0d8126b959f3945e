import pytest

from fulmen.engine.spark.rdds.stage_runner import joined, separated


@pytest.mark.parametrize("rows", [[], [b""], [b"one"], [b"one", b"", b"x" * 70_000]])
def test_joined_rows_are_separated_again(rows):
    assert list(separated(joined(rows))) == rows
