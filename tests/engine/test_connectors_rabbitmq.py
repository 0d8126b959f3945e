"""The RabbitMQ connectors with a real broker: nothing lost by kills, cuts and crashes."""

import time
import zlib
from collections import Counter
from contextlib import contextmanager, suppress

import pika
import pytest

from fulmen import TopologyBuilder
from fulmen.api import Rows, ServiceUnavailable, TopologyContext
from fulmen.api.context import Batch
from fulmen.api.declarer import Stream
from fulmen.connectors.rabbitmq import RabbitSink, RabbitSpout
from fulmen.errors import FulmenError
from fulmen.testing import ListSpout, run
from support.lives.source_life import SourceLife, chaos
from support.runs.spark_runs import wait_until
from support.servers.cut_proxy import cut_proxy
from support.servers.rabbitmq_server import PASSWORD, USER
from support.suite.seeds import generator, several

pytestmark = pytest.mark.timeout(240)  # on a busy machine a killed broker is back after a minute

NEVER = 1 << 40
LAST = "the last one"


@pytest.fixture
def queue(request, rabbit_server):
    """The name of a durable queue that is empty."""
    name = f"own-{zlib.crc32(request.node.name.encode()):x}"
    with rabbit_server.channel() as channel:
        channel.queue_delete(name)
        channel.queue_declare(name, durable=True)
    return name


@pytest.fixture
def proxy(rabbit_server):
    with cut_proxy(rabbit_server.port) as made:
        yield made


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    """Connections are cut often here."""
    monkeypatch.setattr("fulmen.connectors.rabbitmq.spout.PAUSE_SECONDS", 0.01)


def publish(server, queue, bodies, ids=True):
    """Messages, confirmed by the broker. Their ids are their bodies."""
    with server.channel() as channel:
        channel.confirm_delivery()
        for body in bodies:
            properties = pika.BasicProperties(
                message_id=body if ids else None, delivery_mode=2, headers={"n": 1}
            )
            channel.basic_publish("", queue, body.encode(), properties)


def messages(server, queue):
    """All that is in a queue, taken from it: message ids and bodies."""
    found = []
    with server.channel() as channel:
        while True:
            method, properties, body = channel.basic_get(queue, auto_ack=True)
            if method is None:
                return found
            found.append((properties.message_id, body.decode()))


@pytest.fixture
def life_of(rabbit_server):
    """Makes sources, and closes them."""
    made = []

    def make(queue, port=None, max_spout_pending=None, task=(0, 1), **options):
        url = rabbit_server.url_of(USER, PASSWORD, port)
        given = {"url": url, "queue": queue, **options}
        made.append(SourceLife(RabbitSpout, given, *task, max_spout_pending))
        return made[-1]

    yield make
    for life in made:
        life.close()


def turn_until(life, number, what="messages"):
    """Turns until so many messages are in flight."""
    wait_until(lambda: life.turn() or len(life.emitted()) >= number, what)
    wait_until(lambda: life.turn() + len(life.emitted()) >= number, what)


def finish(server, life, queue):
    """Batches in which all is acked, until a last message was; what comes again is before it.

    Returns:
        All that was processed, but that message.
    """
    if life.source is None:
        life.start()
    publish(server, queue, [LAST])

    def batch():
        life.whole()
        return LAST in processed(life)

    wait_until(batch, "all messages")
    life.turn()
    life.close()
    return [body for body in processed(life) if body != LAST]


def processed(life):
    return [values[0] for _, values in life.processed]


def test_messages_are_acked_at_the_broker_when_their_trees_were_acked(
    rabbit_server, life_of, queue
):
    publish(rabbit_server, queue, ["a", "b", "c"])
    life = life_of(queue, properties=["message_id", "headers", "redelivered"])
    life.start()
    turn_until(life, 3)
    assert [values for _, _, values in life.collector.emits] == [
        [body, body, {"n": 1}, False] for body in "abc"
    ]
    life.commit(acked=[life.emitted()[1]])
    life.deliver()
    life.close()
    assert sorted(messages(rabbit_server, queue)) == [("a", "a"), ("c", "c")]


