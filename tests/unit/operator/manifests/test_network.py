"""NetworkPolicies: what connects to what, and on which ports."""

from dataclasses import replace

import pytest

from fulmen.kube import contract
from fulmen.kube.driver.pod_settings import Surroundings, pod_settings
from fulmen_operator.acceptance.judge import judge
from fulmen_operator.manifests.common import labels
from fulmen_operator.manifests.network import network_policies, policy_names
from fulmen_operator.manifests.revisions import new_revision
from fulmen_operator.model import Observed
from fulmen_operator.settings import NetworkPolicies, Settings
from support.cli.documents import word_count
from support.operator.fake_cluster import FakeCluster

CODE = {"spec.code": {"files": {"wordcount.py": "class A: ..."}}}
DRIVER, WORKER, PREFLIGHT = (
    labels("word-count", component)
    for component in (contract.DRIVER, contract.WORKER, contract.PREFLIGHT)
)
OTHERS = labels("page-count", contract.WORKER)
PROMETHEUS, API, NAMES, DATABASE = ({"app": name} for name in ("prometheus", "api", "dns", "db"))
SPARK, BLOCKS = contract.SPARK_PORT, contract.BLOCK_MANAGER_PORT
METRICS = contract.METRICS_PORT
STRICT = NetworkPolicies(
    metrics_from=({"podSelector": {"matchLabels": PROMETHEUS}},),
    egress=({"to": [{"podSelector": {"matchLabels": DATABASE}}], "ports": [{"port": 5432}]},),
)


def policies(of_all, spec="None"):
    changes = {"metadata.namespace": "blue", "metadata.uid": "u", "metadata.generation": 1}
    changes["spec.networkPolicy"] = spec
    seen = Observed(word_count(changes), FakeCluster().now)
    return network_policies(seen, new_revision(seen, judge(seen, {}), None, Settings()), of_all)


def connects(found, source, target, port, protocol="TCP"):
    """Whether these policies let one pod connect to another, as Kubernetes reads them."""
    ways = [
        ("Egress", "egress", "to", source, target),
        ("Ingress", "ingress", "from", target, source),
    ]
    for direction, rules, peers, pod, other in ways:
        holding = [
            policy["spec"]
            for policy in found
            if direction in policy["spec"]["policyTypes"]
            and policy["spec"]["podSelector"]["matchLabels"].items() <= pod.items()
        ]
        allowing = [
            rule
            for spec in holding
            for rule in spec[rules]
            if (not rule.get(peers) or any(is_peer(peer, other) for peer in rule[peers]))
            and (not rule.get("ports") or any(is_port(p, port, protocol) for p in rule["ports"]))
        ]
        if holding and not allowing:
            return False
    return True


def is_peer(peer, pod):
    return peer["podSelector"]["matchLabels"].items() <= pod.items()


def is_port(allowed, port, protocol):
    named = {contract.METRICS_PORT_NAME: METRICS}
    number = named.get(allowed["port"], allowed["port"])
    return (number, allowed.get("protocol", "TCP")) == (port, protocol)


def test_the_ports_are_those_that_spark_is_told():
    where = Surroundings("blue", "shop", "u-1", 4, "shop-driver-4", "10.0.0.7")
    settings = pod_settings(where, "https://api", "shop:1", {}, {})
    told = {int(value) for name, value in settings.items() if name.endswith(".port")}
    assert set(contract.POD_PORTS) == told


@pytest.mark.parametrize(
    ("source", "target", "port", "restricted", "strict"),
    [
        (WORKER, DRIVER, SPARK, True, True),
        (WORKER, DRIVER, BLOCKS, True, True),
        (DRIVER, WORKER, BLOCKS, True, True),
        (WORKER, WORKER, BLOCKS, True, True),
        (WORKER, DRIVER, 6379, False, False),
        (OTHERS, DRIVER, SPARK, False, False),
        (OTHERS, WORKER, BLOCKS, False, False),
        (WORKER, OTHERS, BLOCKS, True, False),
        (PROMETHEUS, DRIVER, METRICS, True, True),
        (PROMETHEUS, DRIVER, SPARK, False, False),
        (OTHERS, DRIVER, METRICS, True, False),
        (DRIVER, API, 6443, True, True),
        (DRIVER, API, 443, True, True),
        (WORKER, API, 6443, True, False),
        (PREFLIGHT, API, 6443, True, False),
        (PREFLIGHT, NAMES, 53, True, True),
        (WORKER, DATABASE, 5432, True, True),
        (PREFLIGHT, DATABASE, 5432, True, True),
        (WORKER, DATABASE, 22, True, False),
    ],
)
def test_who_may_connect_to_whom(source, target, port, restricted, strict):
    assert connects(policies(None), source, target, port)
    assert connects(policies(None, "Restrict"), source, target, port) == restricted
    assert connects(policies(STRICT), source, target, port) == strict
    open_to_outside = policies(NetworkPolicies(egress=({},)))
    assert connects(open_to_outside, source, target, port) == restricted


def test_names_are_asked_for_by_datagrams():
    assert connects(policies(STRICT), WORKER, NAMES, 53, "UDP")
    assert not connects(policies(STRICT), WORKER, NAMES, 123, "UDP")


def test_policies_of_all_topologies_come_and_go_with_the_charts_values():
    cluster = FakeCluster(CODE)
    cluster.settle()
    assert cluster.names("NetworkPolicy") == []
    for spec in ("None", "Restrict"):
        cluster.change({**CODE, "spec.networkPolicy": spec})
        for of_all, names in ((STRICT, policy_names("word-count")), (None, [])):
            cluster.settings = replace(cluster.settings, network_policies=of_all)
            cluster.forget()
            cluster.settle()
            kept = ["word-count"] if spec == "Restrict" else []
            assert cluster.names("NetworkPolicy") == (names or kept)
    assert cluster.status["attempt"] == 1
