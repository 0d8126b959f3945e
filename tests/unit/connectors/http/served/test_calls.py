"""Calls that run through a topology in this process, while workers are lost."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from fulmen import TopologyBuilder
from fulmen.connectors.http import CallSpout, Return
from fulmen.connectors.http.served.calls import TIMED_OUT
from fulmen.connectors.http.served.options import CallSpoutOptions
from fulmen.engine.acking import trees
from fulmen.engine.worker.in_process import Crash
from support.connectors.served_topologies import Client, served
from support.parts.calling_parts import (
    FINISHED,
    GATE,
    REACH,
    Distinct,
    Finishing,
    Followers,
    Gated,
    Total,
    Tweeters,
    Twice,
)
from support.servers.ports import free_port


def reach(port, **config):
    builder = TopologyBuilder()
    json = {"type": "json", "fields": {"url": "string"}}
    builder.set_spout("reach", CallSpout).set_config({"port": port, "format": json, **config})
    builder.set_bolt("tweeters", Tweeters).shuffle_grouping("reach")
    builder.set_bolt("followers", Followers, 2).shuffle_grouping("tweeters")
    builder.set_bolt("distinct", Distinct, 3).fields_grouping("followers", ["call", "follower"])
    builder.set_bolt("total", Total, 2).fields_grouping("distinct", ["call"])
    builder.set_bolt("answers", Return).shuffle_grouping("total")
    return builder


def several(port):
    builder = TopologyBuilder()
    builder.set_spout("several", CallSpout).set_config({"port": port, "results": "many"})
    for name in ("one", "other"):
        builder.set_bolt(name, Twice).shuffle_grouping("several")
    builder.set_bolt("answers", Return).shuffle_grouping("one").shuffle_grouping("other")
    return builder


@pytest.fixture(scope="module")
def port():
    found = free_port()
    with served(reach(found)) as life:
        life.wait_until_it_listens(found)
        yield found


def test_what_reaches_return_is_the_answer(port):
    client = Client(port)
    for url, expected in REACH.items():
        assert client.send({"url": url}, "/reach")[:2] == (200, expected)
    assert client.send({"url": "unknown.com"}, "/reach")[:2] == (200, None)
    client.close()


@pytest.mark.parametrize(
    ("body", "path", "status", "reason"),
    [
        ({"url": "fails.com"}, "/reach", 500, "bolt 'tweeters': execute: ValueError: nobody"),
        ({"no": 1}, "/reach", 422, "the JSON object has no member 'url'"),
        ({"url": "a.com"}, "/other", 404, "there is no call 'other', only 'reach'"),
    ],
)
def test_a_call_that_fails_is_told_why(port, body, path, status, reason):
    client = Client(port)
    found, said, _ = client.send(body, path)
    assert found == status
    assert said["error"].startswith(reason)
    client.close()


def test_a_field_that_a_call_need_not_have_is_null():
    given = {"type": "json", "fields": ["url", "depth"], "required": ["url"]}
    options = CallSpoutOptions.model_validate({"port": 1, "format": given})
    assert options.format.make().decode(b'{"url": "a.com"}') == ["a.com", None]


def test_a_call_is_described(port):
    client = Client(port)
    _, said, _ = client.send(b"", "/openapi.json", "GET")
    client.close()
    [(path, what)] = said["paths"].items()
    schema = what["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert path == "/reach"
    assert schema["properties"] == {"url": {"type": "string"}}
    assert schema["required"] == ["url"]
    assert what["post"]["parameters"][0]["name"] == "Idempotency-Key"


def test_all_that_several_branches_return_is_in_the_list():
    port = free_port()
    with served(several(port)) as life:
        life.wait_until_it_listens(port)
        client = Client(port)
        assert sorted(client.send(5, "/several")[1]) == [0, 0, 1, 1]
        client.close()


def test_calls_are_exact_while_workers_are_lost():
    rng, lock, kills = random.Random(7), threading.Lock(), []

    def fault(stage, worker, moment):
        with lock:
            if moment != "before" and len(kills) < 8 and rng.random() < 0.2:
                kills.append(stage)
                raise Crash

    def ask(url):
        client = Client(port)
        try:
            return client.send({"url": url}, "/reach")[:2]
        finally:
            client.close()

    port = free_port()
    urls = ["a.com", "b.com"] * 5
    with served(reach(port, timeout="60s"), fault=fault) as life:
        life.wait_until_it_listens(port)
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, urls)) == [(200, REACH[url]) for url in urls]
    assert kills


def test_nothing_more_is_done_for_a_call_whose_client_does_not_wait_any_more():
    port = free_port()
    builder = TopologyBuilder()
    builder.set_spout("gated", CallSpout).set_config({"port": port, "timeout": "1s"})
    builder.set_bolt("gate", Gated).shuffle_grouping("gated")
    builder.set_bolt("finishing", Finishing).shuffle_grouping("gate")
    builder.set_bolt("answers", Return).shuffle_grouping("finishing")
    GATE.clear()
    FINISHED.clear()
    with served(builder) as life, closing(Client(port)) as client:
        life.wait_until_it_listens(port)
        status, said, _ = client.send("late", "/gated")
        GATE.set()
        assert (status, said["error"]) == (504, "it was not done within 1s, and goes on")
        while client.send("in time", "/gated")[:2] != (200, "in time"):
            pass
    assert set(FINISHED) == {"in time"}


def test_the_reason_of_a_timeout_is_known():
    assert TIMED_OUT == trees.TIMED_OUT
