"""What a driver is to do, by one revision after another. Pure."""

from __future__ import annotations

from fulmen.engine.driver.stop import Stop
from fulmen.engine.driver.taps.taps import Taps
from fulmen.kube.container.preparation import runs_unlike, topology_of
from fulmen.kube.contract import Directive, DriverPhase, Ended, ExitCode, Revision


class Instructions:
    """What revisions have said so far.

    Args:
        revision: The one that the driver was started with.

    Attributes:
        stop: What the engine reads between two batches.
        taps: Those who look at tuples, as far as revisions allow it.
        first: The revision that the driver was started with.
        latest: The one that was read last.
    """

    def __init__(self, revision: Revision) -> None:
        self.stop = Stop()
        self.taps = Taps()
        self.first = self.latest = revision

    def follow(self, revision: Revision) -> None:
        """Do what a revision says. Draining is never taken back: the next driver runs again."""
        if revision.directive is Directive.DRAIN:
            self.stop.drain = True
        else:
            self.stop.active = revision.directive is Directive.RUN
        is_live = revision.input_hash == self.first.input_hash
        if is_live and _version(revision) != _version(self.latest):
            wanted = topology_of(revision)
            self.taps.rule(wanted.spec.tap)
            if runs_unlike(wanted, topology_of(self.latest)):
                self.stop.topology = wanted
        self.latest = revision

    @property
    def generation(self) -> int:
        """Of the revision that is run: changes take until no tree is pending."""
        if self.stop.topology is None and self.latest.input_hash == self.first.input_hash:
            return self.latest.generation
        return self.first.generation

    @property
    def phase(self) -> DriverPhase:
        """Of a driver that runs batches."""
        if self.stop.drain:
            return DriverPhase.DRAINING
        if self.stop.topology is not None:
            return DriverPhase.REBALANCING
        return DriverPhase.INACTIVE if self.stop.active is False else DriverPhase.ACTIVE

    def ended(self, batch: int) -> tuple[ExitCode, Ended]:
        """How a driver ends that has stopped because it was told to.

        Args:
            batch: The last one that was committed.
        """
        if self.stop.now:
            message = f"SIGTERM ended the driver after batch {batch} was committed"
            return ExitCode.TERMINATED, Ended(reason="Terminated", message=message)
        return ExitCode.FINISHED, Ended(reason="Drained", message=f"drained, at batch {batch}")


def _version(revision: Revision) -> tuple[int, int | None]:
    """What is another one if the topology may have to go on as another one."""
    return revision.generation, revision.workers
