"""`fulmen state export` and `import`: state in files, and back."""

import json
import pickle
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen import BasicBolt, TopologyBuilder
from fulmen.checkpoint import Store, read_newest
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.driver.edits.entries import StateWriter
from fulmen.engine.state.committed_state import read_state
from fulmen.engine.state.values.json_form import from_json, has_shown, to_json
from fulmen.testing import ListSpout, run
from support.runs.engine_runs import A_PERSON

WHY = ("--because", "a test", "--author", "ann")
WORDS = [f"word {n}" for n in range(40)]

plain = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
    *(st.binary(max_size=4), st.decimals(allow_nan=False), st.uuids(), st.dates()),
    st.times().map(lambda one: one.replace(fold=0)),
    st.datetimes(timezones=st.just(UTC) | st.none()).map(lambda one: one.replace(fold=0)),
    st.timedeltas(),
)
keys = st.recursive(plain, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)
values = st.recursive(
    plain,
    lambda inner: st.one_of(
        *(st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple)),
        *(st.dictionaries(keys, inner, max_size=3), st.sets(plain, max_size=3)),
        *(st.frozensets(plain, max_size=3), st.dictionaries(st.text(max_size=3), inner)),
        st.dictionaries(st.sampled_from(["$tuple", "$a", "$"]), inner),
    ),
    max_leaves=6,
)


def typed(value):
    """A value in which values that are equal and of other types differ, in whatever order."""
    if isinstance(value, list | tuple):
        return type(value), [typed(one) for one in value]
    if isinstance(value, set | frozenset):
        return type(value), sorted(repr(typed(one)) for one in value)
    if isinstance(value, dict):
        return dict, sorted(repr((typed(key), typed(one))) for key, one in value.items())
    return type(value), repr(value)


@given(values)
def test_values_are_what_they_were_in_json_and_back(value):
    form = to_json(value)
    assert not has_shown(form)
    assert typed(from_json(json.loads(json.dumps(form)))) == typed(value)


@pytest.mark.parametrize(
    "value",
    [
        *(1, 1.0, True, "1", (1,), [1], {1: 2}, {"1": 2}, {1}, frozenset({1}), b"1", 10**40),
        *(float("inf"), -0.0, Decimal("1.50"), UUID(int=1), date(2026, 1, 31), time(1, 2)),
        *(timedelta(1, 2, 3), datetime(2026, 1, 31, tzinfo=timezone(timedelta(hours=1)))),
        *({"$tuple": [1]}, {"a": {"$b": ()}}, "\ud800", {}, ()),
    ],
    ids=repr,
)
def test_each_type_is_what_it_was(value):
    assert typed(from_json(json.loads(json.dumps(to_json(value))))) == typed(value)


class Counts(BasicBolt):
    def __init__(self):
        self.seen = 0

    def execute(self, tup, collector):
        self.seen += 1
        self.state[tup[0]] = (self.state.get(tup[0], (0,))[0] + 1, 2.0, b"x")


def count(uri, words, spout="words", limit=None):
    builder = TopologyBuilder("counts")
    builder.set_spout(spout, ListSpout([[word] for word in words], fields=["word"]))
    builder.set_bolt("count", Counts, 3).fields_grouping(spout, ["word"])
    return run(builder, checkpoint=uri).state("count")


@pytest.fixture
def kept(tmp_path):
    uri = (tmp_path / "kept").as_uri()
    count(uri, WORDS)
    return uri


