"""`spec.service`: what it leads to, and every mistake that would have it lead nowhere."""

import pytest

from fulmen.kube import contract
from fulmen.topology.resource.spec.service import OTHER_PORTS
from fulmen.topology.validation.check import check

HTTP, CALLS = "fulmen.connectors.http.HttpSpout", "fulmen.connectors.http.CallSpout"
EVERYWHERE = {"host": "0.0.0.0"}


def topology(service, *spouts):
    return {
        "apiVersion": "fulmen.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "orders"},
        "spec": {
            "service": service,
            "spouts": [
                {"name": f"spout{i}", "class": class_, "config": config}
                for i, (class_, config) in enumerate(spouts)
            ],
        },
    }


def told(service, *spouts):
    problems = check(topology(service, *spouts), import_classes=False).problems
    return [(one.path, one.message) for one in problems]


@pytest.mark.parametrize(
    ("service", "ports"),
    [(None, []), ({}, [8080, 8081]), ({"ports": [9000, 8081, 9000]}, [9000, 8081])],
)
def test_its_ports_are_those_of_spouts_that_listen_or_those_that_it_says(service, ports):
    spouts = [
        (HTTP, {"port": 8080}),
        (CALLS, {"port": 8081}),
        ("shop.Orders", {"port": 8082}),
        (HTTP, {"port": "${PORT}"}),
    ]
    parsed = check(topology(service, *spouts), import_classes=False).parsed
    assert parsed.spec.service_ports == ports


def test_spouts_that_it_reaches_are_no_mistake():
    assert (
        told({}, (HTTP, {"port": 8080, **EVERYWHERE}), (CALLS, {"port": 8081, "host": "::"})) == []
    )
    assert told({"ports": [8080]}, ("shop.Orders", {})) == []
    assert told({"ports": [8080]}, (HTTP, {"port": "${PORT}", "host": "${HOST}"})) == []
    assert told(None, (HTTP, {"port": 8080})) == []


def test_every_port_that_it_can_not_reach_is_told_at_once():
    spouts = [
        (HTTP, {"port": 8080}),
        (CALLS, {"port": 8080, **EVERYWHERE}),
        (HTTP, {"port": 9464, **EVERYWHERE}),
        (HTTP, {"port": 0, **EVERYWHERE}),
        (HTTP, {"port": "${PORT}", **EVERYWHERE}),
    ]
    assert told({}, *spouts) == [
        (
            "spec.spouts[0].config.host",
            "spout 'spout0': it listens at 127.0.0.1 alone, where a Service can't reach it",
        ),
        (
            "spec.spouts[1].config.port",
            "spout 'spout1': spout 'spout0' listens at port 8080 as well",
        ),
        (
            "spec.spouts[2].config.port",
            "spout 'spout2': port 9464 of the driver's pod is that of metrics and the page",
        ),
        (
            "spec.spouts[3].config.port",
            "spout 'spout3': a Service needs a port that is known, and it is 0",
        ),
        (
            "spec.spouts[4].config.port",
            "spout 'spout4': a Service needs a port that is known, and it is '${PORT}'",
        ),
    ]


def test_ports_that_nothing_listens_at_are_told():
    assert told({}, ("shop.Orders", {})) == [
        ("spec.service", "there is no HttpSpout and no CallSpout, to which the Service could lead")
    ]
    assert told({"ports": [7078, 8081]}, (HTTP, {"port": 8080, **EVERYWHERE})) == [
        ("spec.service.ports[0]", "spec.service: port 7078 of the driver's pod is that of Spark"),
        (
            "spec.spouts[0].config.port",
            "spout 'spout0': its port 8080 is not among those of spec.service.ports",
        ),
    ]


TOKEN = {"name": "state", "key": "token"}


def test_questions_to_state_need_no_spout_that_listens_and_have_a_port_of_their_own():
    service = {"state": {"token": TOKEN}}
    parsed = check(topology(service, ("shop.Orders", {})), import_classes=False).parsed
    assert parsed.spec.service_ports == [8088]
    spout = (HTTP, {"port": 8088, **EVERYWHERE})
    assert told(service, spout) == [
        (
            "spec.service.state.port",
            "spec.service.state: spout 'spout0' listens at port 8088 as well",
        )
    ]
    assert told({"state": {"port": 9464, "token": TOKEN}}, ("shop.Orders", {})) == [
        (
            "spec.service.state.port",
            "spec.service.state: port 9464 of the driver's pod is that of metrics and the page",
        )
    ]


def test_an_example_is_told_of_each_field_that_is_missing():
    service = {"state": {}, "from": [{"ipBlock": {}}]}
    problems = check(topology(service, ("shop.Orders", {})), import_classes=False).problems
    assert {one.path: one.cure for one in problems} == {
        "spec.service.state.token": "Add the key of a Secret that has it, such as"
        " token: {name: state, key: token}.",
        "spec.service.from[0].ipBlock.cidr": "Add a block of addresses, such as cidr: 10.0.0.0/8.",
    }
    service = {"state": {"token": {"name": "state"}}}
    [problem] = check(topology(service, ("shop.Orders", {})), import_classes=False).problems
    assert problem.cure == "Add the key in the Secret, such as key: token."


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ({}, "must have podSelector, namespaceSelector or both, or else ipBlock"),
        ({"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}, "or else ipBlock"),
        ({"ipBlock": {"cidr": "10.0.0.1/8"}}, "is no block of addresses, such as 10.0.0.0/8"),
        ({"podSelector": {"matchLabel": {"app": "web"}}}, "matchLabels"),
    ],
)
def test_a_client_that_no_policy_could_name_is_told(client, said):
    service = {"ports": [8080], "from": [client]}
    [problem] = check(topology(service, ("shop.Orders", {})), import_classes=False).problems
    assert problem.path.startswith("spec.service.from[0]")
    assert said in str(problem)


def test_nobody_at_all_is_a_mistake_since_a_policy_would_take_it_for_everybody():
    [(place, _)] = told({"ports": [8080], "from": []}, ("shop.Orders", {}))
    assert place == "spec.service.from"


def test_the_ports_that_are_in_use_are_those_of_the_driver():
    assert set(OTHER_PORTS) == {*contract.POD_PORTS, contract.METRICS_PORT}
