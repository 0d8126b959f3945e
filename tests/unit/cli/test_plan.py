"""`fulmen plan`."""

import json

import pytest

from fulmen.plan import Plan, make_plan
from fulmen.topology.reading.documents import load

TABLE = """\
word-count
 worker    component  executor  tasks
 worker 0  __acker    [1]       1
           count      [3-4]     2
           sentences  [7]       1
           split      [9]       1
 worker 1  __acker    [2]       1
           count      [5-6]     2
           split      [8]       1

stage 1, 5 ms: sentences
stage 2, 5 ms: split
stage 3, 5 ms: count
stage 4, 5 ms: __acker
  left out of small batches whose trees all end
The times are what each stage adds to a batch of few tuples.
9 tasks in 7 executors on 2 workers
"""

PINNED = """\
word-count
 worker    component  executor  tasks
 driver    sentences  [6]       1
 worker 0  __acker    [1]       1
           count      [2-3]     2
           count      [4-5]     2
           split      [7]       1
           split      [8]       1

stage 1, 4 ms: split, count, __acker
The times are what each stage adds to a batch of few tuples.
8 tasks in 6 executors on 1 worker
"""

MERMAID = """\
flowchart LR
  subgraph topology["word-count"]
    c0(["sentences x1"])
    c1["split x2"]
    c2["count x2"]
    c0 -->|"shuffle"| c1
    c1 -->|"errors: fields line, reason"| c2
  end
  subgraph driver["driver"]
    e5["sentences [5]"]
  end
  subgraph worker0["worker 0"]
    e1["count [1-2]"]
    e6["split [6]"]
  end
  subgraph worker1["worker 1"]
    e3["count [3-4]"]
    e7["split [7]"]
  end
"""


def lines(text):
    return [line.rstrip() for line in text.splitlines()]


def test_table(fulmen, write):
    result = fulmen("plan", write())
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines(result.stdout) == lines(TABLE)


def test_a_grouping_that_would_save_a_stage(fulmen, write):
    file = write({"spec.spouts.0.parallelism": 2})
    costs = json.loads(fulmen("plan", file, "-o", "json").stdout)["stage_costs"]
    assert [cost["stage"] for cost in costs] == [1, 2, 3, 4]
    assert [cost["millis"] for cost in costs] == [5, 5, 5, 5]
    saving = {"bolt": "split", "sources": ["sentences"]}
    assert [cost["savings"] for cost in costs] == [[], [saving], [], []]
    result = fulmen("plan", file)
    assert lines(result.stdout)[-8:-5] == [
        "stage 1, 5 ms: sentences",
        "stage 2, 5 ms: split",
        "  saved by local-or-shuffle instead of shuffle from sentences to split",
    ]


def test_table_with_pinned_spouts(fulmen, write):
    pinned = {"spec.spouts.0.class": "support.parts.components.PinnedSentences"}
    result = fulmen("plan", write(pinned), "--workers", "1")
    assert lines(result.stdout) == lines(PINNED)


def test_json(fulmen, write, tmp_path):
    result = fulmen("plan", write(), "-o", "json", "--set", "spec.ackers=0")
    content = json.loads(result.stdout)
    assert list(content) == ["workers", "tasks", "executors", "stages", "stage_costs", "inputs"]
    assert (content["workers"], len(content["tasks"])) == (2, 7)
    assert content["tasks"][:3] == [
        {"task": 1, "component": "count", "executor": [1, 2], "worker": 0},
        {"task": 2, "component": "count", "executor": [1, 2], "worker": 0},
        {"task": 3, "component": "count", "executor": [3, 4], "worker": 1},
    ]
    assert content["executors"][0] == {"component": "count", "first": 1, "last": 2, "worker": 0}
    assert content["stages"] == [["sentences"], ["split"], ["count"]]
    assert [cost["savings"] for cost in content["stage_costs"]] == [[], [], []]
    topology = load(tmp_path / "topology.yaml")
    spec = topology.spec.model_copy(update={"ackers": 0})
    assert Plan.from_json(content) == make_plan(topology.model_copy(update={"spec": spec}))


def test_mermaid(fulmen, write):
    changes = {
        "spec.ackers": 0,
        "spec.spouts.0.class": "support.parts.components.PinnedSentences",
        "spec.bolts.1.inputs.0": {
            "from": "split",
            "stream": "errors",
            "grouping": {"type": "fields", "fields": ["line", "reason"]},
        },
    }
    result = fulmen("plan", write(changes), "-o", "mermaid")
    assert (result.exit_code, result.stdout) == (0, MERMAID)


@pytest.mark.parametrize("output", ["table", "json", "mermaid"])
def test_mistakes(fulmen, write, output):
    result = fulmen("plan", write({"spec.workers": 0}), "-o", output)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == ("Error: spec.workers: workers is 0, but must be at least 1.\n")


def test_no_workers(fulmen, write):
    assert fulmen("plan", write(), "--workers", "0").exit_code == 2


def test_code_that_is_elsewhere(fulmen, write):
    changes = {"spec.code": {"configMap": "code"}, "spec.bolts.1.class": "counting.Count"}
    result = fulmen("plan", write(changes))
    assert result.exit_code == 0
    assert lines(result.stdout) == lines(TABLE)
    assert result.stderr.startswith("warning: spec.code.configMap: ")
