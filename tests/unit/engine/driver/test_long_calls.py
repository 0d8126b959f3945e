"""A call that lasts is named while it goes on, wherever somebody looks."""

import io
import re
import threading
import time
from typing import ClassVar

import pytest
from rich.console import Console

from fulmen import ServiceUnavailable, Spout, TopologyBuilder, TransactionalTopologyBuilder
from fulmen.cli.display.run.wait_lines import WaitFigures
from fulmen.cli.display.served_figures import TopologyView
from fulmen.cli.display.top_view import topology_picture
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.failures import author_calls
from fulmen.engine.driver.observer import Silent
from fulmen.engine.protocol.callbacks.calls import Call
from fulmen.engine.protocol.limits import EngineLimits
from fulmen.engine.worker.in_process import InProcessJobs
from fulmen.errors import TopologyFailed
from fulmen.kube.contract.reports import DriverPhase
from fulmen.kube.driver.event_log import EventLog
from fulmen.kube.driver.reporting import report_of
from fulmen.metrics.as_json.topology import TopologyJson
from fulmen.metrics.snapshot import Snapshot
from fulmen.testing import CollectBolt, ListSpout
from fulmen.transactional import MemoryTransactionalSpout
from support.runs.engine_runs import make_driver, new_store


class ElsewhereJobs(InProcessJobs):
    """Their workers say what they do, as those of pods do. The call ends when `seen` is true."""

    def __init__(self, store, seen, callback="next_tuple"):
        super().__init__(store=store)
        self.seen, self.task, self.callback = seen, None, callback

    def run(self, header, timeout_seconds):
        self.task = self._placed.plan.tasks("values")[0]
        deadline = time.monotonic() + 30
        while not self.seen() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.task = None
        return super().run(header, timeout_seconds)

    def calls_under_way(self):
        return [] if self.task is None else [Call(self.task, self.callback, 99.0)]


def collecting(spout, **spec):
    builder = TopologyBuilder("collecting", **spec)
    builder.set_spout("values", spout)
    builder.set_bolt("collect", CollectBolt()).shuffle_grouping("values")
    return builder


class Stuck(Spout):
    """A pinned spout one of whose methods waits for `gate`."""

    outputs = ("value",)
    pinned = True
    gate, aways = threading.Event(), 0

    def __init__(self, method):
        self.method = method

    def wait_in(self, method):
        if method == self.method:
            Stuck.gate.wait(60)

    def open(self, conf, context, collector):
        self.wait_in("open")
        if Stuck.aways:
            Stuck.aways -= 1
            raise ServiceUnavailable("queue", "it is away")

    def activate(self):
        self.wait_in("activate")

    def next_tuple(self):
        self.wait_in("next_tuple")
        return False


@pytest.fixture(autouse=True)
def gate(monkeypatch):
    monkeypatch.setattr(author_calls, "LOOK_SECONDS", 0.05)
    Stuck.gate, Stuck.aways = threading.Event(), 0
    yield
    Stuck.gate.set()


class Watching(Silent):
    """Does something when it is told of a call that lasts."""

    def __init__(self, act):
        self.act, self.notes = act, []

    def note(self, text):
        self.notes.append(text)
        if " runs since " in text:
            self.act()


LIMITS = EngineLimits(hang_seconds=0.2, making_share=0.2)


def test_a_pinned_spout_whose_open_hangs_is_named_and_one_ctrl_c_ends_the_topology():
    stop = Stop()

    def press():
        stop.drain = stop.interrupted = True

    observer = Watching(press)
    driver = make_driver(collecting(Stuck("open")), observer=observer, limits=LIMITS).start()
    with pytest.raises(TopologyFailed, match=r"spout 'values', task \d+: open did not end for"):
        driver.run(stop)
    driver.close()
    assert re.match(r"spout 'values', task \d+: open runs since ", observer.notes[0])


class Waits(ListSpout):
    """Waits for what cuts the call off; somebody presses Ctrl-C meanwhile."""

    stop: ClassVar[Stop] = Stop()
    is_cut_off = threading.Event()

    def next_tuple(self):
        self.stop.drain = self.stop.interrupted = True
        assert self.is_cut_off.wait(30)
        return super().next_tuple()


def test_a_call_in_the_process_of_the_driver_is_cut_off_after_one_ctrl_c():
    Waits.stop.cut_off = Waits.is_cut_off.set  # a signal would unwind the thread
    driver = make_driver(collecting(Waits([1])), limits=LIMITS).start()
    driver.run(Waits.stop)
    driver.close()


def test_a_pinned_spout_whose_open_takes_too_long_ends_the_topology():
    topology = collecting(Stuck("open"), batch_timeout_seconds=1)
    driver = make_driver(topology, limits=LIMITS).start()
    ended = r"^spout 'values', task \d+: open: it did not end within 0.2 s$"
    with pytest.raises(TopologyFailed, match=ended):
        driver.run(Stop())
    driver.close()


