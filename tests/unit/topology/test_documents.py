"""YAML in, YAML out."""

import string

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from fulmen.errors import ValidationFailed
from fulmen.topology.reading.documents import load, parse_yaml, to_yaml
from fulmen.topology.reading.field_problems import parse
from support.cli.documents import word_count

WORD_COUNT = """\
apiVersion: fulmen.dev/v1alpha1
kind: Topology
metadata:
  name: word-count
spec:
  workers: 2
  maxSpoutPending: 50000
  config:
    date: '2024-01-01'
    'on': true
  code:
    files:
      wordcount.py: |
        class WordCount:
            pass
  spouts:
  - name: sentences
    class: wordcount.SentenceSpout
    parallelism: 2
    tickSeconds: 0.5
  bolts:
  - name: split
    class: wordcount.SplitSentence
    numTasks: 4
    inputs:
    - from: sentences
      grouping:
        type: shuffle
  checkpoint:
    uri: s3://bucket/word-count
"""


def test_yaml_to_model_to_yaml(tmp_path):
    path = tmp_path / "word-count.yaml"
    path.write_text(WORD_COUNT)
    assert to_yaml(load(path)) == WORD_COUNT


def test_defaults_are_not_written():
    document = word_count({"spec.workers": 1, "spec.ackers": None, "spec.state": "Active"})
    document["spec"]["bolts"] = []
    assert to_yaml(parse(document)) == (
        "apiVersion: fulmen.dev/v1alpha1\nkind: Topology\nmetadata:\n  name: word-count\n"
        "spec:\n  spouts:\n  - name: sentences\n    class: support.parts.components.Sentences\n"
    )


def test_dates_stay_text():
    assert parse_yaml("a: 2024-01-01") == {"a": "2024-01-01"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12:30", "12:30"),
        ("190:20:30.15", "190:20:30.15"),
        ("1e3", 1000),
        ("-1E-3", -0.001),
        ("0o17", 15),
        ("017", 15),
        ("08", 8),
        ("0x_", "0x_"),
        ("1_000", 1000),
        ("0b11", 3),
        ("0X1F", 31),
        ("-0x_1f", -31),
        ("0B11", 3),
        ("0O17", 15),
        ("-017", -15),
        ("0", 0),
        ("+.5", 0.5),
    ],
)
def test_numbers_are_those_of_the_api_server(text, value):
    assert parse_yaml(f"a: {text}") == {"a": value}


@pytest.mark.parametrize("word", ["NO", "no", "off", "n", "N", "Yes", "on", "y"])
def test_a_value_that_yaml_takes_for_true_or_false_is_told(word):
    meant = "true" if word.lower() in ("yes", "on", "y") else "false"
    assert parse_yaml(f"[{meant}, '{word}', x]") == [meant == "true", word, "x"]
    for text, column in ((f"[a, {word}]", 5), (f"{{a: {word}}}", 5), (word, 1)):
        with pytest.raises(ValidationFailed) as caught:
            parse_yaml(text)
        assert str(caught.value) == (
            f"line 1, column {column}: YAML reads {word} as {meant}. Write '{word}' in quotes, or"
            f" {meant}."
        )


def test_a_field_with_such_a_name_has_to_be_quoted():
    with pytest.raises(ValidationFailed) as caught:
        parse(word_count({"spec.config": parse_yaml("{n: 5}")}))
    [problem] = caught.value.problems
    assert "YAML reads on, off, yes, no, y and n as that" in str(problem)


