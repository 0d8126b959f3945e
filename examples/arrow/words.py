"""A word count in Arrow: record batches instead of single tuples."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fulmen import ArrowBolt, ArrowOutputCollector, ArrowSpout, ArrowSpoutCollector, TopologyContext

SENTENCES = [
    "the cow jumped over the moon",
    "the man went to the store and bought some candy",
    "four score and seven years ago",
    "how many apples can you eat",
]


class Sentences(ArrowSpout):
    """Emits 1,000 sentences at a time. A sentence's number is its message id."""

    outputs = ["sentence"]

    def __init__(self) -> None:
        self.next = 0
        self.failed: list[int] = []

    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: ArrowSpoutCollector
    ) -> None:
        self.end = conf["end"]
        self.sentences = pa.array(SENTENCES)
        self.collector = collector

    def next_tuple(self) -> None:
        if self.failed:
            numbers, self.failed = self.failed, []
        else:
            numbers = list(range(self.next, min(self.next + 1000, self.end)))
            self.next += len(numbers)
        if numbers:
            chosen = pa.array([number % len(SENTENCES) for number in numbers])
            batch = pa.record_batch({"sentence": self.sentences.take(chosen)})
            self.collector.emit(batch, msg_ids=numbers)

    def fail(self, msg_id: Any, reason: str) -> None:
        self.failed.append(msg_id)

    def is_exhausted(self) -> bool:
        return self.next == self.end and not self.failed


class Split(ArrowBolt):
    """Splits all sentences of a batch at once. `rows` says which sentence a word comes from."""

    outputs = ["word"]

    def execute(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        words = pc.split_pattern(batch["sentence"], " ")
        flat = pa.record_batch({"word": pc.list_flatten(words)})
        collector.emit(flat, rows=pc.list_parent_indices(words))


class Count(ArrowBolt):
    """Counts each word of a batch in Arrow, and adds that to what there was."""

    def execute(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        for count in pc.value_counts(batch["word"]).to_pylist():
            word = count["values"]
            self.state[word] = self.state.get(word, 0) + count["counts"]
