"""Lines about transactions, where other topologies have trees. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from fulmen.cli.display.formats import count, item, line
from fulmen.engine.batches.transactions import Phase
from fulmen.engine.totals.transaction_totals import AttemptOutcome, TransactionTotals


@dataclass(frozen=True)
class TransactionFigures:
    """The transactions of a topology at one moment.

    Attributes:
        committed_txid: The last one that is committed.
        active: Attempts on their way, by phase.
        attempts: Those that have ended, by outcome.
        lag: Messages of the source that are in no transaction yet; None: not known.
        head: What is to be said of the first one that is not committed; "": nothing.
        committed_per_second: Of the last seconds.
    """

    committed_txid: int = 0
    active: Mapping[str, int] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    lag: int | None = None
    head: str = ""
    committed_per_second: float = 0.0

    @staticmethod
    def of(totals: TransactionTotals) -> "TransactionFigures":
        """The figures of transactions in the totals, without a rate."""
        active = {str(phase): totals.active_in(phase) for phase in Phase}
        attempts = {str(outcome): totals.attempts[outcome] for outcome in AttemptOutcome}
        return TransactionFigures(totals.committed, active, attempts, totals.lag)


def _ends(figures: TransactionFigures) -> Sequence[tuple[str, int]]:
    """Counts of ended attempts; the last three not well."""
    bad = (AttemptOutcome.FAILED, AttemptOutcome.LOST, AttemptOutcome.GIVEN_UP)
    return (
        ("txid", figures.committed_txid),
        ("active", sum(figures.active.values())),
        ("attempts", sum(figures.attempts.values())),
        *((outcome.replace("_", " "), figures.attempts.get(outcome, 0)) for outcome in bad),
    )


def transactions_line(figures: TransactionFigures) -> Text:
    """Say how attempts ended."""
    *usual, failed, lost, given_up = _ends(figures)
    bad = [(*one, "red" if one[1] else "bold") for one in (failed, lost, given_up)]
    shown = [item(label, count(number)) for label, number in usual]
    return line(*shown, *(item(label, count(number), style) for label, number, style in bad))


def plain_parts(figures: TransactionFigures) -> Iterator[str]:
    """Format the figures for a line in a log."""
    yield f"{count(figures.committed_per_second)} commits/s"
    yield from (f"{label} {count(number)}" for label, number in _ends(figures))
    if figures.lag is not None:
        yield f"lag {count(figures.lag)}"


def summary_of(totals: TransactionTotals) -> Iterator[str]:
    """The lines of a summary."""
    ended = totals.attempts
    again = (AttemptOutcome.FAILED, AttemptOutcome.CASCADED, AttemptOutcome.LOST)
    parts = [f"{count(ended[what])} {what}" for what in again if ended[what]]
    n = ended[AttemptOutcome.GIVEN_UP]
    given_up = f", {count(n)} given up" if n else ""
    repeated = f"; attempts that came again: {', '.join(parts)}" if parts else ""
    yield (
        f"transactions {count(ended[AttemptOutcome.COMMITTED])} committed{given_up},"
        f" {count(len(totals.active))} active;"
        f" the last committed txid is {totals.committed}{repeated}"
    )
    if totals.head_failures:
        yield f"the head     {totals.head}"
    if totals.lag:
        yield f"lag          {count(totals.lag)} messages are in no transaction yet"
