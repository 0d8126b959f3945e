"""The tables of `fulmen top`. Pure."""

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from fulmen.api.signals import Lag
from fulmen.cli.display.formats import age, count, elapsed, item, line, milliseconds, sentence
from fulmen.cli.display.output import FiguresTable
from fulmen.cli.display.run.figures import count_cell, latency_line, steps_table, trees_line
from fulmen.cli.display.run.transaction_lines import transactions_line
from fulmen.cli.display.served_figures import (
    ComponentView,
    TimeView,
    TopologyView,
    WorkerView,
)
from fulmen.engine.protocol.figures.statistics import Figure, Shown, of_topology, shown
from fulmen.engine.totals.failures import failure_sentence, unread_sentences
from fulmen.engine.totals.waits import WaitKind, lag_of
from fulmen.plan.model import DRIVER
from fulmen.topology.resource.spec import ACKER
from fulmen.visible import visible

Column = tuple[str, Callable[[ComponentView], str | Text]]
"""A title, and what is below it."""


def topology_picture(view: TopologyView, state: str, scaling: str = "") -> Group:
    """A topology that runs.

    Args:
        view: What its driver says.
        state: What it is doing, in a word.
        scaling: How many workers were chosen by the load, and why; "" if they are not.
    """
    parts: list[RenderableType] = [*_header(view, state)]
    parts += [Text(scaling)] if scaling else []
    parts.append(Text(""))
    parts.append(components_table(view.components))
    if steps := [(c.name, step["step"], step) for c in view.components for step in c.steps]:
        parts += [Text(""), steps_table(steps)]
    parts += _times(view.components)
    if view.failures:
        parts.append(Text(""))
    for one in view.failures:
        text = failure_sentence(one.component, one.count, one.example)
        parts.append(Text(visible(text), "red", no_wrap=True, overflow="ellipsis"))
    if any(w.host for w in view.workers):
        parts += [Text(""), workers_table(view.workers, view.worker_counts.wanted)]
    return Group(*parts)


def _times(components: Sequence[ComponentView]) -> Iterator[Text]:
    """Say what windows and timers of event time wait for."""
    told = [c.time for c in components if c.time is not None and c.time.why is not None]
    if told:
        yield Text("")
    for time in told:
        yield Text(time.why or "", "red" if time.is_stuck else "")


def _header(view: TopologyView, state: str) -> Iterator[Text]:
    trees, latency = view.trees, view.complete_latency_ms
    yield line(((view.name, "bold"), f"  {state}  {elapsed(view.uptime_seconds)}"))
    counts = view.worker_counts
    workers = item("workers", f"{counts.present}/{counts.wanted}")
    batches = item("batches", count(view.batches.count))
    for figure in of_topology(Shown.TOP):
        batches += item(figure.heading, count(view.batches.counts.get(figure, 0)))
    transactions = view.transactions
    if transactions is None:
        yield line(workers, batches, item("acked/s", count(view.acked_per_second)))
        yield latency_line(latency.p50, latency.p99, lag_of_all(view))
        yield trees_line(trees)
        yield from _waits(view)
        return
    yield line(workers, batches, item("commits/s", count(transactions.committed_per_second)))
    yield latency_line(latency.p50, latency.p99, lag_of_all(view) or Lag(transactions.lag))
    yield transactions_line(transactions)
    yield from _waits(view)
    if transactions.head:
        yield sentence(transactions.head, "red")


def _waits(view: TopologyView) -> Iterator[Text]:
    """Say what the topology waits for; waits of event time's timers are below the table."""
    for wait in view.waits:
        if wait.kind is not WaitKind.TIME:
            yield sentence(wait.sentence, "red")
    for component in view.unread:
        for text in unread_sentences(component.name, component.unread):
            yield sentence(text, "red")


def lag_of_all(view: TopologyView) -> Lag | None:
    """Add up the lag of all spouts."""
    lags = {n: c.lag for n, c in enumerate(view.components) if c.lag}
    return lag_of(lags, lags)


def _lag_text(lag: Lag | None) -> str:
    if lag is None:
        return "-"
    parts = [] if lag.messages is None else [count(lag.messages)]
    parts += [] if lag.seconds is None else [milliseconds(1000 * lag.seconds)]
    return ", ".join(parts) or "-"


PART_SHOWN = 20
"""Characters of the name of a part, the last ones."""


