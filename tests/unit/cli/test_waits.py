"""What the command says of lag, of services that are away, and of spouts that rest."""

import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console, Group

from fulmen import BasicBolt, Spout, TopologyBuilder
from fulmen.api.signals import Lag
from fulmen.cli.commands.cluster.top import read_view
from fulmen.cli.display.run.figures import live_header, plain_line, time_lines, unread_lines
from fulmen.cli.display.run.meter import Figures, Meter
from fulmen.cli.display.run.transaction_lines import TransactionFigures
from fulmen.cli.display.run.wait_lines import WaitFigures
from fulmen.cli.display.top_view import topology_picture
from fulmen.metrics.as_json.topology import TopologyJson
from fulmen.metrics.snapshot import Snapshot
from fulmen.testing import CollectBolt, ListSpout, ManualClock
from support.runs.engine_runs import make_driver
from support.runs.waiting import HELD, REASON, SERVICE, run_waiting

AWAY = f"'writer' waits for {SERVICE} since 2023-11-14 22:13:20 UTC: {REASON}"
REST = f"spouts rest, because 'buffer' holds them: {HELD}"


@pytest.fixture(scope="module")
def totals():
    return run_waiting().totals


@pytest.fixture
def answer(totals):
    now = Snapshot.of(totals)
    return TopologyJson(now, now, []).json()


def lines(picture, width=160):
    console = Console(file=io.StringIO(), width=width, height=40)
    console.print(picture)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_meter_knows_what_is_waited_for_although_no_batch_counts(totals):
    meter = Meter(totals.placed.topology, ManualClock())
    assert meter.figures().waits == WaitFigures()
    meter.start(totals)
    assert meter.figures().waits == WaitFigures(Lag(20, 1.5), (AWAY, REST))


def test_the_live_display_says_it_below_its_figures(totals):
    shown = lines(Group(*live_header("w", "running", Figures(waits=WaitFigures.of(totals)))))
    assert shown[2] == "latency p50 -   p99 -   lag 20   lag age 1,500 ms"
    assert shown[4:] == [AWAY, REST]


def test_a_line_in_a_log_has_the_lag_at_its_end(totals):
    line = plain_line(Figures(waits=WaitFigures.of(totals)))
    assert line.endswith("latency p50 - p99 -, lag 20, lag age 1,500 ms")
    assert plain_line(Figures()).endswith("latency p50 - p99 -")


@pytest.mark.parametrize(
    ("lag", "text"),
    [(Lag(7, None), "lag 7"), (Lag(None, 12.5), "lag age 12.5 s"), (Lag(0, 0.0), "lag age 0.0 ms")],
)
def test_what_is_not_known_of_the_lag_is_left_out(lag, text):
    figures = Figures(waits=WaitFigures(lag))
    assert lines(Group(*live_header("w", "running", figures)))[2].endswith(f"   {text}")
    assert plain_line(figures).endswith(f", {text}")


def test_the_lag_of_transactions_is_that_of_their_source():
    figures = Figures(transactions=TransactionFigures(lag=12))
    assert "lag 12" in lines(Group(*live_header("w", "running", figures)))[2]
    figures = replace(figures, waits=WaitFigures(Lag(7, 1.0)))
    assert "lag 7   lag age 1,000 ms" in lines(Group(*live_header("w", "running", figures)))[2]


def test_top_says_it(answer):
    shown = lines(topology_picture(read_view(json.dumps(answer), "pod"), "Active"))
    assert shown[2] == "latency p50 -   p99 -   lag 20   lag age 1,500 ms"
    assert shown[4:7] == [AWAY, REST, "writer: 1 tuple on stream 'errors', which no bolt reads"]
    header = next(line for line in shown if line.startswith("component"))
    assert header.split()[-6:] == ["lag", "behind", "held", "by", "timers", "late"]
    rows = {line.split()[0]: line for line in shown if line}
    years = "53 years"
    assert re.split("  +", rows["behind"])[-5:] == ["20, 1,500 ms", years, "task 0", "0", "0"]
    assert re.split("  +", rows["writer"])[-5:] == ["-", years, "behind: task 0", "0", "0"]
    assert re.split("  +", rows["__acker"])[-5:] == ["-", "-", "-", "-", "-"]


