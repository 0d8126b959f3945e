"""Clients of the HTTP server that mean ill: what they get, and that others are served meanwhile."""

import gzip
import socket
import time
from contextlib import contextmanager

import pytest
from aiohttp import web

from fulmen.services.http.server import MOST_PARTS, PACKINGS, HttpServer, ServerLimits, unpacked

PACKED = gzip.compress(b"x" * 400)
LIMITS = ServerLimits(content_bytes=1000, held_bytes=3000, connections=4, request_seconds=0.3)


async def echo(request, content):
    return web.json_response({"bytes": len(content)})


@contextmanager
def serving(answer=echo, limits=LIMITS):
    server = HttpServer("fulmen-test", answer, limits)
    try:
        server.bind("127.0.0.1", 0)
        server.listen()
        yield server.port
    finally:
        server.close(0)


@pytest.fixture(scope="module")
def port():
    with serving() as served:
        yield served


def opened(port):
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def status(port, data):
    """What a client gets that sends these bytes and nothing more; 0: the end of its connection."""
    with opened(port) as client:
        client.sendall(data)
        try:
            answer = client.recv(1 << 16)
        except ConnectionError:
            return 0
        return int(answer.split()[1]) if answer else 0


def post(content, *headers):
    named = [f"Content-Length: {len(content)}", *headers]
    return "\r\n".join(["POST / HTTP/1.1", "Host: x", *named, "", ""]).encode() + content


def is_served(port):
    return status(port, post(b"x")) == 200


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(post(b"x" * 1000), 200, id="all-that-may-be"),
        pytest.param(post(b"x" * 1001), 413, id="too-much"),
        pytest.param(post(b"", "A: " + "x" * 20_000), 400, id="huge-header"),
        pytest.param(post(b"", *(f"A{i}: x" for i in range(100))), 400, id="many-headers"),
        pytest.param(b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", 400, id="huge-line"),
        pytest.param(post(b"x", "Transfer-Encoding: chunked"), 400, id="two-lengths"),
        pytest.param(post(b"x", "Content-Length: 2"), 400, id="lengths-that-differ"),
        pytest.param(post(b"x").replace(b"h: 1", b"h: +1"), 400, id="length-with-a-sign"),
        pytest.param(post(b"x").replace(b"h: 1", b"h : 1"), 400, id="space-before-the-colon"),
        pytest.param(b"\x16\x03\x01\x00\xff" * 20, 400, id="no-http"),
        pytest.param(
            post(gzip.compress(bytes(1 << 20)), "Content-Encoding: gzip"), 413, id="packed-zeros"
        ),
        pytest.param(post(b"\x1f\x8bno", "Content-Encoding: gzip"), 400, id="not-packed"),
        pytest.param(post(PACKED[:-1], "Content-Encoding: gzip"), 400, id="packed-and-cut-off"),
        pytest.param(post(PACKED * 2, "Content-Encoding: gzip"), 200, id="packed-in-parts"),
        pytest.param(post(PACKED, "Content-Encoding: br"), 415, id="packed-otherwise"),
        pytest.param(
            post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"zz\r\n",
            400,
            id="chunk-without-a-length",
        ),
        pytest.param(post(b"x" * 10)[:-5], 408, id="content-that-does-not-come"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: ", 0, id="head-that-does-not-come"),
    ],
)
def test_a_hostile_request_is_refused_and_others_are_served(port, data, expected):
    assert status(port, data) == expected
    assert is_served(port)


def test_idle_connections_keep_nobody_out(port):
    idle = [opened(port) for _ in range(3 * LIMITS.connections)]
    try:
        assert is_served(port)
    finally:
        for one in idle:
            one.close()


def test_contents_that_are_held_are_bounded():
    with serving(limits=ServerLimits(content_bytes=1000, held_bytes=1500)) as port:
        with opened(port) as slow:
            slow.sendall(post(b"x" * 1000)[:-1])
            while status(port, post(b"x" * 1000)) != 503:
                time.sleep(0.001)
        while status(port, post(b"x" * 1000)) != 200:
            time.sleep(0.001)


def test_a_content_is_packed_in_a_hundred_parts_at_most():
    part = gzip.compress(b"x")
    assert unpacked(part * MOST_PARTS, PACKINGS["gzip"], 1000) == b"x" * MOST_PARTS
    with pytest.raises(ValueError, match="more than 100 parts"):
        unpacked(part * (MOST_PARTS + 1), PACKINGS["gzip"], 1000)


LONG = 32_000_000
"""Bytes: more than the system keeps for a connection."""


async def long_answer(request, content):
    return web.Response(body=b"x" * LONG)


@pytest.mark.parametrize("seconds", [0.2, 60])
def test_a_client_that_takes_nothing_of_a_long_answer_loses_its_connection(seconds):
    limits = ServerLimits(request_seconds=seconds)
    server = HttpServer("fulmen-test", long_answer, limits)
    try:
        server.bind("127.0.0.1", 0)
        server.listen()
        with opened(server.port) as client:
            client.sendall(post(b"x", "Connection: close"))
            client.recv(1)
            while seconds < 1 and server.busy:
                time.sleep(0.01)
            assert (taken(client) < LONG) == (seconds < 1)
    finally:
        server.close(0)


def taken(client):
    """How many bytes a client still gets."""
    count = 0
    try:
        while part := client.recv(1 << 20):
            count += len(part)
    except ConnectionError:
        pass
    return count
