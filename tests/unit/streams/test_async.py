"""Async functions: a bolt of its own, in which many rows wait side by side."""

import asyncio
import re

import pytest

from fulmen import Stream
from fulmen.errors import ValidationFailed
from fulmen.streams import Streams
from fulmen.testing import CollectBolt, ListSpout, ListTransactions


@pytest.fixture
def pipeline():
    return Streams("waits")


@pytest.fixture
def rows(pipeline):
    return pipeline.source("rows", ListSpout((), streams={"default": Stream(("user", "n"))}))


async def looked_up(row, of):
    await asyncio.sleep(0)
    return [row.user, of[row.n]]


async def times(row):
    await asyncio.sleep(0)
    return [row.n] * row.n


def test_results_of_async_functions_come_out_and_steps_around_them_are_fused(pipeline, rows):
    named = rows.filter(lambda row: row.n).map(looked_up, "abc", fields=["user", "letter"])
    ended = named.where("letter <> 'b'").with_fields(twice=lambda row: row.letter * 2)
    ended.sink("named", CollectBolt)
    rows.flat_map(times, fields="n").sink("many", CollectBolt)
    outcome = pipeline.test(rows=[["x", 0], ["x", 1], ["y", 2]])
    assert outcome["named"] == [{"user": "y", "letter": "c", "twice": "cc"}]
    assert sorted(row["n"] for row in outcome["many"]) == [1, 2, 2]


def test_a_row_for_which_one_raises_fails_alone_or_goes_to_errors(pipeline, rows):
    rows.map(looked_up, "abcdef", fields=["user", "letter"]).sink("all", CollectBolt)
    named = rows.map(looked_up, "ab", fields=["user", "letter"])
    named.sink("out", CollectBolt)
    given = [["x", 0], ["x", 5]]
    outcome = pipeline.test(rows=given, replays=False)
    assert [row["letter"] for row in outcome["out"]] == ["a"]
    reason = r"step 1 'map' \(test_async\.py:\d+\): IndexError"
    ((_, said),) = outcome.result.failed("rows")
    assert re.search(reason, said)
    named.errors.sink("errors", CollectBolt)
    (error,) = pipeline.test(rows=given)["errors"]
    assert error["values"] == ["x", 5]
    assert re.match(reason, error["reason"])


def test_transactions_and_conditions_take_no_async_function(rows):
    with pytest.raises(ValidationFailed, match="filter takes no async function"):
        rows.filter(times)
    pipeline = Streams("in-transactions")
    lines = pipeline.source("lines", ListTransactions([], ["n"]))
    lines.flat_map(times, fields="n").sink("out", CollectBolt)
    with pytest.raises(ValidationFailed, match="a transaction waits for no async function"):
        pipeline.build()
