"""`fulmen top`: figures that a driver serves, and the topologies of a namespace."""

import json
import re
import socket
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from rich.console import Console
from rich.text import Text

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.driver_figures import read_url
from fulmen.cli.commands.cluster import top
from fulmen.cli.commands.cluster.top import read_view
from fulmen.cli.display.run.figures import summary_tables
from fulmen.cli.display.top_view import topology_picture
from fulmen.cli.display.topologies import topologies_table
from fulmen.engine.protocol.figures.statistics import ERRORS
from fulmen.errors import FulmenError
from fulmen.metrics import AccessRules, MetricsServer
from fulmen.metrics.as_json.topology import TopologyJson
from fulmen.metrics.snapshot import Snapshot
from fulmen.streams import Streams
from fulmen.testing import CollectBolt, ListSpout
from support.cli.fake_kubectl import not_found, topology
from support.cli.tables import lines_of
from support.runs.engine_runs import make_driver
from support.runs.metered import run_metered

EXECUTORS = {"silent": "1/1", "keep": "2/3", "large": "1/1"}
"""And tasks, of those components that have other numbers than two and two."""

NEVER = {("texts", "executed"), ("silent", "executed"), ("keep", "emitted"), ("large", "emitted")}
"""What can't be anything but 0: spouts execute nothing, bolts without streams emit nothing."""


@pytest.fixture(scope="module")
def totals():
    return run_metered(["a b", "fail once", "raise this"], max_replays=1).totals


@pytest.fixture(scope="module")
def server(totals):
    with MetricsServer("127.0.0.1", 0, lambda: totals) as server:
        yield server


@pytest.fixture(scope="module")
def answer(server):
    """What a driver answers, with all that is not shown."""
    return json.loads(read_url(server.url))


def cells(lines, name):
    """The line of the table that begins with `name`, by its columns."""
    (titles,) = (
        line.replace("state ", "state_").split() for line in lines if line.startswith("component")
    )
    joined = [re.sub(r" (ms|µs)\b", r"\1", line).split() for line in lines]
    (values,) = (words for words in joined if words[:1] == [name])
    return dict(zip(titles, values, strict=True))


def check_figures(lines, totals):
    """Look whether the lines have what the report has."""
    report = totals.report()
    trees = report["trees"]
    assert lines[3].split() == [
        *("trees", "acked", str(trees["acked"]), "failed", str(trees["failed"])),
        *("timed", "out", str(trees["timed_out"]), "pending", str(trees["pending"])),
    ]
    for name, wanted in report["components"].items():
        found = cells(lines, name)
        assert found["exec/tasks"] == EXECUTORS.get(name, "2/2")
        assert found["errors"] == str(totals.sum(ERRORS, name))
        for what in ("emitted", "executed", "acked", "failed"):
            assert found[what] == ("-" if (name, what) in NEVER else str(wanted[what]))


def test_top_shows_a_run_on_this_machine(fulmen, server, totals):
    result = fulmen("top", "--url", server.url, "--once")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].split()[:2] == ["metered", "Active"]
    assert lines[1].startswith("workers 2/2   batches ")
    check_figures(lines, totals)
    texts, split = cells(lines, "texts"), cells(lines, "split")
    assert texts["capacity"] == texts["execute"] == split["complete"] == split["pending"] == "-"
    assert float(split["capacity"]) >= 0
    assert split["execute"].endswith(("ms", "µs"))
    assert texts["pending"] == "0"


def test_top_without_a_terminal_ends(fulmen, server):
    assert "trees acked" in fulmen("top", "--url", server.url.rstrip("/")).stdout


def test_top_shows_a_topology_on_a_cluster(fulmen, kubectl, answer, totals):
    running = topology("metered", "Rebalancing", status={"driverPod": "metered-driver-3"})
    kubectl.answer(running, answer)
    result = fulmen("top", "metered", "--once")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].split()[:2] == ["metered", "Rebalancing"]
    check_figures(lines, totals)
    assert kubectl.asked == [
        ["get", "topologies.fulmen.dev/metered", "-o", "json"],
        [
            *("get", "--raw"),
            "/api/v1/namespaces/blue/pods/metered-driver-3:9464/proxy/api/topology"
            "?since=99999999999999",
        ],
    ]


