"""Trident's word count as streams: `fulmen run words_as_streams.py`."""

from tridentwords import Sentences

from fulmen.connectors.sqlite import SqliteSink
from fulmen.streams import Streams, agg

topology = Streams("words-as-streams", max_spout_pending=2)
words = topology.source("spout1", Sentences).flat_map(
    lambda row: row.sentence.split(), fields="word"
)
counts = words.key_by("word").persistent_aggregate(
    "sqlite", "streams.db", "counts", name="count", parallelism=2, count=agg.count(),
    config={"value_type": "integer"},
)  # fmt: skip
counts.sink(
    "history", SqliteSink, path="streams.db", table="history",
    create={"word": "TEXT", "count": "INTEGER"},
)  # fmt: skip
