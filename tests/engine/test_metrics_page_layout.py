"""The page's geometry in a real browser: with few and many components, in windows of any width."""

import json

import pytest

from support.metrics.browser import SECONDS, see
from support.metrics.page_data import LONG, served

pytestmark = pytest.mark.timeout(2 * SECONDS)

WIDTHS = (390, 768, 1280, 1440, 1900, 2560)
MILLIS = 9000
NOTHING = {str(width): [] for width in WIDTHS}
SCHEMES = {
    "light": ("--blink-settings=preferredColorScheme=1",),
    "dark": ("--blink-settings=preferredColorScheme=0",),
}
LENGTHS = {False: "short", True: "long"}
DASH, TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"
BACKGROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(25, 30, 42)"}


def told(folder, act="measured", widths=(), flags=(), anchor="", **options):
    """What `act` returns in the page."""
    with served(act, widths, **options) as url:
        page, complaints = see(url + anchor, folder, MILLIS, ("--window-size=1280,900", *flags))
    assert complaints == []
    found = json.loads(page.id("told").text)
    assert "error" not in found, found["error"]
    return found


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((size, is_long, scheme), id=f"{size}-{LENGTHS[is_long]}-{scheme}")
        for size in (1, 5, 20, 60)
        for is_long in (False, True)
        for scheme in SCHEMES
    ],
)
def case(request):
    return request.param


drawn = pytest.mark.matrix(share=1 / 4, name="pages that are measured")


@pytest.fixture(scope="module")
def measures(case, tmp_path_factory):
    """What the page measured of itself, by the width of its window. A component is selected."""
    size, is_long, scheme = case
    folder = tmp_path_factory.mktemp("page")
    act = "async () => { await until(() => latest.tasks_of); show(latest); return measured(); }"
    return told(folder, act, WIDTHS, SCHEMES[scheme], size=size, is_long=is_long)


@drawn
def test_nothing_runs_out_of_its_card(measures):
    assert {width: found["runaways"] for width, found in measures.items()} == NOTHING


@drawn
def test_no_text_is_cut_off(measures):
    assert {width: found["cutOff"] for width, found in measures.items()} == NOTHING


@drawn
def test_labels_lie_neither_on_components_nor_on_each_other(measures):
    assert {width: found["overlaps"] for width, found in measures.items()} == NOTHING


@drawn
def test_all_of_the_graph_is_seen(case, measures):
    size, _, _ = case
    for found in measures.values():
        assert (found["boxes"], found["outside"]) == (size, 0)
        assert found["edges"] == found["wantedEdges"]
        assert found["labels"] > 0 or size == 1


@drawn
def test_all_texts_can_be_read_on_their_background(case, measures):
    _, _, scheme = case
    for found in measures.values():
        assert found["background"] == BACKGROUNDS[scheme]
        assert found["faint"] == []


@drawn
def test_names_keep_both_ends(case, measures):
    size, is_long, _ = case
    for found in measures.values():
        assert len(set(found["names"])) == size
        for name in found["names"] if is_long else ():
            start, _, end = name.partition("…")
            assert LONG.startswith(start)
            assert end[-2:].isdecimal()


def test_a_graph_of_few_components_has_its_full_size(tmp_path):
    found = told(tmp_path, widths=(390, 1280), size=5)
    assert all(of["largest"] >= 0.75 * 168 for of in found.values())


ZOOM = """async () => {
  const graph = document.getElementById("graph"), seen = [];
  const look = (what) => {
    const [x, y, width, height] = graph.firstChild.getAttribute("viewBox").split(" ").map(Number);
    seen.push([what, x, y, width, height, measured().runaways]);
  };
  const key = (key) => graph.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const wheel = (deltaY, ctrlKey) => {
    const at = graph.getBoundingClientRect();
    const event = new WheelEvent("wheel", { deltaY, ctrlKey, bubbles: true, cancelable: true,
      clientX: at.left + 1, clientY: at.top + 1 });
    graph.firstChild.dispatchEvent(event);
    return event.defaultPrevented;
  };
  look("all");
  key("+"); look("key");
  for (let i = 0; i < 6; i++) key("+");
  look("deep");
  key("ArrowRight"); look("right");
  key("ArrowDown"); look("down");
  key("0"); look("reset");
  document.querySelector("#zoom [aria-label='Zoom in']").click(); look("button");
  document.querySelector("#zoom [aria-label='Zoom out']").click(); look("button out");
  const taken = [wheel(-1, false)]; look("wheel alone");
  taken.push(wheel(-1, true)); look("wheel");
  for (let i = 0; i < 6; i++) key("+");
  look("deep again");
  const drag = (type, x) => graph.firstChild.dispatchEvent(new PointerEvent(type,
    { clientX: x, clientY: 300, buttons: 1, bubbles: true }));
  drag("pointerdown", 500); drag("pointermove", 440); look("drag");
  document.querySelector("#zoom [aria-label='Show all']").click(); look("fit");
  for (let i = 0; i < 40; i++) key("+");
  look("most");
  return { seen, taken };
}"""


