"""`config_model`: a component's `config`, validated before anything runs."""

import pytest

from fulmen import TopologyBuilder
from fulmen.errors import ValidationFailed
from fulmen.testing import BoltHarness, ListSpout, run
from fulmen.topology.validation.check import check
from support.cli.documents import word_count
from support.parts.config_parts import Numbered, Writer

PATH = "spec.bolts[1].config"
WHO = "bolt 'count'"


def document(config, name="Writer", **more):
    changes = {
        "spec.bolts.1.class": f"support.parts.config_parts.{name}",
        "spec.bolts.1.config": config,
    }
    return word_count({**changes, **more})


def texts(config, name="Writer"):
    return [str(problem) for problem in check(document(config, name)).problems]


MISTAKES = {
    "missing": ({}, [f"{PATH}.dsn: {WHO}: 'dsn' is missing. Where the store is."]),
    "all-at-once": (
        {"dsn": 3, "batchsize": 2000, "mode": "upsrt", "isFast": "perhaps", "columns": "word"},
        [
            f"{PATH}.mode: {WHO}: mode is 'upsrt', but must be one of insert, upsert. "
            "Did you mean 'upsert'?",
            f"{PATH}.batchsize: {WHO}: there is no option 'batchsize'. "
            "Did you mean 'batchSize'?",
            f"{PATH}.dsn: {WHO}: dsn is 3, but must be text. Write it in quotes.",
            f"{PATH}.batchSize: {WHO}: batchSize is 2000, but must be at most 1000.",
            f"{PATH}.columns: {WHO}: columns is 'word', but must be a list. "
            "Write columns: [word].",
            f"{PATH}.isFast: {WHO}: isFast is 'perhaps', but must be true or false.",
        ],
    ),
    "nothing-like-it": (
        {"dsn": "x", "layout": {"type": "comma", "zzz": 1}},
        [f"{PATH}.layout.zzz: {WHO}: there is no option 'zzz'. There are: type, width."],
    ),
    "too-far-in": (
        {"dsn": "x", "layout": {"type": "comma", "batchSize": 1}},
        [
            f"{PATH}.layout.batchSize: {WHO}: there is no option 'batchSize'. "
            "Write it beside 'layout', not within it."
        ],
    ),
    "too-far-out": (
        {"dsn": "x", "width": 1},
        [
            f"{PATH}.width: {WHO}: there is no option 'width'. "
            "It is an option of hosts and of layout."
        ],
    ),
    "bounds": (
        {"dsn": "x", "batchSize": 1001},
        [f"{PATH}.batchSize: {WHO}: batchSize is 1001, but must be at most 1000."],
    ),
    "nested": (
        {"dsn": "x", "hosts": [{"type": "comma"}, {"type": "comma", "width": "wide"}]},
        [f"{PATH}.hosts[1].width: {WHO}: width is 'wide', but must be a whole number."],
    ),
    "kind-of-a-union": (
        {"dsn": "x", "layout": {"type": "coma"}},
        [
            f"{PATH}.layout.type: {WHO}: type is 'coma', but must be one of comma, plain. "
            "Did you mean 'comma'?"
        ],
    ),
    "behind-a-misspelt-kind": (
        {"dsn": "x", "layouts": {"type": "coma", "width": "wide"}},
        [
            f"{PATH}.layouts: {WHO}: there is no option 'layouts'. Did you mean 'layout'?",
            f"{PATH}.layout.type: {WHO}: type is 'coma', but must be one of comma, plain. "
            "Did you mean 'comma'?",
            f"{PATH}.layout.width: {WHO}: width is 'wide', but must be a whole number.",
        ],
    ),
    "no-kind-of-a-union": (
        {"dsn": "x", "layout": {"width": 3}},
        [f"{PATH}.layout.type: {WHO}: 'type' is missing. Write one of comma, plain."],
    ),
    "several-types": (
        {"dsn": "x", "limit": [1]},
        [f"{PATH}.limit: {WHO}: limit is a list, but must be a whole number or text."],
    ),
    "secret": (
        {"dsn": "x", "password": 271828},
        [f"{PATH}.password: {WHO}: password is a secret that is not shown, but must be text."],
    ),
    "password-of-a-url": (
        {"dsn": "file://me:hunter2@here"},
        [f"{PATH}.dsn: {WHO}: dsn: file://me:***@here is a file, and a store is wanted."],
    ),
    "several-options": (
        {"dsn": "${DSN}", "mode": "upsert", "isFast": True},
        [f"{PATH}: {WHO}: it can't be fast and upsert."],
    ),
    "no-variable": (
        {"dsn": "${DB-HOST} and $${DB-HOST}"},
        [
            f"{PATH}.dsn: {WHO}: ${{DB-HOST}} is not replaced, since it names no environment "
            "variable. Write ${NAME} with letters, digits and '_', or $${ for a literal ${."
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("config", "expected"), MISTAKES.values(), ids=MISTAKES.keys())
def test_every_mistake_in_a_config_is_told(config, expected):
    assert texts(config) == expected


def test_of_a_list_or_a_mapping_only_the_one_that_was_meant_is_told():
    config = {"path": "x", "format": {"type": "csv", "fields": {"day": "date"}}}
    spout = {"name": "sentences", "class": "fulmen.connectors.files.FileSpout", "config": config}
    told = [str(problem) for problem in check(word_count({"spec.spouts.0": spout})).problems]
    where, what = "spec.spouts[0].config.format.fields.day", "day is 'date', but must be one of "
    (found,) = [text for text in told if "config" in text]
    assert found.startswith(f"{where}: spout 'sentences': {what}string, ")
    assert found.endswith("Did you mean 'date32'?")


def test_a_config_model_must_be_a_model():
    assert texts({}, "NoModel") == [
        f"{PATH}: {WHO}: config_model of NoModel is <class 'dict'>, but must be a class. Derive it "
        "from pydantic.BaseModel."
    ]


def test_a_config_that_is_no_mapping_is_one_mistake():
    assert [p.path for p in check(document([1])).problems] == [PATH]


def test_streams_are_those_of_the_options():
    checked = check(document({"dsn": "x", "columns": ["a", "b"]}))
    assert checked.problems == ()
    assert checked.streams["count"]["default"].fields == ("a", "b")


def test_a_variable_may_be_in_any_text():
    checked = check(document({"dsn": "${DSN}", "password": "${PASSWORD}", "mode": "${MODE}"}))
    assert checked.problems == ()
    assert checked.streams["count"]["default"].fields == ("word",)


def test_a_variable_may_stand_for_a_number():
    config = {"dsn": "${DSN}", "batchSize": "${SIZE}", "isFast": "${FAST:-true}", "columns": ["c"]}
    checked = check(document(config))
    assert checked.problems == ()
    assert checked.streams["count"]["default"].fields == ("c",)


def test_a_default_must_be_right():
    assert texts({"dsn": "x", "batchSize": "${SIZE:-many}"}) == [
        f"{PATH}.batchSize: {WHO}: batchSize is 'many', but must be a whole number."
    ]


def test_streams_that_depend_on_a_variable_are_a_mistake():
    assert texts({"count": "${COUNT}"}, "Numbered") == [
        f"{PATH}.count: {WHO}: its streams depend on this, which is not known before it runs. "
        "Write the value instead, or one that has a default: ${NAME:-value}."
    ]
    assert texts({"count": "${COUNT:-2}"}, "Numbered") == []
    paths = [p.path for p in check(document({"dsn": "${DSN}", "columns": ["a", "${C}"]})).problems]
    assert paths == [f"{PATH}.columns[1]"]


def test_streams_that_depend_on_a_key_that_is_a_variable_are_a_mistake():
    path = "spec.spouts[0].config.format.fields[${NAME}]"
    fields = {"id": "int64", "${NAME}": "string"}
    config = {"path": "x", "format": {"type": "csv", "fields": fields}}
    kind = "fulmen.connectors.files.FileSpout"
    changes = {"spec.spouts.0.class": kind, "spec.spouts.0.config": config}
    problems = [
        (p.path, p.message) for p in check(word_count(changes)).problems if "config" in p.path
    ]
    said = "its streams depend on this, which is not known before it runs"
    assert problems == [(path, f"spout 'sentences': {said}")]


def test_what_streams_do_not_depend_on_need_not_be_known():
    config = {"dsn": "${DSN}", "layout": {"type": "comma", "width": "${W}"}, "hosts": "${HOSTS}"}
    assert [p.path for p in check(document(config)).problems] == [f"{PATH}.hosts"]
    assert texts({**config, "hosts": []}) == []
    assert texts({**config, "hosts": [{"type": "comma", "width": "1${W}"}]}) == []


def builder(bolt, config, sentences=("a",)):
    made = TopologyBuilder()
    made.set_spout("words", ListSpout(list(sentences), fields=["word"]))
    made.set_bolt("count", bolt).shuffle_grouping("words").set_config(config)
    return made


def test_the_builder_finds_all_mistakes_at_once():
    made = builder(Writer, {"batchSize": "x"})
    made.set_bolt("Other one", Numbered).shuffle_grouping("words")
    with pytest.raises(ValidationFailed) as raised:
        made.build()
    assert [problem.path for problem in raised.value.problems] == [
        "spec.bolts[1].name",
        "spec.bolts[0].config.dsn",
        "spec.bolts[0].config.batchSize",
        "spec.bolts[1].config.count",
    ]


def test_a_misspelt_class_or_source_hides_no_mistake():
    window = {"type": "tumblin", "size": "1mn"}
    bolt = {
        "name": "count",
        "class": "fulmen.windows.Agregate",
        "inputs": [{"from": "sentnces", "grouping": {"type": "fields", "fields": ["wrod"]}}],
        "config": {"key": ["word"], "window": window, "agregates": {"n": "cuont"}},
    }
    config = {"path": "x", "folow": False, "format": {"type": "jsn", "fields": ["word"]}}
    spout = {"name": "sentences", "class": "fulmen.connectors.file.FileSpot", "config": config}
    document = word_count({"spec.spouts.0": spout, "spec.bolts": [bolt]})
    spout, bolt = "spec.spouts[0]", "spec.bolts[0]"
    assert [problem.path for problem in check(document).problems] == [
        f"{spout}.class",
        f"{spout}.class",
        f"{spout}.config.format.type",
        f"{spout}.config.folow",
        f"{bolt}.inputs[0].from",
        f"{bolt}.class",
        f"{bolt}.config.window.type",
        f"{bolt}.config.agregates",
        f"{bolt}.config.window.size",
        f"{bolt}.config.aggregates.n",
        f"{bolt}.inputs[0].grouping.fields[0]",
    ]


def test_what_is_behind_mistaken_options_is_looked_at_if_they_say_nothing_of_streams():
    config = {"pth": "x", "buffer": "large", "format": {"type": "json", "fields": ["word"]}}
    spout = {"name": "sentences", "class": "fulmen.connectors.files.FileSpout", "config": config}
    changes = {"spec.spouts.0": spout, "spec.bolts.0.inputs.0.where": "wrod > 1"}
    told = [problem.path for problem in check(word_count(changes)).problems]
    where = "spec.bolts[0].inputs[0].where"
    of_spout = [f"spec.spouts[0].config.{name}" for name in ("pth", "buffer")]
    assert sorted(told) == sorted([*of_spout, where])
    config["format"] = {"type": "json", "fields": 5}
    assert where not in [problem.path for problem in check(word_count(changes)).problems]


def test_a_task_gets_its_options():
    result = run(builder(Writer, {"dsn": "x", "columns": ["a", "b"]}), emits=True)
    assert "dsn='x', batch_size=100" in result.state("count")["options"]
    assert [list(values) for values in result.emitted("count")] == [["a", "a"]]


def test_options_are_those_of_the_component_alone():
    topology = builder(Writer, {"dsn": "x"}).build()
    spec = topology.spec.model_copy(update={"config": {"other": 1}})
    result = run(topology.model_copy(update={"spec": spec}))
    assert result.state("count")["conf"] == "{'other': 1, 'dsn': 'x'}"


def test_the_harness_validates_like_a_topology():
    with BoltHarness(Writer, conf={"dsn": "x", "columns": ["a", "b"]}) as bolt:
        bolt.execute(["a"])
        assert bolt.emitted[0].values == ["a", "a"]
    with pytest.raises(ValidationFailed) as raised:
        BoltHarness(Writer, conf={"batchSize": 0})
    assert [str(problem) for problem in raised.value.problems] == [
        "config.dsn: bolt 'bolt': 'dsn' is missing. Where the store is.",
        "config.batchSize: bolt 'bolt': batchSize is 0, but must be at least 1.",
    ]
