"""Storm's calls make the same model as YAML."""

import subprocess
import sys
from pathlib import Path

import pytest

import fulmen
from fulmen import TopologyBuilder
from fulmen.errors import CodeError, ValidationFailed
from fulmen.topology.code.loading import create
from fulmen.topology.reading.documents import load, parse_yaml
from fulmen.topology.reading.field_problems import parse
from fulmen.topology.validation.check import check
from support.parts.components import ByWeight, Count, Limited, Outer, Sentences, Split

PATH = Path(fulmen.__file__).parents[1], Path(__file__).parents[2]


@pytest.fixture
def builder():
    return TopologyBuilder(name="word-count", workers=2, max_spout_pending=100)


EVERYTHING = """\
apiVersion: fulmen.dev/v1alpha1
kind: Topology
metadata:
  name: word-count
spec:
  workers: 2
  maxSpoutPending: 100
  spouts:
  - name: sentences
    class: support.parts.components.Sentences
    parallelism: 2
    config:
      path: /x
      names:
      - a
      - b
  bolts:
  - name: split
    class: support.parts.components.Split
    numTasks: 4
    tickSeconds: 5.0
    trackResults: false
    inputs:
    - from: sentences
      grouping:
        type: shuffle
    - from: sentences
      stream: __dead_letters
      grouping:
        type: all
  - name: count
    class: support.parts.components.Count
    blocking: true
    inputs:
    - from: split
      grouping:
        type: fields
        fields:
        - word
    - from: split
      stream: errors
      grouping:
        type: partial-key
        fields:
        - line
    - from: split
      stream: to-task
      grouping:
        type: direct
  - name: rest
    class: support.parts.components.Outer.Inner
    inputs:
    - from: count
      grouping:
        type: global
    - from: sentences
      grouping:
        type: none
    - from: split
      grouping:
        type: local-or-shuffle
    - from: split
      stream: errors
      grouping:
        type: custom
        class: support.parts.components.ByWeight
        config:
          a: 1
"""


def test_everything_that_can_be_said(builder, tmp_path):
    spout = builder.set_spout("sentences", Sentences, 2)
    spout.set_config({"path": "/x"}).set_config({"names": ("a", "b")})
    split = builder.set_bolt("split", Split).set_num_tasks(4).set_tick_seconds(5)
    split.set_track_results(False)
    split.shuffle_grouping("sentences").all_grouping("sentences", "__dead_letters")
    count = builder.set_bolt("count", Count()).set_blocking()
    count.fields_grouping("split", ["word"]).partial_key_grouping("split", ["line"], "errors")
    count.direct_grouping("split", "to-task")
    rest = builder.set_bolt("rest", Outer.Inner).global_grouping("count")
    rest.none_grouping("sentences").local_or_shuffle_grouping("split")
    rest.custom_grouping("split", ByWeight, "errors", {"a": 1})
    assert builder.to_yaml() == EVERYTHING
    assert check(builder.build()).problems == ()
    path = tmp_path / "topology.yaml"
    path.write_text(EVERYTHING)
    assert load(path) == builder.build()


def test_a_custom_grouping_by_name(builder):
    builder.set_spout("sentences", Sentences)
    builder.set_bolt("split", Split).custom_grouping("sentences", "my.Grouping")
    grouping = builder.build().component("split").inputs[0].grouping
    assert (grouping.class_, grouping.config) == ("my.Grouping", {})


def test_an_object_with_fields_is_copied_to_each_task(builder):
    builder.set_spout("sentences", Sentences)
    builder.set_bolt("count", Limited(5, ("a",))).shuffle_grouping("sentences")
    topology = parse(parse_yaml(builder.to_yaml()))
    assert check(topology).problems == ()
    first, second = (create(topology.component("count")) for _ in range(2))
    assert (type(first), first.limit, first.names) == (Limited, 5, ("a",))
    assert first is not second


def test_an_object_without_fields_is_its_class(builder):
    builder.set_spout("sentences", Sentences())
    assert builder.build().component("sentences").instance is None


def test_an_object_that_can_not_be_pickled(builder):
    with pytest.raises(CodeError) as caught:
        builder.set_bolt("count", Limited(lambda: 1))
    assert str(caught.value).startswith("bolt 'count': the object can't be pickled (")
    assert str(caught.value).endswith("). Give the class, and make such fields in open or prepare.")


def test_a_class_in_a_function(builder):
    class Local(Count):
        pass

    with pytest.raises(CodeError) as caught:
        builder.set_bolt("count", Local)
    assert str(caught.value) == (
        "bolt 'count': class Local is defined inside of a function. "
        "Define it at the top of a module, so that workers can import it."
    )


@pytest.mark.parametrize("code", [lambda tup: None, print])
def test_what_is_no_component(builder, code):
    with pytest.raises(CodeError) as caught:
        builder.set_bolt("count", code)
    kind = type(code).__name__
    assert str(caught.value) == (
        f"bolt 'count' is of the type {kind}, but must be a bolt's class or an object of one."
    )
    with pytest.raises(CodeError, match=r"^spout 's' is 5, but must be a spout's class"):
        builder.set_spout("s", 5)


def test_a_name_that_is_taken(builder):
    builder.set_spout("count", Sentences)
    with pytest.raises(ValidationFailed) as caught:
        builder.set_bolt("count", Count)
    assert str(caught.value) == (
        "bolt 'count': the name is taken. Choose another: spouts and bolts share one namespace."
    )


def test_fields_that_are_wrong():
    builder = TopologyBuilder(name="word-count", wrokers=2)
    builder.set_spout("sentences", Sentences, 0)
    with pytest.raises(ValidationFailed) as caught:
        builder.build()
    assert [str(problem) for problem in caught.value.problems] == [
        "spec.spouts[0].parallelism: spout 'sentences': parallelism is 0, but must be at least 1.",
        "spec.wrokers: there is no field 'wrokers'. Did you mean 'workers'?",
    ]


def test_components_are_not_an_argument():
    builder = TopologyBuilder(name="word-count", spouts=[])
    with pytest.raises(ValidationFailed) as caught:
        builder.build()
    assert str(caught.value) == (
        "spec: spouts can't be given as an argument. Use set_spout and set_bolt."
    )


PROGRAM = """
from fulmen import Bolt, Spout, TopologyBuilder

class Sentences(Spout):
    outputs = ["sentence"]
    def next_tuple(self):
        pass

def double(x):
    return 2 * x

class Count(Bolt):
    def __init__(self, change):
        self.change = change
    def execute(self, tup):
        pass

if __name__ == "__main__":
    builder = TopologyBuilder(name="program", code={"folder": "."})
    builder.set_spout("sentences", Sentences)
    builder.set_bolt("count", Count(double)).shuffle_grouping("sentences")
    print(builder.to_yaml())
"""


def run(folder, *command):
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={"PYTHONPATH": ":".join(map(str, PATH))},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", [["program.py"], ["-m", "program"]])
def test_classes_of_a_program_have_its_real_name(tmp_path, command):
    (tmp_path / "program.py").write_text(PROGRAM)
    topology = parse(parse_yaml(run(tmp_path, *command).stdout))
    assert [c.class_ for c in topology.spec.components] == ["program.Sentences", "program.Count"]
    assert check(topology, base=tmp_path).problems == ()


def test_a_program_whose_name_is_not_one_of_a_module(tmp_path):
    (tmp_path / "my-program.py").write_text(PROGRAM)
    assert run(tmp_path, "my-program.py").stderr.endswith(
        "spout 'sentences': Sentences is defined in __main__, which workers can't import. "
        "Move it to a module: a file whose name is a Python name.\n"
    )
