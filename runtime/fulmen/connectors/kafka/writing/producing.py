"""Rows are given to a producer, and become messages or are refused."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import cache, partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from fulmen.connectors.formats import readable
from fulmen.services.kafka import Brokers, error_of

DELIVERY_SECONDS = 30.0
"""How long a producer tries to deliver a message."""
UNKNOWN_SECONDS = 5.0
"""How long a topic that is not there may be one that was just made."""
_REFUSALS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "the message is larger than `message.max.bytes` of the client,"
    " or `max.message.bytes` of the topic",
    KafkaError.INVALID_RECORD: "the brokers say that the message is invalid, as by a schema",
    KafkaError.INVALID_TIMESTAMP: "the topic takes no message of that time",
    KafkaError.POLICY_VIOLATION: "a policy of the brokers takes no such message",
}
_WITHOUT_KEY = ", or since it has no key, which a compacted topic needs"
_REFUSALS_OF_PARTITIONS = {KafkaError._UNKNOWN_PARTITION: "there is no such partition"}
_REFUSALS_OF_TOPICS = {
    KafkaError._UNKNOWN_TOPIC: "there is no such topic",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "there is no such topic or partition",
    KafkaError.TOPIC_EXCEPTION: "there can be no topic of that name",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "this user has no right to that topic",
}
_REFUSALS_OF_PLACES = _REFUSALS_OF_PARTITIONS | _REFUSALS_OF_TOPICS
_WITH_OTHERS = KafkaError._INVALID_DIFFERENT_RECORD
PLAIN = -1, 0, None
"""The rest of a message that has nothing but a topic, a value and a key."""


class ProducedRow(NamedTuple):
    """A message that is to be written, as `Producer.produce` takes it.

    What is kept in a commit are plain tuples of these values: they are pickled in a third of the
    time.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    timestamp: int = 0
    headers: list[tuple[str, bytes | None]] | None = None

    @property
    def size(self) -> int:
        """The size in bytes, as brokers count it, without what is alike in all messages."""
        parts = [self.key, self.value]
        for name, value in self.headers or ():
            parts += [name.encode(), value]
        return sum(map(_size_of, parts)) + _varint_size(len(self.headers or ()))

    def described(self) -> dict[str, Any]:
        """Describe it for people, without what it does not have."""
        parts: dict[str, Any] = {"topic": self.topic, "key": self.key, "value": self.value}
        if self.partition >= 0:
            parts["partition"] = self.partition
        if self.timestamp:
            parts["timestamp"] = self.timestamp
        if self.headers:
            parts["headers"] = dict(self.headers)
        return {name: _readable(value) for name, value in parts.items()}


class RefusedRow(NamedTuple):
    """The refusal of a row.

    Attributes:
        code: Of the client's error.
        is_exact: It is about this row, and not about others that were sent with it.
    """

    code: int
    is_exact: bool

    @property
    def is_suspect(self) -> bool:
        """Whether it may be about this row, or about others that were sent with it."""
        return not self.is_exact and self.code != _WITH_OTHERS


def _size_of(part: bytes | None) -> int:
    """The size of a key, a value, or the name or value of a header, with its length before it."""
    return 1 if part is None else _varint_size(len(part)) + len(part)


