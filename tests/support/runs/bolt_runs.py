"""Parts of topologies with a bolt whose methods are given."""

from fulmen import FailedException

WHO = "bolt 'bolt', task 2"
OUTSIDE = (
    f"{WHO}: emit, ack or fail outside of a callback. Use the collector only inside of next_tuple,"
    " ack, fail, activate, deactivate, execute or drain, and on the thread that calls them"
)


def keep_two(bolt):
    bolt.kept = []


def fail_always(bolt, tup, collector):
    raise FailedException("never mind")


def raises_at(x, error):
    def execute(bolt, tup, collector=None):
        if tup["x"] == x:
            raise error
        if collector is None:
            bolt.collector.ack(tup)

    return execute
