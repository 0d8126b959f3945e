"""A driver's instructions, from one revision after another. Pure."""

from __future__ import annotations

from fulmen.engine.driver.stop import Stop
from fulmen.engine.driver.taps.taps import Taps
from fulmen.kube.container.preparation import runs_unlike, topology_of
from fulmen.kube.contract.endings import Ended, ExitCode
from fulmen.kube.contract.reports import DriverPhase
from fulmen.kube.contract.revisions import Directive, Revision


class Instructions:
    """The instructions of all revisions so far.

    Args:
        revision: The revision that the driver was started with.

    Attributes:
        stop: Read by the engine between two batches.
        taps: Taps of tuples, as far as revisions allow them.
        first: The revision that the driver was started with.
        latest: The revision that was read last.
    """

    def __init__(self, revision: Revision) -> None:
        self.stop = Stop()
        self.taps = Taps()
        self.first = self.latest = revision
        self._taken = revision.generation

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
                self._taken = self.generation
                self.stop.topology, self.stop.refused = wanted, ""
        self.latest = revision

    @property
    def generation(self) -> int:
        """The generation of the revision that runs: a change takes until no tree is pending."""
        if self.stop.refused:
            return self._taken
        if self.stop.topology is None and self.latest.input_hash == self.first.input_hash:
            return self.latest.generation
        return self.first.generation

    @property
    def phase(self) -> DriverPhase:
        """The phase of a driver that runs batches."""
        if self.stop.drain:
            return DriverPhase.DRAINING
        if self.stop.topology is not None:
            return DriverPhase.REBALANCING
        return DriverPhase.INACTIVE if self.stop.active is False else DriverPhase.ACTIVE

    def ended(self, batch: int) -> tuple[ExitCode, Ended]:
        """The end of a driver that has stopped because it was told to. `batch`: the last commit."""
        if self.stop.now:
            message = f"SIGTERM ended the driver after batch {batch} was committed"
            return ExitCode.TERMINATED, Ended(reason="Terminated", message=message)
        return ExitCode.FINISHED, Ended(reason="Drained", message=f"drained, at batch {batch}")


def _version(revision: Revision) -> tuple[int, int | None]:
    """The parts of a revision that, if changed, may require a rebalance."""
    return revision.generation, revision.workers
