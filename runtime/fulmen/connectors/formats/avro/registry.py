"""A schema registry with Confluent's API, asked once for each schema.

One client asks all questions, until one meets an error of the network: to make a client takes a
hundred times as long as a question. It sees itself that the other side has closed a connection.

Whatever begins with a zero byte names a schema, and most of that need not exist. So what the
registry does not have is remembered for a short time, and it is asked for so many such schemas at
once, and no more. Messages with others wait meanwhile, since theirs may be new.
"""

from __future__ import annotations

import json
import re
import socket
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import httpx2
from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.formats.avro.bounds import BoundedSchema
from fulmen.connectors.formats.avro.schemas import Schema, parsed, said
from fulmen.connectors.formats.avro.settings import AvroSettings
from fulmen.connectors.formats.base import Malformed

T = TypeVar("T")
SECONDS = 5.0
"""How long to wait for an answer."""
PAUSE_SECONDS = 1.0
"""After so long, a registry that was away is asked again."""
UNKNOWN_SECONDS = 30.0
"""After so long, the registry is asked again for a schema that it did not know."""
MOST_UNKNOWN = 10_000
"""So many such schemas are remembered: more than a source reads messages at once."""
ASKED_AT_ONCE, ASKING_SECONDS = 500, 5.0
"""After so many such schemas, or so long, the registry is left in peace for `PAUSE_SECONDS`."""
LARGEST_ID = (1 << 31) - 1
NOT_THERE = (40401, 40402, 40403)
"""The registry's codes for a missing subject, version or schema."""
_INCOMPATIBLE, _REFUSED = 409, 422
_NO_REGISTRY = "what answers there is no schema registry (HTTP {}): check `schema.registry.url`"


class Registry:
    """Knows the schemas of messages, by their ids.

    Attributes:
        service: For messages.
        schemas: Those that were asked for.
    """

    now = staticmethod(time.monotonic)

    def __init__(self, options: AvroSettings) -> None:
        shown = re.sub(r"//[^/]*@", "//", options.url)  # a password may have an @
        self.service = f"the schema registry at {shown}"
        self._options = options
        self.schemas: dict[int, BoundedSchema] = {}
        self._unknown: dict[int, tuple[float, str]] = {}
        self._asked_since, self._asked, self._asking = 0.0, 0, 0.0
        self._rests_until, self._waited_at = 0.0, -UNKNOWN_SECONDS
        self._away: tuple[float, str] = (0.0, "")
        self._client: SchemaRegistryClient | None = None
        self._disconnect: Callable[[], object] = _nothing

    # ---- of messages that are read

    def schema(self, schema_id: int) -> BoundedSchema:
        """The schema that messages with this id were written with.

        Raises:
            ServiceUnavailable: The registry is away, or was asked too often.
            Malformed: It has no such schema, or not one of Avro.
        """
        if schema_id in self.schemas:
            return self.schemas[schema_id]
        if schema_id > LARGEST_ID:  # of which registries say all kinds of things
            raise Malformed(f"there can be no schema {schema_id}")
        now, known = self.now(), self._unknown.get(schema_id)
        # while messages wait, those before them are read again, and what is not there must be known
        if known is not None and now < max(known[0], self._waited_at + UNKNOWN_SECONDS):
            raise Malformed(known[1])
        self._refuse_haste(now)
        try:
            schema = self.schemas[schema_id] = self._find(schema_id)
        except ValueError as error:
            self._asked += 1
            self._asking += self.now() - now
            self._unknown.pop(schema_id, None)  # so that the oldest one is the first
            self._unknown[schema_id] = now + UNKNOWN_SECONDS, str(error)
            if len(self._unknown) > MOST_UNKNOWN:
                del self._unknown[next(iter(self._unknown))]
            raise Malformed(str(error)) from None
        return schema

    def _refuse_haste(self, now: float) -> None:
        """See that not too much was asked for that is not there.

        Raises:
            ServiceUnavailable: It was.
        """
        if now >= self._asked_since + 2 * ASKING_SECONDS:
            self._asked_since, self._asked, self._asking = now, 0, 0.0
        if self._asked >= ASKED_AT_ONCE or self._asking >= ASKING_SECONDS:
            self._rests_until = self._asked_since = now + PAUSE_SECONDS
            self._asked, self._asking = 0, 0.0
        if now < self._rests_until:
            self._waited_at = now
            raise ServiceUnavailable(
                self.service,
                "it has none of the many schemas that messages have named last. It is asked for"
                " more within a second, and messages wait. See on the stream `errors` what they"
                " are",
                "is not asked now",
            )

    def _find(self, schema_id: int) -> BoundedSchema:
        def ask(client: SchemaRegistryClient) -> BoundedSchema:
            schema = _parsed(client, client.get_schema(schema_id), f"its schema {schema_id}")
            try:
                return BoundedSchema(schema)
            except RecursionError:
                raise ValueError(f"its schema {schema_id} is nested too deeply") from None

        try:
            return self._ask(ask)
        except SchemaRegistryError:
            raise ValueError(f"its schema {schema_id} is not in {self.service}") from None

    # ---- of rows that are written

    def for_writing(self) -> tuple[int, Schema]:
        """The schema that rows are written with, and its id.

        Raises:
            ServiceUnavailable: The registry is away, or has nothing of that kind.
            ValueError: It takes no such schema, or has one that is not of Avro.
        """
        subject, text = self._options.subject, self._options.given_schema
        assert subject is not None
        try:
            return self._ask(lambda client: self._of_subject(client, subject, text))
        except SchemaRegistryError as error:
            if error.error_code not in NOT_THERE:
                raise ValueError(f"{self.service}: {said_by(error)}") from None
        if text is None:
            cure = "register a schema, give one as `schema`, or mend `subject`"
            raise ServiceUnavailable(self.service, f"there is no subject {subject!r}: {cure}")
        raise ServiceUnavailable(
            self.service,
            f"subject {subject!r} has no such schema as `schema`: register it, or write"
            " `auto.register.schemas: true`",
        )

    def _of_subject(
        self, client: SchemaRegistryClient, subject: str, text: str | None
    ) -> tuple[int, Schema]:
        if text is None:
            latest = client.get_latest_version(subject)
            schema = _parsed(client, latest.schema, f"the latest schema of subject {subject!r}")
            return _number(latest.schema_id), schema
        registered = Registered(text, "AVRO")
        if not self._options.auto_register:
            return _number(client.lookup_schema(subject, registered).schema_id), parsed(text)
        try:
            return client.register_schema(subject, registered), parsed(text)
        except SchemaRegistryError as error:
            if error.http_status_code == _INCOMPATIBLE:
                raise ValueError(
                    f"{self.service}: `schema` is not compatible with those that subject"
                    f" {subject!r} has: {said_by(error)}"
                ) from None
            raise

    # ---- questions

    def greet(self) -> None:
        """See that the registry is there, and lets us in.

        Raises:
            ServiceUnavailable: It is not, or does not.
            ValueError: A setting is wrong.
        """
        self._ask(lambda client: client.get_schema_types())

    def _ask(self, question: Callable[[SchemaRegistryClient], T]) -> T:
        """The answer.

        Raises:
            ServiceUnavailable: There is none.
            SchemaRegistryError: The registry says no to this question.
            ValueError: A setting is wrong.
        """
        not_before, reason = self._away
        if self.now() >= not_before:
            try:
                return question(self._connected())
            except SchemaRegistryError as error:
                if _is_answer(error):
                    raise
                reason = _reason(error)
            except json.JSONDecodeError:
                reason = _NO_REGISTRY.format(200)
            except (httpx2.HTTPError, OAuthTokenError, OSError) as error:
                reason = _reason_of_network(error)
            self._away = self.now() + PAUSE_SECONDS, reason
            self._disconnect()
            self._client, self._disconnect = None, _nothing
        raise ServiceUnavailable(self.service, reason)

    def _connected(self) -> SchemaRegistryClient:
        if self._client is None:
            self._client = SchemaRegistryClient(self._settings())
            self._disconnect = weakref.finalize(self, self._client.close)
        return self._client

    def _settings(self) -> dict[str, Any]:
        options = self._options
        login = {"basic.auth.user.info": options.user_info} if options.user_info else {}
        # Batches are tried again anyway, and must not wait for long.
        defaults = {"timeout": SECONDS, "max.retries": 0}
        return {**defaults, **options.properties, **login, "url": options.url}


