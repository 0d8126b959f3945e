"""A server whose clients can take no more than it can spare."""

import socket
from contextlib import ExitStack, closing
from http.client import HTTPConnection

import pytest

from fulmen import serving
from fulmen.serving import MOST_CONNECTIONS, MOST_HEAD_BYTES, BoundedHandler, BoundedServer
from fulmen_operator import metrics


class Hello(BoundedHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")


def running():
    return BoundedServer(("127.0.0.1", 0), Hello).running(0.01)


def asked(port, path="/", headers=()):
    with closing(HTTPConnection("127.0.0.1", port, timeout=20)) as client:
        client.request("GET", path, headers=dict(headers))
        answer = client.getresponse()
        return answer.status, answer.read()


def connected(port, sent=b""):
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(sent)
    return connection


def is_closed(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_connection_is_used_again():
    with running() as port, closing(HTTPConnection("127.0.0.1", port, timeout=20)) as client:
        for _ in range(3):
            client.request("GET", "/")
            assert client.getresponse().read() == b"hello"


class Nagled(BoundedHandler):
    def do_GET(self):
        is_sent_at_once = self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        self.send_response(200 if is_sent_at_once else 500)
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_a_content_does_not_wait_until_the_client_has_acknowledged_the_head():
    with BoundedServer(("127.0.0.1", 0), Nagled).running(0.01) as port:
        assert asked(port) == (200, b"")


def test_who_asks_at_once_is_answered_while_others_keep_all_connections_busy():
    begun = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    with running() as port, ExitStack() as stack:
        others = [stack.enter_context(connected(port, begun)) for _ in range(MOST_CONNECTIONS + 40)]
        assert asked(port) == (200, b"hello")
        assert all(is_closed(other) for other in others[:40])


def test_headers_have_a_size():
    with running() as port:
        assert asked(port, headers={"X": "a" * (MOST_HEAD_BYTES - 200)}) == (200, b"hello")
        with connected(port, b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * MOST_HEAD_BYTES) as client:
            assert client.recv(100).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "a part"])
def test_a_request_has_a_time_of_which_no_part_begins_it_anew(monkeypatch, sent):
    monkeypatch.setattr(serving, "REQUEST_SECONDS", 0.2)
    with running() as port, connected(port, sent) as client:
        client.settimeout(0.02)
        for _ in range(500):  # until it ends, or the test's own end
            try:
                if client.recv(1) == b"":
                    return
            except TimeoutError:
                client.sendall(b"Y" if sent else b"")
            except ConnectionError:
                return
        pytest.fail("it never ends")


def test_what_follows_a_request_is_no_second_one():
    with running() as port, connected(port, 2 * b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") as client:
        answer = b"".join(iter(lambda: client.recv(1000), b""))
    assert answer.count(b"hello") == 1


def test_the_operators_figures_are_served_so():
    with metrics.served(0) as port:
        status, text = asked(port, "/metrics")
        assert (status, b"fulmen_operator_leader" in text) == (200, True)
        with connected(port, b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * MOST_HEAD_BYTES) as client:
            assert client.recv(100).startswith(b"HTTP/1.0 431 ")
