"""State with a time to live: when a key is forgotten, and what keeps it."""

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.errors import EventTimeError
from fulmen.testing import ABORT, PAUSE, CollectBolt, ListSpout, run
from fulmen.windows import ExpiringState

KIND = {"by": "clock"}


class Seen(BasicBolt):
    outputs = ("known",)
    transient = ("seen",)

    def prepare(self, conf, context):
        self.seen = ExpiringState(self.state, context, conf["ttl"], **conf["kind"])

    def execute(self, tup, collector):
        collector.emit([tup["key"] in self.seen])
        if tup["at"] is None:
            self.seen.get(tup["key"])
        elif self.seen._is_by_event:
            self.seen.put(tup["key"], tup["at"], tup["at"])
        else:
            self.seen[tup["key"]] = tup["at"]

    def on_timer(self, key, at, collector):
        assert self.seen.expired(key)


def known(items, ttl, **kind):
    builder = TopologyBuilder()
    spout = builder.set_spout("source", ListSpout(items, fields=["key", "at"]))
    if kind["by"] == "event":
        spout.set_event_time("at", unit="ms")
    bolt = builder.set_bolt("seen", Seen).set_config({"ttl": ttl, "kind": kind})
    bolt.global_grouping("source")
    builder.set_bolt("sink", CollectBolt).global_grouping("seen")
    result = run(builder, batch_seconds=1)
    assert result.errors == []
    return [row[0] for row in result.collected("sink")], result.state("seen")


def test_a_key_is_forgotten_by_the_clock_whatever_crashes():
    items = [("a", 1), PAUSE, ("a", 2), PAUSE, ABORT, ("a", 3), *[PAUSE] * 6, ("a", 4)]
    assert known(items, "4s", by="clock") == ([False, True, True, False], {"a": 4})


@pytest.mark.parametrize(("refresh", "is_kept"), [("write", False), ("access", True)])
def test_reading_keeps_a_key_if_that_is_wanted(refresh, is_kept):
    items = [("a", 1), PAUSE, PAUSE, PAUSE, ("a", None), PAUSE, PAUSE, PAUSE, ("a", None)]
    found, _ = known(items, "5s", by="clock", refresh=refresh)
    assert found == [False, True, is_kept]


def test_a_key_is_forgotten_by_event_time_and_an_earlier_write_does_not_shorten_it():
    items = [("a", 10), ("a", 4), PAUSE, ("b", 19), PAUSE, ("b", 19), PAUSE, ("a", 19), PAUSE]
    items += [("b", 29), PAUSE, ("b", 29), PAUSE, ("a", 29)]
    found, _ = known(items, "10ms", by="event")
    assert found == [False, True, False, True, True, True, True, False]


def test_what_is_deleted_has_no_timer_left():
    class Context:
        class timers:
            set_at = {}  # noqa: RUF012

            @classmethod
            def set_after(cls, key, seconds):
                cls.set_at[key] = seconds

            @classmethod
            def cancel(cls, key):
                del cls.set_at[key]

    state = ExpiringState({}, Context, "2s")
    state["a"] = 1
    assert Context.timers.set_at == {("ttl", "a"): 2}
    assert (state.pop("a"), dict(state), Context.timers.set_at) == (1, {}, {})
    assert not state.expired("a timer of the bolt")
    with pytest.raises(EventTimeError, match="takes no event time"):
        state.put("a", 1, at=5)
    with pytest.raises(EventTimeError, match="write put"):
        ExpiringState({}, Context, "2s", by="event")["a"] = 1


@pytest.mark.parametrize(
    ("ttl", "kind", "said"),
    [
        ("0", {}, "must be above 0"),
        ("soon", {}, "no duration"),
        ("1s", {"by": "watch"}, "by must be"),
        ("1s", {"by": "event", "refresh": "access"}, "needs by='clock'"),
    ],
)
def test_what_it_can_not_be_made_with(ttl, kind, said):
    with pytest.raises(ValueError, match=said):
        ExpiringState({}, None, ttl, **kind)
