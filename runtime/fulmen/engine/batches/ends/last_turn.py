"""The last batches of a run: bolts get their last turn, and event time its end. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto

from fulmen.engine.batches.done import Done, did_something
from fulmen.engine.protocol.header import Header

MOST_PAGES = 1000
"""So many batches bring what is due at the end of event time, before the last one brings the rest:
timers of an author's may be set again and again."""
MOST_LOOKS = 3
"""So often a run looks ahead if early results fail. Then they come at the end of the next one."""


class Turn(Enum):
    """The kinds of a next batch."""

    USUAL = auto()
    PAGE = auto()
    """Event time ends for some bolts, which bring a part of what is due."""
    LAST = auto()
    """Bolts get their last turn in it."""
    AHEAD = auto()
    """It says what event time would bring if nothing more came. Nothing else of it is kept."""


class LastTurn:
    """The kind of a last batch.

    Attributes:
        next: That.
        drained: Whether bolts have had their last turn since they last executed anything.
        is_at_end: Whether sources have said that nothing will come, or are taken to.
        more_may_come: Whether that is so of this run alone: then event time does not end with it.
        is_told: Whether somebody has told it to end: what has failed is left to another run.
    """

    def __init__(self, *, more_may_come: bool = False) -> None:
        self.next = Turn.USUAL
        self.drained = self.is_at_end = False
        self.more_may_come = more_may_come
        self.is_told = False
        self._looks = self._pages = 0
        self._ending: Sequence[str] = ()

    @property
    def may_go_on(self) -> bool:
        """Whether another run may bring more, so that event time has not ended with this one."""
        return self.is_at_end and self.more_may_come

    @property
    def waits_for_results(self) -> bool:
        """Whether results that rest after a failure come again before the end."""
        return self.is_at_end and not self.is_told

    @property
    def looks_ahead(self) -> bool:
        """Whether the next batch does."""
        return self.next is Turn.AHEAD

    @property
    def ends_time(self) -> bool:
        """Whether event time ends with the run."""
        return self.is_at_end and not self.more_may_come

    def end(self, inputs: Mapping[str, Sequence[str]], many: Collection[str]) -> None:
        """Have the next batch be the last one, or bring a part of what is due before it.

        Args:
            inputs: Bolt -> the components that it receives tuples from, each behind its own.
            many: Bolts that have too much for one batch. What is behind them waits.
        """
        many = many if self.ends_time and self._pages < MOST_PAGES else ()
        self.next = Turn.PAGE if many else Turn.LAST
        waiting: set[str] = set()
        for bolt, froms in inputs.items():
            if not (waiting.isdisjoint(froms) and set(many).isdisjoint(froms)):
                waiting.add(bolt)
        self._ending = [bolt for bolt in inputs if bolt not in waiting]

    def begin(self, header: Header) -> Header:
        """The header of a batch with what it is."""
        is_page, is_last = self.next is Turn.PAGE, self.next is Turn.LAST
        ending = self._ending if is_page or (is_last and self.ends_time) else ()
        return replace(
            header,
            drains=is_last or (self.looks_ahead and self.more_may_come),
            paged=tuple(self._ending) if is_page else () if ending else header.paged,
            ends_time=tuple(ending),
            looks_ahead=self.looks_ahead,
        )

    def look_ahead(self, *, has_looked: bool, awaits_event_time: bool, has_early: bool) -> bool:
        """Have the next batch look ahead, if there is anything to see. Returns whether it does.

        Args:
            has_looked: Sinks have what there is to see, of all that has come so far.
            awaits_event_time: A bolt has a timer of event time.
            has_early: Sinks have early rows, some of which may be outdated.
        """
        looks = (
            self.is_at_end
            and not has_looked
            and self._looks < MOST_LOOKS
            and ((self.more_may_come and awaits_event_time) or has_early)
        )
        self.next = Turn.AHEAD if looks else Turn.USUAL
        return looks

    def committed(self, done: Done) -> None:
        """A batch counted."""
        self.drained = done.header.drains or (self.drained and not did_something(done.summaries))
        self.drained &= not done.after.holds
        self._looks += done.header.looks_ahead
        self._pages += bool(done.header.ends_time)
        self.next = Turn.USUAL
