"""What pipelines compile to, and what is said of mistakes."""

import json
import re
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from fulmen import Stream
from fulmen.cli.main import main
from fulmen.connectors.console import StdoutSink
from fulmen.connectors.files import FileSpout
from fulmen.errors import CodeError, ValidationFailed
from fulmen.streams import Streams, agg, tumbling
from fulmen.streams.graph.registry import find_graph
from fulmen.testing import CollectBolt, ListSpout

FIELDS = Stream(("user", "n", "at"), types={"user": "string", "n": "int64"})


def source(pipeline, name="rows", **options):
    return pipeline.source(name, ListSpout((), streams={"default": FIELDS}), **options)


def bolts(pipeline):
    return {bolt.name: bolt for bolt in pipeline.build().spec.bolts}


def inputs(bolt):
    return [(i.from_, i.grouping.type, i.where, i.select and dict(i.select)) for i in bolt.inputs]


def test_steps_become_a_part_of_the_input_behind_them():
    pipeline = Streams("fused")
    rows = source(pipeline).where("n > 1").filter(lambda r: r.n).peek(print).with_fields(m="n * 2")
    rows.where("m > 5").key_by("user").count(name="counts").sink("out", CollectBolt)
    found = bolts(pipeline)
    assert list(found) == ["counts", "out"]
    assert inputs(found["counts"]) == [("rows", "fields", "n > 1", None)]
    through = found["counts"].inputs[0].through
    assert through.config["steps"][-1] == "rows.where.filter.peek.with_fields.where"
    assert through.fields == ("user", "n", "at", "m")
    assert through.types == {"user": "string", "n": "int64", "m": "int64"}
    assert re.sub(r"\d+", "7", pipeline.explain()).startswith(
        "rows  ListSpout  (test_topologies.py:7)\n"
        "counts  RunningAggregate  (test_topologies.py:7)\n"
        "  from rows by fields user where n > 7\n"
        "    in the tasks of rows, so that only what is left is sent:\n"
        "    filter(<lambda>)  (test_topologies.py:7)\n"
        "    peek(print)  (test_topologies.py:7)\n"
    )


def test_aggregates_that_have_other_names_elsewhere_are_told():
    with pytest.raises(AttributeError, match="there is no aggregate 'avg', but 'mean'"):
        agg.avg("n")


def test_expressions_alone_need_no_bolt():
    pipeline = Streams("folded")
    rows = source(pipeline).select("user", m="n + 1").where("m > 2").with_fields(user="upper(user)")
    rows.where("user = 'A'").sink("out", CollectBolt)
    (only,) = bolts(pipeline).values()
    assert inputs(only) == [
        ("rows", "local-or-shuffle", "((n + 1) > 2) and ((upper(user)) = 'A')",
         {"user": "upper(user)", "m": "n + 1"}),
    ]  # fmt: skip


def test_what_two_streams_use_is_run_once():
    pipeline = Streams("forked")
    rows = source(pipeline).filter(lambda r: r.n)
    rows.map(lambda r: r, fields=["user", "n", "at"]).sink("mapped", CollectBolt)
    rows.where("n > 1").sink("all", CollectBolt)
    assert {name: [i[0] for i in inputs(bolt)] for name, bolt in bolts(pipeline).items()} == {
        "rows-filter": ["rows"],
        "mapped": ["rows-filter"],
        "all": ["rows-filter"],
    }


def test_a_bolt_of_steps_has_an_executor_for_each_worker_that_its_source_may_be_on():
    pipeline = Streams("beside", workers=2)
    rows = source(pipeline, parallelism=4).filter(lambda r: r.n)
    rows.sink("out", CollectBolt)
    rows.repartition(5).filter(lambda r: r.n).sink("more", CollectBolt)
    found = bolts(pipeline)
    assert found["rows-filter"].parallelism == 2
    assert found["rows-filter-filter"].parallelism == 5
    assert inputs(found["rows-filter-filter"])[0][1] == "shuffle"


def test_options_have_the_names_of_the_file_and_fields_of_the_component_are_its_own():
    pipeline = Streams("options")
    lines = pipeline.source(
        "lines", FileSpout, path="x", follow=False, format={"type": "text"}, num_tasks=3
    )
    windows = lines.with_fields(at=lambda r: 0).key_by("value")
    windows = windows.window(tumbling("1m"), time="at", unit="ms", allowed_lateness="1h")
    windows.aggregate(name="w", n=agg.count()).sink("out", StdoutSink, parallelism=2)
    topology = pipeline.build()
    assert topology.spec.spouts[0].num_tasks == 3
    assert topology.component("w").config["allowedLateness"] == "1h"
    assert topology.component("out").parallelism == 2