def _behind(time: TimeView | None) -> str:
    """Say how far a watermark is behind the clock, or ahead of it."""
    if time is None or time.behind_seconds is None:
        return "-"
    is_ahead = time.behind_seconds <= -1
    return f"{age(-time.behind_seconds)} ahead" if is_ahead else age(max(0.0, time.behind_seconds))


def _held_by(component: ComponentView) -> str:
    held = component.time.held_by if component.time else None
    if held is None or held.part is None:
        return "-"
    part = held.part.removeprefix("part ")
    part = part if len(part) <= PART_SHOWN else f"…{part[-PART_SHOWN:]}"
    return part if held.component == component.name else f"{held.component}: {part}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _or_dash(number: int | None) -> str:
    return "-" if number is None else count(number)


def _column(figure: Figure) -> Column:
    return figure.heading, lambda c: count_cell(figure, c.counts.get(figure, 0), c.has(figure))


COLUMNS: Sequence[Column] = (
    ("exec/tasks", lambda c: f"{c.executors}/{c.tasks}"),
    *map(_column, shown(Shown.TOP)[0]),
    ("capacity", lambda c: _ratio(c.capacity)),
    ("execute", lambda c: milliseconds(c.execute_ms)),
    ("complete", lambda c: milliseconds(c.complete_ms)),
    ("pending", lambda c: _or_dash(c.pending)),
    *map(_column, shown(Shown.TOP)[1]),
)
DISPENSABLE = (
    *("state bytes", "state keys", "timers", "held by", "executed", "execute", "errors"),
    *("emitted", "exec/tasks", "late", "complete", "pending"),
)
"""Columns that a narrow terminal has no room for, the first one first."""


def components_table(components: Sequence[ComponentView]) -> FiguresTable:
    """A line for each component, with Storm's statistics."""
    names = [Text(c.name, "dim" if c.name == ACKER else "") for c in components]
    columns = {title: [cell(c) for c in components] for title, cell in COLUMNS}
    if any(c.lag for c in components):
        columns["lag"] = [_lag_text(c.lag) for c in components]
    if any(c.time for c in components):
        columns["behind"] = [_behind(c.time) for c in components]
        columns["held by"] = [_held_by(c) for c in components]
        columns["timers"] = [_or_dash(c.time.timers if c.time else None) for c in components]
        late = [sum(c.time.late.values()) if c.time else None for c in components]
        columns["late"] = [_or_dash(n) for n in late]
    return FiguresTable("component", names, columns, DISPENSABLE)


WORKERS_SHOWN = 10
"""Lines of workers, at most: those that are missing, then those with the most to do."""


def workers_table(workers: Sequence[WorkerView], total: int) -> FiguresTable:
    """A line for each worker: where it is, and how much it has to do.

    Args:
        workers: Those that the driver lists.
        total: How many workers the topology asks for.
    """
    chosen = sorted(workers, key=lambda w: (w.present, -w.busy))[:WORKERS_SHOWN]
    shown = sorted(chosen, key=lambda w: w.worker)
    names = [Text(_worker_name(w), "" if w.present else "red") for w in shown]
    columns: dict[str, list[str | Text]] = {
        "slot": ["-" if w.slot is None else str(w.slot) for w in shown],
        "pid": ["-" if w.pid is None else str(w.pid) for w in shown],
        "memory": [_megabytes(w.memory_bytes) for w in shown],
        "executors": [count(w.executor_count) for w in shown],
        "no processor": [f"{100 * w.run_delay:.0f} %" if w.present else "-" for w in shown],
        "at work": [_at_work(w) for w in shown],
    }
    if left_out := max(total, len(workers)) - len(shown):
        names.append(Text(f"and {left_out} more", "dim"))
        columns = {title: [*cells, ""] for title, cells in columns.items()}
    return FiguresTable("worker", names, columns, ("pid", "executors", "memory", "no processor"))


def _worker_name(worker: WorkerView) -> str:
    name = "driver" if worker.worker == DRIVER else str(worker.worker)
    place = worker.pod or worker.host
    return f"{name} on {place}" if place else name


def _at_work(worker: WorkerView) -> str | Text:
    return f"{100 * worker.busy:.0f} %" if worker.present else Text("missing", "red")


def _megabytes(size: int | None) -> str:
    return "-" if size is None else f"{count(round(size / 1e6))} MB"
