"""Rows are given to a producer, and become messages or are refused."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from fulmen.connectors.kafka.client import Brokers, error_of

DELIVERY_SECONDS = 30.0
"""How long a producer tries to deliver a message."""
_REFUSALS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "the message is larger than `message.max.bytes` of the client,"
    " or `max.message.bytes` of the topic",
    KafkaError.INVALID_RECORD: "the topic takes no such message: a compacted one needs a key",
    KafkaError.INVALID_TIMESTAMP: "the topic takes no message of that time",
    KafkaError.POLICY_VIOLATION: "a policy of the brokers takes no such message",
}
_REFUSALS_OF_PLACES = {
    KafkaError._UNKNOWN_PARTITION: "there is no such partition",
    KafkaError._UNKNOWN_TOPIC: "there is no such topic",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "there is no such topic or partition",
    KafkaError.TOPIC_EXCEPTION: "there can be no topic of that name",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "this user has no right to that topic",
}
_WITH_OTHERS = KafkaError._INVALID_DIFFERENT_RECORD


class Row(NamedTuple):
    """A message that is to be written, as `Producer.produce` takes it."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    timestamp: int = 0
    headers: list[tuple[str, bytes | None]] | None = None


class Refused(NamedTuple):
    """What a row is refused with.

    Attributes:
        code: Of the client's error.
        is_exact: It is about this row, and not about others that were sent with it.
    """

    code: int
    is_exact: bool


def reason_of_refusal(code: int) -> str:
    """In one line."""
    return _REFUSALS.get(code) or _REFUSALS_OF_PLACES.get(code) or KafkaError(code).str()


class Delivery:
    """Writes rows with one producer.

    A broker refuses all messages that were sent together if it refuses one of them. So what a
    producer that sends them one by one says is exact, and what another says is a suspicion.
    """

    def __init__(
        self, brokers: Brokers, *, names_places: bool, one_by_one: bool = False, **settings: Any
    ) -> None:
        """Make a producer.

        Args:
            brokers: Where it connects to.
            names_places: Rows name topics or partitions, so one that is not there is the row's
                mistake.
            one_by_one: Each message is sent alone.
            settings: Others of the producer, as for `Brokers.settings`.
        """
        self.producer = brokers.make(
            Producer,
            {"delivery.timeout.ms": int(DELIVERY_SECONDS * 1000)},
            enable_idempotence=True,
            delivery_report_only_error=True,
            **settings,
            **({"batch_num_messages": 1} if one_by_one else {}),
        )
        self._refusals = {**_REFUSALS, **(_REFUSALS_OF_PLACES if names_places else {})}
        self._one_by_one = one_by_one
        self._is_transactional = "transactional_id" in settings
        self._failed: dict[int, KafkaError] = {}

    def write(self, rows: Sequence[Any], positions: Sequence[int]) -> dict[int, Refused]:
        """Have the rows at these positions written; gives those that were refused.

        Raises:
            KafkaException: The brokers are away, or nothing can be written at all.
        """
        failed: dict[int, KafkaError] = {}
        self._failed = failed
        exact: dict[int, Refused] = {}
        for i in positions:
            try:
                self._produce(rows[i], i)
            except KafkaException as error:
                code = error_of(error).code()
                if code == KafkaError._STATE and failed:
                    break  # a transaction takes no more once one of its messages was refused
                if code not in self._refusals:
                    raise
                exact[i] = Refused(code, is_exact=True)
        self._wait()
        refused = {
            i: Refused(error.code(), is_exact=self._one_by_one)
            for i, error in failed.items()
            if error.code() in self._refusals or error.code() == _WITH_OTHERS
        }
        others = [failed[i] for i in failed if i not in refused]
        if others and not (refused and self._is_transactional):  # else they went with it
            raise KafkaException(others[0])
        return exact | refused

    def _wait(self) -> None:
        """Until all messages are written, or one is refused and the transaction is lost by that."""
        deadline = time.monotonic() + DELIVERY_SECONDS + 5
        while self._flushed() and not (self._failed and self._is_transactional):
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))

    def _flushed(self) -> int:
        try:
            return self.producer.flush(0.2)
        except SystemError as error:  # the client raises a fatal error, and then calls `_note`
            cause = error.__cause__
            raise cause if isinstance(cause, KafkaException) else _fatal() from None

    def _produce(self, row: Any, i: int) -> None:
        topic, value, key, to, timestamp, headers = row
        told = partial(self._note, i)
        while True:
            try:
                self.producer.produce(
                    topic, value, key, to, told, timestamp=timestamp, headers=headers
                )
            except BufferError:  # its queue is full
                self.producer.poll(0.1)
            else:
                return

    def _note(self, i: int, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failed[i] = error

    def drop(self) -> None:
        """Have nothing more written by it."""
        self.producer.purge()
        with suppress(KafkaException, SystemError):  # it may be broken
            self.producer.flush(0)


def _fatal() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._FATAL, "another process writes in its place"))
