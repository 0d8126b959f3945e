"""Figures as people read them: a line, a table, a summary. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from fulmen.api.signals import Lag
from fulmen.api.times.event_time import LATE
from fulmen.cli.display.formats import count, elapsed, item, line, milliseconds, sentence
from fulmen.cli.display.output import FiguresTable
from fulmen.cli.display.run.meter import (
    ComponentFigures,
    Figures,
    Streams,
    component_figures,
    lines_of,
)
from fulmen.cli.display.run.transaction_lines import plain_parts, summary_of, transactions_line
from fulmen.cli.display.run.wait_lines import lag_parts
from fulmen.engine.batches.pace.idle import WARM_BATCHES
from fulmen.engine.protocol.figures.statistics import (
    AHEAD,
    ERRORS,
    STEP_FIGURES,
    UNTIMED,
    UNUSABLE,
    Figure,
    Shown,
    of_topology,
    shown,
)
from fulmen.engine.totals.counted import TreeCounts
from fulmen.engine.totals.derived_waits import resting_waits
from fulmen.engine.totals.failures import (
    REASONS_SHOWN,
    failure_sentence,
    unread_sentences,
)
from fulmen.engine.totals.totals import Totals
from fulmen.engine.totals.transaction_totals import AttemptOutcome
from fulmen.metrics.snapshot import Snapshot
from fulmen.topology.resource.spec import ACKER, Topology

WARMING_UP = "warming up"
COUNTERS_SHOWN = 5
"""Counters of each component, in the summary."""


def is_warming_up(figures: Figures) -> bool:
    """Whether batches still get faster: JVMs compile what has run often."""
    return figures.batches < WARM_BATCHES


def plain_line(figures: Figures) -> str:
    """Format all that matters in one line, for a log."""
    state = f", {WARMING_UP}" if is_warming_up(figures) else ""
    return ", ".join(
        (
            f"{elapsed(figures.seconds)}{state}: batches {_batches(figures)}",
            f"{count(figures.tuples_per_second)} tuples/s",
            *_plain_ends(figures),
            f"latency p50 {milliseconds(figures.p50)} p99 {milliseconds(figures.p99)}",
            *(f"{label} {text}" for label, text in lag_parts(figures.waits.lag)),
        )
    )


def _plain_ends(figures: Figures) -> Iterator[str]:
    """Say how trees ended, or transactions."""
    if figures.transactions is not None:
        yield from plain_parts(figures.transactions)
        return
    yield f"{count(figures.acked_per_second)} acked/s"
    trees = figures.trees
    yield f"acked {count(trees.acked)}"
    yield f"failed {count(trees.failed)}"
    yield f"timed out {count(trees.timed_out)}"
    yield f"pending {count(trees.pending)}"


def _batches(figures: Figures) -> str:
    """Say how many batches there were, and how long the last ones took."""
    if figures.batch_millis is None:
        return count(figures.batches)
    return f"{count(figures.batches)} of {milliseconds(figures.batch_millis)}"


def trees_line(trees: TreeCounts) -> Text:
    """Say how trees ended."""
    return line(
        item("trees acked", count(trees.acked)),
        item("failed", count(trees.failed), "red" if trees.failed else "bold"),
        item("timed out", count(trees.timed_out), "red" if trees.timed_out else "bold"),
        item("pending", count(trees.pending)),
    )


def latency_line(p50: float | None, p99: float | None, lag: Lag | None = None) -> Text:
    """Say how long trees or transactions took from emit to ack, and what the sources have left."""
    figures = [item("latency p50", milliseconds(p50)), item("p99", milliseconds(p99))]
    return line(*figures, *(item(*part) for part in lag_parts(lag)))


def live_header(name: str, phase: str, figures: Figures) -> Iterator[Text]:
    """The lines above the table."""
    yield line(((name, "bold"), f"  {phase}  {elapsed(figures.seconds)}"))
    batches = item("batches", _batches(figures))
    tuples = item("tuples/s", count(figures.tuples_per_second))
    transactions = figures.transactions
    if transactions is None:
        yield line(batches, tuples, item("acked/s", count(figures.acked_per_second)))
        yield latency_line(figures.p50, figures.p99, figures.waits.lag)
        yield trees_line(figures.trees)
    else:
        commits = item("commits/s", count(transactions.committed_per_second))
        yield line(batches, tuples, commits)
        yield latency_line(figures.p50, figures.p99, figures.waits.lag or Lag(transactions.lag))
        yield transactions_line(transactions)
    for text in figures.waits.sentences:
        yield sentence(text, "red")


def component_table(
    components: Sequence[ComponentFigures], rows: int | None = None, rates: bool = True
) -> FiguresTable:
    """The table of components.

    Args:
        components: One for each line.
        rows: How many lines there is room for. Default: for all.
        rates: Whether to show executed/s.
    """
    listed = list(components)
    if rows is not None and len(listed) > rows:
        listed = listed[: max(0, rows - 1)]
    of_tuples, others = shown(Shown.RUN)
    names = [Text(c.name, "dim" if c.name == ACKER else "") for c in listed]
    columns: dict[str, list[str | Text]] = {
        "tasks": [count(c.tasks) for c in listed],
        **_counts(of_tuples, listed),
        "executed/s": [count(c.executed_per_second) if c.executes else "-" for c in listed],
        **_counts(others, listed),
    }
    if not rates:
        del columns["executed/s"]
    if left_out := len(components) - len(listed):
        names.append(Text(f"and {left_out} more", "dim"))
        columns = {title: [*cells, Text("")] for title, cells in columns.items()}
    return FiguresTable(
        "component", names, columns, ("tasks", "executed/s", "emitted", "errors", "executed")
    )


def _counts(
    figures: Sequence[Figure], listed: Sequence[ComponentFigures]
) -> dict[str, list[str | Text]]:
    return {
        figure.heading: [count_cell(figure, c.counts.get(figure, 0), c.has(figure)) for c in listed]
        for figure in figures
    }


def steps_table(steps: Sequence[tuple[str, str, Mapping[str, int]]]) -> FiguresTable:
    """A line for each step of a pipeline.

    Args:
        steps: The component that has it, its name, and its numbers by the names of `STEP_FIGURES`.
    """
    names = [Text(f"{component}: {step}") for component, step, _ in steps]
    columns = {
        title: [count_cell(figure, numbers[title], has_it=True) for _, _, numbers in steps]
        for title, figure in STEP_FIGURES.items()
    }
    return FiguresTable("step", names, columns)


def count_cell(figure: Figure, number: float, has_it: bool) -> str | Text:
    """The cell of a figure in a table; a dash if a component can't have it."""
    if not has_it:
        return "-"
    return Text(count(number), "red" if number else "") if figure.is_bad else count(number)


