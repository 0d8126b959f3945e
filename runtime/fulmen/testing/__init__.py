"""For tests of topologies: all of one in this process, without Spark, or one bolt alone.

    from fulmen.testing import BoltHarness, ListSpout, run

    def test_words_are_counted():
        builder = TopologyBuilder()
        builder.set_spout("sentences", ListSpout(["a b", "a"], fields=["sentence"]))
        builder.set_bolt("split", SplitSentence).shuffle_grouping("sentences")
        builder.set_bolt("count", WordCount, 2).fields_grouping("split", ["word"])
        result = run(builder)
        assert result.state("count") == {"a": 2, "b": 1}
        assert result.acked("sentences") == [0, 1]

    def test_a_word_is_counted():
        with BoltHarness(WordCount, fields=["word"]) as bolt:
            bolt.execute(["a"])
            assert bolt.emitted[0].values == ["a", 1]

Routing, ackers, commits and restores are the very code that runs on Spark; only its jobs are
replaced by calls. Time is a clock that moves with each batch, so nothing ever waits.
"""

from fulmen.testing.components import (
    ABORT,
    EOF,
    PAUSE,
    CollectBolt,
    Later,
    ListSpout,
    ListTransactions,
    Message,
)
from fulmen.testing.harness import BoltHarness, Emitted
from fulmen.testing.result import Result
from fulmen.testing.running import ManualClock, NotDrained, run
from fulmen.testing.transactions import TransactionFault

__all__ = [
    "ABORT",
    "EOF",
    "PAUSE",
    "BoltHarness",
    "CollectBolt",
    "Emitted",
    "Later",
    "ListSpout",
    "ListTransactions",
    "ManualClock",
    "Message",
    "NotDrained",
    "Result",
    "TransactionFault",
    "run",
]