def _varint_size(number: int) -> int:
    """The size of a number that is written with seven bits in each byte, after its sign."""
    return max(1, -(-(2 * number).bit_length() // 7))


Failed = dict[int, KafkaError]
Content = tuple[str | None, bytes | None, bytes | None]
"""The topic, the value and the key of a message."""


def _note(failed: Failed, i: int, error: KafkaError | None, _: Message) -> None:
    """Called for a message, also when another write has begun."""
    if error is not None:
        failed[i] = error


def _report(
    reports: list[tuple[KafkaError, Content]], error: KafkaError | None, message: Message
) -> None:
    """Called for messages that nothing but their content tells apart, as `_note`."""
    if error is not None:
        reports.append((error, (message.topic(), message.value(), message.key())))


def _failed_of(
    reports: Sequence[tuple[KafkaError, Content]], rows: Sequence[Any], positions: Sequence[int]
) -> Failed:
    """Find the rows that reports are about. Of rows with the same content it does not matter."""
    if not reports:
        return {}
    wanted: dict[Content, deque[int]] = {content: deque() for _, content in reports}
    for i in positions:
        row = rows[i]
        if row[3:] == PLAIN and row[:3] in wanted:
            wanted[row[:3]].append(i)
    return {wanted[content].popleft(): error for error, content in reports}


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _readable(content) for name, content in value.items()}
    return readable(value) if isinstance(value, bytes) else value


def reason_of_refusal(code: int, row: Sequence[Any]) -> str:
    """Give the reason in one line. Brokers give the code alone, so more can't be known."""
    key = ProducedRow(*row).key
    text = _REFUSALS.get(code) or _REFUSALS_OF_PLACES.get(code) or KafkaError(code).str()
    return text + _WITHOUT_KEY if code == KafkaError.INVALID_RECORD and key is None else text


class Limits:
    """The limits that a refused message shows: of size, of time, or that its topic wants keys."""

    def __init__(
        self,
        rows: Sequence[Sequence[Any]],
        *,
        compresses: bool,
        is_compacted: Callable[[str], bool],
    ) -> None:
        """Nothing is known yet. With compression a larger message may be a smaller one."""
        self._rows, self._compresses = rows, compresses
        self._is_compacted = cache(is_compacted)
        self._sizes: dict[str, int] = {}
        self._need_keys: set[str] = set()
        self._earliest: dict[str, int] = {}
        self._latest: dict[str, int] = {}
        self._now = int(time.time() * 1000)  # noqa: TID251 (as the times of messages are)

    def learn(self, found: Mapping[int, RefusedRow]) -> None:
        """Take in what was refused for certain."""
        for i, refused in found.items():
            row = ProducedRow(*self._rows[i])
            if refused.code == KafkaError.MSG_SIZE_TOO_LARGE and not self._compresses:
                self._sizes[row.topic] = min(row.size, self._sizes.get(row.topic, row.size))
            elif refused.code == KafkaError.INVALID_RECORD and row.key is None:
                if self._is_compacted(row.topic):  # else it is about what the row has
                    self._need_keys.add(row.topic)
            elif refused.code == KafkaError.INVALID_TIMESTAMP and row.timestamp:
                self._learn_time(row.topic, row.timestamp)

    def _learn_time(self, topic: str, told: int) -> None:
        """Note that times further from now than a refused one are refused, too."""
        if told < self._now:
            self._earliest[topic] = max(told + 1, self._earliest.get(topic, 0))
        else:
            self._latest[topic] = min(told - 1, self._latest.get(topic, told))

    def beyond(self, positions: Iterable[int]) -> dict[int, RefusedRow]:
        """The rows at some positions that need not be tried any more, with the reason."""
        codes = ((i, self._code(ProducedRow(*self._rows[i]))) for i in positions)
        return {i: RefusedRow(code, is_exact=True) for i, code in codes if code is not None}

    def _code(self, row: ProducedRow) -> int | None:
        if row.size >= self._sizes.get(row.topic, row.size + 1):
            return KafkaError.MSG_SIZE_TOO_LARGE
        if row.key is None and row.topic in self._need_keys:
            return KafkaError.INVALID_RECORD
        at = row.timestamp
        first, last = self._earliest.get(row.topic, at), self._latest.get(row.topic, at)
        return KafkaError.INVALID_TIMESTAMP if at and not first <= at <= last else None


class Sending(Enum):
    """How a producer sends messages to a broker."""

    TOGETHER = auto()
    ONE_BY_ONE = auto()


class RowDelivery:
    """Writes rows with one producer.

    A broker refuses all messages that were sent together if it refuses one of them. Why it did is
    exact if the producer sends messages one by one, and else a suspicion: if the broker names two
    messages or more, the client gives those beside them a code of their own, but if it names one,
    all that were sent with that one get its code.
    """

    def __init__(self, brokers: Brokers, topic: str, sending: Sending, **settings: Any) -> None:
        """Make a producer.

        Args:
            brokers: Where it connects to.
            topic: Of the sink. If another one can't be used, that is the mistake of the row that
                names it.
            sending: How it sends messages.
            settings: Others of the producer, as for `Brokers.settings`.
        """
        self.producer = brokers.make(
            Producer,
            {
                "delivery.timeout.ms": int(DELIVERY_SECONDS * 1000),
                "topic.metadata.propagation.max.ms": int(UNKNOWN_SECONDS * 1000),
            },
            enable_idempotence=True,
            delivery_report_only_error=True,
            **settings,
            **({"batch_num_messages": 1} if sending is Sending.ONE_BY_ONE else {}),
        )
        self._topic = topic
        self._sending = sending
        self._is_transactional = "transactional_id" in settings
        self._failed: Failed = {}
        self._reports: list[tuple[KafkaError, Content]] = []

    def write(self, rows: Sequence[Any], positions: Sequence[int]) -> dict[int, RefusedRow]:
        """Have the rows at these positions written; gives those that were refused.

        Raises:
            KafkaException: The brokers are away, or nothing can be written at all.
        """
        failed: Failed = {}
        self._failed, self._reports = failed, []
        report = partial(_report, self._reports)
        exact: dict[int, RefusedRow] = {}
        lost: KafkaException | None = None
        for i in positions:
            try:
                self._produce(rows[i], i, report)
            except KafkaException as error:
                code = error_of(error).code()
                if code == KafkaError._STATE and self._is_transactional:
                    lost = error  # it takes no more once a message was refused, which is told later
                    break
                if not self._is_refusal(rows[i], code):
                    raise
                exact[i] = RefusedRow(code, is_exact=True)
        self._wait()
        produced = [i for i in positions if i not in exact] if exact else positions
        failed |= _failed_of(self._reports, rows, produced)
        if lost is not None and not failed:
            raise lost
        codes = {error.code() for error in failed.values()}
        exact_codes = {*_REFUSALS_OF_PLACES}
        if self._sending is Sending.ONE_BY_ONE:
            exact_codes = codes - {_WITH_OTHERS}
        refused = {
            i: RefusedRow(error.code(), is_exact=error.code() in exact_codes)
            for i, error in failed.items()
            if self._is_refusal(rows[i], error.code())
        }
        others = [failed[i] for i in failed if i not in refused]
        if others and not (refused and self._is_transactional):  # else they went with it
            raise KafkaException(self._cause_of(others))
        return exact | refused

    def _cause_of(self, failed: Sequence[KafkaError]) -> KafkaError:
        """Why messages have failed. Those of a transaction may only say that they were dropped."""
        told = [error for error in failed if error.code() != KafkaError._PURGE_QUEUE]
        if not told and self._is_transactional:
            try:
                self.producer.begin_transaction()  # of one that is lost: it says why
            except KafkaException as error:
                return error_of(error)
        return told[0] if told else failed[0]

    def _is_refusal(self, row: Any, code: int) -> bool:
        """Whether it says that a row is refused, or was sent with one that is."""
        topic, _, _, partition, *_ = row
        if code in _REFUSALS_OF_TOPICS:
            return bool(topic != self._topic)
        if code in _REFUSALS_OF_PARTITIONS:
            return bool(partition >= 0)
        return code in _REFUSALS or code == _WITH_OTHERS

    @property
    def has_failed(self) -> bool:
        """Whether a message was given to the client and failed: a transaction is lost by that."""
        return bool(self._failed or self._reports)

    def _wait(self) -> None:
        """Wait until all messages are written, or one that is refused ends the transaction."""
        deadline = time.monotonic() + DELIVERY_SECONDS + 5
        while self._flushed() and not (self.has_failed and self._is_transactional):
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))

    def _flushed(self) -> int:
        try:
            return self.producer.flush(0.05)
        except SystemError as error:  # the client raises a fatal error, and then calls `_note`
            cause = error.__cause__
            raise cause if isinstance(cause, KafkaException) else _fatal() from None

    def _produce(self, row: Any, i: int, report: Callable[..., None]) -> None:
        topic, value, key, to, timestamp, headers = row
        is_plain = (to, timestamp, headers) == PLAIN
        while True:
            try:
                if is_plain:  # in a third of the time
                    self.producer.produce(topic, value, key, to, report)
                else:
                    told = partial(_note, self._failed, i)
                    self.producer.produce(
                        topic, value, key, to, told, timestamp=timestamp, headers=headers
                    )
            except BufferError:  # its queue is full
                self.producer.poll(0.1)
            else:
                return

    def drop(self) -> None:
        """Have nothing more written by it."""
        self.producer.purge()
        with suppress(KafkaException, SystemError):  # it may be broken
            self.producer.flush(0)


def _fatal() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._FATAL, "another process writes in its place"))
