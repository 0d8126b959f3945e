"""What `fulmen run` and `fulmen top` say of transactional topologies."""

import io
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml
from rich.console import Console, Group

from fulmen.cli.cluster.driver_figures import read_url
from fulmen.cli.commands.cluster.top import read_view
from fulmen.cli.display.run.advice import advice
from fulmen.cli.display.run.figures import live_header, plain_line, summary_lines
from fulmen.cli.display.run.live_display import PlainDisplay, RunPhase
from fulmen.cli.display.run.meter import Figures, Meter
from fulmen.cli.display.run.transaction_lines import TransactionFigures
from fulmen.cli.display.top_view import topology_picture
from fulmen.engine.driver.driver import Silent
from fulmen.metrics import MetricsServer
from fulmen.testing import ManualClock
from support.transactions.transacted import PLAIN, run_transacted, transacted, transacted_driver

TRANSACTIONS = TransactionFigures(
    committed_txid=1234,
    active={"processing": 1, "processed": 2},
    attempts={"committed": 1230, "failed": 2, "cascaded": 5, "lost": 1, "given_up": 4},
    lag=56_789,
    committed_per_second=4.66,
)
FIGURES = Figures(
    seconds=75.4,
    batches=2468,
    batch_millis=212.4,
    tuples_per_second=98765.4,
    transactions=TRANSACTIONS,
    p50=430.1,
    p99=12345.6,
)


def rendered(what, width=100):
    console = Console(file=io.StringIO(), width=width)
    console.print(what)
    return console.file.getvalue().splitlines()


def test_a_line_for_a_log_tells_of_transactions():
    assert plain_line(FIGURES) == (
        "1 min 15 s: batches 2,468 of 212 ms, 98,765 tuples/s, 4.7 commits/s, txid 1,234, active 3,"
        " attempts 1,242, failed 2, lost 1, given up 4, lag 56,789, latency p50 430 ms p99 12.3 s"
    )
    unknown = replace(FIGURES, transactions=replace(TRANSACTIONS, lag=None))
    assert "lag" not in plain_line(unknown)


@pytest.mark.parametrize("width", [80, 100])
def test_the_header_tells_of_transactions(width):
    lines = rendered(Group(*live_header("words", "running", FIGURES)), width)
    assert [line.rstrip() for line in lines] == [
        "words  running  1 min 15 s",
        "batches 2,468 of 212 ms   tuples/s 98,765   commits/s 4.7",
        "latency p50 430 ms   p99 12.3 s   lag 56,789",
        "txid 1,234   active 3   attempts 1,242   failed 2   lost 1   given up 4",
    ]


def test_draining_is_told_in_the_words_of_transactions():
    console = Console(file=io.StringIO(), width=100)
    meter = SimpleNamespace(figures=lambda: FIGURES)
    display = PlainDisplay(console, "words", meter, lambda: RunPhase.DRAINING, ManualClock())
    display.draw()
    assert console.file.getvalue() == (
        "words: draining: active transactions are committed (Ctrl-C again stops at once)\n"
    )


class Metered(Silent):
    """Feeds a meter, and keeps its figures after each batch."""

    def __init__(self, clock):
        self.meter = Meter(transacted().build(), clock)
        self.seen = []

    def batch(self, totals, done):
        if not self.seen:
            self.meter.start(totals)
        self.seen.append(self.meter.figures().transactions)


def test_a_meter_has_the_transactions_and_the_rate_of_commits():
    clock = ManualClock()
    metered = Metered(clock)
    assert metered.meter.figures().transactions == TransactionFigures()
    rows = [PLAIN] * 6
    run_transacted(rows, observer=metered, clock=clock, seconds=1.0, max_spout_pending=1)
    assert [figures.committed_txid for figures in metered.seen[:6]] == [0, 1, 1, 2, 2, 3]
    assert metered.seen[5].committed_per_second == pytest.approx(0.6)
    assert (sum(metered.seen[0].active.values()), metered.seen[0].lag) == (1, 5)
    attempts = metered.seen[-1].attempts
    assert sum(attempts.values()) == attempts["committed"] == 6


# ---- the summary ---------------------------------------------------------------------------------


def summary(totals):
    return list(summary_lines(totals, totals.placed.topology, "drained"))


