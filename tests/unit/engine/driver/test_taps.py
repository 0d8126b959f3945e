"""People who look at tuples of a running topology."""

import json
import threading
from base64 import b64decode
from contextlib import ExitStack
from types import MappingProxyType

import pytest

from fulmen import ArrowBolt, BasicBolt, Bolt, Spout, TopologyBuilder
from fulmen.engine.acking.root_ids import root_of, tree_id
from fulmen.engine.driver.taps import taps as taps_module
from fulmen.engine.driver.taps.wanted_tap import TapRefused, WantedTap
from fulmen.engine.taps import kept_lines, sampler
from fulmen.errors import JobFailed
from fulmen.testing import ListSpout, ManualClock
from fulmen.topology.resource.spec.tap import Tap
from support.runs.engine_runs import Steady, make_driver, new_store

ALLOWED = Tap(allowed=True, mask=("card",))
OF_A_BATCH = 100
EMITTED = OF_A_BATCH + 1


class Orders(Spout):
    """Emits so many orders in each batch."""

    outputs = ("id", "country", "card")

    def __init__(self):
        self.next, self.is_empty = 0, True

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        self.is_empty = not self.is_empty
        if self.is_empty:  # the turn is over
            return
        for _ in range(OF_A_BATCH):
            i = self.next
            self.next += 1
            self.collector.emit([i, "DE" if i % 3 else "FR", f"card-{i}"], msg_id=i)
        self.collector.emit([-1, "", ""])  # not tracked


class Double(BasicBolt):
    outputs = MappingProxyType({"default": ["id"], "odd": ["odd", "card"]})

    def execute(self, tup, collector):
        collector.emit([tup["id"]])
        if tup["id"] % 2:
            collector.emit([tup["id"], tup["card"]], stream="odd")


class Pair(Bolt):
    """Anchors each tuple to two inputs."""

    outputs = ("first", "second")

    def prepare(self, conf, context, collector):
        self.collector, self.waiting = collector, []

    def execute(self, tup):
        self.waiting.append(tup)
        if len(self.waiting) == 2:
            first, second = self.waiting
            self.collector.emit([first["id"], second["id"]], anchors=[first, second])
            self.collector.ack(first)
            self.collector.ack(second)
            self.waiting = []


class Columns(ArrowBolt):
    outputs = ("id", "card")

    def execute(self, batch, collector):
        collector.emit(batch.select(["id", "card"]))


class Sink(BasicBolt):
    def execute(self, tup, collector):
        pass


def shop(**spec):
    builder = TopologyBuilder(name="shop", **{"tap": ALLOWED, "workers": 2, **spec})
    builder.set_spout("orders", Orders)
    builder.set_bolt("double", Double, 2).shuffle_grouping("orders")
    builder.set_bolt("pair", Pair).global_grouping("orders")
    builder.set_bolt("columns", Columns, 2).shuffle_grouping("orders")
    sink = builder.set_bolt("sink", Sink).shuffle_grouping("double")
    sink.shuffle_grouping("double", "odd").shuffle_grouping("pair").shuffle_grouping("columns")
    return builder


def started(builder=None, jobs=None, **how):
    return make_driver(builder or shop(), wall=lambda: 1000.25, jobs=jobs, **how).start()


@pytest.fixture
def running():
    running = started()
    yield running
    running.close()


def lines_of(tap):
    """What a tap has to say at once."""
    found = []
    for line in tap.lines(0):
        if line == b"\n":
            return found
        found.append(json.loads(line))
    return found


def seen(running, batches=1, **wanted):
    """The tuples, and how many others there were."""
    with running._taps.open(WantedTap(**wanted)) as tap:
        for _ in range(batches):
            running.step()
        lines = lines_of(tap)
    return [one for one in lines if "values" in one], sum(one.get("others", 0) for one in lines)


