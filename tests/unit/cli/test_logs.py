"""`fulmen logs`."""

import itertools
from queue import SimpleQueue

import pytest

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.kubectl import Kubectl, Replaced
from fulmen.cli.commands.cluster import logs
from fulmen.cli.display.log_lines import Container, containers, hosts_of, merged
from support.cli.fake_kubectl import Fails, not_found, topology

STATUS = {
    "driverPod": "word-count-driver-1",
    "assignment": [
        {"worker": 0, "pod": "word-count-1-exec-1", "executors": ["split[2-3]", "count[4-4]"]},
        {"worker": 1, "pod": "word-count-1-exec-2", "executors": ["count[5-5]"]},
        {"worker": 2, "pod": "", "executors": ["split[9-9]"]},
    ],
}
RUNNING = {"running": {"startedAt": "2026-11-20T12:00:00Z"}}


def pod(name, role="worker", state=RUNNING, **spec):
    return {
        "metadata": {"name": name, "labels": {"app.kubernetes.io/component": role}},
        "spec": {"containers": [{"name": role}], **spec},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": role, "state": state}] if state else [],
        },
    }


PODS = [
    pod("word-count-driver-1", "driver"),
    pod("word-count-1-exec-2"),
    pod("word-count-1-exec-1"),
]


def names(found):
    return [container.pod for container in found]


def test_all_pods_are_read_unless_some_are_asked_for():
    found = topology(status=STATUS)
    all_pods = ["word-count-1-exec-1", "word-count-1-exec-2", "word-count-driver-1"]
    assert names(containers(found, PODS)) == all_pods
    assert names(containers(found, PODS, role="driver")) == all_pods[2:]
    assert names(containers(found, PODS, "split")) == all_pods[:1]
    assert names(containers(found, PODS, "count")) == all_pods[:2]
    assert names(containers(found, PODS, "count", "driver")) == []


def test_a_component_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(BadInput, match=r"no component 'splt'\. Did you mean 'split'"):
        hosts_of(topology(status=STATUS), "splt")


def test_containers_of_a_pod_are_told_apart_and_one_that_waits_says_why():
    two = pod("p", "preflight", None, initContainers=[{"name": "first"}])
    two["status"]["initContainerStatuses"] = [
        {"name": "first", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    ]
    two["status"]["phase"] = "Pending"
    first, second = containers(topology(), [two])
    assert (first.title, first.waits) == ("p/first", "ImagePullBackOff")
    assert (second.title, second.waits) == ("p/preflight", "Pending")
    (only,) = containers(topology(), [pod("p", state={"terminated": {}})])
    assert (only.title, only.waits) == ("p", "")


def texts(logs):
    return [(line.source.pod, line.text) for line in merged(logs)]


def test_lines_of_several_logs_are_in_the_order_of_their_times():
    a, b = Container("a", "worker"), Container("b", "worker")
    merged_texts = texts(
        {
            a: "2026-11-20T12:00:01.5Z one\n2026-11-20T12:00:03.000000001Z four\n",
            # the same moments in another zone, and with another number of digits
            b: "2026-11-20T13:00:01.500001+01:00 two\n2026-11-20T12:00:02Z three  of  b\n",
        }
    )
    assert merged_texts == [("a", "one"), ("b", "two"), ("b", "three  of  b"), ("a", "four")]


def test_the_order_within_a_log_stays_also_if_its_clock_is_set_back():
    a, b = Container("a", "worker"), Container("b", "worker")
    late, early = "2026-11-20T12:00:05Z", "2026-11-20T12:00:01Z"
    assert texts({a: f"{late} one\n{early} two\n", b: f"{early} first\n"}) == [
        ("b", "first"),
        ("a", "one"),
        ("a", "two"),
    ]


def test_a_line_without_a_time_belongs_to_the_line_before_it():
    a, b = Container("a", "worker"), Container("b", "worker")
    log = "2026-11-20T12:00:01Z one\nunable to retrieve container logs\n2026-11-20T12:00:03Z\n"
    assert texts({a: log, b: "2026-11-20T12:00:02Z between"}) == [
        ("a", "one"),
        ("a", "unable to retrieve container logs"),
        ("b", "between"),
        ("a", ""),
    ]


@pytest.mark.parametrize("stamps", [False, True])
def test_logs_prints_what_there_is_of_all_pods(fulmen, kubectl, stamps):
    waits = pod("word-count-1-exec-3", state={"waiting": {"reason": "ContainerCreating"}})
    kubectl.answer_each(
        {
            "get topologies.fulmen.dev/word-count": topology(status=STATUS),
            "get pods": {"items": [*PODS, waits]},
            "logs word-count-driver-1": "2026-11-20T12:00:02Z batch 1\n",
            "logs word-count-1-exec-1": "2026-11-20T12:00:01Z started\n",
            "logs word-count-1-exec-2": Fails("Error from server (NotFound): gone"),
        }
    )
    options = ["--timestamps"] if stamps else []
    result = fulmen("logs", "word-count", "--since", "1h30m", "--tail", "9", *options)
    assert result.exit_code == 0, result.output
    first, second = ("2026-11-20T12:00:01Z  ", "2026-11-20T12:00:02Z  ") if stamps else ("", "")
    assert result.stdout.splitlines() == [
        f"word-count-1-exec-1  {first}started",
        f"word-count-driver-1  {second}batch 1",
    ]
    assert result.stderr.splitlines() == [
        "word-count-1-exec-2: kubectl: Error from server (NotFound): gone.",
        "word-count-1-exec-3 has not started: ContainerCreating",
    ]
    assert kubectl.asked[1] == [
        *("--namespace=blue", "get", "pods", "--selector", "fulmen.dev/topology=word-count"),
        *("-o", "json"),
    ]  # fmt: skip
    assert kubectl.asked[2] == [
        *("--namespace=blue", "logs", "word-count-1-exec-1", "--container", "worker"),
        *("--timestamps", "--since=1h30m", "--tail=9"),
    ]  # fmt: skip


def test_logs_without_pods_says_so(fulmen, kubectl):
    kubectl.answer(topology(status=STATUS), {"items": []})
    result = fulmen("logs", "word-count")
    assert (result.exit_code, result.stderr) == (0, "there are no such pods.\n")


def test_a_time_that_is_none_is_bad_input(fulmen):
    result = fulmen("logs", "word-count", "--since", "yesterday")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: --since yesterday: not a time. Write such as 90s, 5m or 2h.\n",
    )