def test_the_summary_tells_of_transactions():
    totals = run_transacted().totals
    attempts = totals.report()["transactions"]["attempts"]
    first, transactions, latency, throughput, _ = summary(totals)
    assert first.startswith("transacted: drained after ")
    assert transactions == (
        "transactions 6 committed, 1 given up, 0 active; the last committed txid is 7;"
        f" attempts that came again: 3 failed, {attempts['cascaded']} cascaded,"
        f" {attempts['lost']} lost"
    )
    assert re.fullmatch(r"latency      p50 \d+ ms, p99 [\d,]+ ms", latency)
    assert re.fullmatch(r"throughput   [\d.,]+ tuples/s, [\d.,]+ commits/s", throughput)


def test_a_summary_without_trouble_is_short():
    assert summary(run_transacted([PLAIN] * 3).totals)[1] == (
        "transactions 3 committed, 0 active; the last committed txid is 3"
    )


HEAD = "transaction 2 has failed 12 times, and holds up all behind it: fail always, as it was told"


@pytest.fixture(scope="module")
def stuck():
    """The totals of a topology whose head fails for ever."""
    driver = transacted_driver([PLAIN, "fail always", PLAIN, PLAIN, PLAIN], max_replays=None)
    running = driver.start()
    for _ in range(200):
        running.step()
        driver.clocks.steady.advance(5.0)  # failed transactions wait
        if running.totals.transactions.head_failures >= 12:
            break
    running.close()
    return running.totals


def test_the_summary_tells_which_transaction_fails_and_why(stuck):
    lines = summary(stuck)
    assert lines[2] == f"the head     {HEAD}"
    assert lines[3] == "lag          1 messages are in no transaction yet"


def test_a_head_that_fails_for_ever_is_advised_about(stuck):
    (sentence,) = (s for s in advice(stuck, stuck.placed.topology) if "transaction" in s)
    cure = "With spec.maxReplays such a transaction is given up in the end."
    assert sentence == f"{HEAD}. {cure}"
    spec = stuck.placed.topology.spec.model_copy(update={"max_replays": 99})
    limited = stuck.placed.topology.model_copy(update={"spec": spec})
    assert not [s for s in advice(stuck, limited) if "transaction" in s]


def test_nobody_is_advised_about_a_transaction_that_failed_once():
    totals = run_transacted([PLAIN, "fail once", PLAIN], max_replays=None).totals
    assert totals.transactions.attempts["failed"] == 1
    assert not [s for s in advice(totals, totals.placed.topology) if "transaction" in s]


# ---- top -----------------------------------------------------------------------------------------


def picture(totals, **changes):
    with MetricsServer("127.0.0.1", 0, lambda: totals) as server:
        answer = json.loads(read_url(server.url))
    view = read_view(json.dumps({**answer, **changes}), "pod")
    return [line.rstrip() for line in rendered(topology_picture(view, "Active"), 200)]


def test_top_tells_of_transactions(stuck):
    lines = picture(stuck)
    attempts = stuck.transactions.attempts
    assert re.fullmatch(r"workers 1/1   batches \d+   commits/s [\d.]+", lines[1])
    assert lines[2].endswith("lag 1")
    active = len(stuck.transactions.active)
    assert lines[3] == (
        f"txid 1   active {active}   attempts {attempts.total()}   failed {attempts['failed']}"
        f"   lost 0   given up 0"
    )
    assert lines[4] == HEAD
    assert not any("trees" in line for line in lines)
    (rows,) = (line.split() for line in lines if line.startswith("rows"))
    assert rows[1] == "1/1"


# ---- the command ---------------------------------------------------------------------------------


def write_document(folder):
    document = yaml.safe_load(transacted([PLAIN] * 4, name="whole").to_yaml())
    (folder / "whole.yaml").write_text(yaml.safe_dump(document))
    return "whole.yaml"


def test_fulmen_run_tells_of_transactions(fulmen, tmp_path):
    file = write_document(tmp_path)
    result = fulmen("run", file, "--in-process", "--until-drained", "--report", "report.json")
    assert result.exit_code == 0, result.stderr
    assert "transactions 4 committed, 0 active; the last committed txid is 4\n" in result.stdout
    assert "trees" not in result.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["transactions"]["committed_txid"] == 4
    assert report["transactions"]["attempts"]["committed"] == 4
    assert report["latency_ms"]["p50"] > 0
