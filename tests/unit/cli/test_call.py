"""`fulmen call`."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from fulmen import Bolt, TopologyBuilder
from fulmen.cli.commands.call import LINES
from fulmen.connectors.http import CallSpout, Return
from support.cli.fake_kubectl import topology
from support.connectors.served_topologies import served
from support.docs.pages import ROOT
from support.parts.calling_parts import Asked
from support.servers.ports import free_port

TOKEN = "s3cret"


def calling(port, **config):
    builder = TopologyBuilder(name="calling")
    builder.set_spout("asked", CallSpout).set_config({"port": port, **config})
    builder.set_bolt("says", Asked).shuffle_grouping("asked")
    builder.set_bolt("answers", Return).shuffle_grouping("says")
    return builder


@pytest.fixture(scope="module")
def port():
    found = free_port()
    with served(calling(found, token=TOKEN)) as life:
        life.wait_until_it_listens(found)
        yield found


def file_of(folder, port, name="asked", **config):
    spout = {"name": name, "class": "fulmen.connectors.http.CallSpout"}
    document = {"spec": {"spouts": [{**spout, "config": {"port": port, **config}}]}}
    (folder / "calling.yaml").write_text(yaml.safe_dump(document))
    return "calling.yaml"


@pytest.fixture
def file(port, tmp_path, monkeypatch):
    monkeypatch.setenv("ASKED_TOKEN", TOKEN)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # not for what is on this machine
    return file_of(tmp_path, port, token="${ASKED_TOKEN}")


def test_the_answer_is_printed(fulmen, file):
    result = fulmen("call", file, "asked", '{"a": [1, "é"]}')
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {"a": [1, "é"]}
    assert result.stdout.count("\n") == 1


def test_a_call_with_a_key_is_run_once(fulmen, file):
    for asked, code in (("1", 0), ("1", 0), ("2", 2)):
        result = fulmen("call", file, "asked", asked, "--key", "k")
        assert result.exit_code == code
    assert "422: its Idempotency-Key was that of another request" in result.stderr


@pytest.mark.parametrize("dash", [(), ("-",)])
def test_arguments_may_be_typed(fulmen, file, dash):
    assert fulmen("call", file, "asked", *dash, typed='"x"\n').stdout == '"x"\n'


def test_a_call_has_the_name_that_its_option_gives_it(fulmen, port, tmp_path):
    file = file_of(tmp_path, port, name="spout")
    document = yaml.safe_load((tmp_path / file).read_text())
    document["spec"]["spouts"][0]["config"] |= {"name": "asked", "token": TOKEN}
    (tmp_path / file).write_text(yaml.safe_dump(document))
    assert fulmen("call", file, "asked", "1").stdout == "1\n"


def test_a_server_may_be_named_by_its_url(fulmen, port, monkeypatch):
    monkeypatch.setenv("FULMEN_CALL_TOKEN", TOKEN)
    result = fulmen("call", "any", "asked", "1", "--url", f"http://127.0.0.1:{port}/")
    assert (result.exit_code, result.stdout) == (0, "1\n")


class FailsLater(Bolt):
    """Returns what was asked, and fails at the next tick if that is "fails"."""

    outputs = ("call", "value")

    def prepare(self, conf, context, collector):
        self._collector, self._kept = collector, []

    def execute(self, tup):
        for kept in self._kept if tup.is_tick() else ():
            self._collector.fail(kept, "it fails later")
        self._kept = []
        if not tup.is_tick():
            self._collector.emit([tup["call"], tup["value"]], anchors=[tup])
        if not tup.is_tick() and tup["value"] == "fails":
            self._kept.append(tup)
        else:
            self._collector.ack(tup)


def test_each_value_is_printed_when_it_comes(fulmen, tmp_path):
    port = free_port()
    builder = TopologyBuilder()
    builder.set_spout("asked", CallSpout).set_config({"port": port, "results": "many"})
    for name in ("one", "other"):
        builder.set_bolt(name, FailsLater).shuffle_grouping("asked").set_tick_seconds(0.02)
    answers = builder.set_bolt("answers", Return)
    answers.shuffle_grouping("one").shuffle_grouping("other")
    with served(builder) as life:
        life.wait_until_it_listens(port)
        call = ("call", file_of(tmp_path, port), "asked")
        assert fulmen(*call, '"é"', "--each").stdout == '"é"\n"é"\n'
        result = fulmen(*call, '"fails"', "--each")
    assert (result.exit_code, result.stdout) == (1, '"fails"\n"fails"\n')
    assert result.stderr == "Error: call 'asked' got 500: it fails later.\n"


def test_an_answer_that_is_cut_off_is_told(fulmen, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with server.accept()[0] as client:
                client.recv(65536)
                head = f"HTTP/1.1 200 OK\r\nContent-Type: {LINES}\r\nConnection: close\r\n\r\n"
                client.sendall(head.encode() + b'{"value":1}\n')

        with ThreadPoolExecutor(1) as pool:
            pool.submit(answer)
            result = fulmen("call", file_of(tmp_path, server.getsockname()[1]), "asked", "1")
    assert (result.exit_code, result.stdout) == (1, "1\n")
    assert result.stderr.endswith("the connection broke before the end of the answer\n")


def on_a_cluster(kubectl, port, **config):
    found = topology(status={"driverPod": "word-count-driver-1"})
    spout = {"name": "asked", "class": "fulmen.connectors.http.CallSpout"}
    found["spec"] = {"spouts": [{**spout, "config": {"port": 8081, **config}}]}
    kubectl.answer_each(
        {
            "get topologies.fulmen.dev/word-count": found,
            "port-forward": f"Forwarding from 127.0.0.1:{port} -> 8081\n",
        }
    )


def test_a_call_goes_to_the_driver_of_a_topology_on_a_cluster(fulmen, kubectl, port, monkeypatch):
    monkeypatch.setenv("FULMEN_CALL_TOKEN", TOKEN)
    on_a_cluster(kubectl, port, token="${UNKNOWN}")
    result = fulmen("call", "word-count", "asked", "1")
    assert (result.exit_code, result.stdout) == (0, "1\n")
    assert kubectl.asked[1][1:] == [
        "port-forward",
        "--address=127.0.0.1",
        "pod/word-count-driver-1",
        ":8081",
    ]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            {"token": "${UNKNOWN}"},
            "Error: call 'asked': its config takes UNKNOWN from the environment, which is not set"
            " here. Set it, or for a token FULMEN_CALL_TOKEN.\n",
        ),
        (
            {"tls": {"certificate": "c", "key": "k"}},
            "Error: call 'asked' of topology 'word-count' is served with HTTPS, and the way through"
            " kubectl has no name that a certificate could be of. Give --url of its Service or"
            " Ingress.\n",
        ),
    ],
)
def test_what_a_cluster_can_not_tell_is_asked_for(fulmen, kubectl, port, config, text):
    on_a_cluster(kubectl, port, **config)
    result = fulmen("call", "word-count", "asked", "1")
    assert (result.exit_code, result.stderr) == (2, text)


def test_a_topology_without_a_driver_answers_nothing(fulmen, kubectl, port):
    on_a_cluster(kubectl, port)
    found = topology(state="Suspended")
    found["spec"] = {"spouts": [{"name": "a", "class": "fulmen.connectors.http.CallSpout"}]}
    found["spec"]["spouts"][0]["config"] = {"port": 1}
    kubectl.answer_each({"get topologies.fulmen.dev/word-count": found})
    result = fulmen("call", "word-count", "a", "1")
    assert result.exit_code == 1
    assert "is Suspended, so nobody answers calls" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            ["aksed", "1"],
            2,
            "Error: there is no call 'aksed'. There are: asked. Did you mean 'asked'?\n",
        ),
        (
            ["asked", "{a: 1}"],
            2,
            "Error: the arguments are not JSON: Expecting property name enclosed in double quotes:"
            ' line 1 column 2 (char 1). Put them into quotes: \'{"url": "fulmen.dev"}\'.\n',
        ),
        (
            ["asked", '"fails"'],
            1,
            "Error: call 'asked' got 500: bolt 'says': execute: ValueError: it fails.\n",
        ),
        (["asked", "1", "-n", "x"], 2, "Error: --namespace and --context are for a topology on a"),
    ],
)
def test_what_goes_wrong_is_told(fulmen, file, arguments, code, text):
    result = fulmen("call", file, *arguments)
    assert result.exit_code == code
    assert result.stderr.startswith(text.removesuffix("\n"))


def test_a_wrong_token_is_the_callers_mistake(fulmen, file, monkeypatch):
    monkeypatch.setenv("FULMEN_CALL_TOKEN", "other")
    result = fulmen("call", file, "asked", "1")
    told = "Error: call 'asked' got 401: the bearer token is missing or wrong.\n"
    assert (result.exit_code, result.stderr) == (2, told)


def test_nobody_listens(fulmen, tmp_path):
    port = free_port()
    result = fulmen("call", file_of(tmp_path, port), "asked", "1")
    told = (
        f"Error: http://127.0.0.1:{port}/asked does not answer: nobody listens there."
        " Does the topology run?\n"
    )
    assert (result.exit_code, result.stderr) == (1, told)


def test_a_topology_that_has_just_been_started_is_waited_for(fulmen, tmp_path):
    port = free_port()
    answers = []
    arguments = ["call", file_of(tmp_path, port), "asked", "1", "--wait", "60"]
    waiting = threading.Thread(target=lambda: answers.append(fulmen(*arguments)))
    waiting.start()
    with served(calling(port)):
        waiting.join()
    assert [(one.exit_code, one.stdout) for one in answers] == [(0, "1\n")]


def test_a_topology_without_calls_says_what_answers_them(fulmen, write):
    result = fulmen("call", write(), "asked", "1")
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "Error: there is no call 'asked'. The topology has none: those are answered by spouts of"
        " the class fulmen.connectors.http.CallSpout."
    )


TLS = ROOT / "tests/data/tls"
SERVER = {"certificate": str(TLS / "localhost.pem"), "key": str(TLS / "localhost.key")}


@pytest.fixture(scope="module")
def guarded():
    """The port of a server that wants certificates of its clients."""
    found = free_port()
    tls = {**SERVER, "clientAuthority": str(TLS / "clients.pem")}
    with served(calling(found, host="localhost", tls=tls)) as life:
        life.wait_until_it_listens(found)
        yield found


def test_a_client_with_a_certificate_is_served(fulmen, guarded, tmp_path):
    file = file_of(tmp_path, guarded, host="localhost", tls=SERVER)
    options = ["--cacert", str(TLS / "localhost.pem"), "--cert", str(TLS / "client.pem")]
    result = fulmen("call", file, "asked", "1", *options)
    assert (result.exit_code, result.stdout) == (0, "1\n"), result.stderr


@pytest.mark.parametrize(
    ("authority", "certificate", "why"),
    [
        ("localhost.pem", None, "wants a certificate that it trusts: --cert"),
        ("localhost.pem", "stranger.pem", "wants a certificate that it trusts: --cert"),
        (None, "client.pem", "CERTIFICATE_VERIFY_FAILED"),
    ],
)
def test_who_is_not_trusted_is_not_served(fulmen, guarded, authority, certificate, why):
    url = f"https://localhost:{guarded}"
    options = [word for word in ("--cacert", str(TLS / str(authority))) if authority]
    options += [word for word in ("--cert", str(TLS / str(certificate))) if certificate]
    result = fulmen("call", "any", "asked", "1", "--url", url, *options)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {url}/asked does not answer: ")
    assert why in result.stderr


def test_a_certificate_that_can_not_be_read_is_told(fulmen, guarded):
    file = TLS / "localhost.pem"  # without its key
    url = f"https://localhost:{guarded}"
    result = fulmen("call", "any", "asked", "1", "--url", url, "--cert", str(file))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: --cert {file}: it can't be used: ")
