"""Answers of several values, each of which a client has before the next one is there."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from fulmen import Bolt, TopologyBuilder
from fulmen.connectors.http import CallSpout, Return
from fulmen.engine.worker.in_process import Crash
from fulmen.services.http.handover import HANDOVER
from support.connectors.served_topologies import Client, Served, served
from support.lives.served_life import ServedLife
from support.parts.calling_parts import Watched
from support.servers.ports import free_port
from support.stores.checkpoint import memory_store
from support.suite.seeds import generator, several

LINES, EVENTS = "application/x-ndjson", "text/event-stream"


@pytest.fixture
def life_of():
    lives = []

    def make(**options):
        lives.append(ServedLife(CallSpout, results="many", **options))
        return lives[-1].begin()

    yield make
    for life in lives:
        life.end()


def opened(life, accept=LINES, **headers):
    """A call that the spout has taken: the future of its response."""
    answer = life.open_call(b"5", Accept=accept, **headers)
    life.turn()
    return answer


def ends(life, **how):
    life.commit(**how or {"acked": life.emitted()})
    life.turn()


def rest(answer):
    with answer.result() as response:
        return response.read()


@pytest.mark.parametrize(
    ("accept", "parts"),
    [
        (LINES, [b'{"value":1}\n', b'{"value":"a\\nb"}\n', b'{"end":2}\n']),
        (f"{EVENTS}, */*", [b"data: 1\n\n", b'data: "a\\nb"\n\n', b"event: end\ndata: 2\n\n"]),
    ],
)
def test_a_client_has_each_value_when_it_is_committed(life_of, accept, parts):
    life = life_of()
    answer = opened(life, accept)
    life.give(b"1")
    response = answer.result()
    assert (response.status, response.headers["Content-Type"]) == (200, accept.split(",")[0])
    assert response.read(len(parts[0])) == parts[0]
    life.give(b'"a\\nb"')
    assert response.read(len(parts[1])) == parts[1]
    ends(life)
    assert response.read() == parts[2]


def test_a_client_that_wants_no_parts_gets_a_list(life_of):
    life = life_of()
    answer = opened(life, "*/*")
    life.give(b"1")
    life.give(b'"a\\nb"')
    ends(life)
    assert rest(answer) == b'[1,"a\\nb"]'


def test_a_call_without_values_has_only_an_end(life_of):
    life = life_of()
    answer = opened(life)
    ends(life)
    assert rest(answer) == b'{"end":0}\n'


@pytest.mark.parametrize(
    ("accept", "last"),
    [
        (LINES, b'{"error":"failed","status":500}\n'),
        (EVENTS, b'event: error\ndata: {"error":"failed","status":500}\n\n'),
    ],
)
def test_a_call_that_fails_later_ends_with_the_reason(life_of, accept, last):
    life = life_of()
    answer = opened(life, accept)
    life.give(b"1")
    ends(life, failed=life.emitted())
    assert rest(answer).endswith(last)


def test_a_call_that_fails_first_gets_a_status(life_of):
    life = life_of()
    answer = opened(life)
    ends(life, failed=life.emitted())
    assert answer.result().status == 500
    assert json.loads(rest(answer)) == {"error": "failed"}


def test_a_call_that_takes_too_long_ends_so(life_of):
    life = life_of(timeout="50ms")
    answer = opened(life)
    life.give(b"1")
    said = "it was not done within 50ms, and goes on"
    assert [json.loads(line) for line in rest(answer).splitlines()] == [
        {"value": 1},
        {"error": said, "status": 504},
    ]


def test_a_call_that_is_open_when_the_topology_ends_is_told(life_of):
    life = life_of()
    answer = opened(life)
    life.give(b"1")
    life.source.deactivate()
    life.source.close()
    life.source = None
    assert json.loads(rest(answer).splitlines()[-1])["status"] == 503


def test_whoever_asks_again_with_a_key_gets_all_values_from_the_first_one_on(life_of):
    life = life_of()
    first = opened(life, Idempotency_Key="k")
    life.give(b"1")
    again = opened(life, Idempotency_Key="k")
    life.give(b"2")
    ends(life)
    later = opened(life, EVENTS, Idempotency_Key="k")
    parts = b'{"value":1}\n{"value":2}\n{"end":2}\n'
    assert [rest(answer) for answer in (first, again)] == [parts, parts]
    assert rest(later) == b"data: 1\n\ndata: 2\n\nevent: end\ndata: 2\n\n"


def test_nothing_is_kept_of_values_that_were_handed_out(life_of):
    life = life_of()
    opened(life)
    life.give(b"1")
    [known] = life.source._calls.values()
    assert known.results == []


@pytest.mark.parametrize("has", ["nothing yet", "been taken", "a value"])
def test_a_call_whose_client_has_gone_is_no_burden(life_of, has):
    life = life_of()
    answer = life.open_call(b"5", Accept=LINES)
    [received] = life.listener._queue
    if has != "nothing yet":
        life.turn()
    if has == "a value":
        life.give(b"1")
        answer.result().close()
    else:
        life.clients[-1].connection.sock.shutdown(socket.SHUT_RDWR)
    while life.listener._waiting:
        pass
    life.turn()
    assert len(life.collector.emits) == (has != "nothing yet")
    received.add([b"2"])
    assert not any(b"2" in part for part in received.values._parts)
    ends(life)


class Countdown(Bolt):
    """Returns a number, and at each tick the next one, down to 1."""

    outputs = ("call", "n")

    def prepare(self, conf, context, collector):
        self._collector, self._context, self._left = collector, context, []

    def execute(self, tup):
        if tup.is_tick():
            self._collector.ack(tup)
        else:
            self._left.append((tup, tup["value"]))

    def end_batch(self):
        left, self._left = self._left, []
        for tup, n in left:
            self._collector.emit([tup["call"], n], anchors=[tup])
            if n == 1:
                self._collector.ack(tup)
            else:
                self._left.append((tup, n - 1))


def countdown(port, host="127.0.0.1"):
    builder = TopologyBuilder(message_timeout_seconds=1)
    config = {"host": host, "port": port, "results": "many"}
    builder.set_spout("count", Watched).set_config(config)
    down = builder.set_bolt("down", Countdown).shuffle_grouping("count")
    down.set_tick_seconds(0.02)
    builder.set_bolt("answers", Return).shuffle_grouping("down")
    return builder


def counted(n):
    return [*({"value": i} for i in range(n, 0, -1)), {"end": n}]


@pytest.mark.parametrize("seed", several(1))
def test_no_value_comes_twice_or_is_left_out_while_workers_are_lost(seed):
    lock, kills, port = threading.Lock(), [], free_port()

    def fault(stage, worker, moment):
        with lock:
            if moment != "before" and len(kills) < 4 and rng.random() < 0.1:
                kills.append(stage)
                raise Crash

    def ask(n):
        with closing(Client(port)) as client:
            status, said, _ = client.send_raw(b"%d" % n, "/count", Accept=LINES)
        return n, status, [json.loads(line) for line in said.splitlines()]

    with (
        generator(seed) as rng,
        served(countdown(port), fault=fault) as life,
        ThreadPoolExecutor(8) as pool,
    ):
        life.wait_until_it_listens(port)
        answers = list(pool.map(ask, range(1, 9)))
        while not kills:
            answers.append(ask(8))
    for n, status, (*values, last) in answers:
        assert values == counted(n)[: len(values)]
        is_whole = (status, last) == (200, counted(n)[-1])
        assert is_whole if len(values) == n else (last["error"] == "timed out")


def test_a_driver_that_follows_hands_them_out_through_the_one_before():
    port, store, lives = free_port(), memory_store(), []
    try:
        for host in ("127.0.0.1", "127.0.0.2"):  # as two pods, with the same port
            lives.append(Served(countdown(port, host), store))
            if len(lives) == 1:
                lives[0].wait_until_it_listens(port)
                HANDOVER.to_next_process = True
                lives[0].end(drain=True)
                HANDOVER.successor = "127.0.0.2"
        with closing(Client(port)) as client, client.begin(b"1000", "/count", Accept=LINES) as said:
            assert said.headers["Content-Type"] == LINES
            assert said.readline() == b'{"value":1000}\n'
            assert Watched.lives[-1]._calls
            assert json.loads(said.read().splitlines()[-1])["error"] == "timed out"
    finally:
        HANDOVER.end()
        for life in lives:
            life.end()
