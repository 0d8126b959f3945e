"""What files have besides rows: byte order marks, blank lines; and values with types and nulls."""

import gzip
from datetime import date
from decimal import Decimal

import pytest
from pydantic import ValidationError

from fulmen import BasicBolt, TopologyBuilder
from fulmen.connectors.files import FileSpout
from fulmen.connectors.files.options import FileSpoutOptions
from fulmen.connectors.formats import Malformed
from fulmen.connectors.formats.csv_format import CsvFormat
from fulmen.testing import run
from support.connectors.file_spouts import SpoutLives

BOM = b"\xef\xbb\xbf"
JSON = {"type": "json", "fields": ["id", "v"]}
FORMATS = {
    "json": (JSON, b'{"id": 1, "v": 2}', [1, 2]),
    "csv": ({"type": "csv", "fields": ["id", "v"]}, b"1,2", ["1", "2"]),
    "text": ({"type": "text"}, b"1,2", ["1,2"]),
    "latin-1": ({"type": "text", "encoding": "latin-1"}, b"1,2", ["1,2"]),
    "bytes": ({"type": "bytes"}, b"1,2", [b"1,2"]),
}


def lives(path, **config):
    return SpoutLives(FileSpout, path=str(path), follow=False, **config)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_byte_order_mark_at_the_beginning_is_no_data(tmp_path, name, packed):
    form, line, values = FORMATS[name]
    data = BOM + line + b"\n" + line + b"\n"
    (tmp_path / ("a.gz" if packed else "a")).write_bytes(gzip.compress(data) if packed else data)
    life = lives(tmp_path / "a*", format=form)
    assert life.batch() == [values, values]
    assert life.batch(fails=list(life.pending)) == [values, values]  # read again, by position


def test_a_byte_order_mark_is_no_part_of_the_first_name_of_a_header(tmp_path):
    (tmp_path / "a.csv").write_bytes(BOM + b"id,v\n1,2\n")
    life = lives(tmp_path / "a.csv", format={"type": "csv", "fields": ["v", "id"]}, header=True)
    assert life.batch() == [["2", "1"]]


@pytest.mark.parametrize(
    ("form", "lines", "values"),
    [
        (JSON, b'\n{"id": 1}\n\n \r\n{"id": 2}\n\n', [[1, None], [2, None]]),
        ({"type": "csv", "fields": ["a", "b"]}, b"\n1,2\n\r\n3,4\n\n", [["1", "2"], ["3", "4"]]),
        ({"type": "csv", "fields": ["a"]}, b"1\n\n2\n", [["1"], [""], ["2"]]),
        ({"type": "text"}, b"1\n\n2\n", [["1"], [""], ["2"]]),
        ({"type": "bytes"}, b"\n1\n", [[b""], [b"1"]]),
    ],
)
def test_blank_lines_are_skipped_where_they_can_be_no_row(tmp_path, form, lines, values):
    (tmp_path / "a").write_bytes(lines)
    life = lives(tmp_path / "a", format=form)
    assert life.batch() == values
    assert life.spout.is_exhausted()
    life.batch(acks=list(life.pending))
    assert life.values("errors") == []


def test_blank_lines_at_the_end_are_read_once(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b'{"id": 1}\n\n\n')
    life = SpoutLives(FileSpout, path=str(file), format=JSON)
    assert life.batch() == [[1, None]]
    with file.open("ab") as more:
        more.write(b'\n{"id": 2}\n')
    life.clock.advance(2)
    assert life.batch() == [[2, None]]


LARGE = 18446744073709551616


@pytest.mark.parametrize("fields", [["id", "v"], {"id": "integer", "v": "string"}])
def test_whole_numbers_beyond_64_bits_are_exact(tmp_path, fields):
    (tmp_path / "a").write_text(
        f'{{"id": {LARGE}, "v": "2**64"}}\n{{"id": {-LARGE}, "v": ""}}\n{{"id": 1, "v": "x"}}\n'
    )
    life = lives(tmp_path / "a", format={"type": "json", "fields": fields})
    found = life.batch()
    assert found == [[LARGE, "2**64"], [-LARGE, ""], [1, "x"]]
    assert {type(number) for number, _ in found} == {int}


def test_values_of_csv_have_types_and_nulls_and_what_is_none_is_malformed(tmp_path):
    (tmp_path / "planes.csv").write_text(
        'seats,speed,tailnum,price,day\n55,NA,N10156,1.10,2004-01-02\n"7",90.5,"NA",NA,\nx,1,a,2,\n'
    )
    fields = {"tailnum": "string", "seats": "int32", "speed": "float64", "price": "decimal"}
    form = {"type": "csv", "fields": {**fields, "day": "date32"}, "nulls": ["NA", ""]}
    life = lives(tmp_path / "planes.csv", format=form, header=True)
    life.finish()
    assert life.values() == [
        ["N10156", 55, None, Decimal("1.10"), date(2004, 1, 2)],
        ["NA", 7, 90.5, None, None],
    ]
    said = "field 'seats': 'x' is no int32. If it means null, name it in `nulls`"
    assert life.values("errors") == [[b"x,1,a,2,", said, f"{tmp_path}/planes.csv:77"]]


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("int32", "4.0", "'4.0' is no int32. Read it as float64, or decimal"),
        ("int64", "4,5", "'4,5' is no int64. If it means null, name it in `nulls`"),
        (
            "timestamp",
            "9/30/1990 0:00:00",
            "'9/30/1990 0:00:00' is no timestamp, as ISO 8601 writes it. Say how it is"
            " written, such as timestamp(%d/%m/%Y)",
        ),
        ("date32", "never", "'never' is no date32. If it means null, name it in `nulls`"),
    ],
)
def test_a_value_that_is_written_in_another_way_is_told_with_its_cure(tmp_path, kind, text, said):
    (tmp_path / "a.csv").write_text(f"{text};\n")
    form = {"type": "csv", "delimiter": ";", "fields": {"a": kind, "b": "string"}}
    life = lives(tmp_path / "a.csv", format=form)
    life.finish()
    assert [row[1] for row in life.values("errors")] == [f"field 'a': {said}"]