def test_top_says_why_a_window_does_not_fire(answer):
    spout, *bolts = answer["components"]
    why = "'buffer' has something due at 2024-05-01 12:10:00 UTC: it fires in the next batch"
    time = {"held_by": {"component": "behind", "part": f"part /data/{'x' * 30}"}, "late": {"a": 2}}
    spout["time"] |= {**time, "why": why, "behind_seconds": -3451.5}
    waits = [{"kind": "time", "component": "buffer", "since": None, "sentence": why}]
    told = {**answer, "components": [spout, *bolts], "waits": waits}
    shown = lines(topology_picture(read_view(json.dumps(told), "pod"), "Active"))
    assert shown.count(why) == 1
    row = next(line for line in shown if line.startswith("behind"))
    assert re.split("  +", row)[-3:] == ["57 min ahead", "…" + "x" * 20, "2"]


class Later(BasicBolt):
    """Sets a timer for each tuple, ten minutes after it."""

    def prepare(self, conf, context):
        self.timers = context.timers

    def execute(self, tup, collector):
        self.timers.set(tup["at"], tup["at"] + 600_000)

    def on_timer(self, key, at, collector):
        """Nothing."""


def test_the_summary_says_what_has_no_time_and_what_is_still_waited_for():
    far = 1_900_000_000_000
    builder = TopologyBuilder("w")
    spout = builder.set_spout("orders", ListSpout([1_714_564_800_000, "?", far], fields=["at"]))
    spout.set_event_time("at", unit="ms", lag="10s")
    builder.set_bolt("later", Later).shuffle_grouping("orders")
    running = make_driver(builder, wall=lambda: 1_714_564_800).start()
    for _ in range(2):
        assert running.step()
    running.close()
    assert WaitFigures.of(running.totals).sentences == ()  # what fires in the end is not stuck
    no_time, why = time_lines(running.totals)
    assert no_time == (
        "orders: 2 tuples without a usable event time, 1 of them ahead of the clock: see stream"
        " '__late'"
    )
    assert why == (
        "'later' has something due at 2024-05-01 12:10:00 UTC: its sources are exhausted, and it"
        " fires when the topology is drained"
    )


def test_of_each_component_the_first_task_that_holds_the_spouts_says_why():
    builder = TopologyBuilder("w")
    builder.set_spout("numbers", ListSpout([]))
    builder.set_bolt("full", CollectBolt, 2).shuffle_grouping("numbers")
    driver = make_driver(builder).start()
    first, second = driver.plan.tasks("full")
    driver.totals.waits.holds = {second: "two rows wait", first: "one row waits"}
    told = WaitFigures.of(driver.totals).sentences
    assert told == ("spouts rest, because 'full' holds them: one row waits",)
    driver.close()


class Malformed(Spout):
    outputs = dict.fromkeys(("errors", "late", "late_right"), ("data",))

    def open(self, conf, context, collector):
        self.left, self.collector = 3, collector

    def next_tuple(self):
        if self.left:
            self.left -= 1
            for stream in self.outputs:
                self.collector.emit(["?"], stream)


ERRORS = "rows: 3 tuples on stream 'errors', which no bolt reads"
LATE = "rows: 3 tuples on stream 'late', which no bolt reads, and in no result"


@pytest.mark.parametrize(
    ("read", "told"),
    [
        pytest.param([], [ERRORS, LATE], id="neither"),
        pytest.param(["errors"], [LATE], id="errors"),
        pytest.param(["errors", "late"], [], id="both"),
        pytest.param(["late_right"], [ERRORS], id="as-rows-of-a-join"),
    ],
)
def test_what_is_in_no_result_and_read_by_nobody_is_told(read, told):
    builder = TopologyBuilder("unread")
    builder.set_spout("rows", Malformed)
    for stream in read:
        builder.set_bolt(f"of-{stream}", CollectBolt).shuffle_grouping("rows", stream)
    driver = make_driver(builder).start()
    for _ in range(5):
        driver.step()
    found = [*unread_lines(driver.totals)]
    driver.close()
    assert found == told
