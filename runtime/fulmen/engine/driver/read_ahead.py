"""State on disk for other numbers of tasks is read ahead, while the topology of before still runs.

Workers read what the checkpoint has for the tasks to come, as of a commit; then what was committed
while they did, and so on until a round is short. What is left to read when the number changes is
what came during the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from fulmen.engine.driver.replanning import Planner
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.read_ahead import AheadOrder, AheadReport, AheadRequest
from fulmen.engine.protocol.summary import Summary
from fulmen.errors import CheckpointError
from fulmen.topology.resource.spec import Topology

_LEAST_ROUNDS, _MOST_ROUNDS = 2, 8
_FEW_BATCHES = 3
"""A round that takes no more is short."""
_OUTDATED_ROUNDS = 8
"""So often the checkpoint may have gone on before all of it was read. Each of them reads some."""


class StateAhead:
    """What workers read ahead of one change of a topology."""

    def __init__(self, planner: Planner, note: Callable[[str], None]) -> None:
        """Nothing is read yet. `note` is told what a person should know."""
        self._planner, self._note = planner, note
        self.forget()

    def forget(self) -> None:
        """Nothing is to be read any more."""
        self._target: Topology | None = None
        self._order: AheadOrder | None = None
        self._reports: dict[int, AheadReport] = {}
        self._round = self._whole = self._outdated = self._batches = 0

    def is_over(self, target: Topology) -> bool:
        """Whether workers have on disk what they need of a topology, or can't have more of it."""
        if target is not self._target:
            self.forget()
            self._target = target
            self._begin(target)
            if self._order is not None:
                names = ", ".join(map(repr, self._order.numbers))
                self._note(f"state of {names} is read ahead, then the number of tasks changes")
        return self._order is None

    def _begin(self, target: Topology) -> None:
        """Begin a round."""
        self._round += 1
        self._batches = 0
        self._reports.clear()
        try:
            self._order = self._planner.order_ahead(target, self._round)
        except CheckpointError:  # whoever changes the number says so
            self._order = None

    def asking(self, header: Header) -> Header:
        """Add to a header what workers have to know of it.

        They keep what they have read for as long as there is something about it in headers.
        """
        if self._target is None or not self._round:
            return header
        present = set(self._planner.current.placed.workers)
        if self._order is not None and not self._order.tasks.keys() <= present:
            self._begin(self._target)  # a worker is gone: others will have its tasks
        if (order := self._order) is not None and not order.tasks.keys() <= present:
            order = self._order = None
        know = {w for w, one in self._reports.items() if order and one.round == order.round}
        self._reports.clear()  # of a worker that has to begin anew nothing may stay
        is_known = order is None or order.tasks.keys() <= know
        return replace(header, ahead=AheadRequest(None if is_known else order))

    def heard(self, summaries: Iterable[Summary]) -> None:
        """Take what workers say of it."""
        self._reports |= {one.partition: one.ahead for one in summaries if one.ahead is not None}
        if (order := self._order) is None or self._target is None:
            return
        self._batches += 1
        own = [self._reports.get(worker) for worker in order.tasks]
        said = [one for one in own if one is not None and one.round == order.round]
        if failures := [one.failure for one in said if one.failure]:
            self._note(f"state can't be read ahead, and is read later: {failures[0]}")
            self._order = None
        elif any(one.is_outdated for one in said):
            self._outdated += 1
            self._go_on(self._outdated < _OUTDATED_ROUNDS)
        elif len(said) == len(own) and all(one.is_over for one in said):
            self._whole += 1
            is_short = self._whole >= _LEAST_ROUNDS and self._batches <= _FEW_BATCHES
            self._go_on(not is_short and self._whole < _MOST_ROUNDS)

    def _go_on(self, more: bool) -> None:
        if more and self._target is not None:
            self._begin(self._target)
        else:
            self._order = None