def test_some_tuples_of_a_batch_are_shown_and_the_others_are_counted(running):
    tuples, others = seen(running, component="orders")
    assert tuples[0] == {
        "time": 1000.25,
        "batch": 3,
        "component": "orders",
        "stream": "default",
        "task": running.plan.tasks("orders").start,
        "trees": ["1-0"],
        "values": {"id": 0, "country": "FR", "card": "***"},
    }
    assert [t["values"]["id"] for t in tuples] == list(range(taps_module.MOST_TUPLES))
    assert others == EMITTED - len(tuples)


def test_each_worker_shows_some_of_all_streams_or_of_one(running):
    tuples, _ = seen(running, component="double")
    assert {t["task"] for t in tuples} == set(running.plan.tasks("double"))
    assert {t["stream"] for t in tuples} == {"default", "odd"}
    tuples, _ = seen(running, component="double", stream="odd")
    assert {t["stream"] for t in tuples} == {"odd"}
    assert all(t["values"]["odd"] % 2 and t["values"]["card"] == "***" for t in tuples)


def test_only_tuples_that_meet_a_condition_are_shown(running):
    tuples, others = seen(running, component="orders", where=("country=FR",))
    ids = [t["values"]["id"] for t in tuples]
    assert ids == [3 * i for i in range(taps_module.MOST_TUPLES)]
    assert others == EMITTED - (ids[-1] + 1)


def test_a_condition_is_asked_about_some_tuples_of_a_batch_alone(running, monkeypatch):
    monkeypatch.setattr(sampler, "LOOKS", 10)
    tuples, others = seen(running, component="orders", where=("id=9",))
    assert [t["values"]["id"] for t in tuples] == [9]
    assert others == EMITTED - 10


def test_arrow_and_untracked_tuples_are_shown(running):
    tuples, _ = seen(running, component="columns")
    assert {t["values"]["id"] for t in tuples} >= {0, 1, 2}
    assert all(t["values"]["card"] == "***" for t in tuples)
    (untracked, *_), _ = seen(running, component="orders", where=("id=-1",))
    assert untracked["trees"] == []


def test_a_tuple_with_several_anchors_shows_all_its_trees(running):
    tuples, _ = seen(running, component="pair", limit=2)
    first = tuples[0]
    wanted = [f"1-{first['values'][name]}" for name in ("first", "second")]
    assert first["trees"] == wanted


def test_a_tree_is_followed_through_all_components(running):
    tuples, others = seen(running, tree="1-7")
    assert others == 0
    assert {(t["component"], t["stream"]) for t in tuples} == {
        ("orders", "default"), ("double", "default"), ("double", "odd"), ("pair", "default"),
        ("columns", "default"),
    }  # fmt: skip
    assert all("1-7" in t["trees"] for t in tuples)
    (orders,) = (t for t in tuples if t["component"] == "orders")
    assert orders["values"]["id"] == 7


def test_a_tree_of_one_component_is_shown_alone(running):
    tuples, _ = seen(running, tree="1-7", component="pair")
    assert [t["component"] for t in tuples] == ["pair"]


def test_the_next_tree_is_the_first_of_the_next_batch_but_one(running):
    for component in ("", "orders"):
        tuples, others = seen(running, batches=3, tree="next", component=component)
        (tree,) = {tree for t in tuples if t["component"] == "orders" for tree in t["trees"]}
        assert {t["component"] for t in tuples} == {"orders", "double", "pair", "columns"}
        assert {t["batch"] for t in tuples} == {running.log.manifest.number - 1}
        assert others == 0
        assert all(tree in t["trees"] for t in tuples)


def test_a_tap_ends_after_as_many_tuples_as_were_wanted(running):
    with running._taps.open(WantedTap("orders", limit=25)) as tap:
        running.step()
        running.step()
        lines = [json.loads(line) for line in tap.lines(0)]
    assert sum("values" in line for line in lines) == 25
    assert lines[-1] == {"ended": ""}


