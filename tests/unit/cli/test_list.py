"""`fulmen list`."""

from fulmen.cli.display.topologies import Speed, TableColumns, topologies_table
from support.cli.fake_kubectl import Fails, topology
from support.cli.tables import lines_of

MADE = "2026-11-20T12:00:00Z"
AT = 1795176000.0  # 2026-11-20T12:00:00Z
READY = {"type": "Ready", "status": "True"}


def aged(name, made=MADE, **settings):
    made_topology = topology(name, **settings)
    made_topology["metadata"]["creationTimestamp"] = made
    return made_topology


def test_a_line_says_how_a_topology_is_and_how_old():
    status = {
        "workers": {"desired": 2, "ready": 1},
        "executors": 8,
        "tasks": 10,
        "message": "word",
        "conditions": [READY],
    }
    table = topologies_table([aged("shop", status=status)], AT + 3 * 86_400 + 4 * 3600)
    assert lines_of(table) == [
        "topology  state   ready  workers  executors  tasks  restarts         age  message",
        "shop      Active  True       1/2          8     10         0  3 days 4 h  word",
    ]


def test_a_young_topology_is_some_seconds_old():
    young = topologies_table([aged("shop", status={"message": "word"})], AT + 119.9)
    assert lines_of(young)[1].split()[-3:] == ["119", "s", "word"]
    by_another_clock = topologies_table([aged("shop", status={"message": "word"})], AT - 5)
    assert lines_of(by_another_clock)[1].split()[-3:] == ["0", "s", "word"]


def test_figures_are_those_of_the_driver():
    trees = {"acked_per_second": 1234.5, "complete_latency_ms": {"p50": 12.3, "p99": None}}
    speeds = {
        "u-1": Speed.model_validate(trees),
        "u-2": Speed.model_validate({**trees, "transactions": {"committed_per_second": 7}}),
    }
    topologies = [aged("shop"), aged("sales", uid="u-2"), aged("away", uid="u-3")]
    table = topologies_table(topologies, AT, TableColumns(namespace=True, speeds=speeds))
    header, *rows = [line.split("  ") for line in lines_of(table)]
    assert [cell.strip() for cell in header if cell] == [
        *("namespace", "topology", "state", "ready", "workers", "executors", "tasks"),
        *("restarts", "per second", "p50", "p99", "age", "message"),
    ]  # fmt: skip
    cells = [[cell.strip() for cell in row if cell] for row in rows]
    assert [row[:2] + row[8:11] for row in cells] == [
        ["blue", "shop", "1,234", "12 ms", "-"],
        ["blue", "sales", "7", "12 ms", "-"],
        ["blue", "away", "-", "-", "-"],
    ]


def test_all_namespaces_are_asked_for(fulmen, kubectl):
    kubectl.answer({"items": [topology()]})
    result = fulmen("list", "-A")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("namespace  topology")
    assert kubectl.asked == [["get", "topologies.fulmen.dev", "--all-namespaces", "-o", "json"]]


def test_drivers_that_run_are_asked_for_figures_and_one_that_says_nothing_is_told(fulmen, kubectl):
    fast = {"acked_per_second": 5, "complete_latency_ms": {"p50": 1, "p99": 2}}
    one = topology("shop", status={"driverPod": "shop-driver-1"})
    other = topology("gone", uid="u-2", status={"driverPod": "gone-driver-1"})
    idle = topology("idle", "Suspended", uid="u-3")
    odd = topology("odd", uid="u-4", status={"driverPod": "odd-driver-1"})
    path = "/api/v1/namespaces/blue/pods/{}-driver-1:9464/proxy/api/topology?since=99999999999999"
    kubectl.answer_each(
        {
            "topologies.fulmen.dev": {"items": [one, other, idle, odd]},
            path.format("shop"): fast,
            path.format("odd"): "<html>",
            path.format("gone"): Fails("Error from server (NotFound): no pod"),
        }
    )
    result = fulmen("list", "-n", "blue", "--figures")
    assert result.exit_code == 0, result.output
    per_second = [line.split()[7] for line in result.stdout.splitlines()[1:]]
    assert per_second == ["5", "-", "-", "-"]
    assert sorted(result.stderr.splitlines()) == [
        "topology 'gone': its driver gives no figures. kubectl: Error from server (NotFound): no"
        " pod.",
        "topology 'odd': its driver gives no figures.",
    ]
    assert "--namespace=blue" in kubectl.asked[0]


def test_nothing_to_list(fulmen, kubectl):
    kubectl.answer({"items": []})
    assert fulmen("list").stdout == "There are no topologies.\n"
