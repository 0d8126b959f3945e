"""Specs that can't be run: they are refused, with all that is wrong with them and the cures."""

import pytest

from fulmen_operator.acceptance.verdict import Refused, judge
from support.observed import observed


@pytest.mark.parametrize(
    ("changes", "source", "reason", "words"),
    [
        (
            {"spec.code": {"folder": "."}},
            None,
            "InvalidSpec",
            "fulmen manifest FILE | kubectl apply",
        ),
        ({"spec.code": {"configMap": "c"}}, None, "CodeNotFound", "there is no ConfigMap 'c'"),
        ({"spec.code": {"configMap": "c"}}, {"data": None}, "CodeNotFound", "has no data"),
        (
            {"spec.code": {"configMap": "c"}},
            {"data": {"a.py": "x" * 921_601}},
            "CodeTooBig",
            "921600",
        ),
        (
            {"spec.code": {"configMap": "c"}},
            {"binaryData": {"code.tar.gz": "AAAA" * 307_201}},
            "CodeTooBig",
            "921603",
        ),
        (
            {"spec.code": {"configMap": "c"}},
            {"data": {"a.py": "x"}, "binaryData": {"code.tar.gz": "AAAA"}},
            "CodeNotFound",
            "has code.tar.gz and other files",
        ),
        ({"spec.workers": 0}, None, "InvalidSpec", "at least 1"),
        (
            {"spec.worker.resources": {"requests": {"memory": "1Gi"}}},
            None,
            "InvalidSpec",
            "memory is requested, but not limited",
        ),
        (
            {"spec.worker.resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}},
            None,
            "InvalidSpec",
            "1Gi of memory are requested, but the limit is 2Gi",
        ),
        (
            {"spec.driver.env": [{"name": "A", "value": "1", "valueFrom": {"x": 1}}]},
            None,
            "InvalidSpec",
            "variable 'A' has both value and valueFrom",
        ),
    ],
)
def test_what_cant_be_run_is_refused_with_its_cure(changes, source, reason, words):
    refused = judge(observed(changes, source=source), {})
    assert isinstance(refused, Refused)
    assert refused.reason == reason
    assert words in refused.message


def test_all_mistakes_are_told_at_once():
    refused = judge(observed({"spec.workers": 0, "spec.bolts.0.inputs.0.from": "x"}), {})
    assert refused.message.startswith("(1) ")
    assert "(2) " in refused.message