def test_tuples_of_attempts_that_come_to_nothing_are_not_shown():
    clock, store = ManualClock(), new_store()

    class Losing(Steady):
        lost = 0

        def run(self, header, timeout_seconds):
            rows = super().run(header, timeout_seconds)
            if header.taps and self.lost < 2:
                self.lost += 1
                raise JobFailed("lost after all was done")
            return rows

    running = started(jobs=Losing(clock, store=store), store=store, clock=clock)
    with running._taps.open(WantedTap("orders")) as tap:
        for _ in range(4):
            running.step()
        found = [line for line in lines_of(tap) if "values" in line]
    assert running.totals.failed_attempts == 2
    assert [line["values"]["id"] for line in found] == list(range(len(found)))
    assert found
    running.close()


def test_nothing_is_asked_of_tasks_and_nothing_is_kept_without_a_tap():
    headers, summaries = [], []

    class Watching(Steady):
        def run(self, header, timeout_seconds):
            headers.append(b64decode(header.encode()))
            return super().run(header, timeout_seconds)

    clock, store = ManualClock(), new_store()
    running = started(jobs=Watching(clock, store=store), store=store, clock=clock)
    finish = running.coordinator.finish
    running.coordinator.finish = lambda some, *a, **k: (
        summaries.extend(some) or finish(some, *a, **k)
    )
    with running._taps.open(WantedTap("orders")):
        running.step()
    assert b"taps" in headers[-1]
    assert any(summary.tapped for summary in summaries)
    headers.clear()
    summaries.clear()
    running.step()
    assert not any(b"taps" in header for header in headers)
    assert summaries
    assert all(summary.tapped is None for summary in summaries)
    running.close()


def test_no_batch_fails_because_somebody_looks_at_it(running, monkeypatch):
    monkeypatch.setattr(sampler.Mask, "dumps", lambda *_: 1 / 0)
    assert seen(running, component="orders") == ([], EMITTED)
    assert running.totals.failed_attempts == 0


def test_what_nobody_takes_is_dropped_and_counted(running, monkeypatch):
    with running._taps.open(WantedTap("orders")) as tap:
        monkeypatch.setattr(kept_lines, "MOST_KEPT", 5)
        running.step()
        *tuples, others = lines_of(tap)
    assert len(tuples) == 5
    assert others == {"others": EMITTED - 5}


def test_who_waits_is_woken(running):
    with running._taps.open(WantedTap("orders", limit=1)) as tap:
        found = []
        thread = threading.Thread(target=lambda: found.extend(tap.lines(60)))
        thread.start()
        running.step()
        thread.join(20)
    assert not thread.is_alive()
    assert len(found) > 1


@pytest.fixture(scope="module")
def idle():
    """One that runs no batch."""
    running = started()
    yield running
    running.close()


def refused(running, **wanted):
    with pytest.raises(TapRefused) as error:
        running._taps.open(WantedTap(**wanted))
    return error.value.status.value, str(error.value)


@pytest.mark.parametrize(
    ("wanted", "status", "text"),
    [
        ({}, 400, "name a component whose tuples are to be shown, or a tree."),
        ({"component": "order"}, 404, "there is no component 'order'. Did you mean 'orders'?"),
        (
            {"component": "zzz"},
            404,
            "there is no component 'zzz'. There are: columns, double, orders, pair, sink.",
        ),
        (
            {"component": "double", "stream": "od"},
            404,
            "there is no stream of 'double' 'od'. Did you mean 'odd'?",
        ),
        (
            {"component": "sink"},
            400,
            "'sink' emits nothing: it declares no stream. What it receives comes from"
            " double:default, double:odd, pair:default, columns:default.",
        ),
        (
            {"component": "orders", "where": ("contry=DE",)},
            404,
            "there is no field 'contry'. Did you mean 'country'?",
        ),
        (
            {"component": "double", "where": ("id=1", "odd=1")},
            400,
            "no stream has all fields that --where asks for.",
        ),
        (
            {"component": "orders", "where": ("card=card-1",)},
            400,
            "--where asks for 'card', which `tap.mask` hides.",
        ),
        (
            {"component": "orders", "where": ("id.card=card-1",)},
            400,
            "--where asks for 'card', which `tap.mask` hides.",
        ),
        (
            {"tree": "7"},
            400,
            "'7' is not a tree's id: ids look like 3-2591, as in a tuple's `trees`; or write next.",
        ),
        (
            {"tree": "next", "component": "double"},
            400,
            "the next tree can't be one of 'double': trees begin at spouts. There are: orders.",
        ),
        (
            {"tree": "next", "component": "orders", "stream": "default"},
            400,
            "a tree is followed through all streams: leave the stream out.",
        ),
    ],
)
def test_what_can_not_be_shown_is_refused(idle, wanted, status, text):
    assert refused(idle, **wanted) == (status, text)


