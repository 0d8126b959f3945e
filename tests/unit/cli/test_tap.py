"""`fulmen tap`."""

import contextlib
import json
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from support.cli.fake_kubectl import topology

LINE = {"time": 1.5, "batch": 7, "component": "split", "values": {"word": "é"}}


class Driver(ThreadingHTTPServer):
    """Answers as a driver does, and notes what it was asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.tokens = [], []
        self.answer(LINE, {}, {"others": 1234}, {"ended": ""})

    def answer(self, *lines, status=200):
        self.status = status
        self.body = b"".join(
            line
            if isinstance(line, bytes)
            else json.dumps(line).encode() + b"\n"
            if line
            else b"\n"
            for line in lines
        )

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        self.server.asked.append((url.path, parse_qs(url.query)))
        self.server.tokens.append(self.headers.get("Authorization"))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_):
        pass


@pytest.fixture
def driver():
    with Driver() as driver:
        thread = Thread(target=driver.serve_forever, args=(0.01,))
        thread.start()
        yield driver
        driver.shutdown()
        thread.join()


def on_a_cluster(kubectl, driver):
    kubectl.answer_each(
        {
            "get topologies.fulmen.dev/word-count": topology(
                status={"driverPod": "word-count-driver-1"}
            ),
            "port-forward": f"Forwarding from 127.0.0.1:{driver.server_port} -> 9464\n",
        }
    )


def test_tuples_come_through_a_port_forward(fulmen, kubectl, driver, monkeypatch):
    monkeypatch.setenv("FULMEN_METRICS_TOKEN", "s3cret")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # not for what is on this machine
    on_a_cluster(kubectl, driver)
    wanted = ["--where", "word=é", "--where", "n=1", "--limit", "1"]
    result = fulmen("tap", "word-count", "split:default", *wanted)
    assert (result.exit_code, result.stderr) == (0, "1,234 more tuples are not shown.\n")
    assert result.stdout == json.dumps(LINE, ensure_ascii=False, separators=(",", ":")) + "\n"
    assert driver.asked == [
        (
            "/api/tap",
            {
                "component": ["split"],
                "stream": ["default"],
                "where": ["word=é", "n=1"],
                "limit": ["1"],
            },
        )
    ]
    assert driver.tokens == ["Bearer s3cret"]
    assert kubectl.asked[1][1:] == [
        "port-forward",
        "--address=127.0.0.1",
        "pod/word-count-driver-1",
        ":9464",
    ]


def test_a_tree_is_followed_without_a_component(fulmen, kubectl, driver):
    on_a_cluster(kubectl, driver)
    assert fulmen("tap", "word-count", "--tree", "next").exit_code == 0
    assert driver.asked == [("/api/tap", {"tree": ["next"]})]


def test_a_run_on_this_machine_is_named_by_its_url(fulmen, kubectl, driver):
    for url in (driver.url, driver.url.rstrip("/")):
        assert fulmen("tap", "--url", url, "split").exit_code == 0
    assert fulmen("tap", "--url", driver.url, "--tree", "0-7").exit_code == 0
    assert [query for _, query in driver.asked] == [
        {"component": ["split"]},
        {"component": ["split"]},
        {"tree": ["0-7"]},
    ]


@pytest.mark.parametrize(
    ("answer", "status", "code", "text"),
    [
        ([b"there is no component 'x'.\n"], 404, 2, "Error: there is no component 'x'.\n"),
        ([b"8 taps are open already.\n"], 503, 1, "Error: 8 taps are open already.\n"),
        (
            [{"ended": "the topology has ended"}],
            200,
            1,
            "Error: the topology has ended.\n",
        ),
        ([], 200, 1, "Error: the driver, or the way to it, is gone. Start again.\n"),
    ],
)
def test_an_end_that_nobody_wished_is_an_error(fulmen, driver, answer, status, code, text):
    driver.answer(*answer, status=status)
    result = fulmen("tap", "--url", driver.url, "split")
    assert (result.exit_code, result.output) == (code, text)


def test_what_is_no_driver_is_an_error(fulmen, driver):
    driver.answer(b"<html>")
    result = fulmen("tap", "--url", driver.url, "split")
    assert result.exit_code == 1
    assert f"{driver.url} does not answer: " in result.stderr
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
    result = fulmen("tap", "--url", f"http://127.0.0.1:{port}", "split")
    assert result.exit_code == 1
    assert "does not answer: [Errno 111] Connection refused." in result.stderr


def test_a_topology_without_a_driver_has_no_tuples(fulmen, kubectl):
    kubectl.answer(topology(state="Suspended", status={"message": "no pods"}))
    result = fulmen("tap", "word-count", "split")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: topology 'word-count' is Suspended, so there are no tuples: no pods\n",
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "name the topology and a component, or give --url."),
        (["word-count"], "name the component whose tuples are to be shown, or give --tree."),
        (["--url", "http://x"], "name the component whose tuples are to be shown"),
        (["--url", "x", "split"], "--url x: must begin with http:// or https://."),
        (["--url", "http://x", "a", "b"], "--url is for a topology without a cluster"),
        (["--url", "http://x", "-n", "blue", "a"], "--url is for a topology without a cluster"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(fulmen, arguments, text):
    result = fulmen("tap", *arguments)
    assert (result.exit_code, text in result.stderr) == (2, True)
