"""The facts that decide the number of workers. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fulmen.kube.load import Load
from fulmen.topology.resource.spec import TopologySpec
from fulmen.topology.resource.spec.autoscale import Autoscale
from fulmen_operator.reconcile.scaling.forecast import Forecast

WAITING: Final = 0.5
"""Workers that use a processor for less of their time wait: it must be tried whether more help."""
STARVED: Final = 0.25
"""Workers that are ready to run for such a share of their time, and have no processor, are slow
because their nodes are full."""


@dataclass(frozen=True)
class Scene:
    """The facts that decide the number of workers.

    Attributes:
        spec: The topology's, with the numbers of workers and executors that its author wrote.
        scale: The settings of `autoscale`.
        load: The driver's load.
        now: The time.
    """

    spec: TopologySpec
    scale: Autoscale
    load: Load
    now: datetime

    @property
    def forecast(self) -> Forecast:
        """The forecast from the load."""
        return Forecast(self.load, self.spec)

    @property
    def is_late(self) -> bool:
        """Whether messages wait too long."""
        lag = self.load.lag
        return lag is not None and lag > self.scale.max_lag_seconds

    @property
    def is_starved(self) -> bool:
        """Whether workers are slow because they have no processor."""
        return self.load.run_delay >= STARVED

    @property
    def waits(self) -> bool:
        """Whether workers wait for an outside service; nobody here knows which, or how long."""
        return self.load.cpu + self.load.run_delay < WAITING

    @property
    def why(self) -> str:
        """Why there should be more workers. Without figures: they change, and a status is news."""
        if self.is_late:
            return f"messages of {self.load.behind!r} wait longer than maxLag"
        return "batches take more than targetCapacity of the time"

    @property
    def cost(self) -> int:
        """Nanoseconds that batches take for each tuple; 0: there were none."""
        return round(self.forecast.now / self.load.tuples * 1e9) if self.load.tuples else 0
