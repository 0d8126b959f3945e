"""Specs that can't be run: they are refused, with all that is wrong with them and the cures."""

import base64
import hashlib

import pytest

from fulmen_operator.acceptance.judge import Accepted, Refused, judge
from support.operator.observed import observed


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
    refused = judge(observed(changes, sources=[source]), {})
    assert isinstance(refused, Refused)
    assert refused.reason == reason
    assert words in refused.message


def parts(*contents):
    """ConfigMaps with the parts of an archive, and what a topology says of it."""
    sha256 = hashlib.sha256(b"".join(contents)).hexdigest()
    sources = [
        {"binaryData": {f"code.tar.gz.{n}": base64.b64encode(content).decode()}}
        for n, content in enumerate(contents, 1)
    ]
    return sources, {"spec.code": {"configMaps": ["a", "b"][: len(contents)], "sha256": sha256}}


def test_parts_of_an_archive_are_accepted_as_one():
    sources, changes = parts(b"one", b"two")
    accepted = judge(observed(changes, sources=sources), {})
    assert isinstance(accepted, Accepted), accepted
    assert accepted.mounts.code_parts == 2
    assert accepted.mounts.code.startswith("word-count-code-")
    others = [parts(b"on", b"etwo"), parts(b"one", b"twos")]
    hashes = {judge(observed(c, sources=s), {}).mounts.code for s, c in others}
    assert len({*hashes, accepted.mounts.code}) == 3


@pytest.mark.parametrize(
    ("contents", "spoil", "reason", "words"),
    [
        pytest.param(
            (b"one", b"two"),
            lambda sources: [None, {"data": {"a.py": ""}}],
            "CodeNotFound",
            "(1) spec.code.configMaps[0]: there is no ConfigMap 'a'. (2) spec.code.configMaps[1]: "
            "ConfigMap 'b' has no code.tar.gz.2. Apply all that fulmen manifest printed.",
            id="missing",
        ),
        pytest.param(
            (b"one", b"two"),
            lambda sources: sources[::-1],
            "CodeNotFound",
            "ConfigMap 'a' has no code.tar.gz.1",
            id="another-order",
        ),
        pytest.param(
            (b"one", b"two"),
            lambda sources: [sources[0], parts(b"one", b"six")[0][1]],
            "CodeNotFound",
            "so one of them is another archive's. Apply all that fulmen manifest printed.",
            id="another-archive",
        ),
        pytest.param(
            (b"one", b"x" * 921_601),
            lambda sources: sources,
            "CodeTooBig",
            "parts of 3, 921601 bytes, but at most 921600 are allowed in each. Put the code into a"
            " store (spec.code.uri), or an image (fulmen image).",
            id="too-big",
        ),
    ],
)
def test_parts_that_are_not_those_of_the_archive(contents, spoil, reason, words):
    sources, changes = parts(*contents)
    refused = judge(observed(changes, sources=spoil(sources)), {})
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.again_in) == (reason, 30)
    assert words in refused.message


def test_all_mistakes_are_told_at_once():
    refused = judge(observed({"spec.workers": 0, "spec.bolts.0.inputs.0.from": "x"}), {})
    assert refused.message.startswith("(1) ")
    assert "(2) " in refused.message
