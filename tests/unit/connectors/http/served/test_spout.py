"""The life of the HTTP source: when clients are answered, and what comes again."""

import pytest

from fulmen.api import ServiceUnavailable
from fulmen.connectors.http import HttpSpout
from support.connectors.served_topologies import Client
from support.lives.served_life import ServedLife

IDS = {"type": "json", "fields": {"id": "int64"}, "required": ["id"]}


@pytest.fixture
def life_of():
    lives = []

    def make(**options):
        lives.append(ServedLife(HttpSpout, **{"format": IDS, **options}))
        return lives[-1].begin()

    yield make
    for life in lives:
        life.end()


def emitted(life):
    return [values for _, _, values in life.collector.emits]


def test_a_request_is_answered_after_the_commit_that_has_it(life_of):
    life = life_of()
    answer = life.post({"id": 1})
    life.turn()
    assert emitted(life) == [[1]]
    assert not answer.done()
    life.commit()
    life.source.committed(1)
    assert answer.result()[:2] == (200, {"messages": 1})


def test_what_was_answered_is_emitted_until_it_is_processed(life_of):
    life = life_of()
    life.post({"id": 1})
    life.turn()
    life.commit()
    life.lose()
    life.begin()
    [msg_id] = life.pending
    life.commit(failed=[msg_id])
    life.turn()
    assert emitted(life) == [[1]]
    life.commit(acked=[msg_id])
    life.deliver()
    assert not life.source.in_blocks
    assert not life.source.state


def test_an_acked_request_is_answered_when_all_of_it_is(life_of):
    life = life_of(answer="acked", content="lines")
    answer = life.post(b'{"id": 1}\n{"id": 2}\n{"id": 3}')
    life.turn()
    first, *others = [msg_id for msg_id, _, _ in life.collector.emits]
    life.commit(acked=[first])
    life.deliver()
    assert not answer.done()
    life.commit(acked=others)
    life.deliver()
    assert answer.result()[:2] == (200, {"messages": 3})
    assert life.source.listener.pending == 0


def test_a_failed_request_is_told_why_and_does_not_come_again(life_of):
    life = life_of(answer="acked")
    answer = life.post({"id": 1})
    life.turn()
    [(msg_id, _, _)] = life.collector.emits
    life.commit(failed=[msg_id])
    life.turn()
    assert answer.result()[0] == 500
    assert emitted(life) == []
    assert not life.source.state


def test_a_request_at_once_waits_for_nothing(life_of):
    life = life_of(answer="at-once")
    assert life.post({"id": 1}).result()[:2] == (202, {})


@pytest.mark.parametrize("answer", ["at-once", "committed", "acked"])
def test_a_key_that_comes_again_gets_the_answer_and_emits_nothing(life_of, answer):
    life = life_of(answer=answer)
    first = life.post({"id": 1}, Idempotency_Key="k")
    life.turn()
    again = life.post({"id": 1}, Idempotency_Key="k")
    life.turn()
    other = life.post({"id": 2}, Idempotency_Key="k")
    life.turn()
    [(msg_id, _, _)] = life.collector.emits
    life.commit(acked=[msg_id])
    life.source.committed(1)
    life.deliver()
    assert first.result()[:2] == again.result()[:2]
    assert first.result()[0] < 300
    assert other.result()[0] == 422
    life.commit()
    life.lose()
    life.begin()
    later = life.post({"id": 1}, Idempotency_Key="k")
    life.turn()
    assert later.result()[:2] == first.result()[:2]
    assert emitted(life) == []


