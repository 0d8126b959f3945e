"""Parts of lists and objects, and rows for the values of lists, as DuckDB has them."""

import duckdb
import pyarrow as pa
import pytest

from fulmen import Stream
from fulmen.expressions.selection import ANY_FIELDS, selected, steps_of
from fulmen.expressions.steps import Steps, StepsRunner

ROWS = {
    "id": [1, 2, 3, 4, 5],
    "tags": [["x", "y", None], [], None, ["z"], ["u", "v"]],
    "doc": [
        {"user": {"name": "a"}, "n": [1, 2, 3], "items": [{"price": 1.5, "at": [7]}]},
        {"user": None, "n": [], "items": []},
        None,
        {"user": {"name": None}, "n": None, "items": None},
        {"user": {"name": "b"}, "n": [4, None], "items": [{"price": 2.0, "at": None}, None]},
    ],
    "line": ["a b", "", None, "c", "d  e"],
}
TABLE = pa.table(ROWS)
FIELDS = tuple(ROWS)


def run(where, select):
    rows = [list(row) for row in zip(*ROWS.values(), strict=True)]
    return StepsRunner(Steps(FIELDS, where, tuple(select))).run(rows)


@pytest.mark.parametrize(
    ("where", "select"),
    [
        (None, ["doc.user.name", "tags[1]", "doc.n[-1] * 2", "doc.items[1].price", "tags[0]"]),
        ("doc.user.name = 'b' or tags[2] is null", ["doc['user'].name", "(doc).n[2]", "id"]),
        (None, ["unnest(tags)", "id"]),
        (None, ["id", "upper(unnest(tags))", "unnest(doc.n) + id", "doc.user.name"]),
        ("id <> 2", ["unnest(string_split(line, ' '))", "length(unnest(string_split(line, ' ')))"]),
        (None, ["unnest(doc.items).price * 2", "unnest(doc.items).at[1]", "length(doc.items)"]),
        ("length(tags) > 1", ["unnest(regexp_extract_all(line, '[a-z]'))"]),
    ],
)
def test_rows_are_those_of_duckdb(where, select):
    given = TABLE  # noqa: F841 (DuckDB finds it by its name)
    texts = ", ".join(f"{text} as c{i}" for i, text in enumerate(select))
    condition = "" if where is None else f"where {where}"
    theirs = duckdb.sql(f"select {texts} from given {condition}").fetchall()
    done = run(where, [(f"c{i}", text) for i, text in enumerate(select)])
    assert done.failed == {}
    assert [tuple(row) for row in done.rows] == theirs


def test_a_list_of_several_types_becomes_rows():
    """As the `top` of a window has them."""
    steps = Steps(("top",), None, (("page", "unnest(top)[1]"), ("n", "unnest(top)[2] + 1")))
    done = StepsRunner(steps).run([[[["/a", 7], ["/b", 2]]], [[]], [[[None, 1]]]])
    assert (done.rows, done.at) == ([("/a", 8), ("/b", 3), (None, 2)], [0, 0, 2])


def test_a_row_that_fails_for_one_value_of_its_list_fails_once():
    steps = Steps(("id", "l"), "id > 0", (("n", "unnest(l) + 1"), ("id", "id")))
    done = StepsRunner(steps).run([[0, [1]], [1, [1, "x"]], [2, "x"], [3, (4, 5)], [4, None]])
    assert (done.rows, done.at) == ([(5, 3), (6, 3)], [3, 3])
    assert done.failed == {
        1: "select n 'unnest(l) + 1': + takes numbers, but is between VARCHAR and BIGINT"
        " (column 8) (unnest(l) is 'x')",
        2: "select: unnest takes a list, and 'x' is none",
    }


def test_a_part_of_what_has_none_fails_where_it_is_asked_for():
    texts = (("a", "if(id > 1, d.x, 'none')"), ("b", "try(d.x.y[1])"))
    done = StepsRunner(Steps(("id", "d"), None, texts)).run(
        [[1, "q"], [2, {"x": "z"}], [3, "q"], [4, {}]]
    )
    assert (done.rows, done.at) == ([("none", None), ("z", None), (None, None)], [0, 1, 3])
    assert done.failed == {
        2: "select a \"if(id > 1, d.x, 'none')\": 'q' is no object with a 'x'"
        " (id is 3, d.x is no part)"
    }