@pytest.mark.parametrize(
    "limits",
    [
        {"prefetchCount": 4},
        {"max_spout_pending": 4},
        {"prefetchCount": 4, "max_spout_pending": 100_000},
    ],
    ids=["prefetch", "pending", "both"],
)
def test_no_more_messages_are_handed_out_than_asked_for(rabbit_server, life_of, queue, limits):
    publish(rabbit_server, queue, [f"{n}" for n in range(10)])
    life = life_of(queue, **limits).start()
    turn_until(life, 4)
    with rabbit_server.channel() as channel:
        assert channel.queue_declare(queue, passive=True).method.message_count == 6
    assert finish(rabbit_server, life, queue) == [f"{n}" for n in range(10)]
    assert messages(rabbit_server, queue) == []


def test_more_than_the_protocol_can_say_is_asked_for_as_the_most(rabbit_server, life_of, queue):
    publish(rabbit_server, queue, ["a"])
    life = life_of(queue, max_spout_pending=100_000).start()
    turn_until(life, 1)


@pytest.mark.parametrize("ids", [True, False])
def test_a_failed_message_is_emitted_again_without_going_back_to_the_queue(
    rabbit_server, life_of, queue, ids
):
    publish(rabbit_server, queue, ["a", "b"], ids)
    life = life_of(queue).start()
    turn_until(life, 2)
    first, second = life.emitted()
    life.commit(acked=[second], failed=[first])
    assert life.turn() == 1
    assert life.collector.emits == [(first, "default", ["a"])]
    assert sorted(finish(rabbit_server, life, queue)) == ["a", "b"]
    assert messages(rabbit_server, queue) == []


def test_a_message_that_failed_before_the_driver_was_lost_is_emitted_by_the_next(
    rabbit_server, life_of, queue, proxy
):
    publish(rabbit_server, queue, ["a", "b"])
    life = life_of(queue, proxy.port).start()
    turn_until(life, 2)
    first, second = life.emitted()
    life.commit(failed=[first])
    life.deliver()
    life.commit()
    proxy.cut()
    life.lose()
    life.start()
    wait_until(life.turn, "the failed one")
    assert life.collector.emits == [(first, "default", ["a"])]
    assert list(life.pending) == [second]
    assert sorted(finish(rabbit_server, life, queue)) == ["a", "b"]
    assert messages(rabbit_server, queue) == []


def test_an_ack_that_the_broker_did_not_hear_repeats_nothing(rabbit_server, life_of, queue, proxy):
    publish(rabbit_server, queue, ["a", "b"])
    life = life_of(queue, proxy.port).start()
    turn_until(life, 2)
    life.commit(acked=life.emitted())
    proxy.cut()
    life.deliver()
    publish(rabbit_server, queue, ["c"])
    assert finish(rabbit_server, life, queue) == ["a", "b", "c"]
    assert messages(rabbit_server, queue) == []


def test_equal_ids_of_a_publisher_are_dropped_if_asked_for(rabbit_server, life_of, queue):
    publish(rabbit_server, queue, ["a", "a", "b", "a"])
    life = life_of(queue, dropRepeats=True).start()
    assert finish(rabbit_server, life, queue) == ["a", "b"]
    assert messages(rabbit_server, queue) == []


def test_equal_ids_of_a_publisher_are_emitted_otherwise(rabbit_server, life_of, queue):
    publish(rabbit_server, queue, ["a", "a", "b"])
    life = life_of(queue).start()
    assert finish(rabbit_server, life, queue) == ["a", "a", "b"]
    assert messages(rabbit_server, queue) == []


def test_as_many_ids_are_remembered_as_asked_for(rabbit_server, life_of, queue):
    publish(rabbit_server, queue, [f"{n}" for n in range(30)])
    life = life_of(queue, rememberedIds=10).start()

    def batch():
        life.whole()
        return len(life.processed) == 30

    wait_until(batch, "all messages")
    life.deliver()
    assert len(life.source.state) == 10
    life.close()


