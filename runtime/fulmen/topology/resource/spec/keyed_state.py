"""Where the keyed state of bolts is kept while they run."""

from typing import Annotated, Literal

from pydantic import Field

from fulmen.topology.resource.base import Model

Backend = Literal["memory", "disk"]


class BoltKeyedState(Model):
    """Where `self.state` of one bolt is kept while the topology runs.

    The checkpoint has it in any case, in the same form, so this may be changed.
    """

    backend: Backend = "memory"
    """`memory`: all keys are in the memory of their worker. `disk`: they are on the disk of the
    worker, and those that were used last in memory. For more keys than fit into memory."""


class KeyedStateSettings(Model):
    """Where `self.state` of bolts is kept while the topology runs."""

    backend: Backend = "memory"
    """As of a bolt, for all that say nothing themselves. State of spouts is in memory."""

    disk_limit: Annotated[str, Field(min_length=1, max_length=32)] = "10Gi"
    """On Kubernetes: how much of its node's disk a worker's pod may take for state, if a component
    keeps it on disk. A pod that takes more is evicted."""
