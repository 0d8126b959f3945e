"""`fulmen diff`."""

import json
from copy import deepcopy

import pytest

from fulmen.cli.commands.cluster.diff import difference
from support.cli.documents import ABSENT, word_count
from support.cli.fake_kubectl import Fails, not_found
from support.docs.pages import blocks

STATUS = {
    "epoch": 1,
    "components": [
        {"name": "__acker", "tasks": 2, "executors": 2},
        {"name": "sentences", "tasks": 1, "executors": 1},
        {"name": "split", "tasks": 2, "executors": 2},
        {"name": "count", "tasks": 4, "executors": 2},
    ],
}


def on_cluster(changes=None, status=STATUS, **metadata):
    """The word count as the API server has it."""
    document = word_count({"spec.bolts.1.numTasks": 4, **(changes or {})})
    document["metadata"] = {**document["metadata"], "namespace": "blue", **metadata}
    return {**document, "status": deepcopy(status)}


@pytest.mark.parametrize(
    ("changes", "does", "paths"),
    [
        ({}, "Nothing", []),
        ({"spec.onError": "fail"}, "Nothing", []),  # what is the default anyway
        ({"spec.config": {"a": 1}}, "Live", ["spec.config"]),
        ({"spec.state": "Inactive"}, "Live", ["spec.state"]),
        ({"spec.bolts.1.parallelism": 3}, "Rebalance", ["spec.bolts[count].parallelism"]),
        ({"spec.workers": 3, "spec.config": {}}, "Rebalance", ["spec.workers"]),
        ({"spec.driver": {"image": "a"}}, "Replace", ["spec.driver.image"]),
        ({"spec.bolts.1.numTasks": 8}, "Rebalance", ["spec.bolts[count].numTasks"]),
        ({"spec.bolts.1.inputs.0.from": "splt"}, "Refused", ["spec.bolts[count].inputs[0].from"]),
    ],
)  # fmt: skip
def test_a_change_does_what_the_operator_would_do(changes, does, paths):
    found = difference(on_cluster(), on_cluster(changes))
    assert found.does == does
    assert sorted(change.path for change in found.changes) == sorted(paths)
    assert bool(found.problems) == (does == "Refused")


def test_a_topology_that_is_not_there_is_made():
    assert difference(None, on_cluster()).does == "Create"
    assert difference(None, on_cluster({"spec.bolts.1.inputs.0.from": "x"})).does == "Refused"


REFUSED = {"type": "SpecAccepted", "status": "False", "reason": "PodRefused"}


@pytest.mark.parametrize(
    ("before", "changes", "note"),
    [
        (
            on_cluster(annotations={"fulmen.dev/paused": "true"}),
            {"spec.workers": 3},
            "Nothing happens as long as the topology has the annotation fulmen.dev/paused.",
        ),
        (
            on_cluster(status={**STATUS, "conditions": [REFUSED]}),
            {"spec.workers": 3},
            "The newest spec on the cluster was not accepted (PodRefused): an older one is"
            " running, so more may change than is listed.",
        ),
        (
            on_cluster(status={**STATUS, "state": "Suspended"}),
            {"spec.workers": 3},
            "The topology is suspended: the change takes effect when it is activated.",
        ),
        (
            on_cluster(),
            {"spec.bolts.1": ABSENT},
            "spec.bolts[count] is removed: it loses its state with the first batch of the new"
            " driver. One that is renamed is another one.",
        ),
        (
            on_cluster(),
            {"spec.checkpoint": {"uri": "s3://a/b"}},
            "The new driver continues from what is in the new checkpoint: nothing is moved.",
        ),
    ],
)
def test_what_else_to_know_is_told(before, changes, note):
    assert difference(before, on_cluster(changes)).notes == (note,)


def test_a_status_and_a_spec_of_another_version_are_compared_as_they_are():
    before = on_cluster({"spec.fromTheFuture": 1}, {**STATUS, "fromTheFuture": 1})
    found = difference(before, on_cluster({"spec.workers": 3}))
    assert "spec.fromTheFuture" in [change.path for change in found.changes]


@pytest.fixture
def file(write):
    """A topology whose code an image has."""
    return write({"spec.workers": 3})


def test_diff_shows_each_change_and_what_all_of_it_does(fulmen, kubectl, write):
    after = on_cluster({"spec.workers": 3, "spec.bolts.0.config": {"a": "x" * 99}})
    kubectl.answer(after, on_cluster())
    result = fulmen("diff", write(), "--set", "spec.workers=3")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "Rebalance  spec.workers: 2 -> 3",
        f'Live       spec.bolts[split].config: (none) -> {{"a": "{"x" * 52}…',
        "topology 'word-count' in namespace 'blue': Rebalance. Spouts stop, pending trees end or"
        " time out, executors are placed anew, spouts continue. Pods that stay keep running.",
    ]
    asked = kubectl.asked
    assert asked[0] == ["apply", "--dry-run=server", "-f", "-", "-o", "json"]
    assert asked[1][:2] == ["--namespace=blue", "get"]


