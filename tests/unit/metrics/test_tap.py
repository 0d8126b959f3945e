"""Tuples over HTTP."""

import http.client
import json
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest

from fulmen.engine.driver.taps.taps import Taps
from fulmen.metrics import AccessRules, MetricsServer
from fulmen.metrics import server as server_module
from fulmen.testing import ListSpout
from fulmen.topology.builder import TopologyBuilder
from fulmen.topology.resource.spec.tap import Tap
from support.runs.engine_runs import make_driver

ALLOWED = Tap(allowed=True, mask=("card",))


@pytest.fixture
def running():
    builder = TopologyBuilder(name="shop", tap=ALLOWED)
    texts = [[i, f"card-{i}"] for i in range(3)]
    builder.set_spout("orders", ListSpout(texts, fields=["id", "card"]))
    running = make_driver(builder).start()
    yield running
    running.close()


@pytest.fixture
def closed(running, monkeypatch):
    """Set when a tap has been closed."""
    event, close = threading.Event(), running._taps.close
    monkeypatch.setattr(running._taps, "close", lambda number: close(number) or event.set())
    return event


@pytest.fixture
def server(running, monkeypatch):
    monkeypatch.setattr(server_module, "_SILENT_SECONDS", 0.01)
    with MetricsServer("127.0.0.1", 0, lambda: running.totals, taps=running._taps) as server:
        yield server


def opened(server, query, **headers):
    request = urllib.request.Request(f"{server.url}api/tap?{query}", headers=headers)
    return urllib.request.urlopen(request, timeout=20)


def refused(server, query, **headers):
    with pytest.raises(urllib.error.HTTPError) as error:
        opened(server, query, **headers)
    with error.value as answer:
        return answer.code, answer.read().decode()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_others_takes_no_tap(running, server, headers):
    said = 403, "Tuples are not shown to pages of others.\n"
    assert refused(server, "component=orders&limit=1", **headers) == said
    assert not running._taps._open


def test_the_page_itself_takes_one(running, server):
    origin = server.url.rstrip("/")
    own = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    with opened(server, "component=orders&limit=1", **own) as answer:
        running.step()
        first, _ = [json.loads(line) for line in answer if line.strip()]
    assert first["values"]["id"] == 0


def test_tuples_are_lines_of_json_until_there_are_as_many_as_were_wanted(running, server, closed):
    with opened(server, "component=orders&where=id%3D1&limit=1") as answer:
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        assert answer.headers["Cache-Control"] == "no-store"
        running.step()
        *tuples, end = [json.loads(line) for line in answer if line.strip()]
    assert [one["values"] for one in tuples] == [{"id": 1, "card": "***"}]
    assert end == {"ended": ""}
    assert closed.wait(20)
    assert not running._taps._open


def test_a_tap_ends_when_its_client_has_gone(running, server, closed):
    answer = opened(server, "component=orders")
    assert len(running._taps._open) == 1
    answer.close()
    assert closed.wait(20)
    assert not running._taps._open


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("component=order", 404, "there is no component 'order'. Did you mean 'orders'?\n"),
        ("component=orders&limit=-1", 400, "limit: not a number.\n"),
        ("component=orders&limit=²", 400, "limit: not a number.\n"),
        ("componet=orders", 400, "componet: there are component, stream, where, tree and limit.\n"),
        ("component=orders&where=%ed%a0%80", 400, None),
    ],
)
def test_what_can_not_be_shown_is_refused(running, server, query, status, text):
    code, said = refused(server, urllib.parse.quote(query, safe="=&%+"))
    assert code == status
    assert text in (None, said)
    assert not running._taps._open


def test_a_name_that_leads_to_this_machine_by_a_trick_sees_no_tuples(server):
    assert refused(server, "component=orders", Host="evil.example")[0] == 403


def test_other_machines_have_to_show_a_token(running, monkeypatch):
    monkeypatch.setattr(server_module, "is_from_here", lambda *_: False)
    access = AccessRules(token="s3cret")
    with MetricsServer("127.0.0.1", 0, lambda: running.totals, taps=running._taps) as server:
        code, said = refused(server, "component=orders")
        assert (code, "FULMEN_METRICS_TOKEN" in said) == (403, True)
        assert urllib.request.urlopen(f"{server.url}api/topology", timeout=20).status == 200
    arguments = ("127.0.0.1", 0, lambda: running.totals, None, access, running._taps)
    with MetricsServer(*arguments) as server:
        assert refused(server, "component=orders")[0] == 401
        with opened(server, "component=orders", Authorization="Bearer s3cret") as answer:
            assert answer.status == 200


def test_the_page_knows_whether_tuples_may_be_shown(running, server):
    def allowed():
        with urllib.request.urlopen(f"{server.url}api/topology", timeout=20) as answer:
            return json.load(answer)["tap_allowed"]

    assert allowed() is True
    running._taps.rule(Tap())
    assert allowed() is False


def test_a_server_without_taps_allows_none(running):
    with MetricsServer("127.0.0.1", 0, lambda: running.totals) as server:
        assert refused(server, "component=orders")[0] == 503
    assert Taps().is_allowed is False


def test_a_tap_is_closed_though_its_client_went_before_it_was_answered(running, server, closed):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
    connection.request("GET", "/api/tap?component=orders")
    connection.close()
    assert closed.wait(20)
    assert not running._taps._open
