"""A topology that is replaced keeps its clients until the next one has them."""

import http.client
import sqlite3
import ssl
import threading
import time
from collections import Counter
from contextlib import closing

import pytest

from fulmen import TopologyBuilder
from fulmen.connectors.http import HttpSpout
from fulmen.connectors.sqlite import SqliteSink
from fulmen.services.http.handover import HANDOVER
from support.connectors.served_topologies import Client, Served
from support.docs.pages import ROOT
from support.servers.ports import free_port
from support.stores.checkpoint import memory_store

OLD, NEW = "127.0.0.1", "127.0.0.2"  # as two pods, with the same port
IDS = {"type": "json", "fields": {"id": "int64"}, "required": ["id"]}


def topology(host, port, folder, writers=1, **options):
    config = {"host": host, "port": port, "format": IDS, **options}
    table = {"path": f"{folder}/rows.db", "table": "rows", "create": {"id": "INTEGER"}}
    builder = TopologyBuilder()
    builder.set_spout("hooks", HttpSpout).set_config(config)
    bolt = builder.set_bolt("table", SqliteSink, writers).set_config(
        {**table, "guarantee": "exactly-once"}
    )
    bolt.shuffle_grouping("hooks")
    return builder


class Restless:
    """A client that sends one request after the other, and never sends one again."""

    def __init__(self, port):
        self.answers, self.error = [], None
        self._port, self._stop = port, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        client = Client(self._port)
        try:
            while not self._stop.is_set():
                status, said, _ = client.send({"id": len(self.answers)})
                self.answers.append((status, said))
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.error = error
        finally:
            client.close()

    def goes_on(self):
        first = len(self.answers)
        wait_for(lambda: self.error or len(self.answers) > first + 5)
        assert self.error is None

    def end(self):
        self._stop.set()
        self._thread.join()


def wait_for(condition):
    while not condition():
        time.sleep(0.005)


@pytest.fixture
def lives():
    made = []

    def live(builder, store):
        made.append(Served(builder, store))
        return made[-1]

    yield live
    HANDOVER.end()
    for life in made:
        life.end()


def test_a_client_that_never_pauses_sees_no_error_and_each_of_its_rows_is_there_once(
    lives, tmp_path
):
    port, store = free_port(), memory_store()
    old = lives(topology(OLD, port, tmp_path), store)
    old.wait_until_it_listens(port)
    client = Restless(port)
    try:
        client.goes_on()
        HANDOVER.to_next_process = True
        old.end(drain=True)
        wait_for(lambda: client.error or HANDOVER.waiting)
        new = lives(topology(NEW, port, tmp_path), store)
        HANDOVER.successor = NEW
        client.goes_on()
    finally:
        client.end()
    assert client.error is None
    assert set(map(str, client.answers)) == {str((200, {"messages": 1}))}
    new.end(drain=True)
    assert rows(tmp_path) == Counter(range(len(client.answers)))


def rows(folder):
    with sqlite3.connect(f"{folder}/rows.db") as database:
        return Counter(number for (number,) in database.execute("SELECT id FROM rows"))


def test_what_is_wrong_with_a_request_is_told_by_the_next_driver(lives, tmp_path):
    port, store = free_port(), memory_store()
    options = {"paths": ["/orders"], "token": "t0p"}
    old = lives(topology(OLD, port, tmp_path, **options), store)
    old.wait_until_it_listens(port)
    HANDOVER.to_next_process = True
    old.end(drain=True)
    HANDOVER.successor = NEW
    client = Client(port)
    token = {"Authorization": "Bearer t0p"}
    lives(topology(NEW, port, tmp_path, **options), store)
    asked = [
        ({"id": 1}, "/orders", {}),
        ({"id": 1}, "/other", token),
        (b"{", "/orders", token),
    ]
    assert [client.send(body, path, **head)[0] for body, path, head in asked] == [401, 404, 422]
    status, _, headers = client.send({"id": 1}, "/orders?a=b", **token)
    assert (status, headers["Connection"]) == (200, "close")