def test_documents_that_are_empty_do_not_count():
    assert parse_yaml("---\n# only a comment\n---\na: 1\n---\n") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "spec:\n  workers: [1, 2\n  ackers: 1\n",
            "line 3, column 9: not YAML: while parsing a flow sequence, expected ',' or ']', but "
            "got ':'.",
            id="bracket",
        ),
        pytest.param(
            "config: {path: ${FILE}}\n",
            "line 1, column 17: not YAML: while parsing a flow mapping, expected ',' or '}', but "
            "got '{'. Write what has ${…} in quotes.",
            id="variable",
        ),
        pytest.param(
            "a:\n  - b: 1\n   c: 2\n",
            "line 3, column 4: not YAML: while parsing a block collection, expected <block end>, "
            "but found '<block mapping start>'. Begin the line below one that it belongs to: it is "
            "indented like none of those above it.",
            id="key-between",
        ),
        pytest.param(
            "a:\n  - b: 1\n c: 2\n",
            "line 3, column 2: not YAML: while parsing a block mapping, expected <block end>, "
            "but found '<block mapping start>'. Begin the line below one that it belongs to: it is "
            "indented like none of those above it.",
            id="key-before",
        ),
        pytest.param(
            "a:\n  - b: 1\n - c: 2\n",
            "line 3, column 2: not YAML: while parsing a block mapping, expected <block end>, "
            "but found '<block sequence start>'. Begin the entry below the '-' of the one before "
            "it.",
            id="entry-before",
        ),
        pytest.param(
            "a: 1\n  b: 2\n",
            "line 2, column 4: not YAML: mapping values are not allowed here. Begin the line below "
            "one that it belongs to; a text with ': ' in it needs quotes.",
            id="key-behind",
        ),
        pytest.param(
            "a: 1\n\tb: 2\n",
            "line 2, column 1: not YAML: a tab where only spaces are allowed. Use spaces.",
            id="tab",
        ),
        pytest.param(
            "a: 1\nb: 2\na: 3\n", "line 3, column 1: not YAML: 'a' is there twice.", id="twice"
        ),
        pytest.param(
            "a: !!python/object:os.system {}\n",
            "line 1, column 4: not YAML: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/object:os.system'.",
            id="python-object",
        ),
        pytest.param(
            "a: 1\nb: \x07\n",
            "line 2: the character '\\x07' is not allowed in YAML.",
            id="control-character",
        ),
        pytest.param(
            "a: !!int x\n",
            "line 1, column 4: not YAML: 'x' can't be read as !!int, which its tag says.",
            id="wrong-tag",
        ),
        pytest.param(
            "a: !!bool x\n",
            "line 1, column 4: not YAML: 'x' can't be read as !!bool, which its tag says.",
            id="no-bool",
        ),
        pytest.param(
            "a: !!timestamp x\n",
            "line 1, column 4: not YAML: 'x' can't be read as !!timestamp, which its tag says.",
            id="no-timestamp",
        ),
        pytest.param(
            "a: !!float ''\n",
            "line 1, column 4: not YAML: '' can't be read as !!float, which its tag says.",
            id="no-float",
        ),
        pytest.param(
            "a: !!map x\n",
            "line 1, column 4: not YAML: expected a mapping node, but found scalar.",
            id="no-mapping",
        ),
        pytest.param(
            f"a: {'9' * 4000}\n",
            "line 1, column 4: a whole number of 4000 digits is too large for 64 bits. Write it in "
            "quotes.",
            id="4000-digits",
        ),
        pytest.param(
            f"a: {2**63}\n",
            "line 1, column 4: a whole number of 19 digits is too large for 64 bits. Write it in "
            "quotes.",
            id="64-bits",
        ),
        pytest.param(
            'a: "\\ud800"\n',
            "line 1, column 4: the text has half a character (a surrogate, such as \\ud800).",
            id="surrogate",
        ),
        pytest.param(
            "[" * 1000,
            "line 1, column 101: lists and mappings are nested deeper than 100 levels.",
            id="1000-brackets",
        ),
        pytest.param("", "the file holds no documents, but must hold one topology.", id="empty"),
        pytest.param(
            "a: 1\n---\nb: 2\n",
            "the file holds 2 documents, but must hold one topology.",
            id="several",
        ),
    ],
)
def test_what_is_not_one_yaml_document(tmp_path, text, message):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(ValidationFailed) as caught:
        load(path)
    assert [str(problem) for problem in caught.value.problems] == [message]


def test_file_that_is_not_there():
    with pytest.raises(ValidationFailed) as caught:
        load("nowhere.yaml")
    assert str(caught.value) == ("'nowhere.yaml' can't be read: No such file or directory.")


def test_a_file_of_almost_that_name(tmp_path):
    (tmp_path / "topology.yaml").write_text("")
    with pytest.raises(ValidationFailed) as caught:
        load(tmp_path / "topology.yml")
    assert str(caught.value).endswith(f"Did you mean '{tmp_path}/topology.yaml'?")


