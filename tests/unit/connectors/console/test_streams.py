"""Standard input as lines, and rows on standard output."""

import io
import os

import pytest
from click.testing import CliRunner

from fulmen.api import Rows, TopologyContext
from fulmen.cli.main import main
from fulmen.connectors.console import StdinSpout, StdoutSink, TableSink
from fulmen.connectors.console.stdin import Lines
from support.connectors.file_spouts import SpoutLives


@pytest.fixture
def typed(monkeypatch):
    """What is written here is standard input."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source:
        lines = Lines(source)
        monkeypatch.setattr(TopologyContext, "shared", lambda self, name, make: lines)
        with os.fdopen(writing, "wb", buffering=0) as terminal:
            yield terminal
        while not lines.is_over:
            lines.next()


def until(life, count):
    """Batches until so many messages were emitted."""
    emitted = []
    while len(emitted) < count:
        emitted += life.batch()
    return emitted


def test_lines_are_emitted_as_they_are_typed_and_the_end_is_the_end(typed):
    life = SpoutLives(StdinSpout, format={"type": "json", "fields": ["a"]})
    typed.write(b'{"a": 1}\n')
    assert until(life, 1) == [[1]]
    assert not life.spout.is_exhausted()
    assert life.spout.knows_its_end
    typed.write(b'{"a"\n{"a": 2}')
    typed.close()
    [[data, reason, position], last] = until(life, 2)
    assert (data, position, last) == (b'{"a"', "line 2", [2])
    assert reason.startswith("it is not JSON")
    while not life.spout.is_exhausted():
        life.batch()


def test_what_can_not_be_read_as_standard_input_is_told_and_is_its_end(tmp_path, monkeypatch):
    folder = os.open(tmp_path, os.O_RDONLY)
    with os.fdopen(os.dup(0), "rb", buffering=0) as source:
        os.dup2(folder, source.fileno())
        os.close(folder)
        lines = Lines(source)
        monkeypatch.setattr(TopologyContext, "shared", lambda self, name, make: lines)
        life = SpoutLives(StdinSpout)
        text = "standard input can't be read: Is a directory"
        assert until(life, 1) == [[None, text, "line 1"]]
    assert life.collector.reported == [text]
    assert life.batch() == []
    assert life.spout.is_exhausted()


def test_lines_are_kept_until_they_are_acked(typed):
    life = SpoutLives(StdinSpout)
    typed.write(b"1\n2\n3\n")
    until(life, 3)
    life.batch(acks=[1])
    life.start()
    assert life.batch(fails=[0, 2]) == [["1"], ["3"]]
    life.batch(acks=[0, 2])
    assert not life.author.state


def written(sink, rows, fields=("n", "text")):
    """Write rows. Returns the reasons of those that were refused."""
    given = Rows(fields, rows)
    items = sink.encode(given)
    kept = [item for i, item in enumerate(items) if i not in given.failed]
    if kept:
        sink.write(Rows(fields, kept), None)
    return given.failed


def made(kind, **config):
    sink = kind()
    options = kind.config_model(**config)
    sink.prepare({}, TopologyContext("t", "sink", 1, 0, 0, options=options))
    return sink


def test_rows_are_printed_in_the_format(capfdbinary):
    failed = written(made(StdoutSink), [[1, "a"], [object(), "b"], [2, "c"]])
    assert list(failed) == [1]
    written(made(StdoutSink, format={"type": "csv"}), [[1, "a"]])
    assert capfdbinary.readouterr().out == b'{"n":1,"text":"a"}\n{"n":2,"text":"c"}\n1,a\n'


def test_rows_are_printed_where_standard_output_is_a_stream_of_text(monkeypatch):
    monkeypatch.setattr("sys.stdout", out := io.StringIO())
    written(made(StdoutSink), [[1, "a"]])
    assert out.getvalue() == '{"n":1,"text":"a"}\n'


def test_standard_output_has_the_rows_alone(tmp_path, monkeypatch):
    (tmp_path / "names.txt").write_text("ann\nbob\n")
    (tmp_path / "names.yaml").write_text("""\
apiVersion: fulmen.dev/v1alpha1
kind: Topology
metadata: {name: names}
spec:
  spouts:
    - name: names
      class: fulmen.connectors.files.FileSpout
      config: {path: names.txt, follow: false}
  bolts:
    - name: print
      class: fulmen.connectors.console.StdoutSink
      inputs: [{from: names, grouping: {type: global}}]
""")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    arguments = ["run", "names.yaml", "--in-process", "--until-drained"]
    done = CliRunner().invoke(main, arguments)
    assert done.stdout == '{"value":"ann"}\n{"value":"bob"}\n'
    assert "names: drained after" in done.stderr


def test_a_table_shows_the_latest_row_of_each_key(capsys):
    sink = made(TableSink, key=["text"], rows=2, every_seconds=1000)
    written(sink, [[1, "a"], [2, "[b]"]])
    assert [line.split() for line in capsys.readouterr().out.split("\n") if line.strip("─ ")][
        1:
    ] == [["1", "a"], ["2", "[b]"]]
    written(sink, [[3, "a"], [4, "c"]])
    assert capsys.readouterr().out == ""
    sink.cleanup()
    assert [line.split() for line in capsys.readouterr().out.split("\n") if line.strip("─ ")][
        1:
    ] == [["3", "a"], ["4", "c"]]


class Unsaid:
    """Nobody can say what it is."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize("key", [[], ["n"]], ids=["no-key", "key"])
def test_a_table_shows_rows_also_beside_one_that_has_no_text(capsys, key):
    """It would be printed again and again, and fail all rows that come later."""
    sink = made(TableSink, key=key, every_seconds=0)
    assert written(sink, [[Unsaid(), "a"], [2, "\ud800"]]) == {}
    assert written(sink, [[3, "c"]]) == {}
    shown = capsys.readouterr().out
    assert "<Unsaid, whose __str__ raised RuntimeError>" in shown
    assert "\\ud800" in shown
    assert shown.split()[-2:] == ["3", "c"]


def test_a_key_that_is_no_field_fails_the_rows():
    assert set(written(made(TableSink, key=["x"]), [[1, "a"]]).values()) == {
        "there is no field 'x', only ['n', 'text']"
    }
