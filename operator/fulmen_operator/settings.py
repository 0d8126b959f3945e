"""What the operator itself is set up with: its environment variables, which the chart writes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from fulmen_operator.acceptance.pod_security import Level


@dataclass(frozen=True)
class NetworkPolicies:
    """How the pods of all topologies are parted from others.

    Attributes:
        metrics_from: Who may connect to the port with metrics, as a NetworkPolicy's `from`; empty:
            everybody.
        egress: What the pods may connect to besides each other, as a NetworkPolicy's `egress`.
        api_server_ports: Where the API server may be.
        dns_ports: Where name servers may be.
    """

    metrics_from: Sequence[Any] = ()
    egress: Sequence[Any] = ()
    api_server_ports: Sequence[int] = (443, 6443)
    dns_ports: Sequence[int] = (53,)

    @classmethod
    def from_json(cls, text: str) -> "NetworkPolicies | None":
        """As the chart writes its values; None if that is nothing."""
        found = json.loads(text or "null")
        if found is None:
            return None
        return cls(
            tuple(found["metricsFrom"]),
            tuple(found["egress"]),
            tuple(found["apiServerPorts"]),
            tuple(found["dnsPorts"]),
        )


@dataclass(frozen=True)
class Settings:
    """How the operator runs.

    Attributes:
        image: Of drivers and workers that name none of their own.
        image_pull_policy: For that image; empty: Kubernetes' own rule.
        namespaces: Those to look after; empty: all.
        pod_template_allow: The pod security standard that a podTemplate must keep to.
        starts_per_node: How many drivers of a namespace start at once, for each of its nodes.
        claim_size: Of checkpoint claims that the operator makes.
        claim_access_mode: Of those claims.
        claim_storage_class: Of those claims; empty: the cluster's default.
        metrics_port: Where the operator's own metrics are.
        probe_port: Where the kubelet asks whether the operator is alive.
        json_logs: Whether log lines are JSON.
        lease: By which the operators of one installation agree on who leads, as `NAMESPACE/NAME`;
            empty: there is no other.
        network_policies: Of all topologies; None: a topology has one if its spec asks for it.
    """

    image: str = "fulmen:dev"
    image_pull_policy: str = ""
    namespaces: tuple[str, ...] = ()
    pod_template_allow: Level = "restricted"
    starts_per_node: int = 4
    claim_size: str = "10Gi"
    claim_access_mode: str = "ReadWriteOnce"
    claim_storage_class: str = ""
    metrics_port: int = 9465
    probe_port: int = 8080
    json_logs: bool = False
    lease: str = ""
    network_policies: NetworkPolicies | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Settings":
        """The settings in `FULMEN_IMAGE` and so on; what is not set has its default."""
        given = {
            name.removeprefix("FULMEN_").lower(): value
            for name, value in environment.items()
            if name.startswith("FULMEN_") and value
        }
        default = cls()
        return cls(
            image=given.get("image", default.image),
            image_pull_policy=given.get("image_pull_policy", ""),
            namespaces=tuple(given.get("namespaces", "").replace(",", " ").split()),
            pod_template_allow=_level(given.get("pod_template_allow", "restricted")),
            starts_per_node=int(given.get("starts_per_node", default.starts_per_node)),
            claim_size=given.get("claim_size", default.claim_size),
            claim_access_mode=given.get("claim_access_mode", default.claim_access_mode),
            claim_storage_class=given.get("claim_storage_class", ""),
            metrics_port=int(given.get("metrics_port", default.metrics_port)),
            probe_port=int(given.get("probe_port", default.probe_port)),
            json_logs=given.get("json_logs", "") == "true",
            lease=given.get("lease", ""),
            network_policies=NetworkPolicies.from_json(given.get("network_policies", "")),
        )


def _level(text: str) -> Level:
    """A level by its name. ValueError if there is none: a misspelt one must not allow more."""
    for level in get_args(Level):
        if text == level:
            found: Level = level
            return found
    message = f"FULMEN_POD_TEMPLATE_ALLOW: {text!r} is none of {', '.join(get_args(Level))}"
    raise ValueError(message)