def disturbed_life(server, life, proxy, queue, rng, ids, batches=120):
    """A source goes through many faults. Returns what was sent, and how many faults there were."""
    life.start()
    sent = []

    def lose():
        proxy.cut()
        life.lose()
        life.start()

    def disturb():
        bodies = [f"{len(sent) + n}" for n in range(rng.randrange(20))]
        publish(server, queue, bodies, ids)
        sent.extend(bodies)
        if rng.random() < 0.4:
            proxy.cut()
        else:
            time.sleep(0.05)  # so that messages arrive

    disturb()
    faults = chaos(life, rng, batches, lose, disturb)
    return sent, faults


@pytest.mark.parametrize("seed", several(2))
def test_messages_with_ids_are_processed_once_whatever_is_lost(
    rabbit_server, life_of, queue, proxy, seed
):
    with generator(seed) as rng:
        life = life_of(queue, proxy.port, prefetchCount=rng.choice([5, 50]))
        sent, faults = disturbed_life(rabbit_server, life, proxy, queue, rng, True)
        assert faults > 20
        assert Counter(finish(rabbit_server, life, queue)) == Counter(sent)
        assert messages(rabbit_server, queue) == []


@pytest.mark.parametrize("seed", several(1))
def test_messages_without_ids_are_processed_whatever_is_lost(
    rabbit_server, life_of, queue, proxy, seed
):
    with generator(seed) as rng:
        life = life_of(queue, proxy.port, prefetchCount=rng.choice([5, 50]))
        sent, _ = disturbed_life(rabbit_server, life, proxy, queue, rng, False)
        assert set(finish(rabbit_server, life, queue)) == set(sent)
        assert messages(rabbit_server, queue) == []


def test_a_broker_that_is_killed_is_waited_for(rabbit_server, life_of, queue):
    rabbit_server.settle()
    publish(rabbit_server, queue, [f"{n}" for n in range(20)])
    life = life_of(queue).start()
    turn_until(life, 20)
    life.commit(acked=life.emitted()[:5])
    life.turn()
    life.commit()
    rabbit_server.kill()
    wait_until(lambda: life.turn() or life.errors, "an error")
    assert isinstance(life.errors[0], ServiceUnavailable)
    assert PASSWORD not in str(life.errors[0])
    rabbit_server.start()
    assert sorted(finish(rabbit_server, life, queue)) == sorted(f"{n}" for n in range(20))
    assert messages(rabbit_server, queue) == []


def test_heartbeats_are_answered_while_batches_pause(rabbit_server, life_of, queue):
    publish(rabbit_server, queue, ["a"], ids=False)
    life = life_of(queue, heartbeat=1).start()
    turn_until(life, 1)
    time.sleep(4)  # a broker closes a connection that is silent for two intervals
    life.commit(acked=life.emitted())
    publish(rabbit_server, queue, ["b"], ids=False)
    assert finish(rabbit_server, life, queue) == ["a", "b"]
    assert life.errors == []


def test_what_waits_for_several_tasks_is_counted_once(rabbit_server, life_of, queue):
    publish(rabbit_server, queue, [f"{n}" for n in range(60)])
    lives = [life_of(queue, prefetchCount=1, task=(i, 3)).start() for i in range(3)]
    told = []
    for life in lives:
        life.turn(1)
        told.append(life.source.context.signals.take_lag().messages)
    # each may have been handed a message already, which the queue had when the first one asked
    assert 60 <= told[0] <= 61
    assert max(told[1:]) <= 1


def test_messages_that_cannot_be_parsed_go_to_errors(rabbit_server, life_of, queue):
    publish(rabbit_server, queue, ["no json"])
    form = {"type": "json", "fields": ["a"]}
    life = life_of(queue, format=form).start()
    turn_until(life, 1)
    ((_, stream, (data, reason, place)),) = life.collector.emits
    assert (stream, data, place) == ("errors", b"no json", f"{queue}: no json")
    assert "it is not JSON" in reason
    life.close()


def test_a_queue_that_is_deleted_is_waited_for(rabbit_server, life_of, queue):
    life = life_of(queue).start()
    life.turn()
    with rabbit_server.channel() as channel:
        wait_until(
            lambda: channel.queue_declare(queue, passive=True).method.consumer_count, "a consumer"
        )
        channel.queue_delete(queue)
        wait_until(lambda: life.turn() or len(life.errors) > 1, "errors")
        assert "the queue was deleted" in str(life.errors[0])
        assert f"NOT_FOUND - no queue '{queue}'" in str(life.errors[1])
        channel.queue_declare(queue, durable=True)
    publish(rabbit_server, queue, ["a"])
    assert finish(rabbit_server, life, queue) == ["a"]


