"""Pipelines whose sources have transactions: Trident's words, exact whatever fails."""

import json
import re
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from fulmen.errors import ValidationFailed
from fulmen.streams import Streams, agg, tumbling
from fulmen.testing import PAUSE, CollectBolt, ListSpout, ListTransactions, TransactionFault, run

SENTENCES = ["the cow jumped over the moon", "the man", PAUSE, "four score", PAUSE, "the end"]
WORDS = Counter(" ".join(s for s in SENTENCES if s is not PAUSE).split())


def split(pipeline, items=SENTENCES, **options):
    lines = pipeline.source("lines", ListTransactions(items, ["line"]), **options)
    return lines.flat_map(lambda row: row.line.split(), fields="word")


def test_a_store_has_each_row_once_whatever_fails(tmp_path):
    at = str(tmp_path / "words.db")
    pipeline = Streams("words", workers=2, max_spout_pending=2)
    words = split(pipeline).where("length(word) > 3").with_fields(size="length(word)")
    longest = agg.max("size")
    words.key_by("word").persistent_aggregate(
        "sqlite", at, "counts", name="counts", parallelism=2, n=agg.count(), longest=longest
    )
    failing = [
        TransactionFault(1, "counts", "committing"),
        TransactionFault(2, "counts", kills=True),
        TransactionFault(3, "counts", "committing", kills=True),
    ]
    run(pipeline.build(), failing=failing, checkpoint=str(tmp_path / "state"))
    with closing(sqlite3.connect(at)) as database:
        found = dict(database.execute("SELECT key, value FROM counts"))
    assert {word: json.loads(value) for word, value in found.items()} == {
        word: {"n": n, "longest": len(word)} for word, n in WORDS.items() if len(word) > 3
    }


def test_rows_behind_steps_aggregates_and_errors_have_no_attempt():
    pipeline = Streams("shown")
    words = split(pipeline)
    words.key_by("word").count().sink("per-transaction", CollectBolt)
    halves = words.map(lambda row: {"half": 6 // (len(row.word) - 3)}, fields=["half"])
    halves.errors.sink("errors", CollectBolt)
    totals = words.key_by("word").persistent_aggregate(
        "postgres", "not used in tests", "t", name="totals", n=agg.count()
    )
    totals.where("word = 'a'").sink("shown", CollectBolt)
    outcome = pipeline.test(lines=["a a four", PAUSE, ["a the"]])
    assert outcome["per-transaction"] == [
        {"word": "a", "count": 2}, {"word": "four", "count": 1},
        {"word": "a", "count": 1}, {"word": "the", "count": 1},
    ]  # fmt: skip
    (error,) = outcome["errors"]
    assert error["values"] == ["the"]
    assert re.match(r"step 1 'map' \(test_transactions\.py:\d+\): ZeroDivision", error["reason"])
    assert outcome["shown"] == [{"word": "a", "n": 2}, {"word": "a", "n": 3}]


REFUSED = {
    "window": (
        lambda s: s.key_by("word").window(tumbling("1m"), time="word").count(),
        "a window ends by the time of events",
    ),
    "join": (lambda s: s.join(s.where("true"), "word"), "a row of a join may wait"),
    "lookup": (lambda s: s.lookup(s.where("true"), "word"), "a row of a join may wait"),
    "deduplicate": (
        lambda s: s.deduplicate("word", within="1h"), "an id is forgotten by the time of events"
    ),
    "reduce": (
        lambda s: s.key_by("word").reduce(lambda a, b: a), "what is kept of a key would be in no"
    ),
    "update_state": (
        lambda s: s.key_by("word").update_state(lambda a, b: a), "Write persistent_aggregate"
    ),
    "source": (
        lambda s: Streams.source(s.pipeline, "others", ListSpout(())), "another source has trans"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_transactions_can_not_have_is_refused_with_its_line_and_the_reason(kind):
    pipeline = Streams("refused")
    words = split(pipeline)
    words.__dict__["pipeline"] = pipeline
    call, message = REFUSED[kind]
    call(words).sink("out", CollectBolt)
    with pytest.raises(ValidationFailed) as failed:
        pipeline.build()
    (problem,) = failed.value.problems
    line = call.__code__.co_firstlineno
    assert re.match(rf"test_transactions\.py:{line}: '", str(problem)), str(problem)
    assert message in str(problem)


def test_what_only_transactions_have_is_refused_elsewhere():
    pipeline = Streams("ordinary")
    rows = pipeline.source("rows", ListSpout((), ["word"]))
    rows.key_by("word").persistent_aggregate("sqlite", "x", "m", n="count").sink("o", CollectBolt)
    with pytest.raises(ValidationFailed, match="needs sources with transactions"):
        pipeline.build()
    pipeline = Streams("timed")
    split(pipeline, event_time="line").sink("out", CollectBolt)
    with pytest.raises(ValidationFailed, match="there is no event time among transactions"):
        pipeline.build()
