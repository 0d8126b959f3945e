"""A call that is answered with its argument: what a call costs beside what it asks for."""

from fulmen import BasicBolt


class Echo(BasicBolt):
    """Passes the argument on."""

    outputs = ("call", "number")

    def execute(self, tup, collector):
        """Emit it."""
        collector.emit([tup["call"], tup["number"]])