def test_why_the_broker_has_closed_a_channel_is_told(rabbit_server, life_of, queue):
    life = life_of(queue).start()
    life.turn()
    life.source._consumer.ack([999])
    wait_until(lambda: life.turn() or life.errors, "the end of the channel")
    assert "PRECONDITION_FAILED - unknown delivery tag 999" in str(life.errors[0])


def test_a_declared_queue_has_what_was_asked_for(rabbit_server, life_of, queue):
    life_of(f"{queue}-new", declare=True, arguments={"x-max-length": 5}).start()
    refused = pytest.raises(pika.exceptions.ChannelClosedByBroker, match="x-max-length")
    with rabbit_server.channel() as channel, refused:
        channel.queue_declare(f"{queue}-new", durable=True)
    with pytest.raises(ServiceUnavailable, match=r"it is not as it is to be declared .*durable"):
        life_of(queue, declare=True, durable=False).start()


@pytest.mark.parametrize(
    ("user", "password", "vhost", "said"),
    [
        (USER, "wrongsecret", "%2F", "the server does not let us in"),
        (USER, PASSWORD, "none", "the user may not use the vhost"),
        (USER, PASSWORD, "%2F", "no queue 'absent'"),
    ],
    ids=["password", "vhost", "queue"],
)
def test_what_is_wrong_is_said_without_the_password(rabbit_server, user, password, vhost, said):
    url = rabbit_server.url_of(user, password).rpartition("/")[0]
    with pytest.raises(ServiceUnavailable, match=said) as caught:
        SourceLife(RabbitSpout, {"url": f"{url}/{vhost}", "queue": "absent"}).start()
    assert password not in str(caught.value)


# ---- the sink ------------------------------------------------------------------------------------

RECEIVED = ("word", "count")


def sink_of(server, port=None, batch=1, identity=None, **options):
    sink = RabbitSink()
    sink.identity = identity or sink.identity
    context = TopologyContext(
        topology="test",
        component="sink",
        task_id=2,
        task_index=0,
        worker=0,
        streams={"source": {"default": Stream(RECEIVED)}, "sink": {}},
        sources=(("source", "default"),),
        options=RabbitSink.config_model.model_validate(
            {
                "url": server.url_of(USER, PASSWORD, port),
                "format": {"type": "text", "field": "word"},
                **options,
            }
        ),
        batch=Batch(batch, "attempt"),
    )
    sink.prepare({}, context)
    return sink


def write(sink, values, roots=None):
    """What the engine does with a sink. Returns the reasons of rows that failed."""
    rows = Rows(RECEIVED, values)
    encoded = sink.encode(rows)
    left = [i for i in range(len(values)) if i not in rows.failed]
    of = None if roots is None else lambda i: (roots[left[i]],)
    written = Rows(RECEIVED, [encoded[i] for i in left], of)
    if left:
        sink.write(written, None)
    return rows.failed | {left[i]: reason for i, reason in written.failed.items()}


@pytest.fixture
def sinks(rabbit_server):
    """Makes sinks, and closes them."""
    made = []

    def make(*args, **options):
        made.append(sink_of(rabbit_server, *args, **options))
        return made[-1]

    yield make
    for sink in made:
        sink.cleanup()


def test_rows_are_published_with_what_the_options_say(rabbit_server, queue, sinks):
    sink = sinks(routingKey=queue, headers=["count"], contentType="text/plain", messageId="{word}!")
    assert write(sink, [["a", 1], ["b", None]]) == {}
    with rabbit_server.channel() as channel:
        (_, first, body), (_, second, _) = [channel.basic_get(queue, True) for _ in "ab"]
    assert (first.message_id, first.headers, first.content_type) == (
        "a!",
        {"count": 1},
        "text/plain",
    )
    assert (first.delivery_mode, body, second.headers) == (2, b"a", None)