def test_a_condition_that_can_not_be_read_is_refused(idle):
    status, text = refused(idle, component="orders", where=("id >",))
    assert (status, text.startswith("'id >' is no condition: write FIELD=VALUE")) == (400, True)


def test_dead_letters_can_be_looked_at():
    builder = TopologyBuilder(name="dead", max_replays=0, tap=Tap(allowed=True, mask=["text"]))
    builder.set_spout("texts", ListSpout(["ann@x.org"], fields=["text"]))
    builder.set_bolt("fails", Fails).shuffle_grouping("texts")
    running = started(builder)
    tuples, _ = seen(running, batches=5, component="texts", stream="__dead_letters")
    (letter,) = tuples
    assert letter["values"]["values"] == {"text": "***"}
    running.close()


class Fails(BasicBolt):
    def execute(self, tup, collector):
        raise ValueError("no")


def test_nothing_is_shown_unless_it_is_allowed():
    running = started(shop(tap=Tap()))
    status, text = refused(running, component="orders")
    assert status == 403
    assert "tap: {allowed: true}" in text
    running._taps.rule(ALLOWED)
    tuples, _ = seen(running, component="orders")
    assert tuples
    with running._taps.open(WantedTap("orders")) as tap:
        running._taps.rule(Tap())
        running.step()
        assert lines_of(tap) == [{"ended": "the topology does not allow taps any more"}]
    assert refused(running, component="orders")[0] == 403
    running.close()


def test_a_mask_that_is_changed_is_in_force_with_the_next_batch(running):
    with running._taps.open(WantedTap("orders")) as tap:
        running._taps.rule(Tap(allowed=True, mask=("country",)))
        running.step()
        values = lines_of(tap)[0]["values"]
    assert values == {"id": 0, "country": "***", "card": "card-0"}


def test_before_the_start_and_after_the_end_nothing_is_shown():
    driver = make_driver(shop())
    with pytest.raises(TapRefused) as error:
        driver.taps.open(WantedTap("orders"))
    assert (error.value.status, str(error.value)) == (503, "the topology has not started yet.")
    running = driver.start()
    with driver.taps.open(WantedTap("orders")) as tap:
        running.close()
        assert lines_of(tap) == [{"ended": "the topology has ended"}]
    with pytest.raises(TapRefused):
        driver.taps.open(WantedTap("orders"))


def test_there_are_only_so_many_taps_at_once(idle):
    with ExitStack() as stack:
        for _ in range(taps_module.MOST_TAPS):
            stack.enter_context(idle._taps.open(WantedTap("orders")))
        assert refused(idle, component="orders") == (
            503,
            "8 taps are open already. Close one of them.",
        )
    with idle._taps.open(WantedTap("orders")):
        pass


def test_a_topology_without_trees_has_none_to_follow():
    running = started(shop(ackers=0))
    assert refused(running, tree="next")[1].startswith("the topology has no trees")
    tuples, _ = seen(running, component="orders")
    assert tuples[0]["trees"] == []
    running.close()


def test_the_id_of_a_tree_is_its_origin_and_its_number():
    root = (3 << 48) + 2591
    assert (tree_id(root), root_of("3-2591")) == ("3-2591", root)
    for wrong in ("", "3", "3-", "-3", "3-x", "65536-1", f"1-{1 << 48}", "3-²", "3-1-2"):
        assert root_of(wrong) is None
