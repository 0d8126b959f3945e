"""What one who tries a pipeline sees: in the cells of a notebook, and by its words."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from fulmen import Stream
from fulmen.connectors.kafka import KafkaSpout
from fulmen.errors import ValidationFailed
from fulmen.streams import Streams
from fulmen.streams.rows.tables import table
from fulmen.testing import CollectBolt, ListSpout

KINDS = {"user": "string", "n": "int64", "at": "timestamp", "day": "date32", "euros": "decimal"}
TYPED = {"default": Stream(tuple(KINDS), types=KINDS)}
FIRST = """
from fulmen.streams import Streams
from fulmen.testing import CollectBolt, ListSpout
shop = Streams("shop")
rows = shop.source("rows", ListSpout([["a", 1], ["b", 2]], ["user", "n"]))
"""


class Notebook:
    """Runs cells as a notebook does: each is a file of its own, and they share their names."""

    def __init__(self):
        self.names = {"__name__": "__main__"}

    def run(self, code):
        exec(compile(code, f"/tmp/{hash(code)}.py", "exec"), self.names)
        return self.names


@pytest.fixture
def notebook():
    notebook = Notebook()
    notebook.run(FIRST)
    return notebook


def test_a_cell_that_runs_again_replaces_what_it_has_made(notebook):
    many = "many = rows.where('n > 0', name='many')"
    notebook.run(many)
    for _ in range(2):
        notebook.run("many.key_by('user').count().sink('out', CollectBolt)")
    notebook.run(many.replace("0", "1"))
    notebook.run("many.key_by('user').count().sink('out', CollectBolt)")
    shop = notebook.names["shop"]
    assert repr(shop) == "<Streams 'shop': rows, rows-by-user-count, out>"
    assert shop.test(rows=[["a", 1], ["b", 2]])["out"] == [{"user": "b", "count": 1}]


def test_what_a_cell_gives_is_shown_as_text(notebook):
    notebook.run("rows.filter(lambda row: row.n < 2 or 1 / 0).sink('out', CollectBolt)")
    shop = notebook.names["shop"]
    assert repr(shop.explain()).startswith("rows  ListSpout  (")
    outcome = shop.test(rows=[["a", 1], ["b", 2]], replays=False)
    assert repr(outcome) == "out:\nuser  n\na     1"
    run, error = repr(outcome.result).splitlines()
    assert run.endswith(" batches: 1 acked, 1 failed>")
    assert "ZeroDivisionError" in error


def test_what_is_behind_a_cell_that_ran_again_is_said_to_be_old(notebook):
    notebook.run("counts = rows.key_by('user').count(name='counts')")
    notebook.run("rows.key_by('n').count(name='counts')")
    notebook.run("counts.sink('out', CollectBolt)")
    with pytest.raises(ValidationFailed, match="'counts', which it gets its rows from, was made"):
        notebook.names["shop"].build()


@pytest.mark.parametrize(
    "cell",
    [
        "rows.sink('out', CollectBolt)\nrows.where('n > 1').sink('out', CollectBolt)",
        "rows.key_by('user').count(name='rows').sink('out', CollectBolt)",
    ],
    ids=["in one cell", "made of the other"],
)
def test_two_of_one_name_are_still_a_mistake_in_a_notebook(notebook, cell):
    notebook.run(cell)
    with pytest.raises(ValidationFailed, match="the name is taken"):
        notebook.names["shop"].build()


@pytest.mark.timeout(20)
def test_a_row_that_fails_is_told_and_does_not_come_again(notebook, capsys):
    notebook.run("odd = rows.map(lambda row: 1 / (row.n - 1), fields='x')")
    notebook.run("odd.show()")
    shown = capsys.readouterr()
    assert shown.out == "  x\n1.0\n"
    assert shown.err.count("ZeroDivisionError") == 1
    assert "step 1 'map'" in shown.err


def test_what_can_not_be_shown_is_told_with_the_line_of_the_call():
    out = Streams("sinks").source("rows", ListSpout((), ["n"])).sink("out", CollectBolt)
    with pytest.raises(ValidationFailed, match=r"^test_notebooks.py:\d+: .* 'out' emits no rows"):
        out.show()


def test_a_stream_shows_its_fields(notebook):
    shop = Streams("typed")
    rows = shop.source("rows", ListSpout((), streams=TYPED))
    assert rows.with_fields(m="n / 2").fields == {**KINDS, "m": "float64"}
    assert repr(rows.select("user", x="n")) == "<stream 'rows.select': user string, x int64>"
    assert "there is no field 'm'" in repr(rows.where("m > 1"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.n, "a stream has no 'n': it is a field of its rows. Write where('n > 0') or"),
        (lambda s: s.fliter, "a stream has no 'fliter'. Did you mean 'filter'?"),
        (lambda s: s["n"], "a stream has no columns. Write select('a', 'b')"),
        (lambda s: s.key_by("n").sum, "rows by key have no 'sum': write aggregate(total=agg.sum("),
        (lambda s: s.key_by("n").map, "rows by key have no 'map': write map in front of key_by"),
        (lambda s: s.key_by("n").window({}).sink, "a window has no 'sink': write aggregate(n=agg"),
    ],
    ids=["field", "typo", "column", "sum", "map", "window"],
)  # fmt: skip
def test_what_others_would_write_is_answered_with_what_to_write(call, message):
    rows = Streams("words").source("rows", ListSpout((), ["user", "n"]))
    with pytest.raises((AttributeError, TypeError)) as raised:
        call(rows)
    assert str(raised.value).startswith(message)


def test_texts_of_tests_are_read_as_the_source_would():
    shop = Streams("typed")
    rows = shop.source("rows", ListSpout((), streams=TYPED))
    rows.with_fields(hour=lambda row: row.at.hour).sink("out", CollectBolt)
    given = {"n": 7, "at": "2026-05-01T12:01:00Z", "day": "2026-05-01", "euros": "1.50"}
    (made,) = shop.test(rows=[given])["out"]
    assert made == {
        "user": None, "n": 7, "at": datetime(2026, 5, 1, 12, 1, tzinfo=UTC),
        "day": date(2026, 5, 1), "euros": Decimal("1.50"), "hour": 12,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"usr": "a"}, "'rows': row 2: there is no field 'usr'. Did you mean 'user'?"),
        ({"at": "noon"}, "'rows': row 2: field 'at': 'noon' is no timestamp"),
    ],
    ids=["unknown field", "no time"],
)
def test_a_row_of_a_test_that_is_none_of_its_source_is_refused(row, message):
    shop = Streams("typed")
    shop.source("rows", ListSpout((), streams=TYPED)).sink("out", CollectBolt)
    with pytest.raises(ValidationFailed) as raised:
        shop.test(rows=[{"user": "a"}, row])
    assert message in str(raised.value)


def test_options_with_dots_are_written_with_underscores():
    shop = Streams("kafka")
    options = {"bootstrap_servers": "127.0.0.1:9092", "group_id": "g", "start_timestamp": "x"}
    shop.source("rows", KafkaSpout, topic="t", **options).sink("out", CollectBolt)
    with pytest.raises(ValidationFailed) as raised:
        shop.test(rows=[])  # told as by build, although no broker is asked
    assert "startTimestamp" in str(raised.value)
    assert "bootstrap" not in str(raised.value)


def test_tables_have_a_head_and_one_line_for_each_row():
    rows = [{"a": None, "b": "x\ny", "c": "z" * 99}, {"a": 12, "b": [1], "c": date(2026, 1, 2)}]
    assert [*table(("a", "b", "c"), rows)] == [
        "   a  b    c",
        f"null  x y  {'z' * 39}…",
        "  12  [1]  2026-01-02",
    ]
    assert [*table(("a",), [])] == ["a", "no rows"]
