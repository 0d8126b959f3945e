"""The operator's own figures, as Prometheus reads them, and whether it is well, for the kubelet."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from prometheus_client import Counter, Gauge, Histogram, MetricsHandler

from fulmen.serving import BoundedHandler, BoundedServer

RECONCILES = Counter("fulmen_operator_reconciles", "Topologies looked at.", ["result"])
SECONDS = Histogram(
    "fulmen_operator_reconcile_seconds",
    "How long one look takes.",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
)
REQUESTS = Counter("fulmen_operator_api_requests", "Calls of the API, without watches.", ["verb"])
_TOPOLOGIES = Gauge("fulmen_operator_topologies", "Topologies that are looked after.")
_READY = Gauge(
    "fulmen_operator_topology_ready",
    "Whether a topology is Ready: 1, else 0. There is none for one that is suspended.",
    ["topology_namespace", "topology"],
)
_WORKERS = Gauge(
    "fulmen_operator_topology_workers",
    "Workers that `autoscale` has chosen for a topology, with what is thought of that number now.",
    ["topology_namespace", "topology", "reason"],
)
_LEADER = Gauge("fulmen_operator_leader", "Whether this operator leads: 1, else 0.")


class _Handler(BoundedHandler, MetricsHandler):
    """Answers every GET with all figures."""

    protocol_version = "HTTP/1.0"  # as the library's, which does not say how long an answer is


def served(port: int) -> AbstractContextManager[int]:
    """Serve the figures at all addresses. `port`: 0: the context gives a free one."""
    return BoundedServer(("", port), _Handler).running()


class _Health(BoundedHandler):
    """Answers every GET with what is wrong, or that nothing is."""

    def __init__(self, *connection: Any, ask: Callable[[], str]) -> None:
        self._ask = ask
        super().__init__(*connection)

    def do_GET(self) -> None:
        """Answer a probe."""
        trouble = self._ask()
        text = (trouble or "ok").encode()
        self.send_response(503 if trouble else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def healthy(port: int, ask: Callable[[], str]) -> AbstractContextManager[int]:
    """Answer probes at all of this machine's addresses.

    Args:
        port: 0: the context gives a free one.
        ask: Tells what is wrong; empty: nothing. Called in a thread of the server's.
    """
    return BoundedServer(("", port), partial(_Health, ask=ask)).running()


def show(namespace: str, name: str, status: Mapping[str, Any] | None) -> None:
    """Show whether a topology is ready, and how it scales, as its status says. None: it is gone."""
    _WORKERS.remove_by_labels({"topology_namespace": namespace, "topology": name})
    if status is None or status.get("state") == "Suspended":
        _READY.remove(namespace, name)
        return
    conditions = {c["type"]: c["status"] for c in status.get("conditions", ())}
    _READY.labels(namespace, name).set(conditions.get("Ready") == "True")
    if scaling := status.get("autoscale"):
        _WORKERS.labels(namespace, name, scaling["reason"]).set(scaling["workers"])


def follow(topologies: Callable[[], float], leads: Callable[[], bool]) -> None:
    """Show these from now on."""
    _TOPOLOGIES.set_function(topologies)
    _LEADER.set_function(leads)


def forget() -> None:
    """Another operator knows from now on whether topologies are ready, and how they scale."""
    _READY.clear()
    _WORKERS.clear()
