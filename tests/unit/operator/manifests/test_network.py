"""NetworkPolicies: what connects to what, and on which ports."""

from dataclasses import replace

import pytest

from fulmen.kube import contract
from fulmen.kube.driver.pod_settings import Surroundings, pod_settings
from fulmen_operator.acceptance.judge import judge
from fulmen_operator.manifests.common import labels
from fulmen_operator.manifests.network import network_policies, services
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


def accepted(changes):
    changes = {
        "metadata.namespace": "blue",
        "metadata.uid": "u",
        "metadata.generation": 1,
        **changes,
    }
    seen = Observed(word_count(changes), FakeCluster().now)
    return seen, new_revision(seen, judge(seen, {}), None, Settings())


def policies(of_all, spec="None", **changes):
    changes = {f"spec.{name}": value for name, value in changes.items()}
    return network_policies(*accepted({"spec.networkPolicy": spec, **changes}), of_all)


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
    return peer["podSelector"].get("matchLabels", {}).items() <= pod.items()


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


OWN = {"podSelector": {"matchLabels": {contract.TOPOLOGY_LABEL: "word-count"}}}
BOTH = {"ports": [8080, 8081]}
FROM_API = {**BOTH, "from": [{"podSelector": {"matchLabels": API}}]}


@pytest.mark.parametrize("of_all", [None, STRICT], ids=["alone", "with-the-chart's"])
@pytest.mark.parametrize("spec", ["None", "Restrict"])
@pytest.mark.parametrize(
    ("source", "target", "port", "namespace", "api"),
    [
        (API, DRIVER, 8080, True, True),
        (API, DRIVER, 8081, True, True),
        (DATABASE, DRIVER, 8081, True, False),
        (OTHERS, DRIVER, 8080, True, False),
        (DRIVER, DRIVER, 8080, True, True),  # the next one
        (API, DRIVER, 8082, False, False),
        (API, DRIVER, SPARK, False, False),
        (OTHERS, DRIVER, SPARK, False, False),
        (WORKER, DRIVER, SPARK, True, True),
        (WORKER, DRIVER, BLOCKS, True, True),
        (PROMETHEUS, DRIVER, METRICS, True, True),
    ],
)
def test_who_may_call_a_driver(source, target, port, namespace, api, spec, of_all):
    if source is OTHERS and of_all is not None:
        source = {"app": "web"}  # others' pods have policies of their own
    assert connects(policies(of_all, spec, service=BOTH), source, target, port) == namespace
    assert connects(policies(of_all, spec, service=FROM_API), source, target, port) == api


def test_a_service_restricts_nobody_but_who_connects_to_the_driver():
    found = policies(None, service=BOTH)
    assert [one["metadata"]["name"] for one in found] == ["word-count.clients"]
    assert connects(found, OTHERS, WORKER, 6379)
    assert connects(found, DRIVER, DATABASE, 22)


@pytest.mark.parametrize(
    ("client", "peer"),
    [
        ({"podSelector": {}}, {"podSelector": {}}),
        ({"namespaceSelector": {}}, {"namespaceSelector": {}}),
        (
            {"podSelector": {"matchLabels": API}, "namespaceSelector": {"matchLabels": {"a": "b"}}},
            {"podSelector": {"matchLabels": API}, "namespaceSelector": {"matchLabels": {"a": "b"}}},
        ),
        ({"ipBlock": {"cidr": "10.0.0.0/8"}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}),
    ],
)
def test_a_client_is_named_as_the_spec_does(client, peer):
    [policy] = policies(None, service={"ports": [8080], "from": [client]})
    assert policy["spec"]["ingress"][-1]["from"] == [OWN, peer]
    assert policy["spec"]["policyTypes"] == ["Ingress"]


def test_by_default_a_service_is_for_pods_of_its_own_namespace():
    [policy] = policies(None, service={"ports": [8080]})
    assert policy["spec"]["ingress"][-1]["from"] == [OWN, {"podSelector": {}}]


def test_a_service_leads_to_the_driver_alone():
    seen, revision = accepted({"spec.service": BOTH})
    [service] = services(seen, revision)
    chosen = service["spec"]["selector"]
    assert chosen.items() <= DRIVER.items()
    assert not any(chosen.items() <= pod.items() for pod in (WORKER, PREFLIGHT, OTHERS))
    assert [(one["port"], one["targetPort"]) for one in service["spec"]["ports"]] == [
        (8080, 8080),
        (8081, 8081),
    ]
    [owner] = service["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Topology", "u", True)


def test_policies_of_all_topologies_come_and_go_with_the_charts_values():
    cluster = FakeCluster(CODE)
    cluster.settle()
    assert cluster.names("NetworkPolicy") == []
    for spec in ("None", "Restrict"):
        cluster.change({**CODE, "spec.networkPolicy": spec})
        for of_all, names in ((STRICT, ["word-count", "word-count.driver"]), (None, [])):
            cluster.settings = replace(cluster.settings, network_policies=of_all)
            cluster.forget()
            cluster.settle()
            kept = ["word-count"] if spec == "Restrict" else []
            assert cluster.names("NetworkPolicy") == (names or kept)
    assert cluster.status["attempt"] == 1