def test_rows_whose_headers_are_too_large_for_a_frame_fail_alone(rabbit_server, queue, sinks):
    sink = sinks(routingKey=queue, headers=["count"])
    sizes = [1, 200_000, 130_982, 130_983]
    failed = write(sink, [[str(n), "x" * n] for n in sizes])
    assert failed == {
        i: f"its properties have {sizes[i] + 70} bytes, and the broker takes 131052 at most"
        for i in (1, 3)
    }
    assert [body for _, body in messages(rabbit_server, queue)] == ["1", "130982"]


def test_rows_that_reach_no_queue_fail_and_the_others_do_not(rabbit_server, queue, sinks):
    sink = sinks(routingKey="{count}")
    failed = write(sink, [["a", queue], ["b", "nowhere"], ["c", None], ["d", "x" * 300]])
    assert failed == {
        1: "NO_ROUTE: exchange '' has no queue for routing key 'nowhere'",
        2: "the field 'count' is null",
        3: "the routing key has more than 255 bytes",
    }
    assert [body for _, body in messages(rabbit_server, queue)] == ["a"]


def test_rows_of_one_message_id_that_reach_a_queue_do_not_fail_with_one_that_reaches_none(
    rabbit_server, queue, sinks
):
    """An exchange may decide by headers, so that the routing keys are equal, too."""
    with rabbit_server.channel() as channel:
        channel.exchange_declare(f"{queue}-by", "headers")
        channel.queue_bind(queue, f"{queue}-by", arguments={"count": "eu"})
    sink = sinks(exchange=f"{queue}-by", messageId="same", headers=["count"])
    failed = write(sink, [["a", "eu"], ["b", "us"], ["a", "us"], ["b", "eu"], ["c", None]])
    assert sorted(failed) == [1, 2, 4]
    assert [body for _, body in messages(rabbit_server, queue)] == ["a", "b"]


@pytest.fixture
def largest(rabbit_server):
    """The broker takes no larger messages."""
    rabbit_server.evaluate("application:set_env(rabbit, max_message_size, 2000).")
    yield 2000
    rabbit_server.evaluate("application:set_env(rabbit, max_message_size, 134217728).")


def test_messages_that_are_too_large_fail_alone(rabbit_server, queue, sinks, largest):
    rows = [[f"{n} " + "x" * (largest + n if n % 3 else 100), n] for n in range(300)]
    failed = write(sinks(routingKey=queue), rows)
    assert list(failed) == [n for n in range(300) if n % 3]
    assert "message size" in failed[1]
    assert len(set(messages(rabbit_server, queue))) == 100


def test_a_right_to_some_routing_keys_fails_the_rows_of_others(rabbit_server, queue, sinks):
    with rabbit_server.channel() as channel:
        channel.exchange_declare(f"{queue}-topic", "topic")
        channel.queue_bind(queue, f"{queue}-topic", "#")
    name, exchange = f"limited-{queue}", f"{queue}-topic"
    rabbit_server.add_user(name, exchange, "^ok")
    values = [[f"{n}", "ok" if n % 3 else "no"] for n in range(100)]
    own = {"url": rabbit_server.url_of(name, PASSWORD), "exchange": exchange}
    failed = write(sinks(routingKey="{count}", **own), values)
    assert list(failed) == list(range(0, 100, 3))
    assert "a right is missing" in failed[0]
    assert len(set(messages(rabbit_server, queue))) == 66
    with pytest.raises(ServiceUnavailable, match="can't be used: a right is missing"):
        write(sinks(routingKey="no", **own), values)


def test_rows_for_an_exchange_that_there_is_not_fail_alone(rabbit_server, queue, sinks):
    with rabbit_server.channel() as channel:
        channel.exchange_declare(f"{queue}-x", "fanout")
        channel.queue_bind(queue, f"{queue}-x")
    sink = sinks(exchange="{count}")
    failed = write(sink, [["a", "absent"], ["b", f"{queue}-x"], ["c", "absent"]])
    assert failed == dict.fromkeys([0, 2], "there is no exchange 'absent'")
    assert [body for _, body in messages(rabbit_server, queue)] == ["b"]