def test_file_that_is_not_text(tmp_path):
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"a: \xff")
    with pytest.raises(ValidationFailed) as caught:
        load(path)
    assert str(caught.value) == (f"{str(path)!r} is not text in UTF-8: byte 3 is wrong.")


def test_aliases_of_aliases_are_refused_before_they_are_followed():
    lines = [f"b{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(ValidationFailed) as caught:
        parse_yaml("\n".join(["b0: &a0 x", *lines]))
    assert [str(problem) for problem in caught.value.problems] == [
        "line 7, column 10: there are more than 100,000 values up to here, each alias counted as "
        "all that it stands for."
    ]


def test_a_file_that_is_too_large_is_refused_unread(tmp_path):
    path = tmp_path / "large.yaml"
    path.write_bytes(b"a: b\n" * 400_000)
    with pytest.raises(ValidationFailed) as caught:
        load(path)
    assert [str(problem) for problem in caught.value.problems] == [
        f"{str(path)!r} has more than 1,572,864 bytes, the limit of Kubernetes. "
        "Read large data in open or prepare."
    ]


def test_what_contains_itself_is_refused():
    document = word_count({"spec.config": parse_yaml("a: &a [*a]")})
    with pytest.raises(ValidationFailed, match="values nested deeper than 40 levels"):
        parse(document)


# ---- any topology comes back as it was ----------------------------------------------------------

names = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=8)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e9, 1e9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
configs = st.dictionaries(texts, json_values, max_size=3)
groupings = st.sampled_from(["shuffle", "all", "global", "none", "direct", "local-or-shuffle"]).map(
    lambda kind: {"type": kind}
) | st.builds(
    lambda kind, fields: {"type": kind, "fields": fields},
    st.sampled_from(["fields", "partial-key"]),
    st.lists(names, min_size=1, max_size=3),
)


def components(**more):
    return st.lists(
        st.fixed_dictionaries(
            {"name": names, "class": names.map(lambda name: f"m.C{name}")},
            optional={
                "parallelism": st.integers(1, 9),
                "numTasks": st.integers(1, 9),
                "config": configs,
                "tickSeconds": st.floats(0.01, 100),
                **more,
            },
        ),
        min_size=1,
        max_size=3,
    )


inputs = st.fixed_dictionaries({"from": names, "grouping": groupings}, optional={"stream": names})
specs = st.fixed_dictionaries(
    {"spouts": components()},
    optional={
        "bolts": components(inputs=st.lists(inputs, max_size=3), blocking=st.booleans()),
        "workers": st.integers(1, 9),
        "ackers": st.integers(0, 9),
        "maxReplays": st.integers(0, 9),
        "config": configs,
        "code": st.just({"files": {"a.py": "x = 1\n\n\ny = '  '  \n"}}),
        "restartNonce": st.integers(0, 2**53),
    },
)


number_likes = st.text("0189:.-+_eExobyn", max_size=8)


@given(texts | number_likes)
@example("1e3")
@example("1234e56")
@example("0o17")
@example("08")
@example("y")
@example("12:30")
@example("190:20:30.15")
@example("2026-01-01")
@example(".5_")
@example("null")
@example("=")
def test_text_stays_text_for_all_readers(text):
    written = to_yaml(parse(word_count({"spec.config": {"a": text}})))
    for read in (parse_yaml, yaml.safe_load):
        assert read(written)["spec"]["config"] == {"a": text}


@pytest.mark.parametrize("text", ["1e3", "0o17", "0X1F", "08", "y", "N", "12:30", "2026-01-01"])
def test_text_that_some_reader_takes_for_something_else_is_quoted(text):
    assert f"a: '{text}'\n" in to_yaml(parse(word_count({"spec.config": {"a": text}})))


LINE_BREAKS = {"\x85": "a\x85b", "\u2028": " \u2029\n", "\r": "\r\n", "\n": "\n a\n\n"}


@given(specs)
@example({"spouts": [{"name": "s", "class": "m.S", "config": LINE_BREAKS}]})
def test_round_trip(spec):
    topology = parse({**word_count(), "spec": spec})
    text = to_yaml(topology)
    again = parse(parse_yaml(text))
    assert again == topology
    assert to_yaml(again) == text
