"""State in a bucket: exact whatever is done to pods, guarded against mistakes, never deleted.

The code is in the bucket as well, with a package that the image does not have.
"""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from support.cli.wheels import make_wheel
from support.cluster.kube import condition, eventually, is_ready
from support.cluster.numbered import (
    FILE,
    FULMEN,
    NAME,
    START_SECONDS,
    at_rest,
    driver,
    expected,
    goes_on,
    manifest,
    report_in,
)
from support.servers.s3 import BUCKET, SECRET_KEY

SENTENCES = 2_500
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
SECRET = "bucket"

pytestmark = pytest.mark.timeout(900)


@cache
def code_in(s3):
    """The code in the bucket, with a package that it imports: what spec.code says of it."""
    project = s3.folder.with_name("project")
    wheel = make_wheel(project / "wheels", "greetings", "1.0", {"greetings/__init__.py": ""})
    (project / "requirements.txt").write_text("--no-index\n--find-links ./wheels\ngreetings\n")
    text = FILE.with_suffix(".py").read_text()
    changed = text.replace("import re\n", "import re\n\nimport greetings\n")
    assert changed != text
    (project / FILE.with_suffix(".py").name).write_text(changed)
    archive = project / "code-1.tar.gz"
    options = ["--code-folder", project, "--wheels", "--archive", archive]
    printed = subprocess.run(
        [FULMEN, "manifest", FILE, *options, "--uri", s3.uri(archive.name)],
        env={**os.environ, "PYTHONPATH": str(wheel)},  # as if it was installed here
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    shutil.copy(archive, s3.folder / BUCKET / archive.name)
    return yaml.safe_load(printed)["spec"]["code"]


def apply(kube, s3, name=NAME, *assignments):
    """Apply the topology with its checkpoint in the bucket, and the credentials in a Secret."""
    variables = s3.environment()
    content = {variable: variables.pop(variable) for variable in CREDENTIALS}
    metadata = {"name": SECRET}
    kube.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": content})
    env = [{"name": variable, "value": value} for variable, value in variables.items()]
    for variable in CREDENTIALS:
        source = {"secretKeyRef": {"name": SECRET, "key": variable}}
        env.append({"name": variable, "valueFrom": source})
    config = "spec.spouts[sentences].config"
    settings = ("spec.workers=1", f"{config}.count={SENTENCES}", f"{config}.rate=100")
    topology = yaml.safe_load(manifest(FILE, f"metadata.name={name}", *settings, *assignments))
    topology["spec"]["checkpoint"] = {"uri": s3.uri(NAME)}
    topology["spec"]["code"] = code_in(s3)
    for pod in ("driver", "worker"):
        topology["spec"][pod]["env"] = env
    kube.apply(topology)


def counts(s3):
    """What is counted in the newest commit."""
    command = [Path(sys.executable).with_name("fulmen"), "state", "get", s3.uri(NAME), "count"]
    done = subprocess.run(
        [*command, "-o", "json"],
        env={**os.environ, **s3.environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {entry["key"]: entry["value"] for entry in json.loads(done.stdout)}


def objects(s3):
    """All objects of the checkpoint, with their content."""
    folder = s3.folder / BUCKET / NAME
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def all_counted(kube, s3):
    """The counts when there are as many as there must be, or more."""
    wanted = sum(expected(SENTENCES).values())

    def look():
        at_rest(kube, 180)
        return counts(s3)

    return eventually(look, lambda found: sum(found.values()) >= wanted, 180, "all counted")


def wait_for(kube, name, kind, reason):
    """Wait for a condition with that reason; its message."""
    found = kube.wait(
        "topology",
        name,
        lambda topology: condition(topology, kind).get("reason") == reason,
        120,
        f"{kind}: {reason}",
    )
    return condition(found, kind)["message"]


@pytest.fixture(scope="module")
def topology(operator, kube, s3):
    apply(kube, s3)
    kube.wait("topology", NAME, is_ready, START_SECONDS, "Ready")
    return kube


def test_every_word_is_counted_exactly_once_although_the_driver_is_killed(topology, s3):
    pod = driver(topology)
    before, name = report_in(pod), pod["metadata"]["name"]
    topology.delete("pod", name, "--grace-period=0", "--force")
    after = goes_on(topology, before["batch"], workers=1, but=name)
    assert report_in(after)["epoch"] > before["epoch"]
    assert all_counted(topology, s3) == expected(SENTENCES)


def test_an_archive_that_was_not_asked_for_replaces_nothing(topology, s3):
    before = driver(topology)["metadata"]["name"]
    for digest, reason in (("0" * 64, "InvalidSpec"), (code_in(s3)["sha256"], "Accepted")):
        patch = json.dumps({"spec": {"code": {"sha256": digest}}})
        topology.run("patch", "topology", NAME, "--type=merge", f"--patch={patch}")
        message = wait_for(topology, NAME, "SpecAccepted", reason)
        if reason == "InvalidSpec":
            assert f"has the SHA-256 {code_in(s3)['sha256']}" in message
    topology.wait("topology", NAME, is_ready, START_SECONDS, "Ready")
    assert driver(topology)["metadata"]["name"] == before


def test_credentials_are_nowhere_but_in_their_secret(topology):
    kinds = "topologies,pods,configmaps,events"
    texts = [topology.run("get", kinds, "-o", "yaml")]
    texts.append(topology.run("logs", driver(topology)["metadata"]["name"]))
    texts += [  # the pod of a preflight may be gone meanwhile
        topology.run("logs", pod["metadata"]["name"], check=False)
        for pod in topology.list("pods", f"fulmen.dev/topology={NAME}")
    ]
    assert f"name: {SECRET}" in texts[0]
    assert not any(SECRET_KEY in text for text in texts)


def test_the_checkpoint_of_another_topology(topology, s3):
    before = counts(s3)
    apply(topology, s3, "other")
    message = wait_for(topology, "other", "Stalled", "CheckpointMismatch")
    assert f"is that of topology '{topology.namespace}/{NAME}'" in message
    ready = condition(topology.get("topology", "other"), "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "CheckpointMismatch")
    topology.delete("topology", "other")
    assert counts(s3) == before
    assert is_ready(topology.get("topology", NAME))


def test_a_checkpoint_that_is_damaged_and_then_lost(topology, s3):
    """The driver says so as long as it is. Nothing begins anew before the user says so."""
    topology.delete("pod", driver(topology)["metadata"]["name"], "--grace-period=0", "--force")
    for path in objects(s3):
        if "/commits/" in path:
            Path(path).write_bytes(b"not what was written")
    message = wait_for(topology, NAME, "Ready", "CheckpointUnusable")
    assert "is damaged" in message
    shutil.rmtree(s3.folder / BUCKET / NAME)
    message = wait_for(topology, NAME, "Stalled", "CheckpointLost")
    assert "is empty, but batch" in message
    assert objects(s3) == {}
    topology.run("annotate", "topology", NAME, "fulmen.dev/accept-checkpoint-loss=true")
    topology.wait("topology", NAME, is_ready, START_SECONDS, "Ready")
    assert sum(counts(s3).values()) < sum(expected(SENTENCES).values())


def test_what_a_deleted_topology_has_left_is_adopted(topology, s3):
    """While its pods still count. Nothing is lost, and nothing counted twice."""
    left = driver(topology)["metadata"]["name"]
    topology.run("delete", "topology", NAME, "--cascade=orphan")
    apply(topology, s3)
    message = wait_for(topology, NAME, "Ready", "ObjectInTheWay")
    assert f"annotate topology {NAME} fulmen.dev/adopt=true" in message
    topology.run("annotate", "topology", NAME, "fulmen.dev/adopt=true")
    topology.wait("topology", NAME, is_ready, START_SECONDS, "Ready")
    assert driver(topology)["metadata"]["name"] != left
    assert all_counted(topology, s3) == expected(SENTENCES)


def test_the_namespace_is_deleted_and_the_checkpoint_stays(topology, s3):
    topology.delete_namespace()
    assert counts(s3) == expected(SENTENCES)