def test_top_says_how_many_workers_were_chosen_and_why(fulmen, kubectl, answer):
    scaling = {
        "workers": 2,
        "since": "2026-11-20T10:00:00Z",
        "reason": "TooFew",
        "lastChange": "spec.workers is 2",
        "message": "batches take more than targetCapacity",
    }
    status = {"driverPod": "metered-driver-3", "autoscale": scaling}
    kubectl.answer(topology("metered", "Active", status=status), answer)
    said = (
        "autoscale: 2 workers since 2026-11-20T10:00:00Z (spec.workers is 2); now TooFew: batches"
        " take more than targetCapacity"
    )
    assert said in " ".join(fulmen("top", "metered", "--once").stdout.split())


def test_top_says_why_tuples_failed(answer):
    picture = topology_picture(read_view(json.dumps(answer), "it"), "running")
    lines = lines_of(picture)
    assert {line for line in lines if line.startswith("split: ")} == {  # in the order of workers
        "split: 1 failed, such as: bolt 'split': execute: ValueError: raise this",
        "split: 1 failed, such as: as it was told",
    }
    assert "split: 1 failed, such as: bolt 'split':…" in lines_of(picture, 40)


def test_a_narrow_terminal_has_fewer_columns(answer, totals):
    long = {**answer["components"][0], "name": "a-very-long-name-of-a-component"}
    view = read_view(json.dumps({**answer, "components": [*answer["components"], long]}), "pod")
    lines = lines_of(topology_picture(view, "Active"), 80)
    assert all(len(line) <= 80 for line in lines)
    (last,) = (line for line in lines if line.startswith("a-very"))
    assert last.split()[0].partition("…")[0] in long["name"]
    wanted = totals.report()["components"]["split"]
    found = cells(lines, "split")
    assert found["acked"] == str(wanted["acked"])
    assert found.keys() == {
        *("component", "exec/tasks", "emitted", "acked", "failed"),
        *("capacity", "complete", "pending"),
    }


def workers_of(lines):
    """The cells of the table of workers."""
    start = next(n for n, line in enumerate(lines) if line.startswith("worker "))
    return [line.split("  ") for line in lines[start:]]


def test_workers_say_where_they_are_and_how_much_they_have_to_do(answer):
    in_pod = {"pod": "metered-worker-0", "host": "metered-worker-0", "pid": 17}
    answer["workers"][0]["run_delay"] = 0.071
    workers = [
        {**answer["workers"][0], **in_pod, "slot": 0, "busy": 0.256, "memory_bytes": 1_234_567_890},
        {**answer["workers"][1], **in_pod, "slot": 1, "present": False, "memory_bytes": None},
    ]
    view = read_view(json.dumps({**answer, "workers": workers}), "pod")
    title, first, second = workers_of(lines_of(topology_picture(view, "Active")))
    assert [cell.strip() for cell in title if cell] == [
        *("worker", "slot", "pid", "memory", "executors", "no processor", "at work"),
    ]  # fmt: skip
    assert [cell.strip() for cell in first if cell] == [
        *("0 on metered-worker-0", "0", "17", "1,235 MB", "5", "7 %", "26 %"),
    ]  # fmt: skip
    assert [cell.strip() for cell in second if cell] == [
        *("1 on metered-worker-0", "1", "17", "-", "5", "-", "missing"),
    ]  # fmt: skip


def test_of_many_workers_those_that_matter_are_listed(answer):
    worker = answer["workers"][0]
    workers = [{**worker, "worker": n, "busy": n / 50, "present": n != 3} for n in range(30)]
    counts = {"wanted": 400, "present": 399}
    view = read_view(json.dumps({**answer, "workers": workers, "worker_counts": counts}), "pod")
    lines = lines_of(topology_picture(view, "Active"))
    assert lines[1].startswith("workers 399/400 ")
    names = [cells[0].split(" on ")[0] for cells in workers_of(lines)[1:]]
    assert names == ["3", *map(str, range(21, 30)), "and 390 more"]


def test_newer_drivers_may_say_more(answer):
    read_view(json.dumps({**answer, "something": "new"}), "pod")


def test_the_driver_of_a_pinned_spout_is_no_worker(answer):
    driver = {**answer["workers"][0], "worker": -1}
    view = read_view(json.dumps({**answer, "workers": [*answer["workers"], driver]}), "pod")
    assert lines_of(topology_picture(view, "Active"))[1].startswith("workers 2/2 ")


