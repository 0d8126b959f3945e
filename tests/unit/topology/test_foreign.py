"""What was written for Flux or streamparse, and what is left out or in the wrong place."""

import textwrap

import pytest

from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.validation.check import check
from support.cli.documents import ABSENT, word_count

FLUX = """\
name: word-count
config: {topology.workers: 2}
spouts:
  - {id: lines, className: com.acme.Lines}
bolts:
  - {id: count, className: com.acme.Count, parallelism: 2}
streams:
  - {from: lines, to: count, grouping: {type: FIELDS, args: [word]}}
"""


def texts(document, base=None):
    return [str(problem) for problem in check(document, base=base).problems]


def test_a_file_for_flux_is_answered_with_what_each_part_is_called_here():
    assert texts(parse_yaml(FLUX)) == [
        "this is a file for Storm's Flux, not a resource of the kind Topology. Write it as below; "
        "'Flux' in docs/migration.md has an example.",
        "name: what Flux calls 'name' is metadata: {name: …}.",
        "config: what Flux calls 'config' is fields of spec, such as workers and "
        "messageTimeoutSeconds; keys of your own go into spec.config.",
        "spouts: what Flux calls 'spouts' is spec.spouts, with id as name and className as class "
        "(module.Class).",
        "bolts: what Flux calls 'bolts' is spec.bolts, with id as name, className as class "
        "(module.Class), and with inputs.",
        "streams: what Flux calls 'streams' is the inputs of the bolt that is 'to': inputs: "
        "[{from: split, grouping: {type: fields, fields: [word]}}].",
    ]


def test_a_missing_kind_hides_no_other_mistake():
    wrong = word_count({"kind": ABSENT, "spec.workers": 0, "spec.bolts.0.class": "no_such.Split"})
    assert texts(wrong) == [
        "kind: 'kind' is missing. A topology begins with kind: Topology.",
        "spec.workers: workers is 0, but must be at least 1.",
        "spec.bolts[0].class: bolt 'split': there is no module 'no_such' among the installed "
        "packages.",
    ]


def test_another_kind_of_ours_hides_no_other_mistake():
    assert len(texts(word_count({"kind": "topology", "spec.workers": 0}))) == 2


def test_a_resource_of_another_kind_is_not_read_as_a_topology():
    assert texts({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}}) == [
        "kind: kind is 'Deployment', but must be Topology. A topology begins with kind: Topology."
    ]


def test_classes_beside_a_file_that_names_no_folder(tmp_path):
    (tmp_path / "counting_beside.py").write_text("from support.parts.components import Count\n")
    wrong = word_count({f"spec.bolts.{n}.class": "counting_beside.Count" for n in (0, 1)})
    assert texts(wrong, tmp_path) == [
        "spec.bolts[0].class: bolt 'split': there is no module 'counting_beside' among the "
        "installed packages. counting_beside.py is beside the topology's file: add code: {folder: "
        ".} to spec."
    ]
    assert texts({**wrong, "spec": {**wrong["spec"], "code": {"folder": "."}}}, tmp_path) == []


def of_class(tmp_path, source, field="spec.bolts.1.class"):
    """What is told about the class `Mine` of a module."""
    (tmp_path / "ported.py").write_text(textwrap.dedent(source))
    return texts(word_count({field: "ported.Mine", "spec.code": {"folder": "."}}), tmp_path)


def test_an_import_of_streamparse(tmp_path):
    source = "from streamparse import Bolt\nclass Mine(Bolt): pass\n"
    assert of_class(tmp_path, source) == [
        "spec.bolts[1].class: bolt 'count': module 'ported' can't be imported: "
        "ModuleNotFoundError: No module named 'streamparse' (ported.py, line 1). It was written "
        "for streamparse: derive from fulmen.Spout or fulmen.BasicBolt. See 'streamparse' in "
        "docs/migration.md."
    ]


@pytest.mark.parametrize(
    ("base", "method"),
    [("BasicBolt", "execute(self, tup, collector)"), ("Bolt", "execute(self, tup)")],
)
def test_process_instead_of_execute(tmp_path, base, method):
    source = f"""\
        from fulmen import {base}
        class Mine({base}):
            def process(self, tup): pass
    """
    assert of_class(tmp_path, source) == [
        "spec.bolts[1].class: bolt 'count': ported.Mine is abstract: it does not define execute. "
        f"process is streamparse's name: write def {method} (docs/migration.md)."
    ]


def test_a_name_in_the_spelling_of_java(tmp_path):
    source = """\
        from fulmen import Spout
        class Mine(Spout):
            outputs = ["sentence"]
            def nextTuple(self): pass
    """
    assert of_class(tmp_path, source, "spec.spouts.0.class") == [
        "spec.spouts[0].class: spout 'sentences': ported.Mine is abstract: it does not define "
        "next_tuple. Call 'nextTuple' next_tuple, as it is called here."
    ]


def test_initialize_is_never_called(tmp_path):
    source = """\
        from fulmen import BasicBolt
        class Mine(BasicBolt):
            def initialize(self, conf, context): pass
            def execute(self, tup, collector): pass
    """
    problem = "spec.bolts[1].class: bolt 'count': ported.Mine"
    assert of_class(tmp_path, source) == [
        f"{problem}.initialize is never called: it is streamparse's. Write def prepare(self, conf, "
        "context).",
    ]


def test_methods_of_these_names_that_are_the_authors_own(tmp_path):
    source = """\
        from fulmen import Bolt
        class Mine(Bolt):
            def prepare(self, conf, context, collector):
                self.initialize()
            def initialize(self): pass
            def execute(self, tup): pass
    """
    assert of_class(tmp_path, source) == []
