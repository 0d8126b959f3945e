"""Windows that are where they are, whatever else comes: tumbling, sliding and of a calendar.

What a tuple costs decides how many of them a task can take. So state is written once a batch for
each key and window that something has come for, and a window has one timer for all its keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import FailedException
from fulmen.api.tuples import Tuple
from fulmen.errors import PASSED_ON, FulmenError
from fulmen.windows.aggregate.adding.adder import Adder
from fulmen.windows.aggregate.adding.aggregates import ColumnRows
from fulmen.windows.aggregate.adding.chunk_rows import (
    ChunkRows,
    Groups,
    SameWindows,
    WindowGroups,
    in_windows,
)
from fulmen.windows.aggregate.kinds.column_windows import ColumnWindows
from fulmen.windows.aggregate.kinds.panes import (
    EARLY,
    EARLY_PANE,
    LATE_PANE,
    NEW,
    ON_TIME_PANE,
    Kept,
    Key,
    changed,
)
from fulmen.windows.aggregate.kinds.rows import StateRows
from fulmen.windows.aggregate.kinds.windower import Windower
from fulmen.windows.columns import WindowRows, by_windows
from fulmen.windows.inputs import spans_of
from fulmen.windows.pages import WindowPage
from fulmen.windows.spans import Span, Spans

_NONE: dict[Any, Any] = {}


class FixedWindows(Windower):
    """Tumbling, sliding, cumulative and calendar windows of one task."""

    # State: (start, key) -> what is kept: a number alone, if that is all. Memory: `Kept`, by window
    # and key. A key of one field is known by its value, not as a tuple: they are many.

    state_part = "second"
    takes_chunks = takes_columns = True

    def __init__(self, spans: Spans, has_plain_keys: bool, *rest: Any) -> None:
        """`has_plain_keys`: whether a key is of one field."""
        super().__init__(*rest)
        self._spans, self._has_plain_keys = spans, has_plain_keys
        self._open: dict[Span, dict[Any, Kept]] = {}
        self._rows = StateRows(self._state)
        self._columns = ColumnWindows(self._state, has_plain_keys and not self._panes.are_several)
        self._width = len(self._aggregates.new()) + 1
        self._begin()
        self._changed: dict[Span, dict[Any, Kept]] = {}
        self._counted: dict[Span, tuple[Sequence[Span], Counter[Any]]] = {}
        self._seen: dict[Span, Any] = {}
        """Where windows go on that are brought in pages."""
        self._forget_place()

    def _begin(self) -> None:
        """Read what the state has."""
        for key, written in self._state.items():
            span = self._spans.starting(key[0])
            self._open.setdefault(span, {})[key[1]] = self._read(written)
            self._rows.add(span, key)

    def _read(self, written: Any) -> Kept:
        """What is kept of a key, of the form in which the state has it."""
        kept = [*written] if type(written) is tuple else [written, None]
        if len(kept) != self._width:
            raise FulmenError(
                "the checkpoint has windows with other aggregates. Give the component another"
                " name, and its windows begin anew"
            )
        return kept

    def _known(self, span: Span, keys: Iterable[Any]) -> Iterable[Kept | None]:
        """What is kept of each of these keys in a window."""
        return map(self._open.get(span, _NONE).get, keys)

    @property
    @override
    def count(self) -> int:
        return len(self._state) + self._columns.count

    def _forget_place(self) -> None:
        self._since = self._until = 0
        self._here: Sequence[Span] = ()

    def _go_to(self, time: int) -> None:
        """Find the windows of a time. They are kept at hand, as the next one is near."""
        if not self._since <= time < self._until:
            self._here = spans_of(self._spans, time)
            self._since, self._until = self._spans.same(self._here)

    @override
    def add(
        self, key: Key, time: int, values: list[Any], tup: Tuple, collector: BasicOutputCollector
    ) -> None:
        plain: Any = key[0] if self._has_plain_keys else key
        self._go_to(time)
        least = self._clock.least()
        live = [span for span in self._here if span[1] > least]
        if not live:
            self._panes.too_late(tup, time, self._here[0], collector)
            return
        self._turn_into_rows(live)
        windows = [self._copy(span, plain) for span in live]
        self._aggregates.add(windows, values, time)
        for span, kept in zip(live, windows, strict=True):
            if kept[-1] is not None and kept[-1][1] and not self._panes.is_final:
                self._panes.emit(key, span, kept, LATE_PANE, collector)
                self._put(span, plain, kept)
            else:
                self._change(span, plain, kept)

    @override
    def merge(self, key: Key, time: int, other: Sequence[Any]) -> None:
        plain: Any = key[0] if self._has_plain_keys else key
        self._go_to(time)
        if self._clock.is_past(self._here[0][1]):
            raise FailedException("its window has ended meanwhile")
        self._turn_into_rows(self._here)
        windows = [self._copy(span, plain) for span in self._here]
        self._aggregates.absorb(windows, other)
        for span, kept in zip(self._here, windows, strict=True):
            self._change(span, plain, kept)

    def _turn_into_rows(self, spans: Iterable[Span]) -> None:
        """Have these windows be rows, if they are columns."""
        for span in spans if self._columns else ():
            if span in self._columns:
                rows = self._columns.taken_as_rows(span)
                self._open[span], self._changed[span] = rows, rows.copy()

    def _copy(self, span: Span, plain: Any) -> Kept:
        """A copy of what is kept of a key in a window."""
        known = self._open.get(span, _NONE).get(plain)
        return [*self._aggregates.new(), None] if known is None else [*known]

    def _change(self, span: Span, plain: Any, kept: Kept) -> None:
        """Put a key's changed values into a window that is emitted later."""
        kept[-1] = changed(kept[-1])
        self._panes.emit_later(span)
        self._put(span, plain, kept)

    def _put(self, span: Span, plain: Any, kept: Kept) -> None:
        """Keep values of a key in a window."""
        windows = self._open.setdefault(span, {})
        if not windows or (plain not in windows and self._clock.is_past(span[1])):
            self._timers.set(span, span[1] + self._panes.wait)  # for all its keys
        windows[plain] = kept
        self._changed.setdefault(span, {})[plain] = kept

    @override
    def add_chunk(self, rows: ChunkRows) -> Sequence[int]:
        places, left = self._places_of(rows)
        for place in places:
            self._turn_into_rows(place.spans)
        if self._aggregates.only_counts:
            for place in places:
                self._count_in(place, rows.keys)
            return left
        parts = in_windows(rows, places)
        some = [
            [kept or [*self._aggregates.new(), None] for kept in self._known(span, keys)]
            for span, keys, _ in parts
        ]
        try:
            additions = [
                self._aggregates.added(kept, part.groups)
                for kept, part in zip(some, parts, strict=True)
            ]
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (values that can't be compared: their rows tell)
            return self.add_chunk(rows.apart(self._unusual(parts)))
        for kept, part, added in zip(some, parts, additions, strict=True):
            self._aggregates.put(kept, part.groups, added)
            self._expect(part.span)
            self._put_all(part.span, part.keys, kept)
        return left

    def _unusual(self, parts: Sequence[WindowGroups]) -> Iterator[int]:
        """The rows of keys that some of their rows can't be added to."""
        for span, keys, groups in parts:
            for key, at in zip(keys, groups.ats, strict=True):
                kept = self._open.get(span, _NONE).get(key) or self._aggregates.new()
                try:
                    self._aggregates.added([kept], Groups(groups.rows, [at]))
                except PASSED_ON:
                    raise
                except BaseException:  # noqa: BLE001
                    yield from at

    def _places_of(self, rows: ChunkRows) -> tuple[Sequence[SameWindows], Sequence[int]]:
        """The rows by their windows, if these are all open; and the positions of the others.

        The others are rows without a time, rows that are late or unusual, and all others of the key
        of a row that is unusual, or late for some of its windows: their order must be kept.
        """
        if not (rows.refused or rows.unusual) and self._are_here(rows.times):
            return [SameWindows(self._here, None)], ()
        found, left, odd = self._by_place(rows)
        if odd:
            keys = {rows.keys[i] for i in odd}
            left.update(i for i, key in enumerate(rows.keys) if key in keys)
            found = [(spans, [i for i in at if i not in left]) for spans, at in found]
        return [SameWindows(spans, at) for spans, at in found if at], sorted(left)

    def _are_here(self, times: Sequence[Any]) -> bool:
        """Whether all times are in the same windows, and these are open."""
        try:
            first, last = min(times), max(times)
            self._go_to(first)
        except (TypeError, FailedException):  # there is a None
            return False
        return last < self._until and not self._clock.is_past(self._here[0][1])

    def _by_place(
        self, rows: ChunkRows
    ) -> tuple[list[tuple[Sequence[Span], list[int]]], set[int], set[int]]:
        """The rows by their windows; the positions of others; and of rows that are unusual."""
        found: dict[int, list[int]] = {}
        spans: dict[int, Sequence[Span]] = {}
        left, odd = {*rows.refused, *rows.unusual}, {*rows.unusual}
        since = until = 0
        other = 0, 0
        at: list[int] = []
        for i, time in enumerate(rows.times):
            if time is None or (left and i in left):
                left.add(i)
                continue
            if not since <= time < until:
                (since, until), other = other, (since, until)  # times go to and fro
                if not since <= time < until:
                    try:
                        self._go_to(time)
                    except FailedException:  # its row tells
                        left.add(i)
                        since = until = 0
                        continue
                    since, until = self._since, self._until
                    spans[since] = self._here
                at = found.setdefault(since, [])
            at.append(i)
        places = []
        for start, some in found.items():
            here = spans[start]
            if not self._clock.is_past(here[0][1]):
                places.append((here, some))
                continue
            left.update(some)
            if not self._clock.is_past(here[-1][1] + self._clock.lateness):
                odd.update(some)
        return places, left, odd

    def _count_in(self, place: SameWindows, keys: Sequence[Any]) -> None:
        """Count rows that are in all of some windows. A batch's are added up at its end."""
        spans, at = place
        since = spans[-1][0], spans[0][1]
        if since not in self._counted:
            self._counted[since] = spans, Counter()
            for span in spans:
                self._expect(span)
        _, counted = self._counted[since]
        counted.update(keys if at is None else map(keys.__getitem__, at))

    def _add_up(self) -> None:
        """Add what was counted to what is kept."""
        new = [*self._aggregates.new(), None]
        for spans, counted in self._counted.values():
            for span in spans:
                some = [kept or new.copy() for kept in self._known(span, counted)]
                for i in range(len(new) - 1):
                    for kept, number in zip(some, counted.values(), strict=True):
                        kept[i] += number
                self._put_all(span, counted, some)
        self._counted = {}

    def _expect(self, span: Span) -> None:
        """Prepare a window that has not ended for rows: it has a timer for all its keys."""
        if not self._open.setdefault(span, {}):
            self._timers.set(span, span[1] + self._panes.wait)
        self._panes.emit_later(span)

    def _put_all(self, span: Span, keys: Iterable[Any], some: Sequence[Kept]) -> None:
        """Keep changed values of several keys in a window."""
        if self._panes.are_several:
            for kept in some:
                kept[-1] = changed(kept[-1])
        for windows in self._open[span], self._changed.setdefault(span, {}):
            windows.update(zip(keys, some, strict=True))

    @override
    def add_columns(self, rows: ColumnRows) -> Sequence[int] | None:
        adders = self._aggregates.adders(rows.columns, rows.values_at, rows.times.times)
        if adders is None:
            return None
        found = by_windows(
            rows.times, rows.keys, self._spans, self._clock.is_past, self._clock.lateness
        )
        if found is None:
            return None
        columns, parts = self._by_form(found.parts, adders)
        known = [list(self._known(span, keys.values)) for span, _, keys in parts]
        for i, adder in enumerate(adders):
            if type(adder).fits is not Adder.fits:
                there = [kept[i] for of_part in known for kept in of_part if kept]
                if not adder.fits(there):
                    return None
        for part, of_part in zip(parts, known, strict=True):
            self._add_part(part, adders, of_part)
        for part in columns:
            if part.span not in self._columns:
                self._timers.set(part.span, part.span[1] + self._panes.wait)
                self._columns.begin(part, adders)
            self._columns.add(part, adders)
        return found.left

    def _by_form(
        self, parts: Sequence[WindowRows], adders: Sequence[Adder]
    ) -> tuple[list[WindowRows], list[WindowRows]]:
        """The rows of windows that are columns, or may be, and those of the others."""
        may_begin = bool(parts) and self._columns.may_begin(parts, adders)
        columns: list[WindowRows] = []
        others: list[WindowRows] = []
        for part in parts:
            is_known = part.span in self._columns
            if is_known and not self._columns.takes(part, adders):
                self._turn_into_rows([part.span])
                is_known = False
            is_new = may_begin and part.span not in self._open
            (columns if is_known or is_new else others).append(part)
        return columns, others

    def _add_part(
        self, part: WindowRows, adders: Sequence[Adder], known: Sequence[Kept | None]
    ) -> None:
        """Add the rows of one window, which has not ended."""
        some = [kept or [*self._aggregates.new(), None] for kept in known]
        columns = [adder.add([kept[i] for kept in some], part) for i, adder in enumerate(adders)]
        for i, column in enumerate(columns):  # nothing is changed if an adder raises
            for kept, value in zip(some, column, strict=True):
                kept[i] = value
        self._expect(part.span)
        self._put_all(part.span, part.keys.values, some)

    @override
    def end_batch(self) -> None:
        self._add_up()
        for span, some in self._changed.items():
            if some:  # else nothing has come to what is at hand
                self._rows.write(span, self._open[span], some, written_form)
        self._changed = {}
        self._forget_place()

    @override
    def on_timer(self, key: Any, at: int, collector: BasicOutputCollector) -> None:
        self.end_batch()  # nothing of this batch comes any more
        if key[0] == EARLY:
            self._emit_all(key[1], EARLY_PANE, collector)
            return
        span: Span = key
        self._timers.cancel((EARLY, span))
        over = span[1] + self._clock.lateness
        if at < over and self._panes.is_final:  # allowedLateness was shorter when it was set
            self._timers.set(span, over)
            return
        page = WindowPage(self._timers.room)
        try:
            self._emit_all(span, ON_TIME_PANE, collector, page)
        finally:
            self._timers.room -= page.taken
            if page.is_last:
                if at >= over:
                    self._drop(span)
                else:
                    self._timers.set(span, over)
                self._seen.pop(span, None)
            else:
                self._go_on_later(span, page, drops=at >= over)
                self._timers.set(span, at)

    def _go_on_later(self, span: Span, page: WindowPage, *, drops: bool) -> None:
        """Note which keys of a window, the next ones, are done. `drops`: they are forgotten."""
        if not drops:
            self._seen[span] = self._seen.get(span, 0) + page.taken
            return
        windows = self._open[span]
        for plain in list(islice(windows, page.taken)):
            del windows[plain]
        self._rows.delete(span, page.taken)

    def _drop(self, span: Span) -> None:
        """Forget a window."""
        self._open.pop(span, None)
        self._rows.delete(span)
        self._columns.drop(span)

    def _of_span(self, span: Span, *, goes_on: bool) -> Iterator[tuple[Key, Any, Kept]]:
        """Each key of a window, the form in which the state has the key, and what is kept of it.

        `goes_on`: without those that are done.
        """
        windows = self._open.get(span, _NONE)
        keys = zip(windows, strict=True) if self._has_plain_keys else windows
        seen = self._seen.get(span, 0) if goes_on else 0
        return islice(zip(keys, windows, windows.values(), strict=True), seen, None)

    @override
    def emit_early(self, place: Any, collector: BasicOutputCollector) -> None:
        self.end_batch()  # as in `on_timer`
        self._emit_all(place, EARLY_PANE, collector)

    def _emit_all(
        self, span: Span, pane: str, collector: BasicOutputCollector, page: WindowPage | None = None
    ) -> None:
        """Emit what was not, of all keys of a window.

        Args:
            span: The window.
            pane: Of what is emitted.
            collector: Takes it.
            page: Says which of the keys are to be emitted, of those that are not done. None: all.

        Raises:
            BaseException: The result of a key has raised it. All others are emitted.
        """
        wrong: BaseException | None = None
        are_several = self._panes.are_several
        emit, when, results = collector.emit, self._panes.when(span), self._aggregates.results
        if span in self._columns:
            for row in self._columns.results(span, when):
                emit(row)
            return
        of_span = self._of_span(span, goes_on=page is not None)
        for key, plain, kept in of_span if page is None else page.of(of_span):
            try:
                if are_several:
                    self._emit_pane(span, plain, kept, pane, collector)
                else:
                    emit([*key, *when, *results(kept)])
            except PASSED_ON:
                raise
            except BaseException as error:  # noqa: BLE001 (an author's aggregation may raise anything)
                wrong = wrong or error
        if wrong is not None:
            raise wrong

    def _emit_pane(
        self, span: Span, plain: Any, kept: Kept, pane: str, collector: BasicOutputCollector
    ) -> None:
        """Emit a window of a key that may be emitted again, if something has come or it ends."""
        _, ended_before, is_new, *_ = kept[-1] or NEW
        if ended_before or not (is_new or pane == ON_TIME_PANE):
            return
        self._panes.emit((plain,) if self._has_plain_keys else plain, span, kept, pane, collector)
        [self._state[span[0], plain]] = written_form([kept])


def written_form(some: Sequence[Kept]) -> Sequence[Any]:
    """The form in which the state has what is kept of some keys."""
    if some and len(some[0]) == 2:  # Python runs once for most, and not once for each
        firsts, statuses = [kept[0] for kept in some], [kept[1] for kept in some]
        if set(map(type, firsts)) <= {int, float} and statuses.count(None) == len(some):
            return firsts
    return [
        kept[0]
        if len(kept) == 2 and kept[1] is None and type(kept[0]) in (int, float)
        else tuple(kept)
        for kept in some
    ]
