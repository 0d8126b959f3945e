"""Aggregates of some of the tuples only, as `count filter (where kind = 'buy')`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fulmen.api import Stream
from fulmen.api.components import FailedException
from fulmen.expressions.parsing import quoted_name
from fulmen.expressions.selection import steps_of
from fulmen.expressions.steps import StepsRunner
from fulmen.windows.functions.wanted import WantedAggregate


def with_fields(wanted: Sequence[tuple[str, WantedAggregate]]) -> list[WantedAggregate]:
    """Aggregates of which those with a condition are of fields of their own.

    Such a field is None where the condition is not true: that counts for nothing.

    Args:
        wanted: Their texts, and what they are.
    """
    return [one if one.condition is None else _of_field(one, text) for text, one in wanted]


def _of_field(one: WantedAggregate, field: str) -> WantedAggregate:
    """The aggregate with another last field."""
    if one.mark is not None:
        return WantedAggregate(one.aggregation, one.field, one.by, mark=field)
    if one.by is not None:
        return WantedAggregate(one.aggregation, one.field, field)
    return WantedAggregate(one.aggregation, field)


class FilteredFields:
    """The fields that aggregates with a condition have of one stream, beside those of the stream.

    Attributes:
        names: Their names.
    """

    def __init__(self, wanted: Sequence[tuple[str, WantedAggregate]], stream: Stream) -> None:
        """`wanted`: the texts of aggregates, and what they are."""
        texts = {}
        for text, one in wanted:
            if one.condition is not None:
                of = one.mark or one.by or one.field
                value = "1" if of is None else quoted_name(of)
                texts[text] = f"case when {one.condition} then {value} end"
        self.names = tuple(texts)
        steps = steps_of(stream, None, texts)
        assert steps is not None
        self._runner = StepsRunner(steps)

    def of(self, row: Sequence[Any]) -> list[Any]:
        """Their values for a row.

        Raises:
            FailedException: A condition has no value.
        """
        done = self._runner.run([row])
        if done.failed:
            raise FailedException(done.failed[0])
        assert done.rows is not None
        return list(done.rows[0])

    def columns(self, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]] | None:
        """Their values for some rows, by field. None: a condition has no value for one of them."""
        done = self._runner.run(rows)
        if done.failed or done.rows is None:
            return None
        return list(zip(*done.rows, strict=True))