@pytest.mark.parametrize(
    ("state", "status", "message"),
    [
        ("Pending", {"message": "0/1 nodes are available"}, "0/1 nodes are available"),
        ("Suspended", {"driverPod": "word-count-driver-1", "message": "no pods"}, "no pods"),
    ],
)
def test_nothing_that_runs(fulmen, kubectl, state, status, message):
    kubectl.answer(topology(state=state, status=status))
    result = fulmen("top", "word-count", "--once")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: topology 'word-count' is {state}, so there are no figures: {message}\n"
    )


GONE = (not_found("word-count-driver-1", "pods"), 1)
FORBIDDEN = (
    'Error from server (Forbidden): pods "word-count-driver-1" is forbidden: User "eve" cannot get'
    ' resource "pods/proxy" in API group "" in the namespace "blue"',
    2,
)


@pytest.mark.parametrize(("stderr", "code"), [GONE, FORBIDDEN], ids=["gone", "forbidden"])
def test_a_driver_that_cannot_be_asked(fulmen, kubectl, stderr, code):
    running = topology(status={"driverPod": "word-count-driver-1", "message": "running"})
    kubectl.answer(running, stderr)
    result = fulmen("top", "word-count", "--once")
    start = {
        1: "topology 'word-count' is Active (running), but its driver's pod 'word-count-driver-1'"
        " gives no figures. kubectl: ",
        2: "the cluster does not allow you to do this: ",
    }[code]
    assert (result.exit_code, result.stderr) == (code, f"Error: {start}{stderr.strip()}.\n")


def test_the_topologies_of_a_namespace(fulmen, kubectl):
    new = {key: value for key, value in topology("young").items() if key != "status"}
    old = {
        "workers": {"desired": 3, "ready": 2},
        "executors": 8,
        "tasks": 10,
        "restarts": {"count": 1},
        "message": "executors are placed anew",
        "conditions": [{"type": "Placed", "status": "x"}, {"type": "Ready", "status": "False"}],
    }
    kubectl.answer({"items": [topology("old", "Rebalancing", status=old), new]})
    result = fulmen("top", "--namespace", "blue")
    assert [line.rstrip() for line in result.stdout.splitlines()] == [
        "topology  state        ready    workers  executors  tasks  restarts  age  message",
        "old       Rebalancing  False        2/3          8     10         1    -  executors are"
        " placed anew",
        "young     Pending      Unknown      0/2          0      0         0    -",
    ]
    assert kubectl.asked[0] == ["--namespace=blue", "get", "topologies.fulmen.dev", "-o", "json"]


def test_a_narrow_terminal_cuts_messages_not_numbers():
    long = topology(status={"message": "word " * 99})
    lines = lines_of(topologies_table([long], 0.0), 80)
    assert all(len(line) <= 80 for line in lines)
    assert "Active" in lines[1]
    assert lines[1].endswith("…")


def test_no_topologies(fulmen, kubectl):
    kubectl.answer({"items": []})
    assert fulmen("top").stdout == "There are no topologies.\n"


@pytest.fixture
def other_server():
    """A server of something else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"name": "not ours"}')

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_another_server(fulmen, other_server):
    result = fulmen("top", "--url", other_server)
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: {other_server} gives no figures of a topology.\n",
    )


def test_a_run_that_has_not_started(fulmen):
    with MetricsServer("127.0.0.1", 0, lambda: None) as server:
        result = fulmen("top", "--url", server.url)
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: {server.url} answers 503: The topology has not started yet.\n",
    )


def test_a_driver_that_asks_for_a_token(fulmen, kubectl):
    asks = "the server has asked for the client to provide credentials"
    running = topology(status={"driverPod": "word-count-driver-1"})
    kubectl.answer(running, f"error: You must be logged in to the server ({asks})")
    result = fulmen("top", "word-count")
    assert result.exit_code == 1
    assert "gives no figures" in result.stderr
    cure = "Or the driver asks for its FULMEN_METRICS_TOKEN: set it in the environment"
    assert cure in result.stderr


@pytest.fixture
def guarded(totals, kubectl, monkeypatch):
    """A driver that asks for a token, behind a port-forward."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # not for what is on this machine
    access = AccessRules("s3cret")
    running = topology(status={"driverPod": "word-count-driver-1"})
    with MetricsServer("127.0.0.1", 0, lambda: totals, access=access) as server:
        kubectl.answer_each(
            {
                "get topologies.fulmen.dev/word-count": running,
                "get topologies.fulmen.dev": {"items": [running]},
                "port-forward": f"Forwarding from 127.0.0.1:{server.port} -> 9464\n",
                "get": {"items": []},
            }
        )
        yield kubectl