def test_an_exchange_that_there_is_not_is_waited_for(rabbit_server, queue, sinks):
    sink = sinks(exchange=f"{queue}-late")
    with pytest.raises(ServiceUnavailable, match=r"no exchange .* write `declare: true`"):
        write(sink, [["a", 1]])
    with rabbit_server.channel() as channel:
        channel.exchange_declare(f"{queue}-late", "fanout")
        channel.queue_bind(queue, f"{queue}-late")
    assert write(sink, [["a", 1]]) == {}
    assert [body for _, body in messages(rabbit_server, queue)] == ["a"]


def test_exchanges_and_queues_are_declared_if_asked_for(rabbit_server, queue, sinks):
    assert write(sinks(routingKey=f"{queue}-new", declare=True), [["a", 1]]) == {}
    assert [body for _, body in messages(rabbit_server, f"{queue}-new")] == ["a"]
    sinks(exchange=f"{queue}-new", exchangeType="topic", declare=True)
    with rabbit_server.channel() as channel:
        channel.exchange_declare(f"{queue}-new", "topic", durable=True)
    with pytest.raises(ServiceUnavailable, match="it is not as it is to be declared"):
        sinks(exchange=f"{queue}-new", exchangeType="fanout", declare=True)


def test_a_queue_that_is_full_and_rejects_fails_rows(rabbit_server, queue, sinks):
    with rabbit_server.channel() as channel:
        limits = {"x-max-length": 2, "x-overflow": "reject-publish"}
        channel.queue_declare(f"{queue}-full", arguments=limits)
    failed = write(sinks(routingKey=f"{queue}-full"), [[f"{n}", n] for n in range(5)])
    assert failed == dict.fromkeys([2, 3, 4], "the broker could not keep the message")


def test_a_batch_that_is_run_again_gives_equal_messages_equal_ids(rabbit_server, queue, sinks):
    """And never to another message: a consumer that drops repeats would lose it."""
    first = sinks(routingKey=queue, identity="task")
    write(first, [["a", 1], ["b", 1], ["a", 2]])
    once = messages(rabbit_server, queue)
    assert len(set(once)) == 3
    again = sinks(routingKey=queue, identity="task")
    write(again, [["b", 3], ["a", 1], ["c", 1], ["a", 1], ["a", 1]])
    repeated = messages(rabbit_server, queue)
    assert set(once) < set(repeated)
    assert len(set(repeated)) == 5
    write(sinks(routingKey=queue, identity="task", batch=2), [["a", 1]])
    write(sinks(routingKey=queue), [["a", 1]])
    others = messages(rabbit_server, queue)
    assert not {i for i, _ in others} & {i for i, _ in repeated}


def test_a_message_of_the_same_tree_has_the_same_id_in_a_later_batch_too(
    rabbit_server, queue, sinks
):
    """After an outage there is a batch that only asks for the service, then others."""
    write(sinks(routingKey=queue, identity="task"), [["a", 1], ["a", 1], ["b", 1]], [1, 2, 3])
    once = messages(rabbit_server, queue)
    write(sinks(routingKey=queue, identity="task", batch=3), [["a", 1]], [1])
    later = sinks(routingKey=queue, identity="task", batch=4)
    write(later, [["c", 1], ["a", 1], ["b", 1]], [9, 2, 3])
    first, other, *rest = messages(rabbit_server, queue)
    assert sorted([first, *rest]) == sorted(once)
    assert other[1] == "c"
    write(later, [["a", 1]], [10])
    assert messages(rabbit_server, queue)[0] not in once


def test_rows_that_are_sent_again_have_the_ids_that_they_had(rabbit_server, queue, proxy):
    b = TopologyBuilder("again")
    b.set_spout("rows", ListSpout([[f"{n}"] for n in range(2000)]))
    config = {"url": rabbit_server.url_through(proxy), "routingKey": queue}
    b.set_bolt("out", RabbitSink).shuffle_grouping("rows").set_config(config)
    proxy.cut_after(200_000)
    run(b)
    assert proxy.cuts == 1
    found = messages(rabbit_server, queue)
    assert len(found) > 2000
    assert len(set(found)) == 2000