def test_a_header_that_nobody_named_is_told_as_one(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\r\n1,x\r\n")
    form = {"type": "csv", "fields": {"a": "int64", "b": "string"}}
    life = lives(tmp_path / "a.csv", format=form)
    life.finish()
    assert life.values() == [[1, "x"]]
    assert ["write `header: true`" in row[1] for row in life.values("errors")] == [True]


def test_a_carriage_return_in_a_message_is_told_without_pythons_advice():
    made = CsvFormat(["a", "b"])
    with pytest.raises(Malformed, match=r"CSV: new-line character seen in unquoted field$"):
        made.decode(b"1,a\rb")
    assert made.decode(b"1,a") == ["1", "a"]


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        pytest.param(b"id,item\r1,lamp\r2,rug\r", ["lamp", "rug"], id="carriage-returns"),
        pytest.param(b"\n  \n\r\nid,item\n1,lamp\n", ["lamp"], id="blank-before-the-header"),
        pytest.param(b"\xef\xbb\xbf\nid,item\n1,lamp\n", ["lamp"], id="mark-in-a-blank-line"),
        pytest.param(b'\xef\xbb\xbf"id","a\nb","item"\n1,2,rug\n', ["rug"], id="mark-and-quotes"),
        pytest.param(b'id,item\n1,5"\n2,lamp\n3,6"\n', ['5"', "lamp", '6"'], id="stray-quotes"),
        pytest.param(b'id,item\n1,"5\n2,a\n3,"6\n4,b\n', ["a", "b"], id="never-closed"),
    ],
)
def test_a_file_of_csv_costs_no_row_but_those_that_are_malformed(tmp_path, data, rows):
    (tmp_path / "a.csv").write_bytes(data)
    life = lives(tmp_path / "a.csv", format={"type": "csv", "fields": ["item"]}, header=True)
    life.finish()
    assert [row for (row,) in life.values()] == rows


def test_separators_alone_are_a_row_though_they_are_blank(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"a\tb\n\t\n \n\n")
    form = {"type": "csv", "delimiter": "\t", "fields": ["a", "b"]}
    life = lives(tmp_path / "a.tsv", format=form)
    life.finish()
    assert life.values() == [["a", "b"], ["", ""]]


def test_a_header_that_names_a_field_twice_is_told(tmp_path):
    (tmp_path / "a.csv").write_text("id,item,item\n1,lamp,blue\n")
    life = lives(tmp_path / "a.csv", format={"type": "csv", "fields": ["item"]}, header=True)
    life.finish()
    said = (
        "the file's header has 'item' 2 times: ['id', 'item', 'item']. Give these columns other"
        " names, or read the file without `header`"
    )
    assert (life.values(), [row[1] for row in life.values("errors")]) == ([], [said])
    life = lives(tmp_path / "a.csv", format={"type": "csv", "fields": ["id"]}, header=True)
    life.finish()
    assert life.values() == [["1"]]


def test_a_value_above_128_kib_is_read(tmp_path):
    (tmp_path / "a.csv").write_text("1," + "x" * 200_000 + "\n")
    life = lives(tmp_path / "a.csv", format={"type": "csv", "fields": ["a", "b"]})
    assert life.batch() == [["1", "x" * 200_000]]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"fields": {"a": "int33"}}, "int32"),
        ({"fields": ["a"], "nulls": ['"']}, "would need quotes"),
        ({"fields": ["a"], "nulls": ["a,b"]}, "would need quotes"),
        ({"fields": ["a"], "delimiter": '"'}, "delimiter can't be"),
    ],
)
def test_types_and_nulls_that_can_be_none_are_refused(form, said):
    with pytest.raises(ValidationError, match=said):
        FileSpoutOptions(path="x", format={"type": "csv", **form})


class Forgetting(BasicBolt):
    def execute(self, tup, collector):
        pass


@pytest.mark.parametrize("is_read", [False, True])
def test_the_first_malformed_line_is_told_if_no_bolt_gets_it(tmp_path, is_read):
    path = tmp_path / "a"
    path.write_text('{"id": 1}\n{\n[]\n')
    builder = TopologyBuilder()
    config = {"path": str(path), "follow": False, "format": JSON}
    builder.set_spout("lines", FileSpout).set_config(config)
    bolt = builder.set_bolt("forget", Forgetting).global_grouping("lines")
    if is_read:
        bolt.global_grouping("lines", "errors")
    told = [error.message for error in run(builder).errors]
    expected = (
        f"a message can't be read, at {path}:10: it is not JSON: unexpected end of data: line 1"
        " column 2 (char 1). It is on the stream 'errors', which no bolt reads. More of them are"
        " counted, and not told"
    )
    assert told == ([] if is_read else [expected])
