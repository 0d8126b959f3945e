"""A schema registry that is away, or takes us for somebody else: nothing is lost."""

import threading
from base64 import b64encode
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml
from confluent_kafka.schema_registry.avro import AvroDeserializer

from fulmen.api.components.sinks import Rows, ServiceUnavailable
from fulmen.connectors.kafka import (
    KafkaSink,
    OpaqueTransactionalKafkaSpout,
    TransactionalKafkaSpout,
)
from fulmen.connectors.rabbitmq import RabbitSink, RabbitSpout
from support.connectors.avro_topics import (
    FIELDS,
    NOTED,
    ORDER,
    rows,
)
from support.lives.example_lives import ExampleLife
from support.lives.sink_lives import prepared
from support.lives.source_life import SourceLife
from support.runs.spark_runs import wait_until
from support.servers.cut_proxy import cut_proxy
from support.servers.ports import free_port
from support.servers.rabbitmq_server import PASSWORD, USER
from support.transactions.lives import TransactionalLife


@contextmanager
def login_gate(target, login, address="127.0.0.1"):
    """One in front of an HTTP server. Gives its port.

    Args:
        target: The address of the server: `http://host:port`.
        login: `user:password`.
        address: Of this machine, where it listens.
    """
    wanted = f"Basic {b64encode(login.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._answer(None)

        def do_POST(self):
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, body):
            if self.headers.get("Authorization") != wanted:
                return self._send(401, b"<html>Who are you?</html>")
            kind = {"Content-Type": self.headers.get("Content-Type") or "application/json"}
            try:
                with urlopen(Request(target + self.path, body, kind)) as answer:
                    return self._send(answer.status, answer.read())
            except HTTPError as error:
                with error:
                    return self._send(error.code, error.read())

        def _send(self, status, body):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format, *args):
            """Nothing is printed."""

    server = ThreadingHTTPServer((address, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


LOGIN = "fulmen:s3cret/word"


def test_a_login_that_is_wrong_is_told_and_a_right_one_works(kafka, avro, registry):
    with login_gate(f"http://127.0.0.1:{registry.port}", LOGIN) as port:
        door = {"schema.registry.url": registry.url_at(port)}
        avro.sink(avro.form(schema=ORDER, **door, **{"basic.auth.user.info": LOGIN})).write(
            ("ann", 1)
        )
        for login in ({}, {"basic.auth.user.info": "fulmen:wrong"}):
            options = avro.sink_options(avro.form(schema=ORDER, **door, **login))
            with pytest.raises(ServiceUnavailable) as raised:
                prepared(KafkaSink, options, FIELDS)
            assert raised.value.reason == "it does not let us in: check `basic.auth.user.info`"
    assert len(kafka.read(avro.name)) == 1


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://there-is-no-such-machine.invalid:8081", "there is no machine of that name: check"),
        ("http://127.0.0.1:{free}", "refused"),
        ("http://127.0.0.1:{port}/apis", "what answers there is no schema registry (HTTP 404): ch"),
    ],
)
def test_where_no_registry_is_neither_spout_nor_sink_starts(avro, registry, url, text):
    place = {"schema.registry.url": url.format(free=free_port(), port=registry.port)}
    for start in (
        lambda: avro.spout(avro.form(**place)),
        lambda: prepared(KafkaSink, avro.sink_options(avro.form(schema="string", **place)), ("a",)),
    ):
        with pytest.raises(ServiceUnavailable) as raised:
            start()
        assert raised.value.service == f"the schema registry at {place['schema.registry.url']}"
        assert text in raised.value.reason


def test_a_setting_that_confluents_client_does_not_know_is_told(avro):
    with pytest.raises(ValueError, match=r"Unrecognized properties: some\.thing"):
        avro.spout(avro.form(properties={"some.thing": 1}))


def test_messages_wait_for_a_registry_that_is_killed_and_none_is_lost(avro, registry):
    orders = [{"customer": "ann", "amount": n} for n in range(20)]
    avro.send(ORDER, *orders[:5])
    life = avro.spout(avro.form(fields=["amount"]))
    life.until_emitted(5)
    life.end([msg_id for _, _, msg_id in life.commit()])
    avro.send(ORDER, *orders[5:10])
    avro.send(NOTED, *orders[10:15])
    with registry.down():
        life.until(lambda: "schema registry" in " ".join(life.reports), "a report")
        assert life.emitted == []
        assert f"the schema registry at {registry.url} is away: " in life.reports[-1]
        assert life.outages
    avro.send(ORDER, *orders[15:])
    life.until_emitted(15)
    assert sorted(rows(life.emitted)) == [[n] for n in range(5, 20)]


@pytest.mark.matrix(share=1 / 2)
@pytest.mark.parametrize("kind", [TransactionalKafkaSpout, OpaqueTransactionalKafkaSpout])
def test_a_transaction_waits_for_a_registry_that_is_killed(avro, registry, kind):
    life = TransactionalLife(kind, avro.config(avro.form(fields=["amount"])))
    avro.send(ORDER, *({"customer": "ann", "amount": n} for n in range(5)))
    assert life.until_emitted(5) == [("default", [n]) for n in range(5)]
    avro.send(NOTED, *({"customer": "ann", "amount": n} for n in range(5, 10)))

    def is_away():
        try:
            return bool(life.whole())
        except ServiceUnavailable as error:
            return error.service == f"the schema registry at {registry.url}"

    with registry.down():
        wait_until(is_away, "an attempt that has failed")
    assert life.until_emitted(5) == [("default", [n]) for n in range(5, 10)]
    life.close()