def test_a_key_is_forgotten_after_its_time(life_of, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(HttpSpout, "today", lambda: now[0])
    life = life_of(remember_keys="10s")
    life.post({"id": 1}, Idempotency_Key="k")
    life.turn()
    now[0] += 11
    life.turn()
    life.post({"id": 2}, Idempotency_Key="k")
    life.turn()
    assert emitted(life) == [[1], [2]]


def test_a_full_topology_refuses_requests_for_now(life_of):
    life = life_of(max_spout_pending=2)
    life.post({"id": 1})
    life.turn()
    life.post({"id": 2})
    status, said, headers = life.post({"id": 3}).result()
    assert (status, said) == (429, {"error": "2 messages are not processed yet"})
    assert headers["Retry-After"] == "1"
    life.turn()
    life.commit(acked=[msg_id for msg_id, _, _ in life.collector.emits])
    life.deliver()
    life.post({"id": 4})
    life.turn()
    assert emitted(life) == [[4]]


def test_a_request_that_nobody_takes_is_not_emitted_later(life_of):
    life = life_of(timeout="50ms")
    answer = life.post({"id": 1})
    assert answer.result()[0] == 503
    life.turn()
    assert emitted(life) == []


def test_a_request_that_takes_too_long_is_told_that_it_goes_on(life_of):
    life = life_of(timeout="50ms")
    answer = life.post({"id": 1})
    life.turn()
    assert answer.result()[:2] == (504, {"error": "it was not done within 50ms, and goes on"})


def test_what_has_come_is_emitted_before_the_topology_stops(life_of):
    life = life_of()
    client = Client(life.listener.port)
    client.connection.connect()
    answer = life.post({"id": 1})
    life.source.deactivate()
    assert emitted(life) == [[1]]
    life.commit()
    life.source.committed(1)
    status, _, headers = answer.result()
    assert (status, headers["Connection"]) == (200, "close")
    with pytest.raises(OSError, match="refused"):
        Client(life.listener.port).send({})
    client.close()


def test_it_listens_again_when_the_topology_is_active_again(life_of):
    life = life_of()
    port = life.listener.port
    life.source.deactivate()
    life.source.activate()
    life.turn()
    life.post({"id": 1})
    life.turn()
    assert emitted(life) == [[1]]
    assert life.listener.port == port or life.options.port == 0


def test_a_port_that_is_taken_is_told(life_of):
    port = life_of().listener.port
    with pytest.raises(ServiceUnavailable, match=f"HTTP at 127.0.0.1:{port} can't be used: Addr"):
        life_of(port=port)


@pytest.mark.parametrize(
    ("named", "status"),
    [
        ({"path": "/other"}, 404),
        ({"method": "GET"}, 405),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"body": {"no": 1}}, 422),
        ({"body": b" " * 2000}, 413),
        ({"Idempotency_Key": "k" * 256}, 400),
        ({"body": b"x", "Content_Encoding": "gzip"}, 400),
    ],
)
def test_a_wrong_request_is_refused_with_a_reason(life_of, named, status):
    life = life_of(token="right", max_content_bytes=1000)
    wrong = {"body": {"id": 1}, "Authorization": "Bearer right", **named}
    found, said, _ = life.post(**wrong).result()
    assert found == status
    assert said["error"]


def test_properties_of_a_request_are_fields(life_of):
    life = life_of(properties=["method", "path", "query", "headers", "client"])
    life.post({"id": 1}, path="/?a=b", Authorization="Bearer x", X_Own="y")
    life.turn()
    [[_, method, path, query, headers, client]] = emitted(life)
    assert (method, path, query, client) == ("POST", "/", {"a": "b"}, "127.0.0.1")
    assert headers["x-own"] == "y"
    assert "authorization" not in headers


def test_requests_that_wait_are_counted(life_of):
    def open_requests():
        samples = life.source.context.signals.take_samples()
        return [value for family, _, value in samples if family.name == "http_open_requests"]

    life = life_of()
    found = [life.post({"id": n}) for n in range(2)]
    counts = []
    while counts != [2]:
        counts = open_requests() or counts
    life.turn()
    life.commit()
    life.source.committed(1)
    assert [one.result()[0] for one in found] == [200, 200]
    assert open_requests() == [0]