def test_a_call_of_a_pinned_spout_that_hangs_is_named_while_others_go_on():
    stop = Stop()

    def end():
        stop.now = True

    builder = collecting(Stuck("activate"))
    builder.set_spout("others", ListSpout(list(range(10))))
    builder.set_bolt("of-others", CollectBolt()).shuffle_grouping("others")
    observer = Watching(end)
    driver = make_driver(builder, observer=observer, limits=LIMITS).start()
    driver.run(stop)
    assert driver.totals.component("others")["acked"] == 10
    Stuck.gate.set()
    driver.close()
    assert re.match(r"spout 'values', task \d+: activate runs since ", observer.notes[0])


def test_a_pinned_spout_may_wait_for_messages_as_long_as_it_likes():
    driver = make_driver(collecting(Stuck("next_tuple")), limits=LIMITS).start()
    with driver.recovery.calls.watched(Stop()):
        driver.step()
        time.sleep(0.5)  # for some looks
        assert list(driver.totals.waits.long_calls) == []
    Stuck.gate.set()
    driver.close()


class Source(MemoryTransactionalSpout):
    """Its coordinator is not to be had before `gate`."""

    data: ClassVar = {0: [["tea"]]}

    def get_coordinator(self, conf, context):
        Stuck.gate.wait(60)
        return super().get_coordinator(conf, context)


def test_a_call_of_a_coordinator_that_hangs_is_named():
    builder = TransactionalTopologyBuilder("sales", "sales", Source)
    builder.set_bolt("collect", CollectBolt()).shuffle_grouping("sales")
    stop = Stop()

    def go_on():
        stop.now = True
        Stuck.gate.set()

    observer = Watching(go_on)
    driver = make_driver(builder.build(), observer=observer, limits=LIMITS).start()
    driver.run(stop)
    driver.close()
    (note,) = observer.notes
    named = r"spout 'sales', task \d+: coordinator, get_coordinator runs since "
    assert re.match(named, note)


def test_a_call_that_has_raised_has_ended():
    Stuck.aways = 1
    driver = make_driver(collecting(Stuck("")), limits=LIMITS).start()
    assert [driver.step(), driver.step()] == [False, True]  # made in another thread this time
    with driver.recovery.calls.watched(Stop()):
        time.sleep(0.5)  # for some looks
        assert list(driver.totals.waits.long_calls) == []
    driver.close()


def test_a_call_of_a_worker_elsewhere_is_in_the_status_on_the_page_and_in_the_displays():
    store, log, found = new_store(), EventLog(), {}

    def seen():
        if found or not (driver.totals.waits.long_calls and log.latest):
            return bool(found)
        found["report"] = report_of(driver, DriverPhase.ACTIVE, 1, [0], {}, "pod", log.latest)
        now = Snapshot.of(driver.totals)
        found["page"] = TopologyJson(now, now, []).json()
        (found["run"],) = WaitFigures.of(driver.totals).sentences
        return True

    jobs = ElsewhereJobs(store, seen)
    driver = make_driver(collecting(ListSpout([1])), store=store, jobs=jobs, observer=log).start()
    driver.run(Stop(when_drained=True))
    driver.close()
    who = f"spout 'values', task {driver.plan.tasks('values')[0]}"
    assert found["report"].message.startswith(f"{who}: next_tuple runs since ")
    assert found["run"].startswith(f"{who}: next_tuple runs since ")
    assert [wait["sentence"] for wait in found["page"]["waits"]] == [found["run"]]
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(topology_picture(TopologyView.model_validate(found["page"]), "Active"))
    assert f"{who}: next_tuple runs since " in console.export_text()


def test_state_that_is_read_for_long_says_how_far_it_is(monkeypatch):
    """How far it is changes all the time; it is told once a minute all the same."""
    monkeypatch.setattr(author_calls, "LOOK_SECONDS", 0.01)
    store, waits, notes = new_store(), set(), []
    progress = iter(range(100))

    class Reading(ElsewhereJobs):
        def calls_under_way(self):
            if self.task is not None:
                self.callback = f"restoring self.state#{next(progress, 100)} % of it is read"
            return super().calls_under_way()

    class Log(Silent):
        def note(self, text):
            notes.append(text)

    def seen():
        waits.update(wait.sentence for wait in driver.totals.waits.long_calls)
        return len(waits) >= 3

    jobs = Reading(store, seen)
    driver = make_driver(collecting(ListSpout([1])), store=store, jobs=jobs, observer=Log()).start()
    driver.run(Stop(when_drained=True))
    driver.close()
    who = f"spout 'values', task {driver.plan.tasks('values')[0]}"
    told = [note for note in notes if "self.state" in note]
    assert len(waits) >= 3
    for text in (*waits, *told):
        assert text.startswith(f"{who}: restoring self.state runs since "), text
        assert " % of it is read" in text
        assert "#" not in text
    assert len(told) == 1
