"""What is answered over HTTP."""

import base64
import hashlib
import http.client
import json
import re
import socket
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from fulmen.errors import FulmenError
from fulmen.metrics import AccessRules, MetricsServer
from fulmen.metrics.access import is_from_here
from fulmen.metrics.page import Page
from support.metrics.scrapes import Scrape, check_consistent
from support.runs.metered import run_metered

PAGE = Page.read().html.decode()


@pytest.fixture(scope="module")
def totals():
    return run_metered(["a b", "fail once", "raise <b>this</b>"], max_replays=1).totals


@pytest.fixture(scope="module")
def server(totals):
    with MetricsServer("127.0.0.1", 0, lambda: totals) as server:
        yield server


@pytest.fixture(scope="module")
def named(totals):
    """A server with names of its own."""
    access = AccessRules.of({"FULMEN_METRICS_HOSTS": "Board.example, other.example"})
    with MetricsServer("127.0.0.1", 0, lambda: totals, access=access) as server:
        yield server


@pytest.fixture(scope="module")
def guarded(totals):
    """A server that asks for a token."""
    access = AccessRules.of({"FULMEN_METRICS_TOKEN": "s3cret:é\n"})
    with MetricsServer("127.0.0.1", 0, lambda: totals, access=access) as server:
        yield server