def test_follow_goes_on_with_new_pods_until_the_topology_is_gone(fulmen, kubectl, monkeypatch):
    monkeypatch.setattr(logs, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(logs, "_GATHER_SECONDS", 0.01)
    monkeypatch.setattr(logs, "_END_SECONDS", 30)
    there = topology(status=STATUS)
    kubectl.answer_each(
        {
            "get topologies.fulmen.dev/word-count": [there, there, Fails(not_found())],
            "get topologies.fulmen.dev": {"items": []},
            "get pods": [{"items": PODS[:1]}, {"items": PODS[:2]}],
            "logs --follow word-count-driver-1": "2026-11-20T12:00:01Z one\n",
            "logs --follow word-count-1-exec-2": "2026-11-20T12:00:02Z two\n",
        }
    )
    result = fulmen("logs", "-f", "word-count", "--tail", "0")
    assert result.exit_code == 0, result.output
    assert sorted(result.stdout.splitlines()) == [
        "word-count-1-exec-2  two",
        "word-count-driver-1  one",
    ]
    assert "there is no topology 'word-count'" in result.stderr
    followed = {asked[2]: asked for asked in reversed(kubectl.asked) if "logs" in asked}
    assert "--tail=0" in followed["word-count-driver-1"]
    assert "--tail=0" not in followed["word-count-1-exec-2"], "all of a new pod is new"


def test_a_line_ends_where_it_ends_and_odd_bytes_end_nothing(fulmen, kubectl):
    log = "2026-11-20T12:00:01Z 10 %\r20 %\x0cdone\u2028.\n2026-11-20T12:00:02Z \udcff\n"
    kubectl.answer_each(
        {
            "get topologies.fulmen.dev/word-count": topology(status=STATUS),
            "get pods": {"items": PODS[:1]},
            "logs": log,
        }
    )
    result = fulmen("logs", "word-count", "--timestamps")
    assert (result.exit_code, result.stderr) == (0, "")
    pod = "word-count-driver-1"
    assert result.stdout_bytes.decode().split("\n") == [
        f"{pod}  2026-11-20T12:00:01Z  10 % 20 % done .",
        f"{pod}  2026-11-20T12:00:02Z  \ufffd",
        "",
    ]


def test_a_log_that_breaks_off_is_followed_again_from_there(fulmen, kubectl, monkeypatch):
    monkeypatch.setattr(logs, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(logs, "_GATHER_SECONDS", 0.01)
    monkeypatch.setattr(logs, "_END_SECONDS", 30)
    there = topology(status=STATUS)
    first, second, third = (f"2026-11-20T12:00:0{n}.5Z {n}\n" for n in (1, 2, 3))
    kubectl.answer_each(
        {
            "get topologies.fulmen.dev/word-count": there,
            "get pods": {"items": PODS[:1]},
            "logs --follow": [first + second, second + third, third],
        }
    )
    looks = itertools.count()

    def again(shown, topology):
        """It is gone when the log was followed three times, or too often looked for."""
        followed = [asked for asked in kubectl.asked if "logs" in asked]
        if len(followed) >= 3 or next(looks) > 1000:
            raise Replaced("gone")
        return topology

    monkeypatch.setattr(logs._Shown, "_again", again)
    result = fulmen("logs", "-f", "word-count", "--tail", "9")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [f"word-count-driver-1  {n}" for n in (1, 2, 3)]
    followed = [asked for asked in kubectl.asked if "logs" in asked]
    assert "--tail=9" in followed[0]
    assert followed[1][-1] == "--since-time=2026-11-20T12:00:02.5Z"


def test_a_log_that_may_not_be_read_or_has_ended_is_not_followed_again(kubectl):
    kubectl.answer_each({"logs ended": "", "logs refused": Fails("Error (Forbidden): no")})
    lines = SimpleQueue()
    followers = [
        logs._Follower(Kubectl("blue"), Container(name, "worker"), (), lines)
        for name in ("ended", "refused")
    ]
    for follower in followers:
        follower.join()
    assert [follower.is_broken for follower in followers] == [True, False]
    found = containers(topology(), [pod("ended", state={"terminated": {}}), *PODS[:1]])
    assert [container.has_ended for container in found] == [True, False]
    for follower in followers:
        follower.stop()