def test_requests_that_no_driver_takes_over_are_told_to_come_again(lives, tmp_path):
    port = free_port()
    old = lives(topology(OLD, port, tmp_path, timeout="50ms"), memory_store())
    old.wait_until_it_listens(port)
    HANDOVER.to_next_process = True
    old.end(drain=True)
    status, said, headers = Client(port).send({"id": 1})
    assert (status, headers["Retry-After"]) == (503, "1")
    assert said == {"error": "the topology is being replaced, and the next driver is not ready yet"}
    HANDOVER.end()
    with pytest.raises(ConnectionRefusedError):
        Client(port).send({"id": 1})


TLS = ROOT / "tests/data/tls"
SERVER = {"certificate": f"{TLS}/localhost.pem", "key": f"{TLS}/localhost.key"}


def posted(port, certificate=None):
    """The status of a request over HTTPS."""
    trusted = ssl.create_default_context(cafile=TLS / "localhost.pem")
    trusted.check_hostname = False
    if certificate is not None:
        trusted.load_cert_chain(TLS / certificate)
    with closing(http.client.HTTPSConnection(OLD, port, context=trusted)) as client:
        client.request("POST", "/", b'{"id": 1}')
        with client.getresponse() as response:
            return response.status


def test_clients_of_https_are_handed_over_to_who_has_the_same_certificate(lives, tmp_path):
    port, store = free_port(), memory_store()
    old = lives(topology(OLD, port, tmp_path, tls=SERVER), store)
    old.wait_until_it_listens(port)
    HANDOVER.to_next_process = True
    old.end(drain=True)
    new = lives(topology(NEW, port, tmp_path, tls=SERVER), store)
    HANDOVER.successor = NEW
    assert posted(port) == 200
    new.end(drain=True)
    assert rows(tmp_path) == {1: 1}


def test_a_next_driver_with_another_certificate_is_not_asked(lives, tmp_path):
    port = free_port()
    old = lives(topology(OLD, port, tmp_path, tls=SERVER, timeout="300ms"), memory_store())
    old.wait_until_it_listens(port)
    HANDOVER.to_next_process = True
    old.end(drain=True)
    other = {"certificate": f"{TLS}/stranger.pem", "key": f"{TLS}/stranger.pem"}
    lives(topology(NEW, port, tmp_path, tls=other), memory_store())
    HANDOVER.successor = NEW
    assert posted(port) == 503


def test_certificates_of_clients_are_shown_to_this_process_alone(lives, tmp_path):
    port = free_port()
    tls = {**SERVER, "clientAuthority": f"{TLS}/clients.pem"}
    life = lives(topology(OLD, port, tmp_path, tls=tls), memory_store())
    life.wait_until_it_listens(port)
    life.stop.topology = topology(OLD, port, tmp_path, 2, tls=tls).build()
    wait_for(lambda: life.stop.topology is None)
    assert posted(port, "client.pem") == 200
    HANDOVER.to_next_process = True
    life.end(drain=True)
    assert not HANDOVER.has_servers


def test_without_a_next_driver_clients_are_refused(lives, tmp_path):
    port = free_port()
    life = lives(topology(OLD, port, tmp_path), memory_store())
    life.wait_until_it_listens(port)
    life.end(drain=True)
    assert not HANDOVER.has_servers
    with pytest.raises(ConnectionRefusedError):
        Client(port).send({"id": 1})


def test_a_client_sees_no_error_while_executors_are_placed_anew(lives, tmp_path):
    port = free_port()
    life = lives(topology(OLD, port, tmp_path), memory_store())
    life.wait_until_it_listens(port)
    client = Restless(port)
    try:
        client.goes_on()
        for tasks in (4, 2):
            life.stop.topology = topology(OLD, port, tmp_path, tasks).build()
            wait_for(lambda: client.error or life.stop.topology is None)
            client.goes_on()
    finally:
        client.end()
    assert client.error is None
    assert life.running.topology.tasks["table"] == 2
    assert set(map(str, client.answers)) == {str((200, {"messages": 1}))}
    life.end(drain=True)
    assert rows(tmp_path) == Counter(range(len(client.answers)))
