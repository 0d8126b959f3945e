"""The revision: all that drivers are started from, also as older operators wrote it."""

import pytest

from fulmen.kube.contract import Mounts, Revision
from fulmen_operator.acceptance.verdict import judge
from fulmen_operator.manifests.revisions import accepted_in, hash_in, mounts_of, new_revision
from fulmen_operator.settings import Settings
from support.observed import observed

CODE = {"spec.code": {"files": {"wordcount.py": "class A: ..."}}}
URI = {"spec.checkpoint": {"uri": "s3://a/b"}}
STORED = {"spec.code": {"uri": "s3://a/code-1.tar.gz", "sha256": "0" * 64}}
CLAIM = {"spec.checkpoint": {"persistentVolumeClaim": "mine"}}


def written(changes, tasks=None):
    """What was accepted, and the revision as it is read again."""
    seen = observed(changes)
    accepted = judge(seen, tasks or {})
    return accepted, Revision.from_json(new_revision(seen, accepted, None, Settings()).to_json())


def as_older(revision):
    """The same as an operator wrote it that knew no `mounts`."""
    return Revision.from_json(revision.to_json().replace('"mounts":', '"unknown":'))


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
    again = accepted_in(revision)
    assert (again.topology, again.hash) == (accepted.topology, accepted.hash)
    assert (again.code_name, again.claim, again.owns_claim) == (
        accepted.code_name,
        "word-count-checkpoint",
        True,
    )


@pytest.mark.parametrize(
    ("changes", "claim", "owns_claim"),
    [
        pytest.param({}, "word-count-checkpoint", True, id="no-code"),
        pytest.param(CODE, "word-count-checkpoint", True, id="code"),
        pytest.param({**CODE, **URI}, "", False, id="uri"),
        pytest.param({**CODE, **CLAIM}, "mine", False, id="claim"),
    ],
)
def test_what_pods_mount_is_known_of_older_revisions_as_well(changes, claim, owns_claim):
    accepted, revision = written(changes)
    mounts = Mounts(code=accepted.code_name, claim=claim, owns_claim=owns_claim)
    assert revision.mounts == mounts
    older = as_older(revision)
    assert older.mounts is None
    assert mounts_of(older) == mounts
    assert accepted_in(older) == accepted_in(revision)
    assert hash_in(older) == accepted.hash


def test_where_code_is_in_a_store_is_known_of_a_revision():
    accepted, revision = written(STORED)
    again = accepted_in(revision)
    assert (again.code, again.code_name) == (accepted.code, "")
    assert (again.code.uri, again.code.sha256) == ("s3://a/code-1.tar.gz", "0" * 64)


def test_what_was_accepted_is_not_read_from_the_pod_that_was_made_of_it():
    _, revision = written(CODE)
    other = revision.model_copy(update={"worker_pod": {"spec": {"volumes": []}}})
    assert accepted_in(other) == accepted_in(revision)


def test_a_live_change_keeps_what_an_older_operator_mounted():
    _, revision = written(CODE)
    seen = observed({**CODE, "spec.maxSpoutPending": 7})
    newer = new_revision(seen, judge(seen, {}), as_older(revision), Settings())
    assert newer.topology["spec"]["maxSpoutPending"] == 7
    assert (newer.mounts, newer.worker_pod) == (revision.mounts, revision.worker_pod)


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
