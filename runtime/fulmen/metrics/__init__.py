"""Prometheus metrics of a running topology, and a page that shows it.

`snapshot` is what both are made of, `families` makes metrics of it, `topology_json` what the page
shows, and `server` answers requests. Uses `engine.totals` and the rooms below it; used by `cli`
and `kube`.
"""

from fulmen.metrics.server import MetricsServer

__all__ = ["MetricsServer"]
