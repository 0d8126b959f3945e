"""What is shown while a topology runs."""

import io
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console, Group

from fulmen.api.signals import Family
from fulmen.cli.display.formats import age, count, elapsed, milliseconds
from fulmen.cli.display.output import open_console
from fulmen.cli.display.run.figures import component_table, counted_lines, live_header, plain_line
from fulmen.cli.display.run.live_display import (
    LINE_SECONDS,
    LiveDisplay,
    PlainDisplay,
    RunPhase,
    make_display,
)
from fulmen.cli.display.run.meter import ComponentFigures, Figures
from fulmen.cli.display.run.wait_lines import WaitFigures
from fulmen.engine.totals.author_metrics import AuthorMetrics
from fulmen.engine.totals.counted import TreeCounts
from fulmen.testing import ManualClock

COUNTS = ("emitted", "executed", "acked", "failed", "errors")


def component(name, tasks, *numbers, rate=0.0, **more):
    counts = dict(zip(COUNTS, numbers, strict=False))
    return ComponentFigures(name, tasks, counts, rate, **more)


FIGURES = Figures(
    seconds=75.4,
    batches=1234,
    batch_millis=212.4,
    tuples_per_second=98765.4,
    acked_per_second=4321.0,
    trees=TreeCounts(acked=300_123, failed=3, timed_out=1, pending=512),
    p50=43.21,
    p99=12345.6,
    components=(
        component("lines", 2, 300_638, 0, 300_123, 4, 0, executes=False),
        component("count", 4, 0, 300_638, 300_635, 3, 3, rate=4321.0, emits=False),
        component("__acker", 2, 300_123, 900_000, 900_000, 0, 0, rate=12963.0),
    ),
)
LINE = (
    "1 min 15 s: batches 1,234 of 212 ms, 98,765 tuples/s, 4,321 acked/s, acked 300,123, failed 3, "
    "timed out 1, pending 512, latency p50 43 ms p99 12.3 s"
)


def meter():
    return SimpleNamespace(figures=lambda: FIGURES)


def console(**options):
    options = {"width": 100, "height": 30, "highlight": False, **options}
    return Console(file=io.StringIO(), **options)


def rendered(what, **options):
    on = console(**options)
    on.print(what)
    return on.file.getvalue()


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (7, "7"), (0.25, "0.2"), (9.96, "10.0"), (1234.6, "1,235"), (10**7, "10,000,000")],
)
def test_numbers(number, text):
    assert count(number) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0252, "25.2 µs"),
        (0.234, "0.2 ms"),
        (9.9, "9.9 ms"),
        (43.4, "43 ms"),
        (12345, "12.3 s"),
    ],
)
def test_latencies(value, text):
    assert milliseconds(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.9, "0 s"), (59.9, "59 s"), (61, "1 min 01 s"), (7384, "2 h 03 min 04 s")],
)
def test_times(seconds, text):
    assert elapsed(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.05, "50 ms"), (90.0, "90.0 s"), (3700, "1 h 1 min"), (212_198_924.1, "6 years 8 months")],
)
def test_how_old_something_is_is_said_in_words_of_a_person(seconds, text):
    assert age(seconds) == text


def test_a_line_for_a_log():
    assert plain_line(FIGURES) == LINE
    assert plain_line(Figures(batches=1)).startswith("0 s, warming up: batches 1, 0 tuples/s, ")
    assert plain_line(Figures(batches=200)).startswith("0 s: batches 200, 0 tuples/s, ")


def test_the_table():
    assert rendered(component_table(FIGURES.components)) == (
        "component  tasks  emitted  executed    acked  failed  executed/s  errors\n"
        "lines          2  300,638         -  300,123       4           -       0\n"
        "count          4        -   300,638  300,635       3       4,321       3\n"
        "__acker        2  300,123   900,000  900,000       0      12,963       0\n"
    )


def test_names_are_shortened_and_columns_left_out_but_no_number_is_cut():
    numbers = [9_876_543_210 + n for n in range(4)]
    long = component("a-component-with-a-long-name", 2, *numbers, 12, rate=123_456.0)
    for width in (120, 80, 60, 50):
        lines = rendered(component_table([long]), width=width).splitlines()
        titles, line = lines[0].split(), lines[1].split()
        assert len(titles) == len(line)
        assert max(map(len, lines)) <= width
        found = dict(zip(titles, line, strict=True))
        assert (found["acked"], found["failed"]) == ("9,876,543,212", "9,876,543,213")
        assert not any("…" in text for title, text in found.items() if title != "component")
        assert found["component"].partition("…")[0] in long.name


def test_nothing_is_cut_where_there_is_no_terminal():
    screen = open_console()  # tests have none
    long = component("a-component-with-a-long-name" * 10, 2, 10**12, 10**15)
    with screen.capture() as captured:
        screen.print(component_table([long]))
    assert long.name in captured.get()
    assert f"{10**15:,}" in captured.get()


def test_the_header_of_a_terminal_of_80_columns_has_the_slowest_trees():
    text = rendered(Group(*live_header("words", "running", FIGURES)), width=80)
    assert "latency p50 43 ms   p99 12.3 s" in text