def test_a_connection_that_was_silent_too_long_is_made_anew(rabbit_server, queue, sinks):
    sink = sinks(routingKey=queue, heartbeat=1)
    write(sink, [["a", 1]])
    time.sleep(4)
    assert write(sink, [["b", 1]]) == {}
    assert [body for _, body in messages(rabbit_server, queue)] == ["a", "b"]


def test_a_broker_that_confirms_nothing_is_away(rabbit_server, queue, proxy, sinks):
    sink = sinks(proxy.port, routingKey=queue, confirmTimeout=3)
    write(sink, [["a", 1]])
    silent = pytest.raises(ServiceUnavailable, match=r"it confirms nothing for 3(\.0)? seconds")
    with rabbit_server.stopped(), silent:
        write(sink, [["b", 1]])
    assert write(sink, [["b", 1]]) == {}


@contextmanager
def memory_alarm(server):
    """While this lasts, the broker has no memory left, as it believes."""
    server.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.000001).")
    try:
        yield
    finally:
        server.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.4).")


@pytest.mark.timeout(300)
def test_a_memory_alarm_is_waited_for_and_repeats_nothing_under_another_id(
    rabbit_server, queue, sinks
):
    sink = sinks(routingKey=queue, identity="task", confirmTimeout=3)
    values = [[f"{n}", n] for n in range(1500)]
    blocked = pytest.raises(ServiceUnavailable, match=r"it takes no messages for now \(low on mem")
    with memory_alarm(rabbit_server):
        for _ in range(2):
            with blocked:
                write(sink, values)
    refused = None
    while refused is None:
        with suppress(ServiceUnavailable):  # it may take a while until the broker goes on
            refused = write(sink, values)
    assert refused == {}
    found = messages(rabbit_server, queue)
    assert sorted({body for _, body in found}) == sorted(word for word, _ in values)
    assert len(set(found)) == len(values), "repeats have the ids of what they repeat"


def faulty_writes(server, proxy, queue, rng, batches, kills):
    """Batches that are repeated until they succeed, with other rows, while things break.

    Returns:
        What the batches had that succeeded, and how many faults there were.
    """
    server.settle()
    written, faults, sink = [], 0, None
    for number in range(1, batches + 1):
        dice = rng.random()
        proxy.cut_after(rng.randrange(4000) if dice < 0.6 else NEVER)
        if 0.6 <= dice < 0.6 + kills:
            server.kill()
        while True:
            values = [[f"{number}-{rng.randrange(10**9)}", i] for i in range(rng.randrange(1, 50))]
            try:
                sink = sink or sink_of(server, proxy.port, number, routingKey=queue)
                sink._context.batch.number = number
                assert write(sink, values) == {}
                break
            except ServiceUnavailable:
                faults += 1
                if not server.runs:
                    server.start()
            if sink is not None and rng.random() < 0.3:  # another process repeats it
                sink.cleanup()
                sink = None
        written += [value for value, _ in values]
    proxy.cut_after(NEVER)
    sink.cleanup()
    return written, faults


@pytest.mark.matrix(share=1 / 2, name="connectors whose broker is killed", cell="RabbitMQ")
@pytest.mark.parametrize("seed", several(1))
def test_what_is_written_at_least_once_is_there_whatever_fails(rabbit_server, queue, proxy, seed):
    with generator(seed) as rng:
        written, faults = faulty_writes(rabbit_server, proxy, queue, rng, 30, 0.05)
        assert faults > 5
        found = messages(rabbit_server, queue)
        assert {body for _, body in found} >= set(written)
        bodies_of = {}
        for message_id, body in found:
            bodies_of.setdefault(message_id, set()).add(body)
        assert all(len(bodies) == 1 for bodies in bodies_of.values())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", several(2))
def test_fifty_faults_and_no_row_is_lost(rabbit_server, queue, proxy, seed):
    with generator(seed) as rng:
        written, faults = faulty_writes(rabbit_server, proxy, queue, rng, 150, 0.1)
        assert faults >= 50
        assert {body for _, body in messages(rabbit_server, queue)} >= set(written)


def test_a_field_that_there_is_not_is_told_at_the_start(rabbit_server):
    with pytest.raises(FulmenError, match="there is no field 'wrod'"):
        sink_of(rabbit_server, routingKey="{wrod}")
