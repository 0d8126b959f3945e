"""A bolt beside another one fails messages: what the other one has counted of them, and how often.

The table in docs/guide/sinks.md says the same.
"""

from collections import Counter

import pytest

from fulmen import (
    BasicBolt,
    FailedException,
    TopologyBuilder,
)
from fulmen.testing import ListSpout, run
from fulmen.windows import Deduplicate

SALES = [[i, "ann", 50] for i in range(10)]


class Totals(BasicBolt):
    """Adds up in its state."""

    def execute(self, tup, collector):
        self.state[tup["user"]] = self.state.get(tup["user"], 0) + tup["cents"]


class Checks(BasicBolt):
    """Fails two of the messages the first time."""

    def __init__(self):
        self.seen = Counter()

    def execute(self, tup, collector):
        self.seen[tup["id"]] += 1
        if tup["id"] in (3, 7) and self.seen[tup["id"]] == 1:
            raise FailedException("it is checked later")


class Reports(Checks):
    """Emits them instead."""

    outputs = {"refused": ("id",)}  # noqa: RUF012

    def execute(self, tup, collector):
        if tup["id"] in (3, 7):
            collector.emit([tup["id"]], "refused")


def total(checks=Checks, deduplicates=False, **spec):
    builder = TopologyBuilder(**spec)
    builder.set_spout("sales", ListSpout(SALES, ["id", "user", "cents"]))
    builder.set_bolt("checks", checks).shuffle_grouping("sales")
    source = "sales"
    if deduplicates:
        config = {"id": ["id"], "fields": ["user", "cents"], "horizon": "1h"}
        builder.set_bolt("once", Deduplicate).set_config(config).fields_grouping("sales", ["id"])
        source = "once"
    builder.set_bolt("totals", Totals).fields_grouping(source, ["user"])
    return run(builder).state("totals")["ann"]


@pytest.mark.parametrize(
    ("options", "cents"),
    [
        pytest.param({}, 600, id="counts what comes again"),
        pytest.param({"checks": Reports}, 500, id="nothing fails"),
        pytest.param({"max_replays": 0}, 500, id="nothing comes again"),
        pytest.param({"deduplicates": True}, 500, id="what comes again is known by its id"),
    ],
)
def test_a_message_that_a_sibling_fails_is_counted_as_often_as_it_comes(options, cents):
    assert total(**options) == cents