def _nothing() -> None:
    """Do nothing: nothing is to be closed."""


def _parsed(client: SchemaRegistryClient, found: Registered, what: str) -> Schema:
    """A schema of the registry's, with all that it refers to."""
    if (found.schema_type or "AVRO") != "AVRO":
        raise ValueError(f"{what} is of the type {found.schema_type}, not AVRO")
    others: dict[str, Schema] = {}
    for name, schema in _references(client, found):
        others[name] = parsed(schema, others)
    try:
        return parsed(found.schema_str or "", others)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def _references(client: SchemaRegistryClient, found: Registered) -> Iterator[tuple[str, str]]:
    """Yield the schemas that a schema refers to; those that they refer to come before them."""
    for reference in found.references or ():
        version = client.get_version(reference.subject or "", reference.version or 0)
        yield from _references(client, version.schema)
        yield reference.name or "", version.schema.schema_str or ""


def _number(schema_id: int | None) -> int:
    assert schema_id is not None
    return schema_id


def _is_answer(error: SchemaRegistryError) -> bool:
    """Whether it is what a registry says of a question, and not of who asks or of itself."""
    return error.error_code in NOT_THERE or error.http_status_code in (_INCOMPATIBLE, _REFUSED)


def said_by(error: SchemaRegistryError) -> str:
    """The registry's answer, in one line."""
    return " ".join(str(error.error_message).split())[:200]


def _reason(error: SchemaRegistryError) -> str:
    status = error.http_status_code
    if status == httpx2.codes.UNAUTHORIZED:
        return "it does not let us in: check `basic.auth.user.info`"
    if status == httpx2.codes.FORBIDDEN:
        return f"this user has no right to that: {said_by(error)}"
    if status >= httpx2.codes.INTERNAL_SERVER_ERROR or status in (408, 429):
        return f"HTTP {status}: {said_by(error)}"
    return _NO_REGISTRY.format(status)


def _reason_of_network(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return "there is no machine of that name: check `schema.registry.url`"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.TimeoutException):
        return f"no answer ({type(error).__name__})"
    return said(error)
