"""A filter of one's own: requests that took too long, or failed."""

from collections.abc import Mapping
from typing import Any

from fulmen import BasicBolt, BasicOutputCollector, TopologyContext, Tuple


class Slow(BasicBolt):
    """Passes on the requests that somebody should look at.

    Config: `milliseconds`, above which a request is slow.
    """

    outputs = ("page", "status", "milliseconds")

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Keep the limit."""
        self.limit = conf["milliseconds"]

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        """Look at one request."""
        page, status, milliseconds = tup.values
        if milliseconds > self.limit or status >= 500:
            collector.emit([page, status, milliseconds])
