"""Rows and the mark that says which they are, in one transaction of Kafka's.

The mark is what a consumer group has committed for the topic's partition 0: its offset is the
number of Fulmen's commit, its metadata the tag. Kafka keeps offsets that are sent with a
transaction if, and only if, it keeps the transaction's messages.

The transactional id is that of the sink's task, so a new producer keeps the one before out, and
ends what that one had begun, before the mark is read. After that nobody else can change it, so it
is read once for each producer. After any failure the producer is dropped: the next one reads
whether its last transaction was committed.
"""

from __future__ import annotations

import base64
import json
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from fulmen.api.sinks import Mark, Rows
from fulmen.connectors.kafka.client import SECONDS, Brokers
from fulmen.connectors.kafka.writing.producing import Delivery, Refused, reason_of_refusal

TRANSACTION_SECONDS = 60
LONGEST_METADATA = 4096
"""In bytes; what brokers take by default (`offset.metadata.max.bytes`)."""


class TooManyRefused(Exception):
    """More rows of one write were refused than can be told with its mark."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count

    def __str__(self) -> str:
        return (
            f"Kafka refuses {self.count} rows of one batch, more than a mark can tell, so nothing"
            " is written. See `max.message.bytes` of the topic, and that keys, timestamps and"
            " partitions are such as it takes; then it goes on"
        )


@dataclass(frozen=True)
class Written:
    """What a mark in Kafka says.

    Attributes:
        number: Of the commit; None: there is no mark.
        tag: Of the same.
        refused: Positions of rows that were refused, and the codes of the client's errors.
    """

    number: int | None = None
    tag: str | None = None
    refused: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def read(offset: int, metadata: str | None) -> Written:
        """From a committed offset."""
        if offset < 0:
            return Written()
        told = json.loads(metadata or "{}")
        packed = base64.b85decode(told["refused"]) if "refused" in told else None
        pairs = json.loads(zlib.decompress(packed)) if packed else []
        return Written(offset, told.get("tag"), dict(pairs))

    def metadata(self, label: str) -> str:
        """What to commit with the offset.

        Args:
            label: Whose the mark is, for people.

        Raises:
            TooManyRefused: It would be too long.
        """
        told: dict[str, Any] = {"tag": self.tag, "label": label}
        if self.refused:
            pairs = json.dumps(sorted(self.refused.items()), separators=(",", ":"))
            told["refused"] = base64.b85encode(zlib.compress(pairs.encode(), 9)).decode()
        text = json.dumps(told)
        if len(text.encode()) > LONGEST_METADATA:
            raise TooManyRefused(len(self.refused))
        return text


def within(seconds: float, call: Callable[[], object]) -> None:
    """Make a call of the client that may never return, whatever timeout it is given.

    Raises:
        KafkaException: It raised that, or has not returned in time: then its thread is given up.
    """
    ended: list[BaseException | None] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 (it is raised below)
            ended.append(error)
        else:
            ended.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not ended:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))
    if ended[0] is not None:
        raise ended[0]


class Transactions:
    """Writes rows of one task, each exactly once."""

    def __init__(self, brokers: Brokers, topic: str, *, names_places: bool) -> None:
        """See `Delivery` for `names_places`; the mark is kept for `topic`."""
        self._brokers = brokers
        self._place = topic
        self._names_places = names_places
        self._delivery: Delivery | None = None
        self._written = Written()
        self._reader: Consumer | None = None

    def write(self, rows: Rows, mark: Mark) -> None:
        """Write rows unless they are written already, and fail those that are refused.

        Raises:
            KafkaException: It is not known whether they are written: call it again.
            MarkAhead: Later rows are written already.
            TooManyRefused: None is written.
        """
        try:
            if self._delivery is None or self._was_cut_off():
                self._begin(mark, one_by_one=False)
            if not mark.is_written(self._written.number, self._written.tag):
                self._write(rows, mark)
        except BaseException:
            self.drop()
            raise
        for i, code in self._written.refused.items():
            rows.fail(i, reason_of_refusal(code))

    def _begin(self, mark: Mark, *, one_by_one: bool) -> None:
        """Keep older producers out, and read what they have written at last."""
        self.drop()
        self._delivery = Delivery(
            self._brokers,
            names_places=self._names_places,
            one_by_one=one_by_one,
            transactional_id=f"fulmen-{mark.sink}",
            transaction_timeout_ms=TRANSACTION_SECONDS * 1000,
        )
        self._delivery.producer.init_transactions(TRANSACTION_SECONDS)
        self._brokers.forget()
        self._reader = self._brokers.consumer(f"fulmen-{mark.sink}")
        (found,) = self._reader.committed([TopicPartition(self._place, 0)], SECONDS)
        if found.error is not None:
            raise KafkaException(found.error)
        self._written = Written.read(found.offset, found.metadata)

    def _was_cut_off(self) -> bool:
        """Whether a connection was lost since the last write.

        The client may go on to look for a group where its coordinator was, and never return.
        """
        assert self._delivery is not None
        self._delivery.producer.poll(0)
        return self._brokers.has_complained

    def _write(self, rows: Rows, mark: Mark) -> None:
        """Try with all rows, then one by one to see which are refused, then without those."""
        refused: dict[int, int] = {}
        while True:
            written = Written(mark.number, mark.tag, dict(refused))
            metadata = written.metadata(mark.label)
            more = self._transact(rows, refused, mark.number, metadata)
            if not more:
                self._written = written
                if refused:  # the next rows are sent together again
                    self.drop()
                return
            refused |= {i: found.code for i, found in more.items() if found.is_exact}
            self._begin(mark, one_by_one=True)
            if mark.is_written(self._written.number, self._written.tag):
                return

    def _transact(
        self, rows: Rows, without: dict[int, int], number: int, metadata: str
    ) -> dict[int, Refused]:
        """One transaction. If rows are refused, it is not committed."""
        assert self._delivery is not None
        assert self._reader is not None
        producer = self._delivery.producer
        producer.begin_transaction()
        wanted = [i for i in range(len(rows)) if i not in without]
        refused = self._delivery.write(rows, wanted)
        if not refused:
            offset = TopicPartition(self._place, 0, number, metadata)
            group = self._reader.consumer_group_metadata()
            within(
                2 * SECONDS,
                lambda: producer.send_offsets_to_transaction([offset], group, SECONDS),
            )
            producer.commit_transaction(TRANSACTION_SECONDS)
        return refused

    def drop(self) -> None:
        """Let go of the producer. What it has not committed is never read by anybody."""
        delivery, reader = self._delivery, self._reader
        self._delivery = self._reader = None
        if delivery is not None:
            delivery.drop()
        if reader is not None:
            reader.close()