def get(server, path, method="GET", **headers):
    """Status, headers and body."""
    request = urllib.request.Request(server.url + path, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


def test_metrics_are_text(server, totals):
    status, headers, text = get(server, "metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    scrape = Scrape(text)
    check_consistent(scrape)
    assert scrape.value("fulmen_batches_total") == totals.batches


def test_probes_ask_whoever_knows(totals):
    answers = {"/healthz": True, "/readyz": False}
    probes = {path: lambda path=path: answers[path] for path in answers}
    with MetricsServer("127.0.0.1", 0, lambda: totals, probes) as server:
        assert get(server, "healthz")[0] == 200
        assert get(server, "readyz")[0] == 503
        answers = {"/healthz": False, "/readyz": True}
        assert get(server, "healthz")[0] == 503
        assert get(server, "readyz")[0] == 200


def test_how_a_topology_scales_is_told_by_whoever_knows(server, totals):
    assert json.loads(get(server, "api/topology")[2])["autoscale"] is None
    said = {"workers": 2, "reason": "Enough"}
    with MetricsServer("127.0.0.1", 0, lambda: totals, scaling=lambda: said) as scaled:
        assert json.loads(get(scaled, "api/topology")[2])["autoscale"] == said


def test_there_is_no_readiness_where_nobody_knows(server):
    assert get(server, "healthz")[0] == 200
    assert get(server, "readyz")[0] == 404


def test_open_metrics_are_served_to_who_asks_for_them(server):
    accept = "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"
    status, headers, text = get(server, "metrics", Accept=accept)
    assert status == 200
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")


def test_health(server):
    assert get(server, "healthz")[::2] == (200, "ok\n")


def test_the_topology_agrees_with_the_report(server, totals):
    status, headers, text = get(server, "api/topology")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    shown, report = json.loads(text), totals.report()
    assert shown["name"] == "metered"
    assert shown["trees"] == report["trees"]
    components = {component["name"]: component for component in shown["components"]}
    assert components.keys() == report["components"].keys()
    for name, wanted in report["components"].items():
        of = components[name]
        texts = ("errors", "failures")
        assert {k: of[k] for k in wanted if k not in texts} == {
            k: v for k, v in wanted.items() if k not in texts
        }
        assert sum(stream["emitted"] for stream in of["outputs"]) == wanted["emitted"]
        assert sum(stream["executed"] for stream in of["inputs"]) == wanted["executed"]
    assert {(e["from"], e["stream"], e["to"], e["grouping"]) for e in shown["edges"]} == {
        ("texts", "default", "split", "shuffle"),
        ("split", "default", "keep", "fields"),
        ("silent", "default", "keep", "all"),
        ("split", "lengths", "large", "global"),
    }
    assert sum(acker["acked"] for acker in shown["ackers"]) == report["trees"]["acked"]
    hosted = [e for worker in shown["workers"] for e in worker["executors"]]
    assert len(hosted) == sum(component["executors"] for component in shown["components"])
    assert shown["batches"]["count"] == report["batches"]
    assert "ValueError: raise <b>this</b>" in shown["errors"][0]["message"]


def test_only_new_points_are_sent(server):
    points = json.loads(get(server, "api/topology")[2])["history"]
    later = len(points) + 1000
    assert json.loads(get(server, f"api/topology?since={later}")[2])["history"] == []
    for wrong in ("-1", "x", "9" * 99, "²"):
        path = f"api/topology?since={urllib.parse.quote(wrong)}"
        assert get(server, path)[0] == 400


def test_the_step_of_points_and_the_tasks_of_a_component_are_chosen(server, totals):
    shown = json.loads(get(server, "api/topology?step=72&tasks=split")[2])
    assert (shown["history_step"], shown["history"], shown["tasks_of"]) == (72, [], "split")
    assert [task["task"] for task in shown["tasks"]] == list(totals.placed.plan.tasks("split"))
    for wrong in ("0", "2", "x", "-1"):
        status, _, text = get(server, f"api/topology?step={wrong}")
        assert (status, text) == (400, "step: there are 1, 12, 72, 288.\n")


def test_anything_else_is_not_there(server):
    status, _, text = get(server, "../../etc/passwd")
    there_are = "/, /metrics, /healthz, /api/topology, /api/tap and /api/dead-letters"
    assert (status, text) == (404, f"There are {there_are}.\n")


def test_what_is_no_address_is_refused(server):
    place = urllib.parse.urlsplit(server.url).netloc
    with closing(http.client.HTTPConnection(place, timeout=20)) as connection:
        connection.putrequest("GET", "http://[", skip_host=True)
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (400, b"no such address\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("path", ["", "metrics", "api/topology"])
def test_nothing_can_be_changed(server, method, path):
    status, headers, _ = get(server, path, method)
    assert (status, headers["Allow"]) == (405, "GET")


def test_the_page_may_only_do_what_it_must(server):
    status, headers, text = get(server, "")
    assert (status, headers["Content-Type"], text) == (200, "text/html; charset=utf-8", PAGE)
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert policy[f"{tag}-src"] == f"'sha256-{digest}'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "unsafe" not in headers["Content-Security-Policy"]


def test_the_page_loads_nothing_and_writes_no_html():
    addresses = set(re.findall(r"""https?://[^"'` )]+""", PAGE))
    assert addresses <= {"http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"}
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", PAGE)
    assert not re.search(r"<[^>]+ (style|on\w+)=", PAGE)  # the policy would not allow them
    assert "@import" not in PAGE
    assert re.findall(r"url\(|src=", PAGE) == []


def test_before_the_start_there_is_nothing_to_show():
    with MetricsServer("127.0.0.1", 0, lambda: None) as server:
        status, _, text = get(server, "api/topology")
        assert (status, text) == (503, "The topology has not started yet.\n")
        assert get(server, "metrics")[::2] == (200, "")
        assert get(server, "healthz")[0] == 200


def test_a_port_that_is_taken_is_told():
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        with pytest.raises(FulmenError) as error:
            MetricsServer("127.0.0.1", port, lambda: None)
    assert str(error.value) == (
        f"metrics: can't listen on 127.0.0.1, port {port}: Address already in use. Choose another "
        "port; 0 takes a free one."
    )


def test_an_address_that_is_not_ours_is_told():
    with pytest.raises(FulmenError, match=r"metrics: can't listen on 192\.0\.2\.1, port 0: "):
        MetricsServer("192.0.2.1", 0, lambda: None)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:9090", 200),
        ("LOCALHOST.", 200),
        ("shop.localhost", 200),
        ("127.0.0.1:9090", 200),
        ("10.0.0.7", 200),
        ("[::1]:9090", 200),
        ("board.example:443", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
        ("evil-localhost", 403),
        ("board.example.evil.example", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
def test_a_name_that_leads_to_this_machine_by_a_trick_gets_nothing(named, host, status):
    for path in ("", "metrics", "api/topology"):
        found, _, text = get(named, path, Host=host)
        assert found == status
        assert ("FULMEN_METRICS_HOSTS" in text) == (status == 403)
    assert get(named, "healthz", Host=host)[0] == 200


@pytest.mark.parametrize(
    ("peer", "own", "is_own"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("192.168.1.5", "192.168.1.5", True),
        ("10.244.0.1", "10.244.0.9", False),
        ("::ffff:10.244.0.1", "::ffff:10.244.0.9", False),
        ("fe80::1%eth0", "fe80::2%eth0", False),
    ],
)
def test_requests_of_other_machines_may_call_it_as_they_like(peer, own, is_own):
    """As the API server does, which passes on its own name."""
    assert is_from_here(peer, own) == is_own
    assert (AccessRules().refusal(is_own, "api.example", "") is None) == (not is_own)


def basic(text):
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("Bearer s3cret:é", 200),
        ("bearer  s3cret:é ", 200),
        (basic(":s3cret:é"), 200),
        (basic("anybody:s3cret:é"), 200),
        ("Bearer s3cret", 401),
        ("Bearer ", 401),
        ("Bearer", 401),
        ("s3cret:é", 401),
        (basic("s3cret:é"), 401),
        ("Basic ?", 401),
        ("Digest s3cret:é", 401),
    ],
)
def test_a_token_is_asked_for(guarded, authorization, status):
    sent = authorization.encode().decode("latin-1")
    for path in ("", "metrics", "api/topology"):
        found, headers, text = get(guarded, path, Authorization=sent)
        assert found == status
        assert ("FULMEN_METRICS_TOKEN" in text) == (status == 401)
        assert ("WWW-Authenticate" in headers) == (status == 401)


def test_probes_need_no_token(guarded):
    assert get(guarded, "healthz")[0] == 200
    assert get(guarded, "metrics")[0] == 401
    assert get(guarded, "nothing")[0] == 401


@pytest.mark.parametrize("token", ["", " \n"])
def test_an_empty_token_opens_nothing(token):
    with pytest.raises(FulmenError, match="FULMEN_METRICS_TOKEN is empty"):
        AccessRules.of({"FULMEN_METRICS_TOKEN": token})


def test_without_a_token_nobody_is_asked_for_one(server):
    assert get(server, "metrics", Authorization="Bearer anything")[0] == 200
