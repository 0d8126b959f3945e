"""Rows and the mark that says which they are, in one transaction of Kafka's.

The mark is what a consumer group has committed for the topic's partition 0: its offset is the
number of Fulmen's commit, its metadata the tag and which rows were refused. If these are more than
the metadata takes, further groups have the rest. Kafka keeps offsets that are sent with a
transaction if, and only if, it keeps the transaction's messages.

The transactional id is that of the sink's task, so a new producer keeps the one before out, and
ends what that one had begun, before the mark is read. After that nobody else can change it, so it
is read once for each producer. After any failure the producer is dropped: the next one reads
whether its last transaction was committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from fulmen.api.components.sinks import Mark, Rows
from fulmen.connectors.kafka.writing.marks import Written
from fulmen.connectors.kafka.writing.producing import (
    Limits,
    ProducedRow,
    RefusedRow,
    RowDelivery,
    Sending,
    reason_of_refusal,
)
from fulmen.services.kafka import SECONDS, Brokers, error_of, within

TRANSACTION_SECONDS = 60
FORBIDDEN = KafkaError.TOPIC_AUTHORIZATION_FAILED


class KafkaTransactions:
    """Writes rows of one task, each exactly once."""

    def __init__(self, brokers: Brokers, topic: str) -> None:
        """Keep the mark for `topic`, which is that of the sink."""
        self._brokers = brokers
        self._place = topic
        self._delivery: RowDelivery | None = None
        self._written = Written()
        self._readers: list[Consumer] = []

    def write(self, rows: Rows, mark: Mark) -> None:
        """Write rows unless they are written already, and fail those that are refused.

        Raises:
            KafkaException: It is not known whether they are written: call it again.
            StoreMismatch: The mark is neither that of these rows nor that of those before them.
        """
        try:
            if self._delivery is None or self._was_cut_off():
                self._begin(mark, Sending.TOGETHER)
            if not mark.is_written(self._written.number, self._written.tag):
                self._write(rows, mark)
        except BaseException:
            self.drop()
            raise
        for i, code in sorted(self._written.refused.items()):
            rows.fail(i, reason_of_refusal(code, rows[i]))

    def _begin(self, mark: Mark, sending: Sending) -> RowDelivery:
        """Keep older producers out, and read what they have written at last."""
        self.drop()
        delivery = self._delivery = RowDelivery(
            self._brokers,
            self._place,
            sending,
            transactional_id=f"fulmen-{mark.sink}",
            transaction_timeout_ms=TRANSACTION_SECONDS * 1000,
        )
        delivery.producer.init_transactions(TRANSACTION_SECONDS)
        self._brokers.forget()
        committed = self._committed(mark, 0)
        more = Written.pages_after(committed.metadata) if committed.offset >= 0 else 0
        after = [self._committed(mark, page).metadata for page in range(1, more + 1)]
        self._written = Written.read(committed.offset, [committed.metadata, *after])
        if self._written.number is None and mark.previous is not None and self._was_written_to():
            self._written = Written(*mark.previous)
        return delivery

    def _was_written_to(self) -> bool:
        """Whether the topic ever had a message. Then brokers have forgotten the mark: it was old.

        They forget offsets after some days (`offsets.retention.minutes`). A topic that was made
        anew, or that of other brokers, begins with nothing.
        """
        reader, place = self._readers[0], self._place
        partitions = self._brokers.metadata(reader, place)
        ends = (reader.get_watermark_offsets(TopicPartition(place, p), SECONDS) for p in partitions)
        return any(end > 0 for _, end in ends)

    def _reader(self, mark: Mark, page: int) -> Consumer:
        """The consumer that reads and commits a page of the mark."""
        while len(self._readers) <= page:
            self._readers.append(self._brokers.consumer(_group(mark, len(self._readers))))
        return self._readers[page]

    def _committed(self, mark: Mark, page: int) -> TopicPartition:
        reader = self._reader(mark, page)
        asked = [TopicPartition(self._place, 0)]
        (committed,) = self._brokers.committed(reader, asked, _group(mark, page))
        if committed.error is not None:
            raise KafkaException(committed.error)
        return committed

    def _was_cut_off(self) -> bool:
        """Whether a connection was lost since the last write.

        The client may go on to look for a group where its coordinator was, and never return.
        """
        assert self._delivery is not None
        self._delivery.producer.poll(0)
        return self._brokers.has_complained

    def _write(self, rows: Rows, mark: Mark) -> None:
        """Try with all rows, and again without those that are refused, until all are written.

        A transaction in which a row was refused is never seen by anybody: the next producer ends
        it. The client can't go on with the same producer, since it may purge what comes next, too.
        """
        refused: dict[int, int] = {}
        sending = Sending.TOGETHER
        brokers = self._brokers
        limits = Limits(rows, compresses=brokers.compresses, is_compacted=brokers.is_compacted)
        while (failed := self._transact(rows, refused, mark)) is not None:
            if not any(of.is_exact for of in failed.values()):
                self._begin(mark, Sending.ONE_BY_ONE)
                known = len(refused)
                self._look_among(rows, refused, failed, limits)
                # Messages that are small enough may be too large together.
                codes = {of.code for of in failed.values()}
                if KafkaError.MSG_SIZE_TOO_LARGE in codes or len(refused) == known:
                    sending = Sending.ONE_BY_ONE
                else:
                    sending = Sending.TOGETHER
            self._begin(mark, sending)
            if mark.is_written(self._written.number, self._written.tag):
                return
        if sending is Sending.ONE_BY_ONE:  # the next rows are sent together again
            self.drop()

    def _look_among(
        self, rows: Rows, refused: dict[int, int], found: dict[int, RefusedRow], limits: Limits
    ) -> None:
        """Find refused rows among suspects by a transaction that is not committed.

        The smallest come first: as soon as one is too large, all that are larger are, too.
        """
        assert self._delivery is not None
        suspects = (i for i, of in found.items() if of.is_suspect)
        self._delivery.producer.begin_transaction()
        certain = self._delivery.write(
            rows, sorted(suspects, key=lambda i: ProducedRow(*rows[i]).size)
        )
        limits.learn(certain)
        certain = limits.beyond(i for i in range(len(rows)) if i not in refused) | certain
        refused |= {i: of.code for i, of in certain.items()}

    def _transact(
        self, rows: Rows, refused: dict[int, int], mark: Mark
    ) -> dict[int, RefusedRow] | None:
        """Write all rows but those that are `refused`, to which more are added, in one transaction.

        Returns:
            None: It is committed. Otherwise it is not, because of these.
        """
        assert self._delivery is not None
        producer = self._delivery.producer
        producer.begin_transaction()
        left = [i for i in range(len(rows)) if i not in refused]
        try:
            failed = self._delivery.write(rows, left)
        except KafkaException as error:
            if error_of(error).code() != FORBIDDEN or not (failed := self._look(rows, left, mark)):
                raise
            refused |= {i: of.code for i, of in failed.items()}
            return failed
        refused |= {i: of.code for i, of in failed.items() if of.is_exact}
        if self._delivery.has_failed:
            return failed
        written = Written(mark.number, mark.tag, dict(refused))
        for page, metadata in enumerate(written.pages(mark.label)):
            self._send_offset(producer, mark, page, metadata)
        producer.commit_transaction(TRANSACTION_SECONDS)
        self._written = written
        return None

    def _look(self, rows: Rows, left: Sequence[int], mark: Mark) -> dict[int, RefusedRow]:
        """Find the rows for other topics that are forbidden: each of these is tried alone.

        The brokers don't say which topic of a transaction they mean.
        """
        by_topic: dict[str, list[int]] = {}
        for i in left:
            by_topic.setdefault(ProducedRow(*rows[i]).topic, []).append(i)
        by_topic.pop(self._place, None)
        forbidden: dict[int, RefusedRow] = {}
        for positions in by_topic.values():
            delivery = self._begin(mark, Sending.TOGETHER)
            delivery.producer.begin_transaction()
            try:
                delivery.write(rows, positions[:1])
            except KafkaException as error:
                if error_of(error).code() != FORBIDDEN:
                    raise
                forbidden |= dict.fromkeys(positions, RefusedRow(FORBIDDEN, is_exact=True))
        return forbidden

    def _send_offset(self, producer: Producer, mark: Mark, page: int, metadata: str) -> None:
        offset = TopicPartition(self._place, 0, mark.number, metadata)
        group = self._reader(mark, page).consumer_group_metadata()
        within(2 * SECONDS, lambda: producer.send_offsets_to_transaction([offset], group, SECONDS))

    def drop(self) -> None:
        """Let go of the producer. What it has not committed is never read by anybody."""
        delivery, readers = self._delivery, self._readers
        self._delivery, self._readers = None, []
        if delivery is not None:
            delivery.drop()
        for reader in readers:
            reader.close()


def _group(mark: Mark, page: int) -> str:
    """The group that keeps a page of the mark."""
    return f"fulmen-{mark.sink}-{page}" if page else f"fulmen-{mark.sink}"
