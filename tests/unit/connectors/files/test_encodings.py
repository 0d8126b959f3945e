"""Lines in other encodings than UTF-8: what is read, what is malformed, what can't be cut."""

import gzip
import json

import pytest

from fulmen.connectors.files import FileSpout
from fulmen.connectors.formats import CsvOptions, JsonOptions, TextOptions
from fulmen.topology.validation.check import check
from support.cli.documents import word_count
from support.connectors.file_sinks import made, mark, write
from support.connectors.file_spouts import SpoutLives

NAMES = ["latin-1", "cp1252", "cp1251", "shift_jis", "gb18030", "euc_jp"]
TEXTS = {"cp1251": "Москва", "shift_jis": "表 ソ", "gb18030": "深圳\U0001f600", "euc_jp": "東京"}
FORMATS = {
    "text": ({}, "{0}"),
    "csv": ({"fields": ["a", "b"], "delimiter": ";"}, '"{0}";"x\n""{0}"'),
    "json": ({"fields": ["a", "b"]}, '{{"a": "{0}", "b": "x\\n\\"{0}"}}'),
}


def lives(path, **config):
    return SpoutLives(FileSpout, path=str(path), follow=False, **config)


def format_of(kind, encoding):
    return {"type": kind, "encoding": encoding, **FORMATS[kind][0]}


def values_of(kind, text):
    return [text] if kind == "text" else [text, f'x\n"{text}']


@pytest.mark.parametrize("encoding", NAMES)
@pytest.mark.parametrize("kind", FORMATS)
def test_lines_are_read_in_their_encoding_and_again_by_their_places(tmp_path, kind, encoding):
    text = TEXTS.get(encoding, "Größe é")
    record = FORMATS[kind][1].format(text)
    mark = "\ufeff" if encoding == "gb18030" else ""
    (tmp_path / "a").write_bytes((mark + f"{record}\n" * 5).encode(encoding))
    life = lives(tmp_path / "a", format=format_of(kind, encoding))
    expected = values_of(kind, text)
    assert life.batch(calls=2) == [expected] * 2
    life.attempt(calls=2)  # lost with its process
    life.start()
    assert life.batch(calls=1, fails=list(life.pending)) == [expected]
    life.finish()
    assert life.values() == [expected] * 5
    assert life.values("errors") == []


@pytest.mark.parametrize("kind", FORMATS)
def test_bytes_that_are_no_text_in_the_encoding_are_malformed(tmp_path, kind):
    good = FORMATS[kind][1].format("ß").encode("cp1252")
    (tmp_path / "a").write_bytes(good + b"\n\x81\n" + good + b"\n")
    life = lives(tmp_path / "a", format=format_of(kind, "cp1252"))
    life.finish()
    assert life.values() == [values_of(kind, "ß")] * 2
    [[data, reason, position]] = life.values("errors")
    assert (data, position) == (b"\x81", f"{tmp_path}/a:{len(good) + 1}")
    assert reason == (
        "it is not text in cp1252: 'charmap' codec can't decode byte 0x81 in position 0: character"
        " maps to <undefined>. If it is in another one, name it in `encoding`"
    )


def test_the_names_of_a_header_are_in_the_encoding(tmp_path):
    (tmp_path / "a.csv").write_bytes("größe;ort\n1;Köln\n".encode("latin-1"))
    form = {"type": "csv", "fields": ["ort", "größe"], "delimiter": ";"}
    life = lives(tmp_path / "a.csv", format={**form, "encoding": "latin-1"}, header=True)
    assert life.batch() == [["Köln", "1"]]
    life = lives(tmp_path / "a.csv", format=form, header=True)
    life.finish()
    [[_, reason, _]] = life.values("errors")
    assert reason == (
        "the file's header can't be read: it is not text in utf-8: 'utf-8' codec can't decode byte"
        " 0xf6 in position 2: invalid start byte. If it is in another one, name it in `encoding`"
    )


@pytest.mark.parametrize("encoding", [*NAMES, "utf-8"])
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_source_reads_what_a_sink_has_written(tmp_path, kind, encoding, compression):
    texts = [TEXTS.get(encoding, "Größe é"), "\ufeffa", "ï»¿b"]
    texts = [text for text in texts if kind == "json" or encodes(text, encoding)]
    rows = [values_of(kind, text) for text in texts]
    form = format_of(kind, encoding)
    for i, row in enumerate(rows):  # a file each: what it begins with is no byte order mark
        sink = made(path=str(tmp_path), format=form, compression=compression)
        of = mark(i, after=i - 1 if i else None)
        assert write(sink, [row], of, fields=["a", "b"][: len(row)]) == {}
    life = lives(tmp_path / "part*", format=form)
    life.finish()
    assert sorted(life.values()) == sorted(rows)
    assert life.values("errors") == []


