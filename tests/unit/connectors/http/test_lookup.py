"""The lookup of HTTP with a real endpoint."""

import asyncio
import itertools
import json

import pytest
from pydantic import ValidationError

from fulmen import TopologyBuilder
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.http import HttpLookup
from fulmen.connectors.http.lookup_memory import AnswerCache, CircuitBreaker
from fulmen.connectors.http.lookup_options import BreakerOptions, CacheOptions, HttpLookupOptions
from fulmen.testing import CollectBolt, ListSpout, run

NUMBERS = itertools.count()
CITIES = ["Oslo", "Lima", "Oslo"]


def looked_up(endpoint, cities=CITIES, **config):
    """The rows of a topology that looks up cities, and the run's result."""
    builder = TopologyBuilder()
    builder.set_spout("cities", ListSpout(cities, fields=["city"]))
    given = {"url": f"{endpoint.url}/{{city}}", "fields": ["city"], "retries": 0}
    given["format"] = {"type": "json", "fields": ["country"]}
    name = f"lookup-{next(NUMBERS)}"  # answers are shared by the name
    builder.set_bolt(name, HttpLookup).shuffle_grouping("cities").set_config(given | config)
    builder.set_bolt("rows", CollectBolt).global_grouping(name)
    result = run(builder)
    return sorted(result.collected("rows")), result


def norway(seen):
    if seen.path == "/Oslo":
        return {"body": b'{"country": "Norway"}'}
    return {"status": 404}


def test_tuples_are_completed_and_what_is_not_there_is_null(endpoint):
    endpoint.answers = norway
    rows, _ = looked_up(endpoint)
    assert rows == [["Lima", None], ["Oslo", "Norway"], ["Oslo", "Norway"]]


def test_what_is_asked_for_at_the_same_time_or_is_remembered_is_asked_for_once(endpoint):
    endpoint.answers = norway
    looked_up(endpoint, CITIES * 10, cache={})
    assert sorted(seen.path for seen in endpoint.seen) == ["/Lima", "/Oslo"]


def test_what_is_not_there_may_be_left_out(endpoint):
    endpoint.answers = norway
    assert looked_up(endpoint, missing="drop")[0] == [["Oslo", "Norway"]] * 2


def test_a_post_has_a_body_of_the_tuple(endpoint):
    endpoint.answers = lambda seen: {
        "body": json.dumps({"country": json.loads(seen.body)["of"]}).encode()
    }
    rows, _ = looked_up(
        endpoint, ["x"], url=f"{endpoint.url}/find", method="POST", body={"of": "{city}"}
    )
    assert rows == [["x", "x"]]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": 400, "text": "no city"}, "400 Bad Request: no city"),
        ({"body": b"<html>"}, "the answer can't be read: it is not JSON"),
        ({"body": b'"' + b"x" * 200 + b'"'}, "the answer has more than 100 bytes"),
    ],
)
def test_an_answer_that_is_of_no_use_fails_its_tuple_alone(endpoint, answer, said):
    left = [answer]
    endpoint.answers = lambda seen: (
        left.pop() if left and seen.path == "/Lima" else {"body": b'{"country": "X"}'}
    )
    rows, result = looked_up(endpoint, ["Oslo", "Lima"], most_answer_bytes=100)
    assert rows == [["Lima", "X"], ["Oslo", "X"]]  # it was emitted again
    assert any(said in reason for _, reason in result.failed("cities"))


def test_while_a_service_is_away_the_fields_may_be_null(endpoint):
    endpoint.answers = lambda _: {"status": 503}
    rows, _ = looked_up(endpoint, ["a", "b", "c", "d"], when_away="nulls", concurrency=1)
    assert rows == [[city, None] for city in "abcd"]
    assert len(endpoint.seen) == 4
    endpoint.forget()
    endpoint.answers = lambda _: {"status": 503}
    looked_up(
        endpoint,
        ["a", "b", "c", "d"],
        when_away="nulls",
        concurrency=1,
        breaker={"failures": 2, "seconds": 1000},
    )
    assert len(endpoint.seen) == 2


def test_a_service_that_comes_back_is_waited_for(endpoint):
    left = [{"status": 503}] * 2
    endpoint.answers = lambda seen: left.pop() if left else norway(seen)
    rows, result = looked_up(endpoint, ["Oslo"])
    assert rows == [["Oslo", "Norway"]]
    assert not result.failed("cities")


def test_a_breaker_lets_one_ask_after_its_pause_and_its_answer_decides():
    now = [0.0]
    breaker = CircuitBreaker(BreakerOptions(failures=2, seconds=10), lambda: now[0])
    for _ in range(2):
        assert breaker.lets_ask()
        breaker.failed("down")
    assert not breaker.lets_ask()
    now[0] = 10.0
    assert [breaker.lets_ask() for _ in range(3)] == [True, False, False]
    breaker.failed("still down")
    now[0] = 19.0
    assert not breaker.lets_ask()
    now[0] = 20.0
    assert breaker.lets_ask()
    breaker.answered()
    assert all(breaker.lets_ask() for _ in range(3))


def test_answers_are_forgotten_by_age_and_by_number():
    now, asked = [0.0], []
    cache = AnswerCache(CacheOptions(seconds=10, missing_seconds=1, most=2), lambda: now[0])

    async def get(key, content=b"x"):
        async def ask():
            asked.append(key)
            return content

        return await cache.get(key, ask)

    async def scene():
        await get("a")
        await get("none", None)
        await get("a")
        now[0] = 1.5
        await get("none", None)
        await get("b")  # now "a" goes, which was not used for longest
        await get("none", None)
        await get("a")
        now[0] = 20.0
        await get("a")

    asyncio.run(scene())
    assert asked == ["a", "none", "none", "b", "a", "a"]


def test_all_who_wait_for_an_answer_hear_why_there_is_none():
    cache = AnswerCache(None, lambda: 0.0)

    async def away():
        await asyncio.sleep(0)
        raise ServiceUnavailable("it", "down")

    async def scene():
        return await asyncio.gather(
            *(cache.get("a", away) for _ in range(3)), return_exceptions=True
        )

    assert [str(one) for one in asyncio.run(scene())] == ["it is away: down"] * 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fields": ["value"]}, "the field 'value' is there twice"),
        ({"body": {"a": 1}}, "body: a GET has none"),
        ({"url": "h.example/a"}, "url: write `https"),
        ({"cache": {"most": 0}}, "greater than or equal to 1"),
    ],
)
def test_options_that_do_not_fit_are_mistakes(options, said):
    with pytest.raises(ValidationError) as told:
        HttpLookupOptions.model_validate({"url": "http://h/", **options})
    assert said in str(told.value)
