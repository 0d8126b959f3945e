"""Prometheus metrics of a running topology, and a page that shows it."""

from fulmen.metrics.server import MetricsServer

__all__ = ["MetricsServer"]
