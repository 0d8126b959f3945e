"""What pods decide, and what is wrong only there."""

import pytest

from fulmen.topology.validation.check import check
from support.cli.documents import word_count


def found(changes, **options):
    """(severity, text) of each problem."""
    return [(p.severity, str(p)) for p in check(word_count(changes), **options).problems]


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("spark.executor.memory", "Write spec.worker.resources: {limits: {memory: 2Gi}}."),
        ("spark.driver.memory", "Write spec.driver.resources: {limits: {memory: 4Gi}}."),
        ("spark.executor.instances", "Write spec.workers."),
        ("spark.kubernetes.namespace", "Leave it out."),
    ],
)
def test_settings_that_pods_decide_are_a_warning_but_an_error_for_pods(name, cure):
    changes = {"spec.spark": {"conf": {name: "1g", "spark.sql.shuffle.partitions": "4"}}}
    text = (
        f"spec.spark.conf[{name}]: on Kubernetes {name!r} is decided by Fulmen, or by a field of "
        f"the resource. {cure}"
    )
    assert found(changes) == [("warning", text)]
    assert found(changes, for_kubernetes=True) == [("error", text)]


@pytest.mark.parametrize("for_kubernetes", [False, True])
@pytest.mark.parametrize("uri", ["s3://key:secret@bucket/path", "s3://key@bucket/path"])
def test_credentials_in_the_checkpoints_uri_are_an_error(uri, for_kubernetes):
    [(severity, text)] = found({"spec.checkpoint": {"uri": uri}}, for_kubernetes=for_kubernetes)
    assert severity == "error"
    assert text == (
        "spec.checkpoint.uri: a URI is shown in logs and in the topology's status, so it must hold "
        "no user and no password. Leave them out, and set the environment variables that the "
        "store's own tools read (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3): on "
        "Kubernetes from a Secret, in env of driver and worker."
    )


@pytest.mark.parametrize(
    "uri",
    ["s3://[my-bucket]/x", "s3:///x", "file://srv/x", "gs://b/p#f", "s3://b/x?secret_access_key=S"],
)
def test_a_uri_that_every_store_would_refuse_is_an_error(uri):
    [(severity, text)] = found({"spec.checkpoint": {"uri": uri}}, for_kubernetes=True)[:1]
    assert severity == "error"
    assert "secret_access_key" not in text


@pytest.mark.parametrize("uri", ["s3://bucket/a@b", "az://container/path", "file:///data/a@b"])
def test_an_at_sign_in_a_path_is_no_secret(uri):
    assert found({"spec.checkpoint": {"uri": uri}}) == []


def test_a_folder_as_checkpoint_is_a_warning_for_pods():
    changes = {"spec.checkpoint": {"uri": "file:///data"}}
    assert found(changes) == []
    assert found(changes, for_kubernetes=True) == [
        (
            "warning",
            "spec.checkpoint.uri: a folder is the same for all pods only if they mount a volume "
            "there. If they don't, name a store such as s3://bucket/path, or a "
            "persistentVolumeClaim.",
        )
    ]


def test_a_claim_or_a_store_as_checkpoint_is_none():
    for checkpoint in ({"uri": "s3://bucket/path"}, {"persistentVolumeClaim": "claim"}):
        assert found({"spec.checkpoint": checkpoint}, for_kubernetes=True) == []


def test_ticks_of_a_spout_are_a_warning():
    changes = {"spec.spouts.0.tickSeconds": 5, "spec.bolts.0.tickSeconds": 5}
    assert found(changes) == [
        (
            "warning",
            "spec.spouts[0].tickSeconds: spout 'sentences': a spout gets no ticks. Remove it: "
            "next_tuple is called often enough to look at a clock.",
        )
    ]
