"""The sentences of Storm's TridentWordCount, and what splits them."""

from fulmen import BasicBolt, BasicOutputCollector, Tuple
from fulmen.transactional import MemoryTransactionalSpout


class Sentences(MemoryTransactionalSpout):
    """Emits (tx, sentence)."""

    data = {  # the rows of each partition
        0: [
            ["the cow jumped over the moon"],
            ["the man went to the store and bought some candy"],
            ["four score and seven years ago"],
            ["how many apples can you eat"],
            ["to be or not to be the person"],
        ]
    }
    fields = ("sentence",)
    take_amount = 3  # in a transaction


class Split(BasicBolt):
    """Emits each word."""

    outputs = ["tx", "word"]

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        for word in tup["sentence"].split():
            collector.emit([tup["tx"], word])
