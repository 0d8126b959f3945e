"""What the API server refuses by the definition's own rules, and what it says."""

import json
from itertools import chain

import pytest

from support.documents import word_count
from support.scripts import script

RULES = script("crd_schema").RULES
CODE = {"spec.code": {"files": {"wordcount.py": ""}}}
GROUPING = "spec.bolts.1.inputs.0.grouping"
REFUSED = [
    ({"metadata.name": "a" * 41}, "the name must have at most 40"),
    ({"metadata.name": "word.count"}, "the name must have at most 40"),
    ({"spec.spouts.0.name": "__mine"}, "names that begin with '__' are reserved"),
    ({"spec.bolts.0.name": "__mine"}, "names that begin with '__' are reserved"),
    ({"spec.bolts.0.inputs": []}, "a bolt needs an input"),
    ({GROUPING: {"type": "custom"}}, "a custom grouping needs a class"),
    ({GROUPING: {"type": "all", "class": "a.B"}}, "a custom grouping needs a class"),
    ({GROUPING: {"type": "all", "fields": ["word"]}}, "only fields and partial-key groupings"),
    ({"spec.code": {"folder": "."}}, "a folder is on your machine"),
    ({"spec.code": {"configMap": "a", "files": {"a.py": ""}}}, "give files or configMap"),
    (
        {"spec.checkpoint": {"uri": "s3://a/b", "persistentVolumeClaim": "c"}},
        "give uri or persistentVolumeClaim",
    ),
    *(
        (
            {f"spec.{pod}.env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {}}}]},
            "give value or valueFrom",
        )
        for pod in ("driver", "worker")
    ),
]
FIXED = "numTasks is fixed for a topology's life"

pytestmark = pytest.mark.timeout(300)


def test_each_rule_is_broken_here():
    said = {rule["message"] for rule in chain.from_iterable(RULES.values())}
    broken = {message for message in said for _, part in REFUSED if message.startswith(part)}
    assert said - broken == {message for message in said if message.startswith(FIXED)}


def refusal(kube, changes):
    """What the API server says against a topology; nothing is made."""
    with pytest.raises(AssertionError) as refused:
        kube.run("create", "--dry-run=server", "-f", "-", content=json.dumps(word_count(changes)))
    return str(refused.value)


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[str(c) for c, _ in REFUSED])
def test_what_breaks_a_rule_is_refused(operator, kube, changes, message):
    assert message in refusal(kube, {**CODE, **changes})


def test_numbers_of_tasks_may_be_removed_but_not_changed(operator, kube):
    asleep = {**CODE, "spec.state": "Suspended"}
    kube.apply(word_count({**asleep, "spec.bolts.0.numTasks": 4}))

    def replace(changes):
        content = json.dumps(word_count({**asleep, **changes}))
        kube.run("replace", "--dry-run=server", "-f", "-", content=content)

    try:
        replace({})
        with pytest.raises(AssertionError, match=FIXED):
            replace({"spec.bolts.0.numTasks": 5})
    finally:
        kube.delete("topology", "word-count")
