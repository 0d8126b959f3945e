"""RabbitMQ, by pika."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urlsplit

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.secrets import is_clear
from fulmen.services.service import ErrorKind, Service, no_client

try:
    import pika  # type: ignore[import-untyped]
except ImportError as error:
    raise no_client(error, "RabbitMQ", "rabbitmq") from error

from pika import exceptions

SECONDS = 10.0
"""For each step until there is a connection."""
PORTS = {"amqp": 5672, "amqps": 5671}
URL_CURE = (
    "its URL can't be understood. Write 'amqp://user:password@host:5672/vhost', with %2F for the"
    " vhost /, and for / and %40 for @ in a password"
)
CLOSED = {
    403: "a right is missing",
    404: "it is not there",
    405: "somebody else uses it alone",
    311: "a message is too large",
    530: "the vhost can't be used",
}

REFUSED = (
    ("inequivalent arg", "it is not as it is to be declared"),
    ("acknowledgement", "an ack took longer than the broker's consumer_timeout"),
    ("message size", "a message is too large"),
)
"""The meanings of 406, by the broker's text."""

# Each error is raised as well; pika logs tracebacks of them.
logging.getLogger("pika").setLevel(logging.CRITICAL)


class Broker(Service):
    """A broker and one of its vhosts.

    Attributes:
        parameters: pika's.
    """

    errors = (exceptions.AMQPError, exceptions.ChannelError, OSError)

    def __init__(self, url: str, heartbeat: int | None, title: str) -> None:
        """Understand a URL. Does not connect.

        Args:
            url: How to connect.
            heartbeat: In seconds; None: the broker's.
            title: What people see in the broker's list of connections.

        Raises:
            ServiceUnavailable: The URL can't be understood.
        """
        try:
            parts = urlsplit(url)
            if parts.scheme not in PORTS or not parts.hostname or not is_clear(url):
                raise ValueError
            self.parameters: Any = pika.URLParameters(url)
            port = parts.port or PORTS[parts.scheme]
        except Exception:  # noqa: BLE001 (pika's may be of any kind, and have the password in it)
            raise ServiceUnavailable("RabbitMQ", URL_CURE) from None
        vhost = self.parameters.virtual_host
        name = f"RabbitMQ at {parts.hostname}:{port}, vhost {vhost!r}"
        super().__init__(name, parts.password or "")
        self.parameters.client_properties = {"connection_name": title}
        self.parameters.connection_attempts = 1
        self.parameters.socket_timeout = self.parameters.stack_timeout = SECONDS
        if heartbeat is not None:
            self.parameters.heartbeat = heartbeat

    def kind_of(self, error: BaseException) -> ErrorKind:  # noqa: ARG002
        """Any error ends the connection, so the service is away."""
        return ErrorKind.AWAY

    def said(self, error: BaseException) -> str:
        """Describe an error in one line without the password."""
        return self.masked(reason_of(error))


def reason_of(error: BaseException) -> str:
    """Describe an error of pika's in one line."""
    if isinstance(error, exceptions.ProbableAuthenticationError | exceptions.AuthenticationError):
        said = "the server does not let us in. Check user and password"
        return f"{said}. One that is still starting may let nobody in"
    if isinstance(error, exceptions.ProbableAccessDeniedError):
        return "the user may not use the vhost, or there is none of that name"
    if isinstance(error, exceptions.ChannelClosed | exceptions.ConnectionClosed):
        meaning = CLOSED.get(error.reply_code)
        if error.reply_code == 406:
            meaning = next((meant for words, meant in REFUSED if words in error.reply_text), None)
        said = f"{error.reply_code} {error.reply_text}"
        return f"{meaning} ({said})" if meaning else said
    if isinstance(error, exceptions.ConsumerCancelled):
        return "the queue was deleted"
    inside = [*error.args, getattr(error, "exception", None), *getattr(error, "exceptions", ())]
    inner = [one for one in inside if isinstance(one, BaseException)]
    if inner:
        return reason_of(inner[-1])
    return " ".join(str(error).split()) or type(error).__name__
