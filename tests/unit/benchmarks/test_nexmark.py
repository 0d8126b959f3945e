"""Each query of Nexmark finds exactly what SQL finds in the same events."""

from collections import Counter
from functools import cache

import pytest
from benchmarks.nexmark import queries

from fulmen.testing import run
from fulmen.topology.resource.spec import Topology

EVENTS, RATE = 3_000, 100  # thirty seconds


@cache
def tables(is_nexmark):
    return queries.tables("q1" if is_nexmark else "yahoo", EVENTS, RATE)


@pytest.mark.parametrize("query", queries.QUERIES)
def test_a_query_finds_what_sql_finds(query):
    content = queries.topology(query, EVENTS, RATE)
    sink = content["spec"]["bolts"][-1]
    result = run(Topology.model_validate(content), emits=True)
    assert result.errors == []
    source = sink["inputs"][0]["from"]
    rows = [tuple(queries.plain(row)) for row in result.emitted(source, "default")]
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