def summary_lines(totals: Totals, topology: Topology, end: str) -> Iterator[str]:
    """The summary of a run, above its table of components.

    Args:
        totals: The totals of the run.
        topology: What ran.
        end: How it ended, such as "drained".
    """
    seconds = max(totals.seconds, 1e-9)
    yield f"{topology.name}: {end} after {totals.seconds:,.1f} s, {count(totals.batches)} batches"
    if totals.transactions is None:
        yield f"trees        {_ends_of(totals.trees)}"
        ended = f"{count(totals.trees.acked / seconds)} trees acked/s"
    else:
        yield from summary_of(totals.transactions)
        committed = totals.transactions.attempts[AttemptOutcome.COMMITTED]
        ended = f"{count(committed / seconds)} commits/s"
    p50, p99 = totals.latencies.quantile(0.5), totals.latencies.quantile(0.99)
    yield f"latency      p50 {milliseconds(p50)}, p99 {milliseconds(p99)}"
    executed = Snapshot.of(totals).executed
    yield f"throughput   {count(executed / seconds)} tuples/s, {ended}"
    for figure in of_topology(Shown.RUN):
        yield f"{figure.heading:<12} {count(totals.sum(figure))}"
    if totals.failed_attempts:
        yield (
            f"attempts     {count(totals.failed_attempts)} failed and were run again, the last one"
            f" because {totals.last_failure}"
        )


def _ends_of(trees: TreeCounts) -> str:
    ended = [("acked", trees.acked), ("failed", trees.failed), ("timed out", trees.timed_out)]
    ended.append(("pending", trees.pending))
    rare = [("replayed", trees.replayed), ("dead-lettered", trees.dead_lettered)]
    rare.append(("dropped", trees.dropped))
    ended += [(what, n) for what, n in rare if n]
    return ", ".join(f"{count(n)} {what}" for what, n in ended)


def error_lines(totals: Totals) -> Iterator[str]:
    """A line for each component that had errors: how many, and the last that was noted."""
    for name, errors in totals.errors.items():
        number, last = totals.sum(ERRORS, name), errors[-1]
        which = f"{count(number)} errors, the last in" if number > 1 else "1 error, in"
        yield f"{name}: {which} task {last['task']}: {last['message']}"


def failure_lines(totals: Totals) -> Iterator[str]:
    """A line for each kind of reason for which tuples failed, and for messages that still fail."""
    with totals.lock:
        for name, kinds in totals.failures.items():
            for reason in sorted(kinds.values(), key=lambda reason: -reason.count)[:REASONS_SHOWN]:
                yield failure_sentence(name, reason.count, reason.example)
        for wait in resting_waits(totals.resting, totals.placed.plan):
            yield wait.sentence


def counted_lines(totals: Totals, topology: Topology) -> Iterator[str]:
    """A line for each component that has counted something, such as what came too late."""
    with totals.lock:
        for component in topology.spec.components:
            counted = [
                f"{name} {count(value)}"
                for name, value in totals.metrics.of_component(component.name).items()
                if totals.metrics.families[name.partition("{")[0]].kind == "counter" and value
            ]
            if counted:
                more = f", and {len(counted) - COUNTERS_SHOWN} more" * (
                    len(counted) > COUNTERS_SHOWN
                )
                yield f"{component.name}: counted {', '.join(counted[:COUNTERS_SHOWN])}{more}"


def unread_lines(totals: Totals) -> Iterator[str]:
    """Say how much went to streams of what is in no result that no bolt subscribes to."""
    with totals.lock:
        for name, numbers in totals.unread().items():
            yield from unread_sentences(name, numbers)


def time_lines(totals: Totals) -> Iterator[str]:
    """Say what had no usable event time, and what windows and timers still wait for."""
    with totals.lock:
        for name in totals.placed.event_times:
            counts = [totals.counts[name, UNTIMED, reason] for reason in (UNUSABLE, AHEAD)]
            if n := sum(counts):
                tuples = f"{count(n)} tuples" if n > 1 else "1 tuple"
                ahead = f", {count(counts[1])} of them ahead of the clock" if counts[1] else ""
                yield f"{name}: {tuples} without a usable event time{ahead}: see stream {LATE!r}"
        for time in totals.event_times().values():
            if time.why is not None:
                yield time.why


def summary_tables(totals: Totals, topology: Topology, streams: Streams) -> Iterator[FiguresTable]:
    """The tables at the end of a run: of components, and of steps of pipelines if there are any."""
    now = Snapshot.of(totals)
    components = component_figures(now, lines_of(topology, streams))
    yield component_table(components, rates=False)
    if steps := now.steps:
        yield steps_table([(name, step, now.of_step(name, step)) for name, step in steps])
