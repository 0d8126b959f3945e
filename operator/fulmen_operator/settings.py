"""The operator's own settings: environment variables, which the chart writes."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args

from fulmen_operator.acceptance.pod_security import Level


@dataclass(frozen=True)
class NetworkPolicies:
    """Network policies of all topologies' pods.

    Attributes:
        metrics_from: Clients of the port with metrics, as a NetworkPolicy's `from`; empty:
            everybody.
        egress: Other destinations than the topology's pods, as a NetworkPolicy's `egress`.
        api_server_ports: The ports of API servers.
        dns_ports: The ports of name servers.
    """

    metrics_from: Sequence[Any] = ()
    egress: Sequence[Any] = ()
    api_server_ports: Sequence[int] = (443, 6443)
    dns_ports: Sequence[int] = (53,)

    @classmethod
    def from_json(cls, text: str) -> "NetworkPolicies | None":
        """Read the chart's values; None if there are none."""
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
    """The settings of the operator.

    Attributes:
        image: The image of drivers and workers that name none.
        image_pull_policy: The policy for that image; empty: Kubernetes' own rule.
        namespaces: The namespaces to look after; empty: all.
        pod_template_allow: The pod security standard that a podTemplate must keep to.
        starts_per_node: How many drivers of a namespace start at once, for each of its nodes.
        claim_size: The size of checkpoint claims that the operator makes.
        claim_access_mode: The access mode of those claims.
        claim_storage_class: The storage class of those claims; empty: the cluster's default.
        metrics_port: The port of the operator's own metrics.
        probe_port: The port of the operator's probes.
        json_logs: Whether log lines are JSON.
        lease: The lease of the leader among the operators of one installation, as `NAMESPACE/NAME`;
            empty: there is no other operator.
        network_policies: The policies of all topologies; None: a topology has one if its spec asks
            for it.
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
"""Parsers of settings that are not texts."""
