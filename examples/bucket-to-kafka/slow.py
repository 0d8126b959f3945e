"""A filter of one's own: requests that took too long, or failed."""

from fulmen import BasicBolt


class Slow(BasicBolt):
    """Passes on the requests that somebody should look at.

    Config: `milliseconds`, above which a request is slow.
    """

    outputs = ("page", "status", "milliseconds")

    def prepare(self, conf, context):
        """Keep the limit."""
        self.limit = conf["milliseconds"]

    def execute(self, tup, collector):
        """Look at one request."""
        page, status, milliseconds = tup.values
        if milliseconds > self.limit or status >= 500:
            collector.emit([page, status, milliseconds])
