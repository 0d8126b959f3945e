"""A schema registry with Confluent's API, asked once for each schema.

Each question has a client of its own: there are few, and so no connection is kept that may be dead
when the next one comes.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import httpx2
from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

from fulmen.api.sinks import ServiceUnavailable
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
LARGEST_ID = (1 << 31) - 1
NOT_THERE = (40401, 40402, 40403)
"""What the registry says if it has no such subject, version or schema."""
_INCOMPATIBLE, _REFUSED = 409, 422
_NO_REGISTRY = "what answers there is no schema registry (HTTP {}): check `schema.registry.url`"


class Registry:
    """Knows the schemas of messages, by their ids.

    Attributes:
        service: For messages.
        schemas: Those that were asked for.
    """

    def __init__(self, options: AvroSettings) -> None:
        shown = re.sub(r"//[^/]*@", "//", options.url)  # a password may have an @
        self.service = f"the schema registry at {shown}"
        self._options = options
        self.schemas: dict[int, Schema] = {}
        self._unknown: dict[int, tuple[float, str]] = {}
        self._away: tuple[float, str] = (0.0, "")

    # ---- of messages that are read

    def schema(self, schema_id: int) -> Schema:
        """The schema that messages with this id were written with.

        Raises:
            ServiceUnavailable: The registry is away.
            Malformed: It has no such schema, or not one of Avro.
        """
        if schema_id not in self.schemas:
            until, reason = self._unknown.get(schema_id, (0.0, ""))
            if time.monotonic() >= until:
                try:
                    self.schemas[schema_id] = self._find(schema_id)
                    return self.schemas[schema_id]
                except ValueError as error:
                    reason = str(error)
                    self._unknown[schema_id] = time.monotonic() + UNKNOWN_SECONDS, reason
            raise Malformed(reason)
        return self.schemas[schema_id]

    def _find(self, schema_id: int) -> Schema:
        if schema_id > LARGEST_ID:  # of which registries say all kinds of things
            raise ValueError(f"there can be no schema {schema_id}")

        def ask(client: SchemaRegistryClient) -> Schema:
            return _parsed(client, client.get_schema(schema_id), f"its schema {schema_id}")

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
        if time.monotonic() >= not_before:
            try:
                with SchemaRegistryClient(self._settings()) as client:
                    return question(client)
            except SchemaRegistryError as error:
                if _is_answer(error):
                    raise
                reason = _reason(error)
            except json.JSONDecodeError:
                reason = _NO_REGISTRY.format(200)
            except (httpx2.HTTPError, OAuthTokenError, OSError) as error:
                reason = _reason_of_network(error)
            self._away = time.monotonic() + PAUSE_SECONDS, reason
        raise ServiceUnavailable(self.service, reason)

    def _settings(self) -> dict[str, Any]:
        options = self._options
        login = {"basic.auth.user.info": options.user_info} if options.user_info else {}
        # Batches are tried again anyway, and must not wait for long.
        defaults = {"timeout": SECONDS, "max.retries": 0}
        return {**defaults, **options.properties, **login, "url": options.url}


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
    """What a schema refers to, and what that refers to, before it."""
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
    """What the registry says, in one line."""
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
