"""Errors: the tree of them is complete, each crosses processes, and each has a whole message."""

import pickle
import re
from http import HTTPStatus

import pytest

from fulmen import errors
from fulmen.api.marks import WHATEVER, Point, StoreMismatch
from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.kubectl import Replaced, _Conflict, _NotFound
from fulmen.connectors.files.places.local import BadPlace
from fulmen.engine.driver.taps.letter_requests import LettersRefused
from fulmen.engine.driver.taps.wanted_tap import TapRefused
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.engine.taps.condition import ConditionError
from fulmen.engine.tasks.author.errors import ComponentFailed, Unavailable
from fulmen.kube.driver.api import ApiError
from fulmen.streams.bolts.loops import StepFailed
from fulmen.testing.running import NotDrained
from fulmen.topology.problems import Problem
from fulmen.transactional import StaleAttempt, StoreError, StoreRefused, StoreUnavailable
from support.docs.pages import ROOT

RUNTIME = ROOT / "runtime" / "fulmen"
S3 = "s3://bucket/shop"
FAILED = ErrorReport("count", 7, "ValueError: no number", traceback="Traceback", fatal=True)
TWO = [Problem("spec.workers", "is 0", "Write 1."), Problem("spec.bolts", "is empty")]
MESSAGES = [
    (errors.FulmenError("no worker"), "no worker"),
    (errors.DeclarationError("bolt 'a': two outputs"), "bolt 'a': two outputs"),
    (errors.StreamError("no stream 'x'"), "no stream 'x'"),
    (errors.CollectorError("emit outside of execute"), "emit outside of execute"),
    (errors.MetricError("metric 'Rows': a name"), "metric 'Rows': a name"),
    (errors.EventTimeError("it has no time"), "it has no time"),
    (errors.BeyondDatesError("it is before the year 1"), "it is before the year 1"),
    (errors.GroupingError("no stable hash", 3, 1), "no stable hash"),
    (errors.StateError("field 'model' can't be pickled"), "field 'model' can't be pickled"),
    (errors.NotReadable("field 'x' can't be kept"), "field 'x' can't be kept"),
    (
        errors.CodeError("there is no module 'shop'", "Put it into code."),
        "there is no module 'shop'. Put it into code.",
    ),
    (errors.CodeError("there is no module 'shop'"), "there is no module 'shop'."),
    (ComponentFailed(FAILED), "count, task 7: ValueError: no number"),
    (Unavailable(FAILED), "count, task 7: ValueError: no number"),
    (errors.ValidationFailed(TWO[:1]), "spec.workers: is 0. Write 1."),
    (
        errors.ValidationFailed(TWO),
        "2 problems:\n  1. spec.workers: is 0. Write 1.\n  2. spec.bolts: is empty.",
    ),
    (BadInput("the checkpoint is empty text"), "the checkpoint is empty text"),
    (ConditionError("the condition names no field"), "the condition names no field"),
    (LettersRefused("the topology has ended"), "the topology has ended"),
    (TapRefused("there is no component 'x'", HTTPStatus.NOT_FOUND), "there is no component 'x'"),
    (BadPlace("/logs is a file"), "/logs is a file"),
    (errors.CheckpointError("checkpoint s3://a is damaged"), "checkpoint s3://a is damaged"),
    (
        errors.AlreadyExists(S3, "commits/7"),
        "checkpoint s3://bucket/shop: 'commits/7' exists already, and objects are never"
        " overwritten. Another process wrote it: use another name, or read it first.",
    ),
    (
        errors.NotFound(S3, "commits/7"),
        "checkpoint s3://bucket/shop: there is no 'commits/7'. Either it was never written, or it"
        " was deleted because a newer commit made it superfluous: read the newest commit.",
    ),
    (
        errors.Unreachable(S3, "commits/7", "timed out"),
        "checkpoint s3://bucket/shop: can't reach 'commits/7': timed out. Check that the store is"
        " up and can be reached from here; then try again, which is safe.",
    ),
    (
        errors.Unreachable(S3, "commits/7", "timed out", unknown=True),
        "checkpoint s3://bucket/shop: can't tell whether it wrote 'commits/7': timed out. Check"
        " that the store is up and can be reached from here; then try again, which is safe.",
    ),
    (
        errors.Denied(S3, "commits/7", "access denied. Check the rights."),
        "checkpoint s3://bucket/shop, 'commits/7': access denied. Check the rights.",
    ),
    (
        errors.Fenced(S3, 7, "pod-1", 1, "pod-2", 2),
        "driver 'pod-1' (epoch 1) can't make commit 7 in checkpoint s3://bucket/shop: driver"
        " 'pod-2' (epoch 2) has taken over. Nothing is lost: the other driver runs the batch"
        " again. This driver must stop, without acking or emitting anything more. If both were"
        " started on purpose, give each topology a checkpoint of its own (spec.checkpoint).",
    ),
    (errors.CheckpointMismatch("it is that of 'bakery'"), "it is that of 'bakery'"),
    (errors.CheckpointLost("checkpoint s3://a is empty"), "checkpoint s3://a is empty"),
    (errors.JobFailed("worker 1 was lost", is_clusters=True), "worker 1 was lost"),
    (errors.JobTimedOut(60.0), "the batch took more than 60 seconds and was cancelled"),
    (errors.TopologyFailed("bolt 'a' failed"), "bolt 'a' failed"),
    (errors.TopologyFailed("bolt 'a' failed", "Traceback\n"), "bolt 'a' failed\nTraceback"),
    (
        errors.SparkLost("the JVM was killed", "/tmp/spark.log"),
        "Spark is gone: the JVM was killed. More may be in '/tmp/spark.log'. What is committed"
        " stays: started again, the topology continues from its checkpoint.",
    ),
    (
        NotDrained(100, 3),
        "the topology has not come to its end after 100 batches; 3 trees are pending. A spout ends"
        " when is_exhausted() is true, or after 20 batches without an emit. For a spout that never"
        " ends, give `batches` or `until`.",
    ),
    (
        StepFailed("step 2 'filter' (shop.py:14): KeyError: 'amount'"),
        "step 2 'filter' (shop.py:14): KeyError: 'amount'",
    ),
    (
        ApiError("GET /api/v1/pods", 403, "forbidden"),
        "Kubernetes API: GET /api/v1/pods answered 403: forbidden",
    ),
    (
        ApiError("GET /api/v1/pods", 0, "no route to host"),
        "Kubernetes API: GET /api/v1/pods does not answer: no route to host",
    ),
    (_NotFound("kubectl: there is no 'shop'"), "kubectl: there is no 'shop'"),
    (Replaced("'shop' was deleted meanwhile."), "'shop' was deleted meanwhile."),
    (_Conflict("kubectl: 'shop' is another one"), "kubectl: 'shop' is another one"),
    (StoreError("map 'n'", "it has no rows", "Add some."), "map 'n': it has no rows. Add some."),
    (StoreUnavailable("map 'n'", "the disk is full"), "map 'n': the disk is full."),
    (StoreRefused("map 'n'", "a right is missing"), "map 'n': a right is missing."),
    (
        StaleAttempt("map 'n'", "3:7", "attempt 3:8 was written"),
        "map 'n': attempt 3:7 comes too late: attempt 3:8 was written. Nothing was changed. Another"
        " driver has taken over: this process is to be stopped.",
    ),
    (
        StoreMismatch("sink 't/s/0'", "commit", Point(3, "a"), Point(5, "b"), "do"),
        "sink 't/s/0': the store has commit 3 (a), and by the checkpoint it should have commit 5"
        " (b): the store is older than the checkpoint: it was restored from a copy, is another one,"
        " or its marks are gone. Nothing was written. Restore the store as it was with commit 5"
        " (b), or the checkpoint as it was with commit 3 (a); or go on without what the store"
        " lacks: do",
    ),
    (
        StoreMismatch("sink 't/s/0'", "commit", Point(5, "a"), Point(3, WHATEVER), "do"),
        "sink 't/s/0': the store has commit 5 (a), and by the checkpoint it should have commit 3 or"
        " an earlier one: the checkpoint is older than the store: it was set back, or another"
        " driver has taken over. Nothing was written. Start with the checkpoint that has commit 5"
        " (a); restore the store as it was with commit 3 or an earlier one; use another store if"
        " this is a copy of a checkpoint that is in use; or have what this checkpoint writes from"
        " here on added to what the store has, also if part of it is there already: do",
    ),
    (
        StoreMismatch("map 'm'", "transaction", Point(5, "a"), None, "do", is_foreign=True),
        "map 'm': the store has transaction 5 (a), and by the checkpoint it should have no"
        " transaction: another checkpoint has written to the store: this one was begun anew."
        " Nothing was written. Start with the checkpoint that has transaction 5 (a); use a map of"
        " another name; or have what this checkpoint writes from here on added to what the store"
        " has, also if part of it is there already: do",
    ),
]
WITH_NAMES = [
    pytest.param(*row, id=f"{number}-{type(row[0]).__name__}")
    for number, row in enumerate(MESSAGES)
]


