"""A Service that would lead nowhere."""

from collections.abc import Iterator, Sequence

from fulmen.topology.problems import Problem
from fulmen.topology.reading.partial_document import ComponentPart
from fulmen.topology.resource.spec import TopologySpec
from fulmen.topology.resource.spec.service import OTHER_PORTS, SERVING, is_port

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def service(spec: TopologySpec, parts: Sequence[ComponentPart]) -> Iterator[Problem]:
    """Ports of a Service at which nothing listens that it can reach.

    Args:
        spec: The topology's.
        parts: All components.
    """
    if spec.service is None:
        return
    listening = [
        part
        for part in parts
        if part.kind == "spout" and part.model is not None and part.model.class_ in SERVING
    ]
    state = spec.service.state
    if state is not None:
        yield from _of_state(state.port, spec, listening)
    if not listening and not spec.service.ports and state is None:
        message = "there is no HttpSpout and no CallSpout, to which the Service could lead"
        cure = "Write ports: [8080] if a spout of yours listens there; else remove service."
        yield Problem("spec.service", message, cure)
    for i, given in enumerate(spec.service.ports):
        if given in OTHER_PORTS:
            yield _taken(f"spec.service.ports[{i}]", "spec.service", given)
    first: dict[int, ComponentPart] = {}
    for part in listening:
        assert part.model is not None
        yield from _unreachable(part, spec.service.ports)
        port = part.model.config.get("port")
        if not is_port(port):
            continue
        if (other := first.setdefault(port, part)) is not part:
            message = f"{part.label}: {other.label} listens at port {port} as well"
            cure = "Choose another port: both are in the driver's pod."
            yield Problem(f"{part.path}.config.port", message, cure)


def _of_state(
    port: int, spec: TopologySpec, listening: Sequence[ComponentPart]
) -> Iterator[Problem]:
    assert spec.service is not None
    where, label = "spec.service.state.port", "spec.service.state"
    others = [part for part in listening if part.model and part.model.config.get("port") == port]
    if port in OTHER_PORTS:
        yield _taken(where, label, port)
    elif others or port in spec.service.ports:
        who = others[0].label if others else "a spout of spec.service.ports"
        yield Problem(
            where, f"{label}: {who} listens at port {port} as well", "Choose another port."
        )


def _unreachable(part: ComponentPart, ports: Sequence[int]) -> Iterator[Problem]:
    assert part.model is not None
    config, where = part.model.config, f"{part.path}.config"
    host, port = config.get("host", LOOPBACK[0]), config.get("port")
    if host in LOOPBACK:
        message = f"{part.label}: it listens at {host} alone, where a Service can't reach it"
        yield Problem(f"{where}.host", message, "Write host: 0.0.0.0, or :: for IPv6.")
    if is_port(port) and port in OTHER_PORTS:
        yield _taken(f"{where}.port", part.label, port)
    elif is_port(port) and ports and port not in ports:
        message = f"{part.label}: its port {port} is not among those of spec.service.ports"
        cure = "Add it there, or remove ports: then the Service has the ports of all spouts."
        yield Problem(f"{where}.port", message, cure)
    elif "port" in config and not is_port(port) and not ports:
        message = f"{part.label}: a Service needs a port that is known, and it is {port!r}"
        cure = "Write a number from 1 to 65535, or what it will be into spec.service.ports."
        yield Problem(f"{where}.port", message, cure)


def _taken(where: str, label: str, port: int) -> Problem:
    message = f"{label}: port {port} of the driver's pod is that of {OTHER_PORTS[port]}"
    return Problem(where, message, "Choose another port.")
