"""Lines about lag, services that are away, and spouts that rest. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fulmen.api.signals import Lag
from fulmen.cli.display.formats import age, count, several
from fulmen.engine.driver.stop import AssumedEnd
from fulmen.engine.totals.derived_waits import waiting
from fulmen.engine.totals.totals import Totals
from fulmen.engine.totals.waits import lag_of


@dataclass(frozen=True)
class WaitFigures:
    """The waits of a topology at one moment.

    Attributes:
        lag: How far its spouts are behind together; None: none of them says it.
        sentences: Of each wait.
    """

    lag: Lag | None = None
    sentences: tuple[str, ...] = ()

    @staticmethod
    def of(totals: Totals) -> "WaitFigures":
        """The figures of waits in the totals. Any thread may ask."""
        with totals.lock:
            lags, waits = dict(totals.waits.lags), waiting(totals, totals.steady())
        return WaitFigures(lag_of(lags, lags), tuple(wait.sentence for wait in waits))


def assumed_end_sentence(end: AssumedEnd, asked: float) -> str:
    """A sentence: nothing came for as long as was `asked` for, and this was taken for the end."""
    *others, last = map(repr, end.spouts)
    names = f"{', '.join(others)} and {last} don't" if others else f"{last} doesn't"
    longer = "" if asked else ". To wait longer: --wait-for-more SECONDS"
    return (
        f"{names} know the end of the input: that nothing came for {end.seconds:.1f} s was taken"
        f" for it{longer}"
    )


def still_open_sentence(totals: Totals) -> str | None:
    """Say what event time has not ended, after a run that others may follow; None: nothing."""
    with totals.lock:
        plan = totals.placed.plan
        timers: Counter[str] = Counter()
        for task, pending in totals.timers.by_task():
            if pending.event is not None:
                timers[plan.component_of(task)] += pending.number
        windows = {name: totals.metrics.of_component(name).get("open_windows") for name in timers}
    if not timers:
        return None
    kept = [
        f"{name!r} keeps {several(windows[name] or n, 'window' if windows[name] else 'timer')}"
        for name, n in timers.items()
    ]
    return (
        "event time has not ended, as another run with this checkpoint may bring more:"
        f" {', '.join(kept)}. What they would emit by now was emitted as early results. If nothing"
        " more will come: --end-of-input"
    )


def lag_parts(lag: Lag | None) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each figure of the lag."""
    if lag is not None and lag.messages is not None:
        yield "lag", count(lag.messages)
    if lag is not None and lag.seconds is not None:
        yield "lag age", age(lag.seconds)
