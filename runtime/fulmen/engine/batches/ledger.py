"""Transactions as commits have them: which are committed, and where the others are. Pure."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from fulmen.api.marks import WHATEVER, Point
from fulmen.engine.protocol.transaction_work import Parts
from fulmen.errors import PASSED_ON, repr_of

TRANSACTIONS = "transactions"
"""The section of a commit with the ledger: each commit of a transactional topology has it."""
GIVEN_UP_KEPT = 100
METADATA_SHOWN = 200


@dataclass(frozen=True)
class GivenUp:
    """A transaction that was given up: none of its tuples was processed.

    Attributes:
        txid: Its number.
        metadata: Of it.
        reason: Why its last attempt failed.
        failures: How many of its attempts had failed.
    """

    txid: int
    metadata: Parts
    reason: str
    failures: int


@dataclass(frozen=True)
class Ledger:
    """The durable part of the transactions.

    Attributes:
        committed: The last txid that is committed; 0: none.
        metadata: By txid: of all that are opened and not committed. Of the last one that is, each
            source's last, though another transaction may have had it.
        failures: How many attempts have failed, by txid.
        reasons: Why the last one did.
        given_up: The last transactions that were given up.
        branches: Which driver has opened those that are not committed, by txid: stores tell them by
            that from others of the same numbers.
        written: The last that was committed, if only with nothing; None: none was.
        skipped: The branches of those that another source has left behind since. Stores may have
            parts of them.
    """

    committed: int = 0
    metadata: Mapping[int, Parts] = field(default_factory=dict)
    failures: Mapping[int, int] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)
    given_up: tuple[GivenUp, ...] = ()
    branches: Mapping[int, str] = field(default_factory=dict)
    written: Point | None = None
    skipped: tuple[str, ...] = ()

    @property
    def head(self) -> int:
        """The first txid that is not committed."""
        return self.committed + 1

    @property
    def last(self) -> int:
        """The last txid that was given out."""
        return max(self.committed, max(self.metadata, default=0))

    def with_failure(self, txid: int, reason: str) -> Ledger:
        """After an attempt has failed."""
        failures = {**self.failures, txid: self.failures.get(txid, 0) + 1}
        return replace(self, failures=failures, reasons={**self.reasons, txid: reason})

    def with_given_up(self, txid: int) -> Ledger:
        """After the head was given up."""
        one = GivenUp(
            txid, self.metadata[txid], self.reasons.get(txid, ""), self.failures.get(txid, 0)
        )
        given_up = (*self.given_up, one)[-GIVEN_UP_KEPT:]
        return replace(self, given_up=given_up).with_committed(txid)

    def with_committed(self, txid: int) -> Ledger:
        """After the head was committed."""
        return Ledger(
            txid,
            {
                txid: self.parts_before(txid + 1),
                **{t: m for t, m in self.metadata.items() if t > txid},
            },
            {t: n for t, n in self.failures.items() if t > txid},
            {t: r for t, r in self.reasons.items() if t > txid},
            self.given_up,
            {t: b for t, b in self.branches.items() if t > txid},
            Point(txid, self.branches.get(txid, "")),
        )

    def parts_before(self, txid: int) -> Parts:
        """The last metadata of each source, of the transactions before one."""
        parts: dict[str, bytes] = {}
        for of in sorted(of for of in self.metadata if of < txid):
            parts |= self.metadata[of]
        return parts

    def without(self, sources: Collection[str]) -> Ledger:
        """After these sources are gone: what they had in transactions is dropped."""
        kept = {
            txid: {source: part for source, part in parts.items() if source not in sources}
            for txid, parts in self.metadata.items()
        }
        return replace(self, metadata=kept)

    def with_sources(self, metadata: Parts) -> Ledger:
        """After sources have come back, whose last metadata are given."""
        last = {**self.metadata.get(self.committed, {}), **metadata}
        return replace(self, metadata={**self.metadata, self.committed: last})

    def renamed(self, names: Mapping[str, str]) -> Ledger:
        """After sources were renamed: the old name of each, and its new one."""

        def moved(parts: Parts) -> Parts:
            return {names.get(source, source): part for source, part in parts.items()}

        return replace(
            self,
            metadata={txid: moved(parts) for txid, parts in self.metadata.items()},
            given_up=tuple(replace(one, metadata=moved(one.metadata)) for one in self.given_up),
        )

    def begun_anew(self, committed: int) -> Ledger:
        """Begin anew for another source, whose transactions begin behind `committed`."""
        written = self.written or (Point(committed, WHATEVER) if committed else None)
        skipped = tuple(sorted({*self.skipped, *self.branches.values()}))
        return Ledger(committed, written=written, skipped=skipped)

    def accepting(self, above: int) -> Ledger:
        """After which stores may have whatever they have, up to transaction `above`.

        If that is more than is committed, what is opened is opened anew, with numbers above it.
        """
        if above <= self.committed:
            return replace(self, written=Point(self.committed, WHATEVER), skipped=())
        last = self.metadata.get(self.committed)
        metadata = {} if last is None else {above: last}
        written = Point(above, WHATEVER)
        return Ledger(above, metadata, given_up=self.given_up, written=written)

    def encode(self) -> bytes:
        """Turn it into bytes for a commit."""
        return pickle.dumps(self, 5)


def ledger_of(transient: Mapping[str, bytes]) -> Ledger:
    """The ledger in a commit's sections; a new one if there is none."""
    data = transient.get(TRANSACTIONS)
    ledger: Ledger = pickle.loads(data) if data else Ledger()
    return ledger


def shown_metadata(metadata: Parts) -> str:
    """The metadata of a transaction in a message, with the sources' names if there are several."""
    if len(metadata) == 1:
        return _shown(*metadata.values())
    shown = [f"{source!r}: {_shown(part)}" for source, part in metadata.items()]
    return ", ".join(shown) or "no metadata"


def _shown(part: bytes) -> str:
    try:
        text = f"metadata {repr_of(pickle.loads(part))}"
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (an author's class may be gone, or raise anything)
        return f"metadata of {len(part)} bytes"
    return text if len(text) <= METADATA_SHOWN else text[: METADATA_SHOWN - 1] + "…"