def test_the_graph_can_be_zoomed_and_moved(tmp_path):
    found = told(tmp_path, ZOOM, size=60)
    seen = {what: tuple(numbers) for what, *numbers, _ in found["seen"]}
    assert all(runaways == [] for *_, runaways in found["seen"])
    x, y, width, height = seen["all"]
    assert seen["key"][2:] == pytest.approx((width / 1.3, height / 1.3))
    middle = (x + width / 2, y + height / 2)
    assert seen["key"][0] + seen["key"][2] / 2 == pytest.approx(middle[0])
    deep, right, down = seen["deep"], seen["right"], seen["down"]
    assert right[0] > deep[0]
    assert right[1:] == deep[1:]
    assert (down[0], down[1] > right[1]) == (right[0], True)
    assert seen["reset"] == seen["fit"] == pytest.approx(seen["all"])
    assert seen["button"] == pytest.approx(seen["key"])
    assert seen["button out"] == seen["wheel alone"] == pytest.approx(seen["all"])
    assert found["taken"] == [False, True]
    assert seen["wheel"][2] == pytest.approx(width / 1.3)
    assert seen["wheel"][1] < seen["key"][1]  # towards the pointer
    assert seen["drag"][0] > seen["deep again"][0]
    assert seen["most"][2] < width / 3


SORT = """async () => {
  const table = document.getElementById("components-table");
  const names = () => [...table.querySelectorAll("tbody button")].map((b) => b.textContent);
  const head = (title) => [...table.querySelectorAll("thead th")]
    .find((th) =>
    th.textContent === title);
  const seen = [names()];
  for (const title of ["failed", "failed", "failed", "component", "complete"]) {
    head(title).firstChild.click();
    seen.push([title, head(title).getAttribute("aria-sort"), ...names()]);
  }
  show(latest);
  seen.push(names());
  return seen;
}"""


def test_tables_are_sorted_by_a_column_until_it_is_clicked_thrice(tmp_path):
    given, most, least, none, ascending, nulls, later = told(tmp_path, SORT, size=5)
    parts = [f"part-{n}" for n in range(5)]
    assert given == parts
    assert most == ["failed", "descending", *reversed(parts)]
    assert least == ["failed", "ascending", *parts]
    assert none == ["failed", None, *parts]
    assert ascending == ["component", "ascending", *parts]
    assert nulls == ["complete", "descending", *parts]  # only the first one has a figure
    assert later == parts  # and it stays so when new figures come


RANGE = """async () => {
  const chart = () => [...document.querySelectorAll("#latency text")].map((t) => t.textContent);
  const seen = [chart()];
  document.querySelector("#ranges [aria-label='The last 24 h']").click();
  await until(() => latest.history_step === 288);
  await new Promise((resolve) => setTimeout(resolve, 100));
  return [...seen, chart(), points.length];
}"""


def test_charts_reach_as_far_back_as_is_chosen(tmp_path):
    short, day, points = told(tmp_path, RANGE, size=5)
    assert "4 min 59 s ago" in short
    assert "23 h 55 min ago" in day
    assert points == 300


TROUBLE = """async () => {
  const errors = () => [...document.querySelectorAll("#errors .count")].map((e) => e.textContent);
  const newest = errors();
  document.querySelectorAll("#errors-order button")[1].click();
  const details = document.querySelector("#errors details");
  details.open = true;
  const failure = document.getElementById("failure");
  return { newest, frequent: errors(), traceback: details.querySelector("pre").textContent,
    failure: failure.textContent, height: failure.clientHeight, ...measured() };
}"""


def test_errors_have_their_count_and_traceback_and_leave_room_for_figures(tmp_path):
    found = told(tmp_path, TROUBLE, size=5, is_long=True)
    assert found["newest"] == [f"{n} {TIMES}" for n in (7, 8, 9, 10)]
    assert found["frequent"] == [f"{n} {TIMES}" for n in (10, 9, 8, 7)]
    assert found["traceback"].endswith("KeyError: 0")
    assert "unbreakable" in found["failure"]
    assert found["height"] < 150
    assert found["runaways"] == found["cutOff"] == []


PARTS = """async () => [...document.querySelectorAll("#batches tr")].map((row) =>
  [...row.children].map((cell) => cell.textContent))"""


def test_the_time_of_a_batch_is_told_stage_by_stage(tmp_path):
    rows = told(tmp_path, PARTS, size=2)
    assert rows == [
        ["stage 0: part-0, part-1", "500 ms", "50 %", "250 ms"],
        ["stage 1: ", "300 ms", "30 %", "290 ms"],
        ["between and around stages", "100 ms", "10 %", DASH],
        ["commit", "80.0 ms", "8.0 %", DASH],
        ["wait for the next batch", "20.0 ms", "2.0 %", DASH],
    ]


TASKS = """async () => {
  await until(() => latest.tasks_of === "part-1");
  show(latest);
  const table = document.getElementById("tasks").parentElement;
  const head = table.querySelectorAll("thead th");
  return { titles: [...head].map((th) => th.textContent),
    rows: [...document.querySelectorAll("#tasks tr")].map((row) => row.children[0].textContent),
    uneven: [...document.querySelectorAll("#components td.bad")].map((td) => td.textContent) };
}"""


def test_a_selected_component_shows_its_tasks(tmp_path):
    found = told(tmp_path, TASKS, anchor="#part-1", size=3)
    assert found["titles"][:5] == ["task", "worker", "executor", "executed", "executed/s"]
    assert found["rows"] == ["1", "2", "3", "4"]
    assert "10: 73 %" in found["uneven"]  # of the third component
    assert not any(text.startswith("6:") for text in found["uneven"])