def test_a_table_that_does_not_fit_says_so():
    lines = rendered(component_table(FIGURES.components, rows=2)).splitlines()
    assert [line.split()[0] for line in lines] == ["component", "lines", "and"]
    assert lines[-1].strip() == "and 2 more"


# ---- live ----------------------------------------------------------------------------------------


def test_live_on_a_terminal():
    screen = console(force_terminal=True, color_system=None)
    with LiveDisplay(screen, "words", meter(), lambda: RunPhase.RUNNING) as display:
        display.line("error in 'count', task 3: ValueError: [red]not[/red] this one", "red")
    text = screen.file.getvalue()
    assert "words  running  1 min 15 s" in text
    assert "batches 1,234 of 212 ms   tuples/s 98,765   acked/s 4,321" in text
    assert "trees acked 300,123   failed 3   timed out 1   pending 512" in text
    assert "error in 'count', task 3: ValueError: [red]not[/red] this one" in text
    assert text.endswith("\x1b[2K")  # the live figures are gone, the line stays


def test_while_spark_starts_there_is_nothing_to_show_but_that():
    screen = console(force_terminal=True, color_system=None)
    with LiveDisplay(screen, "words", meter(), lambda: RunPhase.STARTING_SPARK):
        pass
    assert "words  starting Spark  1 min 15 s" in screen.file.getvalue()
    assert "batches" not in screen.file.getvalue()


def test_no_colors_where_they_are_not_wanted(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    screen = console(force_terminal=True)
    with LiveDisplay(screen, "words", meter(), lambda: RunPhase.RUNNING):
        pass
    assert "\x1b[31m" not in screen.file.getvalue()


def test_a_small_terminal_gets_what_fits():
    screen = console(force_terminal=True, color_system=None, height=9)
    with LiveDisplay(screen, "words", meter(), lambda: RunPhase.RUNNING):
        pass
    assert "and 2 more" in screen.file.getvalue()


# ---- not a terminal ------------------------------------------------------------------------------


@pytest.fixture
def plain():
    """A plain display that is not drawn by its own thread, and what it depends on."""
    made = SimpleNamespace(clock=ManualClock(), console=console(), phase=RunPhase.RUNNING)
    made.display = PlainDisplay(made.console, "words", meter(), lambda: made.phase, made.clock)
    made.text = lambda: made.console.file.getvalue()
    return made


def test_a_line_every_five_seconds(plain):
    for _ in range(45):
        plain.clock.advance(LINE_SECONDS / 20)
        plain.display.draw()
    assert plain.text() == f"{LINE}\n" * 2


def test_a_wait_that_goes_on_is_told_once_a_minute_though_its_figures_change(plain):
    waits = iter([*(f"'count' rests for {n} s" for n in range(13)), None, "'count' rests for 0 s"])

    def figures():
        wait = next(waits)
        return replace(FIGURES, waits=WaitFigures(sentences=() if wait is None else (wait,)))

    plain.display.meter.figures = figures
    for _ in range(15):
        plain.clock.advance(LINE_SECONDS)
        plain.display.draw()
    told = [line for line in plain.text().splitlines() if line != LINE]
    assert told == [f"  'count' rests for {n} s" for n in (0, 12, 0)]


def test_starting_is_told_with_its_time(plain):
    plain.phase = RunPhase.STARTING_SPARK
    plain.clock.advance(LINE_SECONDS)
    plain.display.draw()
    assert plain.text() == "words: starting Spark, 1 min 15 s\n"


def test_draining_is_told_once(plain):
    plain.phase = RunPhase.DRAINING
    plain.display.draw()
    plain.display.draw()
    assert plain.text() == "words: draining: pending trees end (Ctrl-C again stops at once)\n"


def test_long_lines_are_not_broken(plain):
    plain.display.line("x" * 300)
    assert plain.text() == "x" * 300 + "\n"


def test_a_file_gets_plain_lines_whatever_the_environment_says(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(make_display("words", meter(), lambda: RunPhase.RUNNING), PlainDisplay)


def test_what_components_have_counted_is_in_the_summary():
    metrics = AuthorMetrics()
    late = Family("counter", "late", "Late tuples.", ("side",))
    others = [Family("counter", f"other_{n}", "Others.") for n in range(5)]
    for task in range(2):
        metrics.add("join", task, [(late, ("left",), 1000), (late, ("right",), 1)])
    metrics.add("join", 0, [(family, (), 1) for family in others])
    metrics.add("count", 0, [(Family("gauge", "size", "Size."), (), 7), (others[0], (), 0)])
    components = [SimpleNamespace(name="join"), SimpleNamespace(name="count")]
    topology = SimpleNamespace(spec=SimpleNamespace(components=components))
    totals = SimpleNamespace(lock=threading.Lock(), metrics=metrics)
    assert list(counted_lines(totals, topology)) == [
        'join: counted late{side="left"} 2,000, late{side="right"} 2, other_0 1, other_1 1,'
        " other_2 1, and 2 more"
    ]
