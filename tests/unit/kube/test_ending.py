"""How containers end: exit codes and termination messages."""

import json

import pytest

from fulmen.errors import (
    AlreadyExists,
    CheckpointError,
    CheckpointLost,
    CheckpointMismatch,
    CodeError,
    Denied,
    Fenced,
    FulmenError,
    NotFound,
    SparkLost,
    TopologyFailed,
    Unreachable,
    ValidationFailed,
)
from fulmen.kube.container.ending import of_error, write_ended
from fulmen.kube.contract import ENDED_BYTES
from fulmen.kube.contract.endings import Ended, Mistake
from fulmen.topology.problems import Problem

PROBLEMS = [Problem("spec.workers", "is 0", "Write 1."), Problem("spec.bolts", "is empty")]


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (ValidationFailed(PROBLEMS), 2, "InvalidSpec"),
        (CodeError("there is no module 'shop'"), 2, "InvalidSpec"),
        (CheckpointLost("empty"), 3, "CheckpointLost"),
        (Unreachable("s3://a", "commits/1", "timeout"), 3, "CheckpointUnreachable"),
        (CheckpointMismatch("of other tasks"), 3, "CheckpointMismatch"),
        (CheckpointError("it is damaged"), 3, "CheckpointUnusable"),
        (NotFound("s3://a", "commits/1"), 3, "CheckpointUnusable"),
        (AlreadyExists("s3://a", "commits/1"), 3, "CheckpointUnusable"),
        (Denied("s3://a", "commits/1", "no right."), 3, "CheckpointUnusable"),
        (Fenced("s3://a", 1, "me", 1, "you", 2), 4, "Fenced"),
        (TopologyFailed("bolt 'a' failed", "Traceback"), 1, "Error"),
        (SparkLost("killed", "/var/fulmen/spark.log"), 1, "Error"),
        (FulmenError("no worker"), 1, "Error"),
        (KeyError("x"), 1, "Error"),
    ],
)
def test_errors(error, code, reason):
    found, ended = of_error(error)
    assert (found, ended.reason) == (code, reason)
    assert "\n" not in ended.message


def test_all_mistakes_are_told():
    _, ended = of_error(ValidationFailed(PROBLEMS))
    assert ended.message == "2 mistakes in the spec or the code:"
    assert ended.errors == (
        Mistake(path="spec.workers", reason="is 0", cure="Write 1."),
        Mistake(path="spec.bolts", reason="is empty"),
    )


def test_the_message_fits_where_the_kubelet_reads_it(tmp_path):
    mistakes = tuple(Mistake(path=f"spec.bolts[{n}]", reason="ß" * 200) for n in range(50))
    write_ended(Ended(reason="InvalidSpec", message="m", errors=mistakes), tmp_path / "log")
    text = (tmp_path / "log").read_bytes()
    assert len(text) <= ENDED_BYTES
    kept = json.loads(text)["errors"]
    assert 5 < len(kept) < 50
    assert kept[0]["path"] == "spec.bolts[0]"


def test_a_long_message_is_cut(tmp_path):
    write_ended(Ended(reason="Error", message="m" * 10_000), tmp_path / "log")
    assert 1000 < len((tmp_path / "log").read_bytes()) <= ENDED_BYTES
