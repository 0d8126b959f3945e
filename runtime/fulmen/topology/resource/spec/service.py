"""How clients reach the spouts of a topology that listen, on Kubernetes."""

from collections.abc import Iterable, Mapping
from ipaddress import ip_network
from typing import Annotated, Any, Final, Self, TypeGuard

from pydantic import Field, field_validator, model_validator

from fulmen.topology.resource.base import FieldName, Model, ObjectName, refuse

SERVING: Final = (
    "fulmen.connectors.http.HttpSpout",
    "fulmen.connectors.http.CallSpout",
)
"""The classes of spouts that listen, at `port` in their `config`."""
OTHER_PORTS: Final[Mapping[int, str]] = {
    7078: "Spark",
    7079: "Spark's blocks",
    9464: "metrics and the page",
}
"""Ports of the driver's pod that are in use."""

Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
LabelValue = Annotated[str, Field(max_length=63)]


class LabelSelector(Model):
    """Objects with certain labels. An empty one selects all."""

    match_labels: Annotated[dict[FieldName, LabelValue], Field(max_length=100)] = Field({})
    """Labels, with the value that each must have."""


class AddressBlock(Model):
    """Addresses of the network."""

    cidr: Annotated[str, Field(max_length=64)]
    """The block, such as `10.0.0.0/8`. `0.0.0.0/0` is every address of IPv4."""

    @field_validator("cidr")
    @classmethod
    def _is_block(cls, value: str) -> str:
        try:
            ip_network(value)
        except ValueError as error:
            refuse(f"is no block of addresses, such as 10.0.0.0/8: {error}")
        return value


class Client(Model):
    """Who may connect: pods by their labels, pods of namespaces, or addresses."""

    pod_selector: LabelSelector | None = None
    """Pods with these labels, of the topology's namespace, or of those of `namespaceSelector`."""

    namespace_selector: LabelSelector | None = None
    """Namespaces with these labels. Every one has `kubernetes.io/metadata.name`."""

    ip_block: AddressBlock | None = None
    """Addresses, for clients that are no pods. It stands alone."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        is_pods = self.pod_selector is not None or self.namespace_selector is not None
        if is_pods == (self.ip_block is not None):
            refuse("must have podSelector, namespaceSelector or both, or else ipBlock")
        return self


class SecretKey(Model):
    """A key of a Secret of the topology's namespace."""

    name: ObjectName
    """The Secret's name."""

    key: FieldName
    """The key."""


class StateService(Model):
    """A server that answers questions about the state, as `fulmen state serve` does.

    It is a container of its own in the driver's pod, which reads the checkpoint.
    """

    port: Port = 8088
    """The port of the server, and of the Service."""

    token: SecretKey
    """The token that clients must show, in `Authorization: Bearer …`."""


class ServiceSettings(Model):
    """The Service that leads to the spouts that listen, and who may use it.

    It has the topology's name, and selects the driver's pod, which hosts these spouts. A
    NetworkPolicy lets nobody else connect to its ports. For clients that `from` can't name, add a
    policy of your own: policies only ever allow more.
    """

    ports: Annotated[tuple[Port, ...], Field(max_length=20)] = ()
    """The ports at which spouts listen; the Service has the same. Default: `port` in the `config`
    of each HttpSpout and CallSpout. Needed for classes derived from these."""

    from_: Annotated[tuple[Client, ...], Field(min_length=1, max_length=100)] | None = None
    """The clients that may connect to these ports, as a NetworkPolicy has them in `from`. Default:
    the pods of the topology's own namespace. An Ingress needs the namespace of its controller."""

    state: StateService | None = None
    """Questions to the state, such as `GET /state/BOLT?key=TEXT`. Default: none are answered."""


def listening_ports(spouts: Iterable[Any]) -> list[int]:
    """The ports of spouts that listen, as far as their configuration says them as numbers."""
    ports = (one.config.get("port") for one in spouts if one.class_ in SERVING)
    return list(dict.fromkeys(port for port in ports if is_port(port)))


def is_port(value: Any) -> TypeGuard[int]:
    """Whether a value is the number of a port that a Service can have."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 65535