def test_a_field_with_a_dot_in_its_name_is_told_from_a_part():
    steps = Steps(("a.b", "a"), None, (("x", '"a.b"'), ("y", "a.b"), ("z", '"a.b" + a.b')))
    assert StepsRunner(steps).run([[1, {"b": 2}]]).rows == [(1, 2, 3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lin.x", "there is no field 'lin' (column 1)"),
        ("1 + line.x", "'line' is a VARCHAR, which has no parts (column 5)"),
        ("unnest(line)", "unnest takes a LIST, and no VARCHAR (column 8)"),
        ("tags[id]", "in brackets is a whole number or a name in quotes"),
        ("unnest(unnest(tags))", "unnest is in another one (column 1)"),
        ("unnest(tags, 1)", "unnest takes one list (column 1)"),
        ("upper(line)[1]", "only a field or an unnest has parts (column 1)"),
        ("unnest(docs.items).price", "there is no field 'docs' (column 8)"),
    ],
)
def test_mistakes_have_their_place(text, message):
    stream = Stream(FIELDS, types={"line": "string", "id": "int64"})
    (mistake,) = selected(steps_of(stream, None, {"x": text}), stream).mistakes
    assert str(mistake[1]) == message


def test_where_makes_no_rows():
    found = selected(steps_of(ANY_FIELDS, "unnest(tags) = 'x'", None), ANY_FIELDS)
    assert [str(error) for _, error in found.mistakes] == [
        "where can't make rows of a list (column 8)"
    ]


TYPED = Stream(
    ("tags", "numbers", "line", "any"),
    types={"tags": "list(string)", "numbers": "list(int64)", "line": "string"},
)
OURS = {
    "VARCHAR": "string",
    "VARCHAR[]": "list(string)",
    "BIGINT": "int64",
    "BIGINT[]": "list(int64)",
    "DOUBLE": "float64",
    "BOOLEAN": "bool",
}


@pytest.mark.parametrize(
    "text",
    [
        "tags",
        "tags[1]",
        "numbers[-1] * 2",
        "numbers[1] / 2",
        "unnest(tags)",
        "unnest(numbers) + 1",
        "upper(unnest(tags)) = 'X'",
        "string_split(line, ' ')",
        "unnest(string_split(line, ' '))",
        "regexp_extract_all(line, '[a-z]')",
    ],
)
def test_the_types_of_what_is_in_lists_are_those_of_duckdb(text):
    found = selected(steps_of(TYPED, None, {"x": text}), TYPED)
    assert found.mistakes == []
    lists = "['x']::VARCHAR[] tags, [1]::BIGINT[] numbers, 'a b' line"
    [kind] = duckdb.sql(f"select {text} x from (select {lists})").types
    assert found.stream.types == {"x": OURS[str(kind)]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tags[1] + 1", "+ takes numbers, but is between VARCHAR and BIGINT (column 1)"),
        ("unnest(numbers) = 'x'", "BIGINT and VARCHAR can't be compared by = (column 8)"),
        ("upper(numbers[2])", "there is no upper(BIGINT) (column 1)"),
        ("tags.name", "'tags' is a LIST, whose parts have numbers (column 1)"),
        ("numbers[1].x", "numbers[1] is a BIGINT, which has no parts (column 1)"),
        ("unnest(tags)[1]", "'unnest(tags)' is a VARCHAR, which has no parts (column 8)"),
        ("unnest(tags[1])", "unnest takes a LIST, and no VARCHAR"),
    ],
)
def test_wrong_use_of_what_is_in_lists_is_told_before_it_runs(text, message):
    found = selected(steps_of(TYPED, None, {"x": text}), TYPED)
    [(_, error)] = found.mistakes
    assert str(error).startswith(message)


def test_lists_of_which_nothing_is_known_are_let_be():
    texts = {"a": "any[1] + 1", "b": "upper(any.x)", "c": "unnest(any) + 1"}
    found = selected(steps_of(TYPED, None, texts), TYPED)
    assert found.mistakes == []