def test_a_failed_message_whose_schema_cannot_be_had_is_emitted_later(kafka, avro, registry):
    avro.send(ORDER, {"customer": "ann", "amount": 1})
    life = avro.spout(avro.form(fields=["amount"]))
    life.until_emitted(1)
    [(_, _, msg_id)] = life.commit()
    life.end([msg_id], "no")
    life.commit()
    with cut_proxy(registry.port) as proxy:
        through = avro.form(
            fields=["amount"], **{"schema.registry.url": registry.url_at(proxy.port)}
        )
        life.options = life.options.model_validate(avro.config(through))
        life.kill()
        with proxy.down():
            life.until(lambda: "schema registry" in " ".join(life.reports), "a report")
            assert life.emitted == []
        life.until_emitted(1)
    assert life.emitted == [([1], "default", msg_id)]
    assert life.spout.state == {}


def test_a_sink_that_has_started_needs_the_registry_no_more(kafka, avro, registry):
    life = avro.sink(avro.form(schema=ORDER))
    with registry.down():
        assert life.write(("ann", 1)) == {}
        with pytest.raises(ServiceUnavailable):
            prepared(KafkaSink, life.options, life.fields)
    assert life.kill() is not life.sink
    assert life.write(("bob", 2)) == {}
    assert len(kafka.read(avro.name)) == 2


# ---- RabbitMQ ------------------------------------------------------------------------------------


def test_messages_of_rabbitmq_wait_for_the_registry_too(avro, registry, rabbit_server):
    url = rabbit_server.url_of(USER, PASSWORD)
    with rabbit_server.channel() as channel:
        channel.queue_declare(avro.name, durable=True)
    sink = prepared(
        RabbitSink,
        RabbitSink.config_model.model_validate(
            {"url": url, "routingKey": avro.name}
            | {"format": avro.form(schema=ORDER, subject=avro.name)}
        ),
        FIELDS,
    )
    rows = Rows(FIELDS, [["ann", 1], ["bob", 2]])
    sink.write(Rows(FIELDS, sink.encode(rows)), None)
    sink.cleanup()
    with cut_proxy(registry.port) as proxy:
        form = avro.form(fields=["amount"], **{"schema.registry.url": registry.url_at(proxy.port)})
        life = SourceLife(RabbitSpout, {"url": url, "queue": avro.name, "format": form})
        life.start()
        with proxy.down():
            wait_until(lambda: life.turn() or life.errors, "an error")
            assert isinstance(life.errors[0], ServiceUnavailable)
            life.commit()
            life.close()  # the broker hands out again what was never emitted
        life.start()
        wait_until(lambda: life.turn() + len(life.emitted()) >= 2, "both messages")
        assert sorted(values for _, _, values in life.collector.emits) == [[1], [2]]
        life.commit(acked=life.emitted())
        life.deliver()
        life.close()
    with rabbit_server.channel() as channel:
        assert channel.basic_get(avro.name)[0] is None


# ---- a whole topology ----------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.matrix(share=1 / 4, name="examples that are killed", cell="registry")
@pytest.mark.timeout(600)
def test_each_order_is_copied_once_however_often_the_registry_is_killed(
    tmp_path, kafka, avro, registry
):
    kafka.make_topic(f"{avro.name}-2")
    orders = [{"customer": "ann", "amount": n, "note": f"{n}"} for n in range(300)]
    plain = [{"customer": "ann", "amount": n} for n in range(100)]
    messages = [*avro.encoded(ORDER, *plain), *avro.encoded(NOTED, *orders[100:])]
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / "topology.yaml").write_text(yaml.safe_dump(copying(avro)))
    life = ExampleLife(folder, tmp_path, {})

    def copied():
        with registry.client() as client:
            read = AvroDeserializer(client)
            found = [read(message.value()) for message in kafka.read(f"{avro.name}-2")]
        return sorted(order["amount"] for order in found)

    def wait_for(count):
        life.wait_for(lambda: len(copied()) >= count, f"{count} orders")

    away = f"the schema registry at {registry.url} is away"
    registry.kill()
    with life.running():
        life.wait_for(lambda: away in life.output(), "a message about the registry")
        kafka.produce(avro.name, messages[:50])
        registry.start()
        wait_for(50)
        told = life.output().count(away)
        registry.kill()
        kafka.produce(avro.name, messages[50:200])
        life.wait_for(lambda: life.output().count(away) > told, "another message")
        registry.start()
        wait_for(200)
        kafka.produce(avro.name, messages[200:])
        wait_for(300)
        life.end()
    assert copied() == list(range(300))


def copying(avro):
    """A topology that copies a topic to another one, exactly once."""
    target = {"schema": NOTED, "subject": f"{avro.name}-2-value"}
    return {
        "apiVersion": "fulmen.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "copying"},
        "spec": {
            "spouts": [
                {
                    "name": "orders",
                    "class": "fulmen.connectors.kafka.KafkaSpout",
                    "config": avro.config(avro.form(schema=NOTED)),
                }
            ],
            "bolts": [
                {
                    "name": "copies",
                    "class": "fulmen.connectors.kafka.KafkaSink",
                    "config": avro.config(avro.form(**target), guarantee="exactly-once")
                    | {"topic": f"{avro.name}-2"},
                    "inputs": [{"from": "orders", "grouping": {"type": "shuffle"}}],
                }
            ],
        },
    }