def test_what_an_authors_code_raises_need_not_be_an_exception():
    """A comment beside `except` says whose code it is."""
    narrow = re.compile(r"(?:except Exception|suppress\(Exception).*author")
    found = [file for file in RUNTIME.rglob("*.py") if narrow.search(file.read_text())]
    assert found == [], "catch BaseException behind `except PASSED_ON: raise`, or use IGNORED"


@pytest.mark.parametrize("kind", [ValueError, SystemExit, GeneratorExit])
def test_what_an_authors_code_raises_can_be_ignored(kind):
    with errors.IGNORED:
        raise kind


def test_ctrl_c_is_not_ignored():
    with pytest.raises(KeyboardInterrupt), errors.IGNORED:
        raise KeyboardInterrupt


def classes():
    """Each class of error, its base, and its file: as the code has them."""
    bases, files = {}, {}
    for file in sorted(RUNTIME.rglob("*.py")):
        for name, base in re.findall(
            r"^class (\w+)\((\w+)(?:, \w+)*\):", file.read_text(), re.MULTILINE
        ):
            bases[name], files[name] = base, file.relative_to(RUNTIME).as_posix()
    found = {"FulmenError": ""}
    while more := {n: b for n, b in bases.items() if b in found and n not in found}:
        found |= more
    return {name: (base, files.get(name, "errors.py")) for name, base in found.items()}


def tree():
    """The same, as the docstring has them."""
    above, found = {}, {}
    for line in errors.__doc__.splitlines():
        if match := re.fullmatch(r"((?:    ){0,3})(\w+Error|[A-Z_]\w+)(?:  +\S.*)?", line):
            depth, name = len(match[1]) // 4, match[2]
            above[depth] = name
            found[name] = [above[depth - 1] if depth else "", "errors.py"]
        if file := re.search(r"\((\w[\w/]*\.py)\)$", line):
            found[above[depth]][1] = file[1]
    return {name: tuple(place) for name, place in found.items()}


def test_the_tree_has_every_error_under_its_base_and_with_its_file():
    assert tree() == classes()


def test_every_error_has_its_message_tested():
    assert {type(error).__name__ for error, _ in MESSAGES} == set(classes())


@pytest.mark.parametrize(("error", "message"), WITH_NAMES)
def test_the_message_is_whole(error, message):
    assert str(error) == message


@pytest.mark.parametrize(("error", "message"), WITH_NAMES)
def test_an_error_is_the_same_in_another_process(error, message):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == message
    assert vars(again) == vars(error)
