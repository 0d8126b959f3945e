"""`state_ttl`: keys of `self.state` are forgotten some time after they were assigned."""

from typing import ClassVar

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.errors import TopologyFailed
from fulmen.testing import ABORT, EOF, PAUSE, ListSpout, run


class Seen(BasicBolt):
    """Keeps each word, and whether it was known."""

    state_ttl: ClassVar = "3s"

    def execute(self, tup, collector):
        word = tup["word"]
        self.state[word] = self.state.get(word, 0) + 1


class SeenForGood(Seen):
    """Keeps it for good."""

    state_ttl = None


class WithTimers(Seen):
    """Has timers of its own."""

    def prepare(self, conf, context):
        self.timers = context.timers

    def execute(self, tup, collector):
        super().execute(tup, collector)
        self.timers.set_after(tup["word"], 1)

    def on_timer(self, key, at, collector):
        self.state[f"after {key}"] = 1


class Wrong(Seen):
    """Says no duration."""

    state_ttl = "soon"


class Waiting(ListSpout):
    """Never says that nothing will come."""

    def is_exhausted(self):
        return False


def kept(items, kind=Seen, batches=8, **runs):
    """What is in the state after some batches of a second."""
    builder = TopologyBuilder()
    builder.set_spout("words", Waiting(items, fields=["word"]))
    builder.set_bolt("seen", kind).shuffle_grouping("words")
    result = run(builder, batches=batches, batch_seconds=1.0, **runs)
    assert result.errors == []
    return result


def test_a_key_is_forgotten_when_nothing_has_assigned_it_for_so_long():
    items = ["a", "b", PAUSE, "a", PAUSE, "a", PAUSE]
    assert kept(items, batches=2).state("seen") == {"a": 2, "b": 1}
    assert kept(items, batches=5).state("seen") == {"a": 3}
    assert kept(items, batches=9).state("seen") == {}


def test_a_word_that_comes_when_its_time_is_over_is_kept():
    items = ["a", PAUSE, PAUSE, PAUSE, "a", PAUSE]
    assert kept(items, batches=6).state("seen") == {"a": 2}


def test_what_is_forgotten_survives_crashes_and_restarts():
    items = ["a", PAUSE, ABORT, "b", EOF, PAUSE, PAUSE]
    first = kept(items, batches=2)
    assert first.state("seen") == {"a": 1, "b": 1}
    second = kept(items, batches=4, checkpoint=first)
    assert "a" not in second.state("seen")
    assert kept(items, checkpoint=second).state("seen") == {}


def test_keys_that_are_there_already_get_their_time_to_live_with_the_attribute():
    items = ["a", "b", EOF, "c"]
    first = kept(items, SeenForGood)
    assert first.state("seen") == {"a": 1, "b": 1}
    second = kept(items, batches=2, checkpoint=first)
    assert second.state("seen") == {"a": 1, "b": 1, "c": 1}
    assert kept(items, checkpoint=second).state("seen") == {}


def test_timers_of_the_bolt_itself_are_its_own():
    found = kept(["a", PAUSE], WithTimers, batches=3).state("seen")
    assert found == {"a": 1, "after a": 1}
    assert kept(["a", PAUSE], WithTimers, batches=9).state("seen") == {}


def test_a_time_to_live_that_is_none_is_said():
    with pytest.raises(TopologyFailed, match="reading state_ttl: ValueError: 'soon' is no dura"):
        kept(["a"], Wrong)


class Known(Seen):
    """Assigns the same value again and again."""

    def execute(self, tup, collector):
        self.state[tup["word"]] = 1


def test_a_value_that_is_assigned_again_is_kept_although_it_is_the_same():
    items = [*["a"] * 20, PAUSE, *["a"] * 20, PAUSE]
    assert kept(items, Known, batches=4).state("seen") == {"a": 1}