ASK = [["top", "word-count"], ["why", "word-count"], ["list", "--figures"]]


@pytest.mark.parametrize("command", ASK, ids=" ".join)
def test_with_a_token_figures_come_through_a_port_forward(fulmen, guarded, command, monkeypatch):
    monkeypatch.setenv("FULMEN_METRICS_TOKEN", "s3cret")
    result = fulmen(*command)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "could not be read" not in result.stdout
    forwards = [asked for asked in guarded.asked if "port-forward" in asked]
    assert [asked[-2:] for asked in forwards] == [["pod/word-count-driver-1", ":9464"]]
    assert not any("s3cret" in word for asked in guarded.asked for word in asked)


def test_with_a_wrong_token_there_are_no_figures(fulmen, guarded, monkeypatch):
    monkeypatch.setenv("FULMEN_METRICS_TOKEN", "guessed")
    result = fulmen("top", "word-count")
    assert result.exit_code == 1
    asks = "answers 401: This server asks for the token in its FULMEN_METRICS_TOKEN."
    assert asks in result.stderr


def test_a_run_that_asks_for_a_token(fulmen, monkeypatch):
    with MetricsServer("127.0.0.1", 0, lambda: None, access=AccessRules("s3cret")) as server:
        refused = fulmen("top", "--url", server.url)
        monkeypatch.setenv("FULMEN_METRICS_TOKEN", "s3cret")
        allowed = fulmen("top", "--url", server.url)
    assert refused.stderr == (
        f"Error: {server.url} answers 401: This server asks for the token in its"
        " FULMEN_METRICS_TOKEN.\n"
    )
    assert "answers 503" in allowed.stderr


def test_no_server(fulmen):
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    result = fulmen("top", "--url", url)
    assert result.exit_code == 1
    assert result.stderr == f"Error: {url} does not answer: [Errno 111] Connection refused.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--url", "file:///etc"],
            "--url file:///etc: must begin with http:// or https://.",
        ),
        (
            ["name", "--url", "http://localhost"],
            "--url is for a topology without a cluster: leave the rest out.",
        ),
    ],
)
def test_wrong_use(fulmen, arguments, message):
    result = fulmen("top", *arguments)
    assert (result.exit_code, result.stderr) == (2, f"Error: {message}\n")


def test_live_until_interrupted(monkeypatch):
    """What may pass is shown in place of the figures; what may not ends it."""
    turns = iter([Text("one"), FulmenError("two is starting."), KeyboardInterrupt()])

    def picture():
        turn = next(turns)
        if isinstance(turn, BaseException):
            raise turn
        return turn

    monkeypatch.setattr(top, "REFRESH_SECONDS", 0)
    console = Console(width=80, force_terminal=True, color_system=None)
    with console.capture() as captured:
        top.show(picture, console)
    assert "one" in captured.get()
    assert "two is starting." in captured.get()

    def wrong():
        raise BadInput("no such topology.")

    with pytest.raises(BadInput, match="no such topology"):
        top.show(wrong, console)


def test_steps_of_a_pipeline_are_in_top_and_in_the_summary():
    shop = Streams("steps")
    rows = shop.source("rows", ListSpout(range(5), ["n"], replays=False))
    found = rows.filter(lambda row: row.n > 0, name="some").map(
        lambda row: 1 // (row.n - 2), fields="n"
    )
    found.sink("out", CollectBolt)
    driver = make_driver(shop.build()).start()
    driver.step()
    driver.close()
    totals, now = driver.totals, Snapshot.of(driver.totals)
    view = read_view(json.dumps(TopologyJson(now, now, []).json()), "it")
    _, steps = summary_tables(totals, driver.topology, {})
    for picture in (topology_picture(view, "running"), steps):
        lines = [line.split() for line in lines_of(picture)]
        assert ["step", "rows", "given", "failed"] in lines
        assert ["out:", "some", "5", "4", "0"] in lines
        assert ["out:", "some.map", "4", "3", "1"] in lines
