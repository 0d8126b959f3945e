"""Spouts that need ackers, in a topology that has none."""

import pytest

from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.validation.check import check

TOPOLOGY = """
apiVersion: fulmen.dev/v1alpha1
kind: Topology
metadata: {name: served}
spec:
  ackers: %s
  spouts: [{name: served, class: fulmen.connectors.http.%s, config: {port: 8080, %s}}]
  bolts:
    - name: table
      class: fulmen.connectors.console.TableSink
      inputs: [{from: served, grouping: {type: shuffle}}]
"""


def problems(*given):
    return [str(one) for one in check(parse_yaml(TOPOLOGY % given), None).problems]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("HttpSpout", "answer: acked"), "with answer: acked, requests would be answered"),
        (("CallSpout", "timeout: 10s"), "calls would be answered"),
    ],
)
def test_a_spout_that_answers_for_trees_needs_ackers(given, why):
    text = f"spec.ackers: spout 'served' needs ackers: {why} before anything is done. Remove"
    assert [one.startswith(text) for one in problems(0, *given)] == [True]
    assert problems(1, *given) == []


def test_a_spout_that_answers_for_commits_needs_none():
    assert problems(0, "HttpSpout", "answer: committed") == []
