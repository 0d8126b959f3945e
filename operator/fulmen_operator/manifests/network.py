"""A topology's Service and NetworkPolicies: who may connect to its pods, and these to what. Pure.

Policies only ever allow more: whoever needs another connection adds a policy of their own.
"""

from typing import Any

from fulmen.kube import contract, names
from fulmen.kube.contract.revisions import Revision
from fulmen_operator.manifests.common import metadata, selector
from fulmen_operator.model import Manifest, Observed
from fulmen_operator.settings import NetworkPolicies


def policy_names(topology: str) -> list[str]:
    """The names of all that there may be."""
    return [
        names.network_policy(topology),
        names.driver_network_policy(topology),
        names.clients_network_policy(topology),
    ]


def services(seen: Observed, revision: Revision) -> list[Manifest]:
    """The Service of a topology whose spouts listen: the driver hosts them."""
    ports = revision.running.spec.service_ports
    if not ports:
        return []
    spec = {
        "selector": selector(seen.name, contract.DRIVER),
        "ports": [
            {"name": f"port-{port}", "port": port, "targetPort": port, "protocol": "TCP"}
            for port in ports
        ],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(seen, names.service(seen.name)),
            "spec": spec,
        }
    ]


def network_policies(
    seen: Observed, revision: Revision, of_all: NetworkPolicies | None
) -> list[Manifest]:
    """The network policies of a topology.

    Args:
        seen: The topology.
        revision: The accepted revision.
        of_all: The policies for all topologies, if there are any.
    """
    own = {"podSelector": {"matchLabels": selector(seen.name)}}
    among_themselves = _ports(*contract.POD_PORTS)
    metrics: dict[str, Any] = _ports(contract.METRICS_PORT_NAME)
    if of_all is not None and of_all.metrics_from:
        metrics["from"] = list(of_all.metrics_from)
    ingress = [{"from": [own], **among_themselves}, metrics]
    for_clients = _for_clients(seen, revision, ingress, own)
    if of_all is None and revision.running.spec.network_policy != "Restrict":
        return for_clients
    spec = {
        "podSelector": {"matchLabels": selector(seen.name)},
        "policyTypes": ["Ingress"],
        "ingress": ingress,
    }
    if of_all is None:
        return [_policy(seen, names.network_policy(seen.name), spec), *for_clients]
    dns = [{"port": port, "protocol": kind} for port in of_all.dns_ports for kind in ("UDP", "TCP")]
    spec["policyTypes"] = ["Ingress", "Egress"]
    handed_over = revision.running.spec.service_ports
    among_themselves = _ports(*contract.POD_PORTS, *handed_over)
    spec["egress"] = [{"to": [own], **among_themselves}, {"ports": dns}, *of_all.egress]
    of_driver = {
        "podSelector": {"matchLabels": selector(seen.name, contract.DRIVER)},
        "policyTypes": ["Egress"],
        "egress": [_ports(*of_all.api_server_ports)],
    }
    return [
        _policy(seen, names.network_policy(seen.name), spec),
        _policy(seen, names.driver_network_policy(seen.name), of_driver),
        *for_clients,
    ]


def _for_clients(
    seen: Observed, revision: Revision, ingress: list[Manifest], own: Manifest
) -> list[Manifest]:
    """The policy of those who may call the spouts of the driver; with `ingress`, it stands alone.

    By default these are the pods of the namespace: who may make pods there may act as the topology
    anyway. The topology's `own` pods are among them, as a driver hands its clients over.
    """
    service, ports = revision.running.spec.service, revision.running.spec.service_ports
    if service is None or not ports:
        return []
    peers: list[Manifest] = [{"podSelector": {}}]
    if service.from_ is not None:
        peers = [
            one.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
            for one in service.from_
        ]
    spec = {
        "podSelector": {"matchLabels": selector(seen.name, contract.DRIVER)},
        "policyTypes": ["Ingress"],
        "ingress": [*ingress, {"from": [own, *peers], **_ports(*ports)}],
    }
    return [_policy(seen, names.clients_network_policy(seen.name), spec)]


def _policy(seen: Observed, name: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(seen, name),
        "spec": spec,
    }


def _ports(*ports: int | str) -> dict[str, Any]:
    return {"ports": [{"port": port, "protocol": "TCP"} for port in ports]}
