"""Message ids without `==`: an object that a spout keeps is the one that it is told of."""

import math
import pickle
from enum import Enum

import pytest

from fulmen import Spout
from fulmen.engine.state.fields import fields_of
from fulmen.engine.worker.in_process import Crash
from fulmen.errors import TopologyFailed
from fulmen.testing import run
from support.parts.object_ids import Answers, Job, Jobs, object_ids


class Slotted:
    __slots__ = ("n", "tries")

    def __init__(self, n):
        self.n, self.tries = n, 0


class Color(Enum):
    RED = 0
    BLUE = 1


class Resting(Jobs):
    backoff = True


def started_again(b, lives=3):
    """Its end, after some runs that were stopped with messages pending."""
    result = None
    for _ in range(lives):
        result = run(b, checkpoint=result, batches=2)
    return run(b, checkpoint=result)


@pytest.mark.parametrize("kind", [Job, Slotted])
def test_ack_gets_the_object_that_the_fields_hold(kind):
    result = started_again(object_ids(Jobs(kind)))
    assert result.fields("jobs")["open_jobs"] == {}
    assert sorted(result.fields("jobs")["done"]) == [(n, 1) for n in range(6)]


@pytest.mark.parametrize(("spout", "limit"), [(Jobs, None), (Jobs, 5), (Resting, None)])
def test_fail_gets_the_object_that_the_fields_hold(spout, limit):
    built = object_ids(spout(), failing=(1, 4), max_replays=limit)
    fields = started_again(built).fields("jobs")
    assert fields["open_jobs"] == {}
    assert sorted(fields["done"]) == [(0, 1), (1, -2), (2, 1), (3, 1), (4, -2), (5, 1)]


def test_fail_gets_the_object_that_the_fields_hold_after_restarts_while_it_rests():
    fields = started_again(object_ids(Resting(), (1, 4), Answers), lives=8).fields("jobs")
    assert fields["open_jobs"] == {}
    assert sorted(fields["done"]) == [(0, 1), (1, -2), (2, 1), (3, 1), (4, -2), (5, 1)]


def test_a_worker_that_is_lost_again_and_again_changes_nothing():
    lost = []

    def fault(stage, worker, moment):
        if moment == "after" and len(lost) < 40 and len(lost) % 3 != 2:
            lost.append(stage)
            raise Crash
        lost.append(None)

    result = run(object_ids(Resting(), failing=(1, 4)), fault=fault)
    assert len(result.fields("jobs")["done"]) == 6


class Changes(Jobs):
    """Changes a job long after it was emitted: its fields are written again, its id is not."""

    def next_tuple(self):
        super().next_tuple()
        for job in self.open_jobs:
            job.tries = 7


def test_what_an_object_is_like_is_what_the_fields_say():
    done = started_again(object_ids(Changes())).fields("jobs")["done"]
    assert {tries for _, tries in done} == {7}


def test_an_object_that_comes_again_is_counted_as_the_same():
    result = started_again(object_ids(Jobs(), failing=(2,), max_replays=1))
    assert result.trees["dead_lettered"] == 1


class Colors(Spout):
    outputs = ("n",)

    def __init__(self):
        self.left, self.acked = [Color.RED, Color.BLUE], []

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.left:
            color = self.left.pop()
            self.state[color] = True
            self.collector.emit([color.value], msg_id=color)

    def ack(self, color):
        self.acked.append(color)

    def is_exhausted(self):
        return not self.left


def test_members_of_an_enum_stay_what_they_are():
    acked = started_again(object_ids(Colors())).fields("jobs")["acked"]
    assert {*acked} == {Color.RED, Color.BLUE}


class Tuples(Jobs):
    def send(self, job):
        self.open_jobs[job] = 0
        self.collector.emit([job.n], msg_id=("job", job))


def test_an_id_with_a_part_that_is_equal_to_itself_alone_is_refused():
    with pytest.raises(TopologyFailed, match=r"emit: message id .*equal to themselves alone"):
        run(object_ids(Tuples()))


class InState(Jobs):
    def send(self, job):
        self.state[job] = 1
        self.collector.emit([job.n], msg_id=job)


def test_an_id_that_is_a_key_of_the_state_is_refused():
    with pytest.raises(TopologyFailed, match=r"emit: message id .* is a key of self.state"):
        run(object_ids(InState()))


class NoNumbers(Jobs):
    def send(self, job):
        self.collector.emit([job.n], msg_id=("job", math.nan))


def test_an_id_with_nan_in_it_is_refused():
    with pytest.raises(
        TopologyFailed, match=r"emit: message id \('job', nan\) is not equal to its"
    ):
        run(object_ids(NoNumbers()))


class PlainTuples(Colors):
    def next_tuple(self):
        if self.left:
            color = self.left.pop()
            self.collector.emit([color.value], msg_id=("a", 1.5, (color, None)))


def test_an_id_of_plain_parts_is_none_to_be_refused():
    acked = started_again(object_ids(PlainTuples())).fields("jobs")["acked"]
    assert {color for _, _, (color, _) in acked} == {Color.RED, Color.BLUE}


def test_who_only_looks_reads_what_is_pending_as_it_is():
    result = run(object_ids(Jobs()), batches=2)
    (journals,) = [result._load(key) for key in result._keys("jobs", None)]
    assert [job.n for job in fields_of(journals)["open_jobs"]] == [0, 1, 2, 3, 4, 5]
    assert pickle.loads(journals["pending"][-1])
