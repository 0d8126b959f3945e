"""The life of a source of calls: their answers, and what a key does."""

import pytest

from fulmen.connectors.http import CallSpout, call_is_over
from fulmen.connectors.http.served.call_bolts import OVER, call_name, number_of
from fulmen.connectors.http.served.calls import LOST
from support.lives.served_life import ServedLife

TEXT = "a text"


@pytest.fixture
def life_of():
    lives = []

    def make(**options):
        lives.append(ServedLife(CallSpout, **options))
        return lives[-1].begin()

    yield make
    for life in lives:
        life.end()


def call(life, body, **headers):
    """Send a call. Returns the future of its answer, once it waits for the spout."""
    return life.post(body, path="/source", **headers)


def returned(life, *results):
    """All open calls end, with these results each."""
    calls = list(life.emitted())
    life.source.context.signals.give_returned([(one, r) for one in calls for r in results])
    life.commit(acked=calls)


def emitted(life):
    return [values[1:] for _, _, values in life.collector.emits]


def test_a_call_with_a_key_is_run_once_and_answered_as_often_as_it_is_asked(life_of):
    life = life_of()
    first = call(life, 5, Idempotency_Key="k")
    life.turn()
    again = call(life, 5, Idempotency_Key="k")
    life.turn()
    assert emitted(life) == [[5]]
    returned(life, b"25")
    life.turn()
    assert first.result()[:2] == again.result()[:2] == (200, 25)
    later = call(life, 5, Idempotency_Key="k")
    life.turn()
    assert later.result()[:2] == (200, 25)
    assert emitted(life) == []


def test_a_key_is_for_one_call(life_of):
    life = life_of()
    call(life, 5, Idempotency_Key="k")
    life.turn()
    other = call(life, 6, Idempotency_Key="k")
    life.turn()
    status, said, _ = other.result()
    assert (status, said["error"]) == (422, "its Idempotency-Key was that of another request")
    assert emitted(life) == [[5]]


def test_a_failed_call_with_a_key_is_not_run_again(life_of):
    life = life_of()
    first = call(life, 5, Idempotency_Key="k")
    life.turn()
    life.commit(failed=life.emitted())
    life.turn()
    again = call(life, 5, Idempotency_Key="k")
    life.turn()
    assert first.result()[:2] == again.result()[:2] == (500, {"error": "failed"})
    assert emitted(life) == []


def test_the_answer_to_a_key_outlives_the_driver(life_of):
    life = life_of()
    call(life, 5, Idempotency_Key="k")
    life.turn()
    returned(life, b"25")
    life.turn()
    life.commit()
    life.lose()
    life.begin()
    again = call(life, 5, Idempotency_Key="k")
    life.turn()
    assert again.result()[:2] == (200, 25)
    assert emitted(life) == []


@pytest.mark.parametrize("asks_before_its_end", [True, False])
def test_a_call_whose_driver_was_lost_has_no_second_effect(life_of, asks_before_its_end):
    life = life_of()
    call(life, 5, Idempotency_Key="k")
    life.turn()
    life.commit()
    life.lose()
    life.begin()
    if asks_before_its_end:
        again = call(life, 5, Idempotency_Key="k")
        life.turn()
        assert not again.done()
    life.commit(acked=life.emitted())
    life.turn()
    if not asks_before_its_end:
        again = call(life, 5, Idempotency_Key="k")
        life.turn()
    assert again.result()[:2] == (500, {"error": LOST})
    assert emitted(life) == []


def test_a_call_that_was_not_committed_is_run_anew(life_of):
    life = life_of()
    call(life, 5, Idempotency_Key="k")
    life.turn()
    life.lose()
    life.begin()
    again = call(life, 5, Idempotency_Key="k")
    life.turn()
    assert emitted(life) == [[5]]
    returned(life, b"25")
    life.turn()
    assert again.result()[:2] == (200, 25)


def test_keys_are_forgotten(life_of, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(CallSpout, "today", lambda: now[0])
    life = life_of(rememberKeys="10m")
    for passed, runs in ((0, 1), (599, 0), (2, 1)):
        now[0] += passed
        call(life, 5, Idempotency_Key="k")
        life.turn()
        assert len(emitted(life)) == runs
        returned(life, b"25")
        life.turn()
        life.commit()


def test_a_key_has_at_most_255_characters(life_of):
    life = life_of()
    assert call(life, 5, Idempotency_Key="k" * 256).result()[0] == 400


def test_the_name_of_a_call_says_till_when_its_client_waits():
    name = call_name("a 1 until 2", 7, 1000.5)
    assert number_of(name, "a 1 until 2") == 7
    assert not call_is_over(name, 1000.4)
    assert call_is_over(name, 1000.5)
    assert not call_is_over("a name of another kind")


def test_a_call_that_is_over_fails_as_timed_out(life_of):
    life = life_of()
    answer = call(life, 5)
    life.turn()
    [name] = life.emitted()
    life.source.fail(name, OVER)
    assert answer.result()[:2] == (504, {"error": OVER})
