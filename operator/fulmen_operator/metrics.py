"""The operator's own figures, as Prometheus reads them."""

from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram

RECONCILES = Counter("fulmen_operator_reconciles", "Topologies looked at.", ["result"])
SECONDS = Histogram(
    "fulmen_operator_reconcile_seconds",
    "How long one look takes.",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
)
_TOPOLOGIES = Gauge("fulmen_operator_topologies", "Topologies that are looked after.")


def follow(topologies: Callable[[], float]) -> None:
    """Show that number from now on."""
    _TOPOLOGIES.set_function(topologies)
