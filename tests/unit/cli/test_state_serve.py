"""Questions to state over HTTP: what `fulmen state serve` answers."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.checkpoint import Store
from fulmen.cli.commands.state.serve import StateSite, handler_of
from fulmen.metrics import AccessRules
from fulmen.serving import BoundedServer
from fulmen.testing import ListSpout, run

CALL = "from fulmen.cli.main import main; main()"
WORDS = [f"w{n:02}" for n in range(30)] + ["w01", "other"]


class Count(BasicBolt):
    def execute(self, tup, collector):
        self.state[tup["word"]] = self.state.get(tup["word"], 0) + 1


def counted(checkpoint, words=WORDS):
    builder = TopologyBuilder()
    builder.set_spout("words", ListSpout(words, fields=["word"]))
    builder.set_bolt("count", Count, 3).fields_grouping("words", ["word"])
    return run(builder, checkpoint=checkpoint)


@pytest.fixture
def checkpoint(tmp_path):
    uri = (tmp_path / "checkpoint").as_uri()
    counted(uri)
    return uri


@contextmanager
def asked(checkpoint, **environ):
    """Asks a server of a checkpoint: status, and JSON or text."""
    site = StateSite(Store.open(checkpoint), AccessRules.of(environ))
    server = BoundedServer(("127.0.0.1", 0), handler_of(site))
    with server.running(0.01) as port:

        def ask(path, method="GET", **headers):
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}{path}", headers=headers, method=method
            )
            try:
                with urllib.request.urlopen(request, timeout=20) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        yield ask


def values(answer):
    status, content = answer
    assert status == 200, content
    return {one["key"]: one["value"] for one in content["entries"]}


def test_keys_have_their_values_and_the_commit_and_others_are_missing(checkpoint):
    with asked(checkpoint) as ask:
        status, content = ask("/state/count?key=w01&key=other&key=nobody&key=w01")
    entries = {one["key"]: one["value"] for one in content["entries"]}
    assert (status, entries) == (200, {"w01": 2, "other": 1})
    assert content["missing"] == ["nobody"]
    assert content["commit"] > 0


def test_an_answer_is_that_of_the_newest_commit(checkpoint):
    with asked(checkpoint) as ask:
        before = ask("/state/count?key=w01")[1]
        counted(checkpoint, WORDS + ["w01"] * 5)
        after = ask("/state/count?key=w01")[1]
        while after["commit"] == before["commit"]:  # for a moment nobody looks
            after = ask("/state/count?key=w01")[1]
    assert after["entries"][0]["value"] == 7


def test_keys_that_begin_alike_come_page_by_page_in_their_order(checkpoint):
    pages, after = [], ""
    with asked(checkpoint) as ask:
        while after is not None:
            content = ask(f"/state/count?prefix=w&limit=13&after={quote(after)}")[1]
            pages.append([one["key"] for one in content["entries"]])
            after = content.get("next")
        assert values(ask("/state/count?prefix=other")) == {"other": 1}
    assert [len(page) for page in pages] == [13, 13, 4]
    assert [key for page in pages for key in page] == sorted(
        {word for word in WORDS if word.startswith("w")}
    )


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/state/nobody?key=a", 404, "The checkpoint has no component 'nobody'."),
        ("/state/count", 400, "There are /healthz and /state/COMPONENT"),
        ("/state/count?key=a&prefix=b", 400, "There are"),
        ("/state/count?prefix=a&limit=x", 400, "There are"),
        ("/state/count?" + "&".join(["key=a"] * 200), 400, "At most 100 keys."),
        ("/elsewhere", 404, "There are"),
        ("/state/nobody?windows=true", 404, "no component"),
    ],
)
def test_what_can_not_be_asked_is_told(checkpoint, path, status, said):
    with asked(checkpoint) as ask:
        found, text = ask(path)
    assert (found, said in text) == (status, True)


def test_nothing_can_be_changed_and_pages_of_others_see_nothing(checkpoint):
    with asked(checkpoint) as ask:
        assert ask("/state/count?key=w01", "POST") == (405, "Only GET.\n")
        path = "/state/count?key=w01"
        assert ask(path, Origin="http://evil.example")[0] == 403
        assert ask(path, Host="evil.example")[0] == 403


def test_a_token_has_to_be_shown(checkpoint):
    with asked(checkpoint, FULMEN_METRICS_TOKEN="s3cret") as ask:
        assert ask("/state/count?key=w01")[0] == 401
        assert values(ask("/state/count?key=w01", Authorization="Bearer s3cret")) == {"w01": 2}


def test_an_address_for_others_needs_a_token(checkpoint, fulmen, monkeypatch):
    monkeypatch.delenv("FULMEN_METRICS_TOKEN", raising=False)
    result = fulmen("state", "serve", checkpoint, "--host", "0.0.0.0")
    assert result.exit_code == 2
    assert "others than this machine could read the state. Set FULMEN_METRICS_TOKEN" in (
        result.output
    )


@pytest.mark.slow
def test_the_command_answers_until_it_is_ended(checkpoint):
    command = [sys.executable, "-c", CALL, "state", "serve", checkpoint]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        url = process.stderr.readline().split(": ", 1)[1].strip()
        with urllib.request.urlopen(url.replace("COMPONENT?key=TEXT", "count?key=w01")) as answer:
            entries = json.load(answer)["entries"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert [one["value"] for one in entries] == [2]


def test_a_server_may_begin_before_anything_is_committed(tmp_path):
    checkpoint = (tmp_path / "checkpoint").as_uri()
    command = [sys.executable, "-c", CALL, "state", "serve", checkpoint, "--may-be-empty"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = process.stderr.readline().split(": ", 1)[1].strip()
            url = url.replace("COMPONENT?key=TEXT", "count?key=w01")
            assert status_of(url) == 404
            counted(checkpoint)
            while status_of(url) == 404:  # an answer may be 0.2 s late
                pass
            with urllib.request.urlopen(url) as answer:
                entries = json.load(answer)["entries"]
        finally:
            process.kill()
    assert [one["value"] for one in entries] == [2]


def status_of(url):
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
