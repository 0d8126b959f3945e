"""How the cluster is reached, and what is said if it can't be."""

import json

import pytest

from support.cli.fake_kubectl import not_found, topology


def test_a_name_is_never_an_option_nor_the_shells(fulmen, kubectl):
    kubectl.answer(topology())
    assert fulmen("activate", "--", "--all; rm -r .").exit_code == 0
    (asked,) = kubectl.asked
    assert asked[1] == "topologies.fulmen.dev/--all; rm -r ."


def test_where_the_topology_is(fulmen, kubectl):
    kubectl.answer(topology())
    result = fulmen("deactivate", "word-count", "--namespace", "blue", "--context", "lab")
    assert kubectl.asked == [
        [
            *("--context=lab", "--namespace=blue"),
            *("patch", "topologies.fulmen.dev/word-count", "--type=merge"),
            *("-p", json.dumps({"spec": {"state": "Inactive"}}), "-o", "json"),
        ]
    ]
    assert result.output == (
        "topology 'word-count': asked for Inactive; it is Active now."
        " `fulmen top word-count --context=lab --namespace=blue` or"
        " `kubectl get topo word-count --context=lab --namespace=blue` shows the progress.\n"
    )


def test_a_machine_without_kubectl_is_told_what_to_install(fulmen, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = fulmen("activate", "word-count")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: kubectl can't be run (No such file or directory), but this command needs it"
        " to reach the cluster. Install it in a folder on PATH.\n",
    )


REFUSED = "The connection to the server 127.0.0.1:6443 was refused - did you specify the right host"
FORBIDDEN = (
    'Error from server (Forbidden): topologies.fulmen.dev "word-count" is forbidden: User "eve"'
    ' cannot patch resource "topologies" in API group "fulmen.dev" in the namespace "blue"'
)
INVALID = (
    'The Topology "word-count" is invalid: \n'
    "* spec.workers: Invalid value: 2000: should be less than or equal to 1000\n"
    "* spec.messageTimeoutSeconds: Invalid value: 0\n"
)


@pytest.mark.parametrize(
    ("stderr", "code", "message"),
    [
        pytest.param(
            f"E1122 12:00:00.1 7 memcache.go:265] couldn't get\n{REFUSED}\n",
            1,
            f"the cluster does not answer: {REFUSED}.",
            id="no-answer",
        ),
        pytest.param(
            FORBIDDEN, 2, f"the cluster does not allow you to do this: {FORBIDDEN}.", id="forbidden"
        ),
        pytest.param(
            'error: the server doesn\'t have a resource type "topologies"\n',
            2,
            "the cluster knows no topologies. Install Fulmen's chart there, or name another cluster"
            " with --context.",
            id="not-installed",
        ),
        pytest.param(INVALID, 1, f"kubectl: {' '.join(INVALID.split())}.", id="invalid"),
        pytest.param("", 1, "kubectl: it ended without a message.", id="silent"),
    ],
)
def test_errors(fulmen, kubectl, stderr, code, message):
    kubectl.answer(stderr)
    result = fulmen("activate", "word-count")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == f"Error: {message}\n"


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (["word-count", "other"], "in the context's namespace. Did you mean 'word-count'?"),
        (["a", "b"], "in the context's namespace. There are: a, b."),
        (
            [],
            "in the context's namespace. There is none at all: name another namespace with"
            " --namespace.",
        ),
    ],
)
def test_a_topology_that_is_not_there(fulmen, kubectl, others, message):
    kubectl.answer(not_found("wordcount"), {"items": [topology(name) for name in others]})
    result = fulmen("kill", "wordcount")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: there is no topology 'wordcount' {message}\n"


def test_a_topology_that_is_not_there_where_one_may_not_see_which_there_are(fulmen, kubectl):
    kubectl.answer(not_found("wordcount"), FORBIDDEN)
    result = fulmen("activate", "wordcount")
    assert result.stderr == "Error: there is no topology 'wordcount'.\n"
