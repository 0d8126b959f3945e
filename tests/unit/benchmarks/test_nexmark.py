"""Each query of Nexmark finds exactly what SQL finds in the same events."""

from collections import Counter
from functools import cache

import pytest
from benchmarks.nexmark import queries

from fulmen.testing import run
from fulmen.topology.resource.spec import Topology

EVENTS, RATE, SIZE = 2_000, 66, 33  # thirty seconds


@cache
def tables(is_nexmark):
    return queries.tables("q1" if is_nexmark else "yahoo", EVENTS, RATE)


@pytest.mark.parametrize(
    ("query", "form"), [(query, form) for query in queries.QUERIES for form in queries.forms(query)]
)
def test_a_query_finds_what_sql_finds(query, form):
    content = queries.topology(query, EVENTS, form, rate=RATE, size=SIZE)
    bolts = content["spec"]["bolts"]
    sink = bolts[-1]
    bolts[-1] = {"name": "results", "class": "fulmen.testing.CollectBolt", "inputs": sink["inputs"]}
    result = run(Topology.model_validate(content))
    assert result.errors == []
    rows = [tuple(queries.plain(row)) for row in result.collected("results")]
    if sink["class"] == "nexmark.Latest":  # keeps the last row of each key
        width = len(sink["config"]["key"])
        rows = list({row[:width]: row for row in rows}.values())
    if sink["class"] == "nexmark.Sums":
        sums = Counter()
        for key, number in rows:
            sums[key] += number
        rows = sums.items()
    wanted = queries.expected(query, tables(query != "yahoo"))
    assert wanted
    assert sorted(rows) == sorted(wanted)
