"""The page in a real browser, beside a topology in this process."""

import os
import threading
from dataclasses import replace

import pytest

from fulmen.api.signals import StepRows
from fulmen.engine.protocol.figures.statistics import count_step
from fulmen.engine.protocol.placed_topology import UnusedState
from fulmen.engine.totals.waits import Wait, WaitKind
from fulmen.metrics import MetricsServer
from fulmen.metrics.page import Page
from fulmen.topology.resource.spec.tap import Tap
from support.metrics.browser import SECONDS, see
from support.parts.refusing import ran, refusing
from support.runs.engine_runs import make_driver, new_store
from support.runs.metered import WORDS, metered, run_metered
from support.runs.waiting import HELD, REASON, SERVICE, run_waiting

pytestmark = pytest.mark.timeout(2 * SECONDS)

EVIL = "raise <img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
DASH = "\N{EN DASH}"
COLUMNS = ("executors", "tasks", "emitted", "transferred", "executed", "acked", "failed")


@pytest.fixture(scope="module")
def driver():
    return run_metered([" ".join(WORDS)] * 700 + ["fail once", EVIL], max_replays=1)


@pytest.fixture(scope="module")
def seen(driver, tmp_path_factory):
    """The page with `split` selected, and what the browser complained about."""
    scaling = {
        "workers": 3,
        "since": "10:00",
        "last_change": "",
        "reason": "Enough",
        "message": "ok",
    }
    with MetricsServer("127.0.0.1", 0, lambda: driver.totals, scaling=lambda: scaling) as server:
        return see(f"{server.url}#split", tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def page(seen):
    return seen[0]


def shown(n):
    return f"{n:,}"


def test_nothing_is_forbidden_and_nothing_fails(seen):
    page, complaints = seen
    assert complaints == []
    assert page.id("status").text == "live"
    assert page.id("name").text == "metered"
    assert page.id("state").text == "spouts are off"


def test_the_components_have_the_numbers_of_the_report(driver, page):
    report = driver.totals.report()["components"]
    rows = {row[0]: row[1:] for row in page.id("components").rows()}
    assert rows.keys() == report.keys()
    for name, row in rows.items():
        cells = dict(zip(COLUMNS, row, strict=False))
        wanted = {what: shown(report[name][what]) for what in ("tasks", *COLUMNS[2:])}
        if name in ("texts", "silent"):
            wanted["executed"] = DASH
        assert wanted.items() <= cells.items()


def test_the_tiles_have_the_trees(driver, page):
    tiles = dict(
        zip(
            [e.text for e in page.id("tiles").all("dt")],
            [e.text for e in page.id("tiles").all("dd")],
            strict=True,
        )
    )
    trees = driver.totals.report()["trees"]
    assert tiles["trees acked"] == shown(trees["acked"])
    assert tiles["failed"] == shown(trees["failed"])
    assert tiles["replayed"] == shown(trees["replayed"])
    assert tiles["dead letters"] == shown(trees["dead_lettered"])
    assert tiles["batches"] == shown(driver.totals.batches)


def test_the_graph_has_every_component_and_every_edge(driver, page):
    graph = page.id("graph")
    labels = [node.attributes["aria-label"] for node in graph.all("g", class_="node")]
    assert [label.split(":")[0] for label in labels] == [
        "spout texts", "spout silent", "bolt split", "bolt keep", "bolt large",
    ]  # fmt: skip
    assert "2 tasks, 2 executors" in labels[0]
    for node in graph.all("g", class_="node"):
        assert (node.attributes["role"], node.attributes["tabindex"]) == ("button", "0")
    titles = [e.all("title")[0].text for e in graph if "edge" in e.attributes.get("class", "")]
    words = driver.totals.counts["keep", "executed", "split:default"]
    assert f"split default → keep, fields word: {shown(words)} tuples, " in "".join(titles)
    assert len(titles) == 4
    pressed = [n for n in graph.all("g", class_="node") if n.attributes["aria-pressed"] == "true"]
    assert ["bolt split" in n.attributes["aria-label"] for n in pressed] == [True]


def test_a_selected_component_shows_its_streams(driver, page):
    tables = (page.id(name) for name in ("inputs", "outputs", "tasks"))
    inputs, outputs, tasks = (table.rows() for table in tables)
    executed = driver.totals.counts["split", "executed", "texts:default"]
    assert inputs[0][:2] == ["texts:default", shown(executed)]
    assert [row[0] for row in outputs] == ["default", "lengths"]
    plan = driver.totals.placed.plan
    assert [row[0] for row in tasks] == [str(task) for task in plan.tasks("split")]
    sums = driver.totals.component("split")
    assert sum(int(row[3].replace(",", "")) for row in tasks) == sums["executed"]


def test_ackers_workers_and_batches(driver, page):
    totals = driver.totals
    rows = page.id("ackers").rows()
    assert [row[0] for row in rows] == ["1", "2"]
    assert sum(int(row[7].replace(",", "")) for row in rows) == totals.trees.acked
    workers = page.id("workers").rows()
    assert page.id("workers-note").text.endswith("; autoscale: 3 since 10:00; now Enough: ok")
    assert [row[0] for row in workers] == ["worker 0", "worker 1"]
    assert {row[3] for row in workers} == {str(os.getpid())}
    hosted = [e for e in page.id("workers").all("li") if "title" in e.attributes]
    assert len(hosted) == len(totals.placed.plan.executors)
    names = [row[0] for row in page.id("batches").rows()]
    stages = [f"stage {n}: {', '.join(of)}" for n, of in enumerate(totals.placed.plan.stages)]
    assert names == [
        *stages, "between and around stages", "commit", "wait for the next batch",
    ]  # fmt: skip


def test_errors_are_shown_as_text(page):
    (title,) = page.all("title")[:1]
    assert title.text == f"metered {DASH} Fulmen"
    assert f"execute: ValueError: {EVIL}" in page.id("errors").text
    assert page.all("img") == []
    assert len(page.all("script")) == 1


def test_the_page_says_what_its_charts_show(page):
    labels = [chart.attributes["aria-label"] for chart in page.all("svg", role="img")]
    assert [label.split(":")[0] for label in labels] == ["Complete latency", "Throughput"]


def test_every_region_has_a_name_and_every_table_a_caption(page):
    ids = {e.attributes["id"] for e in page if "id" in e.attributes}
    for section in page.all("section"):
        named = section.attributes.get("aria-labelledby")
        assert named in ids or section.attributes["aria-label"]
    for table in page.id("main").all("table"):
        assert table.all("th", scope="col") or table.all("th", scope="row")


def test_the_page_waits_for_a_topology_that_starts(tmp_path):
    with MetricsServer("127.0.0.1", 0, lambda: None) as server:
        page, _ = see(server.url, tmp_path)
    assert page.id("status").text == "the topology is starting; trying again"


def test_numbers_on_the_page_change_while_the_topology_runs(tmp_path):
    moving = MovingDriver()
    with MetricsServer("127.0.0.1", 0, moving.totals) as server:
        page, complaints = see(server.url, tmp_path)
    assert complaints == []
    emitted = {row[0]: row[3] for row in page.id("components").rows()}["texts"]
    assert int(emitted.replace(",", "")) > moving.first


def test_tuples_are_shown_when_somebody_asks_for_them(tmp_path, monkeypatch):
    html = Page.read().html
    clicked = html.replace(
        b"\npoll();\n", b'\npoll(); setTimeout(() => byId("tap").click(), 1500);\n'
    )
    assert clicked != html
    monkeypatch.setattr(Page, "read", lambda: Page(clicked))
    tap = Tap(allowed=True, mask=("word",))
    running = make_driver(metered([EVIL, "a b c"], tap=tap, workers=1)).start()
    taps, wanted = running._taps, []
    opened = taps.open

    def open_and_run(asked):
        tap = opened(asked)
        wanted.append(asked.component)
        for _ in range(5):
            running.step()
        taps.end()
        return tap

    monkeypatch.setattr(taps, "open", open_and_run)
    with MetricsServer("127.0.0.1", 0, lambda: running.totals, taps=taps) as server:
        page, complaints = see(f"{server.url}#split", tmp_path)
    assert (complaints, wanted) == ([], ["split"])
    cells = [(row[1], row[3]) for row in page.id("tuples").rows()]
    assert cells[::-1][:2] == [("default", '{"word":"***"}'), ("default", '{"word":"***"}')]
    assert ("lengths", '{"length":5}') in cells
    assert page.id("tuples-note").text == "the topology has ended"
    running.close()


def test_dead_letters_are_shown_with_their_tracebacks(tmp_path):
    store = new_store()
    ran(store)
    running = make_driver(refusing(tap={"allowed": True}), store=store).start()
    running.step()
    with MetricsServer("127.0.0.1", 0, lambda: running.totals, taps=running._taps) as server:
        page, complaints = see(server.url, tmp_path)
    running.close()
    assert complaints == []
    three, two = page.id("letters").rows()
    assert (two[2], two[3], two[4], two[6]) == ("source", "2", '{"number":2}', "1")
    assert "hence ValueError: not 2" in two[5]
    assert "KeyError: 'cents'" in two[5]
    assert '{"number":3}' in three


class MovingDriver:
    """Runs a batch whenever it is looked at."""

    def __init__(self):
        self.driver = make_driver(metered(["a b c"] * 5000, max_spout_pending=5)).start()
        self.driver.step()
        self.first = self.driver.totals.counts["texts", "emitted", "default"]
        self.lock = threading.Lock()

    def totals(self):
        with self.lock:
            self.driver.step()
        return self.driver.totals


LONG_CALL = "spout 'lines', task 2: next_tuple runs since 2023-11-14 22:13:20 UTC"


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    """The page of a topology that waits, with the bolt that holds its spouts selected."""
    running = run_waiting()
    planner = running.planner
    kept = {"older": UnusedState(2, "2023-11-15 00:00:00 UTC")}
    planner.replace(replace(planner.current.placed, kept=kept))
    for step in (StepRows("rows.filter", 30, 20, 0), StepRows("rows.map", 20, 19, 1)):
        count_step(running.totals.counts, "buffer", step)
    running.totals.waits.long_calls = [Wait(WaitKind.LONG_CALL, "lines", LONG_CALL)]
    with MetricsServer("127.0.0.1", 0, lambda: running.totals) as server:
        page, complaints = see(f"{server.url}#buffer", tmp_path_factory.mktemp("waiting"))
    assert complaints == []
    return page


def test_what_a_topology_waits_for_is_said(waiting):
    call, away, held, kept, unread = waiting.id("waits").text.splitlines()
    assert call == LONG_CALL
    assert away == f"'writer' waits for {SERVICE} since 2023-11-14 22:13:20 UTC: {REASON}"
    assert held == f"spouts rest, because 'buffer' holds them: {HELD}"
    assert kept == (
        "component 'older' is not in the topology, and the checkpoint keeps its state"
        " until 2023-11-15 00:00:00 UTC"
    )
    assert unread == "writer: 1 tuple on stream 'errors', which no bolt reads"


def test_a_topology_that_waits_for_nothing_says_nothing(page):
    assert page.id("waits").text == ""


def test_lag_is_a_tile_and_a_cell(waiting, page):
    tiles = dict(
        zip(
            [e.text for e in waiting.id("tiles").all("dt")],
            [e.text for e in waiting.id("tiles").all("dd")],
            strict=True,
        )
    )
    assert (tiles["lag"], tiles["lag, age"]) == ("20", "1.50 s")
    rows = {row[0]: row for row in waiting.id("components").rows()}
    assert "20, 1.50 s" in rows["behind"]
    assert "lag" not in [e.text for e in page.id("tiles").all("dt")]


def test_metrics_of_the_selected_component_are_listed(waiting):
    rows = dict(waiting.id("metrics").rows())
    assert rows == {'length{kind="rows"}': "20", "sizes": "20, mean 9.5, p50 9, p99 10"}


def test_steps_of_the_selected_component_are_listed_in_their_order(waiting):
    assert waiting.id("steps").rows() == [
        ["rows.filter", "30", "20", "0"],
        ["rows.map", "20", "19", "1"],
    ]