def test_results_of_windows_are_joined_by_windows():
    pipeline = Streams("twice")
    rows = source(pipeline, event_time={"field": "at", "unit": "ms"})
    windows = rows.key_by("user").window(tumbling("1m"))
    left, right = windows.count(name="left"), windows.count(name="right")
    left.join(right, "user", window=tumbling("1h"), name="both").sink("out", CollectBolt)
    config = pipeline.build().component("both").config
    assert list(config["left"]["fields"]) == [
        "user",
        "window_start_left",
        "window_end_left",
        "count",
    ]
    assert list(config["right"]["fields"]) == [
        "window_start_right",
        "window_end_right",
        "count_right",
    ]


MISTAKES = {
    "key": (
        lambda s: s.key_by("usr").count().sink("out", CollectBolt),
        "the rows have no field 'usr'. Did you mean 'user'?",
    ),
    "expression": (
        lambda s: s.where("m > 1").sink("out", CollectBolt),
        "where 'm > 1': there is no field 'm'",
    ),
    "type": (
        lambda s: s.with_fields(x="user + 1").sink("out", CollectBolt),
        "with_fields x 'user + 1': ",
    ),
    "expression behind a function": (
        lambda s: s.filter(id).select(x="lenght(user)").sink("out", CollectBolt),
        "select x 'lenght(user)': ",
    ),
    "time": (
        lambda s: s.key_by("user").window(tumbling("1m")).count().sink("out", CollectBolt),
        "the rows have no event time here",
    ),
    "aggregate": (
        lambda s: s.key_by("user").window(tumbling("1m"), time="at").aggregate(
            n="summ(n)").sink("out", CollectBolt),
        "there is no aggregate 'summ'",
    ),
    "merge": (
        lambda s: s.merge(s.select("n")).sink("out", CollectBolt),
        "the streams have different fields",
    ),
    "side": (lambda s: s.side("odd").sink("out", CollectBolt), "'rows' has no stream 'odd'"),
    "option": (
        lambda s: s.sink("out", StdoutSink, formt={"type": "json"}),
        "formt",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISTAKES)
def test_each_mistake_is_told_with_its_line(kind):
    pipeline = Streams("mistaken")
    call, message = MISTAKES[kind]
    call(source(pipeline))
    with pytest.raises(ValidationFailed) as failed:
        pipeline.build()
    (problem,) = failed.value.problems
    line = call.__code__.co_firstlineno
    found = re.search(r"test_topologies\.py:(\d+)", str(problem))
    assert found, str(problem)
    assert line <= int(found[1]) <= line + 1
    assert message in str(problem)


def test_all_mistakes_are_told_at_once():
    pipeline = Streams("mistaken")
    rows = source(pipeline)
    rows.key_by("usr").count(name="a").sink("one", CollectBolt)
    rows.where("m > 1").sink("two", CollectBolt)
    rows.sink("three", StdoutSink, formt={"type": "json"})
    with pytest.raises(ValidationFailed) as failed:
        pipeline.build()
    assert len(failed.value.problems) == 3


def test_mistakes_behind_others_are_told_with_them():
    pipeline = Streams("mistaken")
    config = {"type": "json", "fields": {"user": "string", "n": "int64"}}
    rows = pipeline.source("rows", FileSpout, pth="x", format=config)
    rows.where("m > 1").sink("one", CollectBolt)
    rows.key_by("usr").count(name="a").sink("two", StdoutSink, formt={})
    with pytest.raises(ValidationFailed) as failed:
        pipeline.build()
    told = " ".join(map(str, failed.value.problems))
    assert all(f"'{name}'" in told for name in ("path", "pth", "m", "usr", "formt"))
    assert len(failed.value.problems) == 5


@pytest.mark.parametrize(("kind", "told"), [("tumblin", True), ("quux", False)])
def test_mistakes_behind_a_wrong_kind_of_window_are_told_if_it_is_clear_what_is_meant(kind, told):
    pipeline = Streams("mistaken")
    config = {"type": "json", "fields": {"user": "string", "at": "string"}}
    rows = pipeline.source("rows", FileSpout, path="x", format=config, event_time="at")
    windows = rows.key_by("user").window({"type": kind, "size": "10s"}).aggregate(n=agg.count())
    windows.where("m > 1").sink("one", CollectBolt)
    with pytest.raises(ValidationFailed) as failed:
        pipeline.build()
    problems = list(map(str, failed.value.problems))
    assert any(f"type is '{kind}', but must be one of" in one for one in problems)
    assert any("there is no field 'm'" in one for one in problems) == told
    assert len(problems) == 1 + told


CALLS = {
    "filter of text": (lambda s: s.filter("n > 1"), "Write where for an expression"),
    "where of a function": (lambda s: s.where(len), "Write filter for a function"),
    "map without fields": (lambda s: s.map(lambda r: r), "map needs the fields"),
    "with_fields of both": (lambda s: s.with_fields(a="n", b=len), "Write two with_fields"),
    "no key": (lambda s: s.key_by(), "key_by takes names of fields"),
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_that_can_mean_nothing_is_refused_at_once(kind):
    call, message = CALLS[kind]
    with pytest.raises(ValidationFailed, match=message):
        call(source(Streams("refused")))


def test_words_of_others_name_ours():
    rows = source(Streams("words"))
    with pytest.raises(AttributeError, match="a stream has no 'groupBy': write key_by"):
        rows.groupBy("user")
    with pytest.raises(AttributeError, match="Did you mean 'filter'"):
        rows.filtr(len)


def test_loose_ends_and_names_that_others_may_change_are_warnings():
    pipeline = Streams("loose")
    rows = source(pipeline)
    merged = rows.merge(source(pipeline, "others"))
    merged.key_by("user").count().sink("out", CollectBolt)
    rows.filter(len)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        pipeline.build()
    texts = [str(one.message) for one in warned]
    assert [text.split(": ")[0] for text in texts if "no sink" in text] == [
        "nothing is behind 'rows.filter'"
    ]
    assert any("Give name='rows-by-user-count'" in text for text in texts)
    assert {Path(one.filename).name for one in warned} == {"test_topologies.py"}


def test_a_new_step_without_state_changes_no_name_of_what_keeps_state():
    def names(change):
        pipeline = Streams("named")
        change(source(pipeline)).key_by("user").count().sink("out", CollectBolt)
        return {name for name in bolts(pipeline) if "-by-" in name}

    assert names(lambda s: s) == {"rows-by-user-count"}
    assert names(lambda s: s.filter(len).where("n > 1").peek(len)) == {"rows-by-user-count"}


PIPELINE = """
from fulmen.connectors.console import StdoutSink
from fulmen.streams import Streams
from fulmen.connectors.files import FileSpout

def pipeline():
    shop = Streams("shop")
    lines = shop.source("lines", FileSpout, path="words", follow=False, format={"type": "text"})
    bonus = 7
    words = lines.flat_map(lambda line: line.value.split(), fields="word")
    (words.filter(lambda row: len(row.word) < bonus).key_by("word").count(name="counts")
          .where("count > 1").sink("out", StdoutSink))
    shop.run()
    return shop

it = pipeline()
"""


@pytest.fixture
def in_a_file(tmp_path, monkeypatch):
    (tmp_path / "shop_of_words.py").write_text(PIPELINE)
    (tmp_path / "words").write_text("a b a\nlongestword b b\n")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("shop_of_words", None)


def fulmen(*arguments):
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_file_runs_is_planned_and_validated_as_any_topology(in_a_file):
    assert "'shop' is valid: 1 spout, 2 bolts" in fulmen("validate", "shop_of_words.py")
    planned = fulmen("plan", "shop_of_words.py")
    assert "lines runs, ahead of counts\n  flat_map(<lambda>) (shop_of_words.py:10)" in planned
    (first, _) = json.loads(fulmen("plan", "shop_of_words.py", "-o", "json"))["inputs"]
    assert first == {
        "bolt": "counts", "from": "lines", "stream": "default", "where": None, "select": None,
        "through": {"word": {"type": None}},
    }  # fmt: skip
    out = fulmen("run", "shop_of_words.py", "--in-process", "--until-drained")
    assert out.splitlines()[:3] == [
        '{"word":"a","count":2}', '{"word":"b","count":2}', '{"word":"b","count":3}'
    ]  # fmt: skip


def test_another_process_finds_the_functions_by_the_names_of_their_steps(in_a_file):
    fulmen("validate", "shop_of_words.py")
    code = """
        from fulmen.streams.graph.registry import find_graph
        names = ["lines.flat_map", "lines.flat_map.filter"]
        graph = find_graph("shop_of_words:shop")
        steps = [node for node in graph.nodes if node.name in names]
        from fulmen.streams.graph.nodes import digest_of
        print(digest_of(steps), len(graph.steps(names, digest_of(steps))))
        import sys; print("fulmen.engine" in sys.modules)
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"[0-9a-f]{16} 2\nFalse\n", found.stdout)


def test_a_pipeline_that_an_import_does_not_build_is_said():
    with pytest.raises(CodeError, match="builds no pipeline 'textwrap:shop': none"):
        find_graph("textwrap:shop")
    pipeline = Streams("here")
    source(pipeline).filter(len).sink("out", CollectBolt)
    config = bolts(pipeline)["out"].inputs[0].through.config
    graph = find_graph(config["pipeline"])
    with pytest.raises(CodeError, match=r"has no step 'rows.map' here: \['rows.filter'\]"):
        graph.steps(["rows.map"], config["digest"])
    with pytest.raises(CodeError, match="are others here"):
        graph.steps(["rows.filter"], "0" * 16)


def test_a_module_has_one_pipeline_of_a_name(tmp_path, monkeypatch):
    (tmp_path / "two_of_one.py").write_text(
        "from fulmen.streams import Streams\nStreams('a')\nStreams('a')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValidationFailed, match=r"two_of_one.py:3: the module 'two_of_one' has two"):
        __import__("two_of_one")
