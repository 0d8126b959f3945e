"""Documents made to cost much: what validation takes is bounded, whatever is wrong in them."""

import json
import sys

import pytest

from fulmen.topology.problems import LONGEST, MORE, MOST_TOLD, did_you_mean, there_are
from fulmen.topology.resource.spec import API_VERSION, KIND
from fulmen.topology.validation.check import check


def document(**spec):
    spec = {"spouts": [{"name": "s", "class": "a.B"}], **spec}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "t"}, "spec": spec}


def checked(document):
    return check(document, checkpoint_tasks={}, import_classes=False, for_kubernetes=True)


def bolt(name, sources):
    grouping = {"type": "shuffle"}
    return {
        "name": name,
        "class": "a.B",
        "inputs": [{"from": source, "grouping": grouping} for source in sources],
    }


@pytest.mark.parametrize("depth", [101, 9_000])
@pytest.mark.parametrize("kind", ["[]", "{}"])
def test_a_document_that_is_nested_very_deep_is_one_mistake(depth, kind):
    value = 1
    for _ in range(depth):
        value = [value] if kind == "[]" else {"a": value}
    [problem] = checked(document(config={"x": value})).problems
    assert str(problem) == (
        "spec.config: the document is too large: lists and mappings are nested deeper than 100"
        " levels."
    )


def test_a_document_of_very_many_values_is_one_mistake():
    [problem] = checked(document(config={"x": list(range(100_001))})).problems
    assert problem.message == "the document is too large: there are more than 100,000 values in it"


def calls(call):
    """How many functions are called meanwhile."""
    count = 0

    def count_one(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(count_one)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


NEARLY = {
    "unknown inputs": lambda n: [bolt(f"b{i:03}", [f"{'z' * 90}{i}"] * 9) for i in range(n)],
    "inputs named almost like components": lambda n: [
        bolt(f"{'n' * 40}{i:04}", [f"{'n' * 40}{i:03}x{j}" for j in range(9)]) for i in range(n)
    ],
    "names that are taken": lambda n: [bolt("b", ["s"])] * n,
    "very long names of components": lambda n: [bolt(f"b{i}", ["q" * 9_000]) for i in range(n)],
    "unknown fields": lambda n: [bolt(f"b{i}", ["s"]) | {"paralellism": 1} for i in range(n)],
    "groupings without fields": lambda n: [
        bolt(f"b{i}", ["s"]) | {"inputs": [{"from": "s", "grouping": {"type": "fields"}}]}
        for i in range(n)
    ],
    "circles": lambda n: [
        bolt(f"b{i}", [f"b{(i + d) % n}" for d in range(1, 30)]) for i in range(n)
    ],
}


@pytest.mark.parametrize("name", NEARLY)
def test_what_is_wrong_costs_no_more_than_the_document_is_large(name):
    small, large = (document(bolts=NEARLY[name](n)) for n in (40, 160))
    assert len(json.dumps(large)) > 3.5 * len(json.dumps(small))
    base, most = calls(lambda: checked(small)), calls(lambda: checked(large))
    assert most < 5 * base
    told = checked(large).problems
    assert 0 < len(told) <= MOST_TOLD + 1
    assert (told[-1] is MORE) == (len(told) > MOST_TOLD)
    assert max(len(str(problem)) for problem in told) < 3 * LONGEST + 10


def test_a_word_is_compared_with_few_of_very_many():
    many = [f"{'n' * 40}{i:04}" for i in range(10_000)]
    assert calls(lambda: did_you_mean(f"{'n' * 40}01x1", many)) < 10 * len(many)
    shuffle = [*(f"a{i}" for i in range(10_000)), "shuffle"]
    assert did_you_mean("shufle", shuffle) == "Did you mean 'shuffle'?"


def test_very_many_names_are_not_all_listed():
    said = there_are(f"b{i}" for i in range(1_000))
    assert said.startswith("There are: b0, b1, ")
    assert said.endswith("b59 and 940 more.")


def test_a_field_that_a_newer_kubernetes_may_have_is_a_warning():
    template = {"spec": {"workloadRef": {"name": "a"}, "nodeName": "one"}}
    found = checked(document(driver={"podTemplate": template}, bolts=[bolt("b", ["s"])]))
    told = "spec.driver.podTemplate.spec.workloadRef: Kubernetes 1.34 has no field 'workloadRef'"
    [warning] = [p for p in found.problems if "podTemplate" in p.path]
    assert (str(warning).partition(" in spec.")[0], warning.severity) == (told, "warning")


def test_a_template_with_very_many_unknown_fields_is_refused_by_the_first_of_them():
    template = {"spec": {f"x{number}": 1 for number in range(40_000)}}
    found = checked(document(driver={"podTemplate": template}, bolts=[bolt("b", ["s"])]))
    assert len(found.errors) == MOST_TOLD + 1
