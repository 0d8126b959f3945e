"""What the operator itself is set up with: its environment variables, which the chart writes."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
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
        read = {field.name: _READ.get(field.name, str) for field in fields(cls)}
        return cls(**{name: read[name](value) for name, value in given.items() if name in read})


def _level(text: str) -> Level:
    """A level by its name. ValueError if there is none: a misspelt one must not allow more."""
    for level in get_args(Level):
        if text == level:
            found: Level = level
            return found
    message = f"FULMEN_POD_TEMPLATE_ALLOW: {text!r} is none of {', '.join(get_args(Level))}"
    raise ValueError(message)


_READ: Mapping[str, Callable[[str], Any]] = {
    "namespaces": lambda text: tuple(text.replace(",", " ").split()),
    "pod_template_allow": _level,
    "starts_per_node": int,
    "metrics_port": int,
    "probe_port": int,
    "json_logs": "true".__eq__,
    "network_policies": NetworkPolicies.from_json,
}
"""How settings that are no texts are read."""
