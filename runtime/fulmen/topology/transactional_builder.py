"""Storm's TransactionalTopologyBuilder: a transactional topology, written in Python."""

from typing import Any

from fulmen.topology.builder import BoltDeclarer, SpoutDeclarer, TopologyBuilder


class TransactionsBuilder(TopologyBuilder):
    """Builds a transactional topology: `set_spout` adds each of its sources."""

    _section, _kind = "transactional", "transactional spout"

    def set_committer_bolt(self, id: str, bolt: Any, parallelism: int = 1) -> BoltDeclarer:
        """Add a BatchBolt as a committer, whether or not its class has the marker.

        Takes and raises what `set_bolt` does.
        """
        declarer = self.set_bolt(id, bolt, parallelism)
        self._bolts[id]["committer"] = True
        return declarer


class TransactionalTopologyBuilder(TransactionsBuilder):
    """Builds a transactional topology with Storm's calls.

    builder = TransactionalTopologyBuilder("global-count", "spout", Numbers, 3)
    builder.set_bolt("partial-count", BatchCount, 5).shuffle_grouping("spout")
    builder.set_bolt("sum", UpdateGlobalCount).global_grouping("partial-count")

    `set_spout` adds further sources: each transaction has a part of every one of them.
    """

    def __init__(
        self, name: str, spout_name: str, spout: Any, parallelism: int = 1, **spec: Any
    ) -> None:
        """Begin a topology.

        Args:
            name: The topology's name.
            spout_name: The name of its first source, unique among spouts and bolts.
            spout: A class of a transactional spout, or an object; each task gets a copy of it.
            parallelism: The number of executors that emit.
            spec: Fields of TopologySpec, in Python's spelling: `max_spout_pending=2`.

        Raises:
            CodeError: The class can't be imported by others, or the object can't be pickled.
        """
        super().__init__(name, **spec)
        self._first = self.set_spout(spout_name, spout, parallelism)

    def get_spout_declarer(self) -> SpoutDeclarer:
        """Say more about the first spout: its configuration, or its number of tasks."""
        return self._first
