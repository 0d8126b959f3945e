"""The driver's calls of the Kubernetes API, as a server gets them."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes.client import Configuration

from fulmen.kube.driver.api import Api, ApiError


class Server(ThreadingHTTPServer):
    """Gives the answers that a test has put there, and keeps the requests."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.requests = [], []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urlsplit(self.path)
        size = int(self.headers.get("Content-Length", 0))
        asked = {
            "verb": self.command,
            "path": url.path,
            "query": {name: values[0] for name, values in parse_qs(url.query).items()},
            "type": self.headers["Content-Type"],
            "token": self.headers["Authorization"],
            "body": json.loads(self.rfile.read(size) or "null"),
        }
        self.server.requests.append(asked)
        status, text, *length = self.server.answers.pop(0)
        self.send_response(status)
        if isinstance(text, list):  # as an API server sends the events of a watch
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in text:
                data = chunk.encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if chunk else b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(*length or [len(text)]))
            self.end_headers()
            self.wfile.write(text.encode())
        self.close_connection = True

    do_PATCH = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def api(server):
    configuration = Configuration(host=f"http://127.0.0.1:{server.server_port}")
    configuration.api_key = {"BearerToken": "bearer secret"}
    return Api(configuration, "team")


def test_pods_are_asked_for_by_their_labels(api, server):
    server.answers = [(200, '{"items": [{"kind": "Pod"}]}')]
    assert api.pods("a=b,c in (d)") == [{"kind": "Pod"}]
    [asked] = server.requests
    assert asked["path"] == "/api/v1/namespaces/team/pods"
    assert asked["query"] == {"labelSelector": "a=b,c in (d)"}
    assert asked["token"] == "bearer secret"


def test_a_patch_is_merged_into_the_pod_of_that_uid(api, server):
    server.answers = [(200, "{}")]
    api.patch_pod("web-driver-1", "u-7", {"labels": {"a": None}})
    [asked] = server.requests
    assert (asked["verb"], asked["type"]) == ("PATCH", "application/merge-patch+json")
    assert asked["path"] == "/api/v1/namespaces/team/pods/web-driver-1"
    assert asked["body"] == {"metadata": {"labels": {"a": None}, "uid": "u-7"}}


def test_a_topology_is_of_fulmens_group(api, server):
    server.answers = [(200, "{}")]
    api.topology("web")
    assert server.requests[0]["path"] == "/apis/fulmen.dev/v1alpha1/namespaces/team/topologies/web"


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        ((403, '{"message": "not allowed"}'), 403, "not allowed"),
        ((500, "<html>"), 500, "<html>"),
        ((307, "{}"), 307, "{}"),
        ((200, '{"items": [', 900), 0, None),
        ((200, "<html>"), 0, None),
    ],
    ids=["refused", "no JSON", "redirected", "cut off", "another server"],
)
def test_what_is_no_answer_is_an_error(answer, status, reason, api, server):
    server.answers = [answer]
    with pytest.raises(ApiError) as error:
        api.pod("web-driver-1")
    assert error.value.status == status
    assert reason is None or error.value.reason == reason
    assert len(server.requests) == 1  # whoever asks decides whether to ask again


def test_a_server_that_is_away_is_an_error(api, server):
    server.server_close()
    with pytest.raises(ApiError) as error:
        api.pod("web-driver-1")
    assert error.value.status == 0


def test_events_of_a_watch(api, server):
    events = [
        {"type": "ADDED", "object": {"n": 1}},
        {"type": "MODIFIED", "object": {"n": 2, "text": "é\n"}},
    ]
    first, second = (json.dumps(event) + "\n" for event in events)
    server.answers = [(200, [first + second[:9], second[9:], ""])]
    found = list(api.watch_config_map("web-revision"))
    assert found == [("ADDED", {"n": 1}), ("MODIFIED", {"n": 2, "text": "é\n"})]
    query = server.requests[0]["query"]
    assert query["fieldSelector"] == "metadata.name=web-revision"
    assert query["watch"] == "1"
    assert "resourceVersion" not in query  # so that the first event is how it is


def test_a_watch_that_is_too_old(api, server):
    event = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
    server.answers = [(200, [json.dumps(event) + "\n", ""])]
    with pytest.raises(ApiError, match="too old") as error:
        list(api.watch_config_map("web-revision"))
    assert error.value.status == 410


def test_a_watch_whose_connection_breaks(api, server):
    server.answers = [(200, ['{"type": "ADDED", "object": {}}\n', '{"type": "MO'])]
    watch = api.watch_config_map("web-revision")
    assert next(watch) == ("ADDED", {})
    with pytest.raises(ApiError) as error:
        next(watch)
    assert error.value.status == 0
