"""The components of the benchmarks: sentences of six words, split and counted."""

import random
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fulmen import ArrowBolt, ArrowSpout, BasicBolt, Spout

_random = random.Random(7)
_LETTERS = "abcdefghijklmnoprstuvwz"
WORDS = [
    "".join(_random.choice(_LETTERS) for _ in range(_random.randint(2, 9))) for _ in range(2000)
]
SENTENCES = [" ".join(_random.choice(WORDS) for _ in range(6)) for _ in range(1000)]


class Clock(Spout):
    """Sentence k is due at `start` + k / rate: what was not emitted in time is emitted late."""

    outputs = ("sentence",)

    def __init__(self):
        self.position = 0

    def open(self, conf, context, collector):
        """Each task has its share of the rate."""
        self.collector = collector
        self.start = conf["start"]
        self.rate = conf["rate"] / len(context.tasks(context.component))

    def next_tuple(self):
        """One sentence, if it is due."""
        k = self.position
        if self.start + k / self.rate <= time.time():
            self.position = k + 1
            self.collector.emit([SENTENCES[k % 1000]], msg_id=k)


class Endless(Spout):
    """Sentences as fast as they are taken; unreliable if the config says so."""

    outputs = ("sentence",)

    def __init__(self):
        self.position = 0

    def open(self, conf, context, collector):
        """Keep the collector."""
        self.collector = collector
        self.is_reliable = conf.get("reliable", True)

    def next_tuple(self):
        """One sentence."""
        k = self.position
        self.position = k + 1
        self.collector.emit([SENTENCES[k % 1000]], msg_id=k if self.is_reliable else None)


class Idle(Spout):
    """Never has anything, and says so if its config has `says`."""

    outputs = ("sentence",)

    def open(self, conf, context, collector):
        """Keep the answer."""
        self.answer = False if conf.get("says") else None

    def next_tuple(self):
        """Nothing."""
        return self.answer


class Split(BasicBolt):
    """Emits the words of a sentence."""

    outputs = ("word",)

    def execute(self, tup, collector):
        """Split one sentence."""
        for word in tup.values[0].split(" "):
            collector.emit([word])


class Relay(BasicBolt):
    """Passes on what it gets."""

    outputs = ("sentence",)

    def execute(self, tup, collector):
        """Pass one sentence on."""
        collector.emit([tup.values[0]])


class Count(BasicBolt):
    """Counts words in keyed state."""

    def execute(self, tup, collector):
        """Count one word."""
        word = tup.values[0]
        self.state[word] = self.state.get(word, 0) + 1


class Touch(BasicBolt):
    """Keyed state of many keys, of which each sentence changes another one."""

    def prepare(self, conf, context):
        """Fill the state, once."""
        self.keys, self.touched = conf["keys"], 0
        if not self.state:
            self.state.update(dict.fromkeys(range(self.keys), 0))

    def execute(self, tup, collector):
        """Change the value of one key, far from the last one."""
        self.touched += 7919
        self.state[self.touched % self.keys] += 1


_ARROW = pa.array(SENTENCES)


class ArrowSentences(ArrowSpout):
    """1,000 sentences at once."""

    outputs = ("sentence",)

    def __init__(self):
        self.position = 0

    def open(self, conf, context, collector):
        """Keep the collector."""
        self.collector = collector

    def next_tuple(self):
        """The same thousand sentences with fresh message ids."""
        k = self.position
        self.position = k + len(_ARROW)
        batch = pa.RecordBatch.from_arrays([_ARROW], names=["sentence"])
        self.collector.emit(batch, msg_ids=range(k, k + len(_ARROW)))


class ArrowSplit(ArrowBolt):
    """Splits whole columns."""

    outputs = ("word",)

    def execute(self, batch, collector):
        """The words of all sentences, with the row that each comes from."""
        words = pc.split_pattern(batch.column(0), " ")
        rows = pc.list_parent_indices(words)
        flat = pa.RecordBatch.from_arrays([pc.list_flatten(words)], names=["word"])
        collector.emit(flat, rows=rows.to_numpy())


class ArrowCount(ArrowBolt):
    """Counts whole columns in keyed state."""

    def execute(self, batch, collector):
        """Add how often each word occurs."""
        encoded = pc.dictionary_encode(batch.column(0))
        counts = np.bincount(encoded.indices.to_numpy(), minlength=len(encoded.dictionary))
        state = self.state
        for word, n in zip(encoded.dictionary.to_pylist(), counts.tolist(), strict=True):
            state[word] = state.get(word, 0) + n
