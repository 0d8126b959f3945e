"""NetworkPolicies: who may connect to the pods of a topology, and what they may connect to. Pure.

Policies only ever allow more: whoever needs another connection adds a policy of their own.
"""

from typing import Any

from fulmen.kube import contract, names
from fulmen.kube.contract import Revision
from fulmen_operator.manifests.common import metadata, selector
from fulmen_operator.model import Manifest, Observed
from fulmen_operator.settings import NetworkPolicies


def policy_names(topology: str) -> list[str]:
    """The names of all that there may be."""
    return [names.network_policy(topology), names.driver_network_policy(topology)]


def network_policies(
    seen: Observed, revision: Revision, of_all: NetworkPolicies | None
) -> list[Manifest]:
    """The network policies of a topology.

    Args:
        seen: The topology.
        revision: The accepted revision.
        of_all: The policies for all topologies, if there are any.
    """
    if of_all is None and revision.running.spec.network_policy != "Restrict":
        return []
    own = {"podSelector": {"matchLabels": selector(seen.name)}}
    among_themselves = _ports(*contract.POD_PORTS)
    metrics: dict[str, Any] = _ports(contract.METRICS_PORT_NAME)
    if of_all is not None and of_all.metrics_from:
        metrics["from"] = list(of_all.metrics_from)
    spec = {
        "podSelector": {"matchLabels": selector(seen.name)},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [own], **among_themselves}, metrics],
    }
    if of_all is None:
        return [_policy(seen, names.network_policy(seen.name), spec)]
    dns = [{"port": port, "protocol": kind} for port in of_all.dns_ports for kind in ("UDP", "TCP")]
    spec["policyTypes"] = ["Ingress", "Egress"]
    spec["egress"] = [{"to": [own], **among_themselves}, {"ports": dns}, *of_all.egress]
    of_driver = {
        "podSelector": {"matchLabels": selector(seen.name, contract.DRIVER)},
        "policyTypes": ["Egress"],
        "egress": [_ports(*of_all.api_server_ports)],
    }
    return [
        _policy(seen, names.network_policy(seen.name), spec),
        _policy(seen, names.driver_network_policy(seen.name), of_driver),
    ]


def _policy(seen: Observed, name: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(seen, name),
        "spec": spec,
    }


def _ports(*ports: int | str) -> dict[str, Any]:
    return {"ports": [{"port": port, "protocol": "TCP"} for port in ports]}