def encodes(text, encoding):
    try:
        return bool(text.encode(encoding))
    except UnicodeEncodeError:
        return False


def test_what_an_encoding_lacks_is_refused_with_its_field_and_escaped_in_json(tmp_path):
    form = {"type": "csv", "encoding": "latin-1"}
    failed = write(made(path=str(tmp_path), format=form), [["ä", "€"]], mark(1))
    assert failed == {
        0: "field 'text': it can't be written in latin-1: 'latin-1' codec can't encode character"
        " '\\u20ac' in position 0: ordinal not in range(256)"
    }
    sink = made(path=str(tmp_path / "json"), format={"type": "json", "encoding": "latin-1"})
    assert write(sink, [["ä\U0001f600", "€\n"]], mark(1)) == {}
    [file] = (tmp_path / "json").glob("part*")
    data = file.read_bytes()
    assert data == b'{"n":"\xe4\\ud83d\\ude00","text":"\\u20ac\\n"}\n'
    assert json.loads(data.decode("latin-1")) == {"n": "ä\U0001f600", "text": "€\n"}


def test_a_header_that_the_encoding_lacks_is_told_before_anything_is_written(tmp_path):
    form = {"type": "csv", "encoding": "ascii", "fields": ["größe"]}
    config = {"path": str(tmp_path), "format": form, "header": True}
    [said] = told("files.FileSink", config)
    assert "field 'größe': it can't be written in ascii" in said


def told(kind, config):
    """The mistakes of a topology with a component of this configuration."""
    component = {"name": "x", "class": f"fulmen.connectors.{kind}", "config": config}
    document = word_count()
    if kind.endswith("Sink"):
        source = {"path": "x", "format": {"type": "text", "field": "größe"}}
        files = {"class": "fulmen.connectors.files.FileSpout", "config": source}
        document["spec"]["spouts"] = [{"name": "lines", **files}]
        component["inputs"] = [{"from": "lines", "grouping": {"type": "shuffle"}}]
        document["spec"]["bolts"] = [component]
    else:
        document["spec"]["spouts"].append(component)
    return [str(problem) for problem in check(document).problems]


LINES = ("files.FileSpout", "console.StdinSpout", "files.FileSink", "console.StdoutSink")


@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-17", ".encoding: {who}: encoding: Python knows no encoding 'utf-17'"),
        (
            "utf-16",
            ": {who}: format: lines can't be cut in the encoding 'utf-16': a line feed or a"
            " quote is more than one byte in it, or part of other characters. Use utf-8. `iconv -f"
            " utf-16 -t utf-8` converts a file.",
        ),
        (
            "utf-8-sig",
            ": {who}: format: encoding 'utf-8-sig' is not for lines. Write utf-8: a byte"
            " order mark at the beginning of a file is no data.",
        ),
    ],
)
def test_an_encoding_that_is_none_of_lines_is_told_with_its_path(kind, encoding, said):
    is_sink = kind.endswith("Sink")
    config = {"format": {"type": "csv", "fields": ["größe"], "encoding": encoding}}
    if "files" in kind:
        config["path"] = "x"
    problem = told(kind, config)[0]
    where = "spec.bolts[0]" if is_sink else "spec.spouts[1]"
    who = "bolt 'x'" if is_sink else "spout 'x'"
    assert problem.startswith(f"{where}.config.format{said.format(who=who)}")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7", "hz"])
def test_messages_are_in_any_encoding(encoding):
    for one, values in (
        (TextOptions(field="a", encoding=encoding), ["\u4e00\n"]),
        (CsvOptions(type="csv", fields=["a", "b"], encoding=encoding), ["\u4e00", '"']),
        (JsonOptions(type="json", fields=["a"], encoding=encoding), ["\u4e00\n"]),
    ):
        form = one.make()
        assert form.decode(form.encoder(form.fields)(values)) == values
    text = '{"a": 1}'.encode(encoding)
    assert JsonOptions(type="json", fields=["a"], encoding=encoding).make().decode(text) == [1]


def test_a_compressed_file_in_another_encoding_is_read(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress("ä;ö\n".encode("latin-1")))
    life = lives(tmp_path / "a.gz", format=format_of("csv", "latin-1"))
    assert life.batch() == [["ä", "ö"]]