def rows_in(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_what_is_exported_is_imported_with_its_types_and_what_follows_counts_on(
    fulmen, kept, tmp_path, kind
):
    file = f"all.{kind}"
    result = fulmen("state", "export", kept, "count", file)
    assert (result.exit_code, "40 rows of commit " in result.stderr) == (0, True), result.output
    other = (tmp_path / "other").as_uri()
    count(other, WORDS[:30])
    fulmen("state", "set", other, "count", "word 3", '{"$tuple": [9, 2.5, "a"]}', *WHY)
    result = fulmen("state", "import", other, "count", file, *WHY)
    assert (result.exit_code, "40 rows of " in result.stderr) == (0, True), result.output
    tasks = read_state(Store.open(other), "count").tasks
    assert pickle.dumps(sorted_items(tasks)) == pickle.dumps(
        sorted_items(read_state(Store.open(kept), "count").tasks)
    )
    assert count(other, ["word 3", "word 39"], "more")["word 39"] == (2, 2.0, b"x")
    [entry] = json.loads(fulmen("state", "log", other, "-o", "json").stdout)[:1]
    assert (entry["action"], entry["count"]) == ("import", 40)
    undone = fulmen("state", "undo", other, str(entry["number"]), "--anyway", *WHY)
    assert undone.exit_code == 0
    after = {
        k: v for of in read_state(Store.open(other), "count").tasks.values() for k, v in of.items()
    }
    assert after == dict.fromkeys(WORDS[:30], (1, 2.0, b"x")) | {"word 3": (9, 2.5, "a")}


def sorted_items(tasks):
    return {task: sorted(items.items()) for task, items in tasks.items()}


def test_parquet_has_keys_and_values_as_json(fulmen, kept, tmp_path):
    assert (
        fulmen("state", "export", kept, "count", "one.parquet", "--like", "word 7").exit_code == 0
    )
    [row] = pq.read_table(tmp_path / "one.parquet").to_pylist()
    assert (row["key"], row["value"]) == ('"word 7"', '{"$tuple": [1, 2.0, {"$bytes": "eA=="}]}')


def test_all_wrong_rows_are_told_with_their_lines_and_nothing_is_changed(fulmen, kept, tmp_path):
    good = '{"key": "word 1", "value": {"$tuple": [5]}}'
    lines = [
        *(good, "not json", '{"key": "word 2"}', '{"key": [1], "value": {"$tuple": [5]}}', good),
        *('{"key": "word 3", "value": 5}', "", '{"key": 7, "value": {"$tuple": [5]}}'),
        *('{"key": "word 4", "value": {"$shown": "<X>"}}', '{"key": "a", "value": 1, "tsak": 1}'),
        *('{"key": {"$float": "nan"}, "value": 1}', '{"key": "a", "value": 1, "task": "1"}'),
        '{"key": "word 5", "value": {"$decimal": "x"}}',
    ]
    (tmp_path / "wrong.jsonl").write_text("\n".join(lines))
    before = read_newest(Store.open(kept)).number
    result = fulmen("state", "import", kept, "count", "wrong.jsonl", *WHY)
    assert result.exit_code == 2
    told = result.stderr.splitlines()
    expected = {
        2: "it is not JSON",
        3: 'an object with "key" and "value"',
        4: "can't be a key, since it can change",
        5: "'word 1' is in wrong.jsonl, line 1 already",
        6: "is of type int, and was of type tuple",
        8: "7 is a key of type int, and those that 'count' has",
        9: "an object of a class",
        10: "'tsak' is not known",
        11: "is not equal to itself",
        12: "the task is a number from 0 on, and not '1'",
        13: "$decimal: 'x' can't be read",
    }
    for line, message in expected.items():
        assert any(f"wrong.jsonl, line {line}: " in t and message in t for t in told), (line, told)
    assert len(told) == len(expected) + 1
    assert told[-1] == "Nothing was changed."
    assert read_newest(Store.open(kept)).number == before


def test_fields_go_to_a_file_and_back(fulmen, kept, tmp_path):
    assert fulmen("state", "export", kept, "count", "f.jsonl", "--kind", "fields").exit_code == 0
    rows = rows_in(tmp_path / "f.jsonl")
    assert sum(row["value"] for row in rows) == 40
    text = "".join(json.dumps({**row, "value": row["value"] + 1}) + "\n" for row in rows)
    (tmp_path / "g.jsonl").write_text(text)
    import_them = ("state", "import", kept, "count", "g.jsonl", "--kind", "fields", *WHY)
    assert fulmen(*import_them).exit_code == 0
    assert fulmen("state", "export", kept, "count", "h.jsonl", "--kind", "fields").exit_code == 0
    assert sum(row["value"] for row in rows_in(tmp_path / "h.jsonl")) == 43
    (tmp_path / "g.jsonl").write_text('{"key": "sene", "value": 1, "task": 0}\n')
    assert "g.jsonl, line 1: task 0 has no field 'sene'" in fulmen(*import_them).stderr


def test_deleted_and_older_values_are_not_exported_although_segments_have_them(
    kept, fulmen, tmp_path
):
    for n in range(3):
        edit = Edit(Store.open(kept), A_PERSON)
        writer = StateWriter(edit, "count", "state")
        writer.write(0, "extra", n)
        writer.commit("set")
    fulmen("state", "delete", kept, "count", "--key", "word 5", *WHY)
    assert fulmen("state", "export", kept, "count", "all.jsonl").exit_code == 0
    rows = {row["key"]: row["value"] for row in rows_in(tmp_path / "all.jsonl")}
    assert (rows["extra"], "word 5" in rows, len(rows)) == (2, False, 40)


def test_a_file_that_is_there_or_of_another_kind_is_refused(fulmen, kept, tmp_path):
    (tmp_path / "a.jsonl").write_text("mine")
    refused = fulmen("state", "export", kept, "count", "a.jsonl")
    assert (refused.exit_code, "is there already" in refused.stderr) == (2, True)
    assert (
        "has to end with .jsonl or .parquet" in fulmen("state", "export", kept, "count", "a").stderr
    )
    (tmp_path / "b.parquet").write_text("mine")
    refused = fulmen("state", "import", kept, "count", "b.parquet", *WHY)
    assert (refused.exit_code, "'b.parquet' can't be read" in refused.stderr) == (2, True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "b.parquet", "kept"]


def test_sizes_are_those_of_each_task_with_its_largest_keys(fulmen, kept):
    large = '{"$tuple": ["%s", 1]}' % ("x" * 5000)
    fulmen("state", "set", kept, "count", "word 7", large, *WHY)
    every = json.loads(fulmen("state", "sizes", kept, "-o", "json", "--top", "2").stdout)
    assert {one["component"] for one in every} == {"count", "words"}
    found = [one for one in every if one["component"] == "count"]
    assert sum(one["keys"] for one in found) == 40
    tasks = read_state(Store.open(kept), "count").tasks
    assert {one["task"]: one["keys"] for one in found} == {t: len(of) for t, of in tasks.items()}
    [largest] = [one for one in found if one["largest"][0][0] == "word 7"]
    assert 5000 < largest["largest"][0][1] < 5100
    assert 5000 < largest["bytes"] < 10_000
    assert all(len(one["largest"]) == 2 for one in found)
    lines = fulmen("state", "sizes", kept, "count").stdout.splitlines()
    assert len(lines) == 3
    assert any("largest: word 7 (5," in line for line in lines)