def test_diff_gives_json_to_programs(fulmen, kubectl, file):
    kubectl.answer(on_cluster({"spec.workers": 3}), on_cluster())
    result = fulmen("diff", file, "--json", "--server-side")
    pages = (json.loads(block.text) for block in blocks("docs/cli.md", "json"))
    (shown,) = (content for content in pages if "does" in content)
    assert json.loads(result.stdout) == {**shown, "namespace": "blue"}
    assert "--server-side" in kubectl.asked[0]


def test_diff_of_a_refused_change_says_why_and_has_the_exit_code_of_bad_input(
    fulmen, kubectl, file
):
    kubectl.answer(on_cluster({"spec.bolts.1.inputs.0.from": "splt"}), on_cluster())
    result = fulmen("diff", file)
    assert result.exit_code == 2
    assert result.stdout.splitlines()[1:] == [
        "topology 'word-count' in namespace 'blue' would not change: the operator refuses the"
        " change.",
        "  spec.bolts[1].inputs[0].from: bolt 'count', input from 'splt': there is no component"
        " 'splt'. Did you mean 'split'?",
    ]


@pytest.mark.parametrize(
    "words",
    [
        'The Topology "word-count" is invalid: spec: Invalid value: "object": one of spouts',
        'error: resource mapping not found for name: "a" namespace: "" from "STDIN": no matches for'
        ' kind "Topology" in version "fulmen.dev/v1"',
        "error: no objects passed to apply",
        "error: error parsing STDIN: error converting YAML to JSON: yaml: line 2",
    ],
)
def test_diff_of_what_the_api_server_refuses(fulmen, kubectl, file, words):
    kubectl.answer(words)
    result = fulmen("diff", file)
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: the API server refuses it: {words}.\n",
    )


def test_diff_of_code_that_only_a_server_side_apply_takes_says_so(fulmen, kubectl, file):
    words = (
        'The ConfigMap "word-count-source-01c01526f6" is invalid: metadata.annotations: Too long:'
        " may not be more than 262144 bytes"
    )
    kubectl.answer(words)
    result = fulmen("diff", file)
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: the API server refuses it: {words}. The code is too large for a plain `kubectl"
        " apply`, which notes all of it in an annotation: add --server-side here, and to `kubectl"
        " apply`.\n",
    )


def test_diff_on_a_cluster_that_knows_no_topologies(fulmen, kubectl, file):
    kubectl.answer('error: no matches for kind "Topology" in version "fulmen.dev/v1alpha1"')
    result = fulmen("diff", file)
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "Error: the cluster knows no topologies. Install Fulmen's chart"
    )


def test_diff_of_a_new_topology(fulmen, kubectl, file):
    kubectl.answer_each(
        {
            "apply": on_cluster(),
            "get topologies.fulmen.dev/word-count": Fails(not_found()),
            "get": {"items": []},
        }
    )
    result = fulmen("diff", file)
    assert (result.exit_code, result.stdout) == (
        0,
        "topology 'word-count' in namespace 'blue' would be made: there is none yet.\n",
    )


def test_diff_reads_what_manifest_has_printed(fulmen, kubectl, file):
    code = {"kind": "ConfigMap", "metadata": {"name": "word-count-source-1"}}
    kubectl.answer({"kind": "List", "items": [code, on_cluster()]}, on_cluster())
    result = fulmen("diff", "-", typed='{"kind": "Topology"}')
    assert (result.exit_code, result.stdout) == (
        0,
        "topology 'word-count' in namespace 'blue' would not change.\n",
    )
    assert kubectl.given == [{"kind": "Topology"}]


def test_diff_is_of_one_topology(fulmen, kubectl):
    kubectl.answer({"kind": "List", "items": []})
    result = fulmen("diff", "-", typed="{}")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: there are 0 topologies in it, but there must be one.\n",
    )


def test_an_archive_needs_its_place(fulmen, file, tmp_path):
    result = fulmen("diff", file, "--archive", str(tmp_path / "code.tar.gz"))
    assert result.exit_code == 2
    assert "--archive alone prints no topology: add --uri URI." in result.stderr
    assert not (tmp_path / "code.tar.gz").exists()


def test_mistakes_in_the_file_are_told_without_a_cluster(fulmen, write):
    result = fulmen("diff", write({"spec.bolts.1.inputs.0.from": "splt"}))
    assert result.exit_code == 2
    assert "there is no component 'splt'" in result.stderr
