"""What the command says of transactions, where other topologies have trees. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from fulmen.cli.display.formats import count, item, line
from fulmen.engine.totals.transaction_totals import AttemptOutcome, TransactionTotals


@dataclass(frozen=True)
class TransactionFigures:
    """The transactions of a topology at one moment: how many attempts have ended in which way.

    Attributes:
        committed_txid: The last one that is committed.
        lag: Messages of the source that are in no transaction yet; None: not known.
        committed_per_second: Of the last seconds.
    """

    committed_txid: int = 0
    active: int = 0
    committed: int = 0
    failed: int = 0
    cascaded: int = 0
    lost: int = 0
    given_up: int = 0
    lag: int | None = None
    committed_per_second: float = 0.0

    @staticmethod
    def of(totals: TransactionTotals) -> "TransactionFigures":
        """The figures of transactions in the totals, without a rate."""
        return TransactionFigures(
            committed_txid=totals.committed,
            active=len(totals.active),
            **{outcome.value: totals.attempts[outcome] for outcome in AttemptOutcome},
            lag=totals.lag,
        )

    @property
    def attempts(self) -> int:
        """All that have ended."""
        return self.committed + self.failed + self.cascaded + self.lost + self.given_up


def _ends(figures: TransactionFigures) -> Sequence[tuple[str, int]]:
    """How attempts ended; the last three not well."""
    return (
        ("txid", figures.committed_txid),
        ("active", figures.active),
        ("attempts", figures.attempts),
        ("failed", figures.failed),
        ("lost", figures.lost),
        ("given up", figures.given_up),
    )


def transactions_line(figures: TransactionFigures) -> Text:
    """How attempts ended."""
    *usual, failed, lost, given_up = _ends(figures)
    bad = [(*one, "red" if one[1] else "bold") for one in (failed, lost, given_up)]
    shown = [item(label, count(number)) for label, number in usual]
    return line(*shown, *(item(label, count(number), style) for label, number, style in bad))


def plain_parts(figures: TransactionFigures) -> Iterator[str]:
    """The same for a line in a log."""
    yield f"{count(figures.committed_per_second)} commits/s"
    yield from (f"{label} {count(number)}" for label, number in _ends(figures))
    if figures.lag is not None:
        yield f"lag {count(figures.lag)}"


def summary_of(totals: TransactionTotals) -> Iterator[str]:
    """The lines of a summary."""
    found = TransactionFigures.of(totals)
    again = [("failed", found.failed), ("cascaded", found.cascaded), ("lost", found.lost)]
    parts = [f"{count(n)} {what}" for what, n in again if n]
    given_up = f", {count(found.given_up)} given up" if found.given_up else ""
    repeated = f"; attempts that came again: {', '.join(parts)}" if parts else ""
    yield (
        f"transactions {count(found.committed)} committed{given_up}, {count(found.active)} active;"
        f" the last committed txid is {totals.committed}{repeated}"
    )
    if totals.head_failures:
        yield f"the head     {totals.head}"
    if totals.lag:
        yield f"lag          {count(totals.lag)} messages are in no transaction yet"
