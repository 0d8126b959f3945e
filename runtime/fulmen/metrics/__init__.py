"""Prometheus metrics of a running topology, and a page that shows it.

`snapshot` is what both are made of, `families` makes metrics of it, `as_json` what the page shows,
`server` answers requests, and `access` says whose. Uses `engine.totals` and the rooms below it;
used by `cli` and `kube`.
"""

from fulmen.metrics.access import TOKEN_ENV, AccessRules, credentials
from fulmen.metrics.server import MetricsServer

__all__ = ["TOKEN_ENV", "AccessRules", "MetricsServer", "credentials"]
