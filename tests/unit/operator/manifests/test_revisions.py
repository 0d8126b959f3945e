"""The revision: all that drivers are started from."""

import pytest

from fulmen.kube.contract.revisions import Mounts, Revision
from fulmen_operator.acceptance.judge import judge
from fulmen_operator.manifests.revisions import hash_in, new_revision
from fulmen_operator.settings import Settings
from support.operator.observed import observed

CODE = {"spec.code": {"files": {"wordcount.py": "class A: ..."}}}
URI = {"spec.checkpoint": {"uri": "s3://a/b"}}
STORED = {"spec.code": {"uri": "s3://a/code-1.tar.gz", "sha256": "0" * 64}}
CLAIM = {"spec.checkpoint": {"persistentVolumeClaim": "mine"}}


def written(changes, tasks=None):
    """What was accepted, and the revision as it is read again."""
    seen = observed(changes)
    accepted = judge(seen, tasks or {})
    return accepted, Revision.from_json(new_revision(seen, accepted, None, Settings()).to_json())


def test_a_revision_says_all_that_drivers_are_started_from():
    deleted = {"spec.checkpoint": {"deletionPolicy": "Delete"}}
    accepted, revision = written({**CODE, **deleted}, {"split": 9})
    assert revision.generation == 3
    spec = revision.topology["spec"]
    assert "code" not in spec
    assert spec["checkpoint"] == {"uri": "file:///checkpoint", "deletionPolicy": "Delete"}
    assert [c["numTasks"] for c in spec["bolts"]] == [9, 4]
    metadata = {"name": "word-count", "namespace": "blue", "uid": "u-1"}
    assert revision.topology["metadata"] == metadata
    assert (revision.running, revision.input_hash) == (accepted.topology, accepted.hash)
    assert revision.mounts == accepted.mounts


@pytest.mark.parametrize(
    ("changes", "claim", "owns_claim"),
    [
        pytest.param(CODE, "word-count-checkpoint", True, id="code"),
        pytest.param({**CODE, **URI}, "", False, id="uri"),
        pytest.param({**CODE, **CLAIM}, "mine", False, id="claim"),
    ],
)
def test_a_revision_knows_what_pods_mount(changes, claim, owns_claim):
    accepted, revision = written(changes)
    code = accepted.mounts.code
    assert revision.mounts == Mounts(code=code, claim=claim, owns_claim=owns_claim)
    assert code.startswith("word-count-code-")


def test_where_code_is_in_a_store_is_known_of_a_revision():
    _, revision = written(STORED)
    mounts = revision.mounts
    assert (mounts.code, mounts.code_uri) == ("", "s3://a/code-1.tar.gz")
    assert mounts.code_sha256 == "0" * 64


def test_a_topology_that_was_accepted_is_validated_once():
    _, revision = written(CODE)
    first = revision.resolved
    later = revision.model_copy(update={"workers": 3, "last_batch": 7})
    assert later.resolved is first
    assert later.running.spec.workers == 3


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="nothing"),
        pytest.param(CODE, id="code"),
        pytest.param(STORED, id="stored-code"),
        pytest.param(URI, id="uri"),
        pytest.param(CLAIM, id="claim"),
        pytest.param({"spec.worker": {"resources": {"limits": {"memory": "2Gi"}}}}, id="memory"),
        pytest.param({"spec.driver": {"podTemplate": {"spec": {"a": [None, 1.5]}}}}, id="template"),
        pytest.param({"spec.bolts.0.blocking": True, "spec.workers": 5}, id="components"),
    ],
)
def test_the_digest_of_what_was_accepted_can_be_made_from_the_revision(changes):
    accepted, revision = written(changes, {"split": 9})
    assert hash_in(revision) == accepted.hash
