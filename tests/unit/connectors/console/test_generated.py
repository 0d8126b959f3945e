"""A clock and a generator: the same after a kill, and the same when it is emitted again."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fulmen import Kept
from fulmen.connectors.console import ClockSpout, GeneratorSpout, StdinSpout
from fulmen.connectors.console.generated import GeneratorOptions
from support.connectors.file_spouts import SpoutLives

FIELDS = {
    "id": {"type": "sequence", "start": 100},
    "n": {"type": "integer", "min": 3, "max": 5},
    "x": {"type": "number", "min": 2, "max": 4},
    "who": {"type": "choice", "values": ["ann", "bob"]},
    "text": {"type": "text", "length": 12},
    "at": {"type": "time", "start": "2026-03-01T12:00:00+01:00", "step": "10s", "jitter": "1m"},
}


def generator(index=0, tasks=1, **config):
    config = {"fields": FIELDS, "rate": None, "count": 60, **config}
    return SpoutLives(GeneratorSpout, tasks=tasks, index=index, **config)


def test_values_are_what_their_fields_say():
    rows = generator().batch()
    assert [row[0] for row in rows] == list(range(100, 160))
    assert {row[1] for row in rows} == {3, 4, 5}
    assert all(2 <= row[2] < 4 for row in rows)
    assert {row[3] for row in rows} == {"ann", "bob"}
    assert len({row[4] for row in rows}) == 60
    assert all(len(row[4]) == 12 and row[4].isalpha() for row in rows)
    start = datetime(2026, 3, 1, 11, tzinfo=UTC)
    late = [start + timedelta(seconds=10 * i) - row[5] for i, row in enumerate(rows)]
    assert timedelta(0) <= min(late) < timedelta(seconds=10)
    assert timedelta(seconds=50) < max(late) <= timedelta(minutes=1)


def test_the_seed_decides_about_the_rows_and_kills_change_nothing():
    whole = generator().batch()
    assert generator(seed=1).batch() != whole
    life = generator()
    emitted = life.batch(calls=20)
    life.attempt(calls=7)
    life.start()
    emitted += life.batch()
    assert emitted == whole
    assert life.spout.is_exhausted()
    assert life.spout.knows_its_end
    failed = sorted(life.pending)[5]
    assert life.batch(fails=[failed]) == [whole[5]]


def test_times_stay_within_those_that_there_are():
    fields = {"at": {"type": "time", "start": "8899-12-31T00:00:00Z", "step": "999999999d"}}
    life = generator(fields=fields | {"jitter": {"type": "time", "jitter": "999999999d"}})
    assert len(life.batch()) == 60


def test_tasks_divide_the_rows():
    parts = [generator(i, 3).batch() for i in range(3)]
    assert sorted(row for part in parts for row in part) == generator().batch()
    assert [len(part) for part in parts] == [20, 20, 20]


def test_rows_come_at_the_rate_and_what_was_missed_is_not_made_up_for():
    life = generator(rate=4, count=None)
    assert len(life.attempt().emitted) == 1
    life.clock.advance(0.5)
    assert len(life.attempt().emitted) == 2
    life.clock.advance(100)
    assert len(life.attempt().emitted) == 1


def test_a_least_value_above_the_greatest_is_a_mistake():
    with pytest.raises(ValidationError, match=r"fields\.n: min 3 is above max 2"):
        GeneratorOptions(fields={"n": {"type": "integer", "min": 3, "max": 2}})


def test_the_fields_are_declared():
    stream = GeneratorSpout().outputs_for(GeneratorOptions(fields=FIELDS))
    assert (stream.fields, stream.types) == (tuple(FIELDS), {"at": "timestamp"})


def test_the_clock_ticks_at_its_interval_and_ends_after_its_count(monkeypatch):
    monkeypatch.setattr(ClockSpout, "today", staticmethod(lambda: 1e9))
    life = SpoutLives(ClockSpout, interval_seconds=2, count=3)
    assert [values for _, values, _ in life.attempt().emitted] == [[0, 1e9]]
    life.clock.advance(1.9)
    assert life.attempt().emitted == []
    life.clock.advance(0.2)
    assert [values[0] for _, values, _ in life.attempt().emitted] == [1]
    life.clock.advance(1.9)
    attempt = life.attempt()
    assert [values[0] for _, values, _ in attempt.emitted] == [2]
    life.commit(attempt)
    assert life.spout.is_exhausted()
    assert life.spout.knows_its_end
    assert life.batch(fails=[(2, 1e9)]) == [[2, 1e9]]


def test_only_the_first_task_of_a_clock_ticks():
    assert SpoutLives(ClockSpout, tasks=2, index=1).batch() == []


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_each_row_is_made_once_whatever_the_number_of_tasks(changes, rng):
    """Tasks have come to different rows at each change, and some rows have failed."""
    whole, made = sorted(generator().batch()), []
    lives = [generator(0, 1)]
    for tasks in changes:
        resting, kept = [], []
        for life in lives:
            life.batch(rng.randint(0, 9))
            ids = sorted(life.pending)
            rest, again = ids[:1], ids[1:2]
            made += [life.pending[i][1] for i in ids[2:]]
            life.batch(0, acks=ids[2:], fails=again)
            resting += rest
            kept.append(Kept({name: getattr(life.spout, name) for name in life.spout.durable}))
            kept[-1].failed = rest
        dealt = GeneratorSpout.redistribute(kept, tasks)
        assert sorted(i for one in dealt for i in one.failed) == sorted(resting)
        lives = [generator(i, tasks) for i in range(tasks)]
        for life, one in zip(lives, dealt, strict=True):
            vars(life.spout).update(one.fields)
            for msg_id in one.failed:
                life.spout.fail(msg_id, "a reason")
    for life in lives:
        made += life.batch()
        assert life.spout.is_exhausted()
    assert sorted(made) == whole


@pytest.mark.parametrize("kind", [ClockSpout, StdinSpout])
def test_what_only_the_first_task_does_stays_with_it(kind):
    first = Kept({"number": 7, "failed": {}}, {3: b"line"}, [3])
    more = kind.redistribute([first], 3)
    assert more == [first, Kept(), Kept()]
    assert kind.redistribute(more, 1) == [first]
