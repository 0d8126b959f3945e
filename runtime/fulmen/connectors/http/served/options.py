"""Options of what serves HTTP: the source, and calls."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from fulmen.api.times.event_time import milliseconds
from fulmen.connectors.formats.options import AnyFormat, JsonOptions, Names
from fulmen.connectors.options import Duration, Options

Text = Annotated[str, Field(min_length=1)]
Path = Annotated[str, Field(pattern=r"^/[^?#\s]*$", max_length=1000)]
Method = Literal["POST", "PUT", "PATCH", "DELETE", "GET"]
Property = Literal["method", "path", "query", "headers", "client", "received"]
Scheme = Literal["github", "shopify", "slack", "standard", "stripe"]
BYTES = 1 << 20


class FormOptions(Options):
    """The content is a form as browsers send it: `application/x-www-form-urlencoded`."""

    type: Literal["form"]
    fields: Names = ()
    """The inputs that become fields, as texts. One that is missing is null; of several of one name
    the last counts. Default: all of them are one field, `value`."""


class CloudEventOptions(Options):
    """The content is a CloudEvent, or a batch of them, in any of the ways of HTTP.

    The fields are `id`, `source`, `type`, `subject`, `time` and `data`.
    """

    type: Literal["cloudevents"]


SourceFormat = Annotated[AnyFormat | FormOptions | CloudEventOptions, Field(discriminator="type")]


class SignatureOptions(Options):
    """How requests are signed: by a webhook's sender, with HMAC and SHA-256."""

    scheme: Scheme
    """Whose way it is: `standard` is Standard Webhooks, as many services have it."""
    secret: Text
    """The key that the sender and this source know. With `standard`, as it is shown: `whsec_…`."""
    tolerance: Duration = "5m"
    """How old a signature may be. `github` and `shopify` sign no time."""

    @model_validator(mode="after")
    def _has_key(self) -> Self:
        try:
            _ = self.key
        except binascii.Error:
            raise ValueError("secret: that of Standard Webhooks is `whsec_` and base64") from None
        return self

    @property
    def key(self) -> bytes:
        """The key of the HMAC."""
        if self.scheme != "standard":
            return self.secret.encode()
        return base64.b64decode(self.secret.removeprefix("whsec_"), validate=True)


class TlsOptions(Options):
    """HTTPS."""

    certificate: Text
    """The path of a file with the certificate, and those up to its authority: PEM."""
    key: Text
    """The path of a file with its key: PEM, without a password."""
    client_authority: Text | None = None
    """The path of a file with the authorities that have signed clients' certificates: PEM. Then a
    client without one is not served. Default: clients need none."""


class ServingOptions(Options):
    """What all servers of topologies have."""

    port: Annotated[int, Field(ge=0, le=65535)]
    """The port. 0: a free one, for tests."""
    host: Text = "127.0.0.1"
    """The address to listen at: `0.0.0.0` and `::` are all of the machine, as a pod needs it. By
    default only programs on this machine can call."""
    timeout: Duration = "30s"
    """How long a request waits for its answer. Then it gets 504."""
    max_content_bytes: Annotated[int, Field(ge=1, le=1 << 30)] = BYTES
    """The most bytes of a request's content, after it is unpacked."""
    max_held_bytes: Annotated[int, Field(ge=1, le=1 << 36)] = 64 * BYTES
    """The most bytes of the contents of all requests that are not answered yet. Beyond it, requests
    get 503."""
    max_connections: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """The most connections. Beyond it, the oldest one that waits for a request is closed."""
    token: Text | None = None
    """The token that requests must have, in `Authorization: Bearer …`. Default: none is needed."""
    tls: TlsOptions | None = None
    """HTTPS. Default: HTTP."""

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if self.max_held_bytes < self.max_content_bytes:
            raise ValueError(
                f"maxHeldBytes ({self.max_held_bytes}) is less than maxContentBytes"
                f" ({self.max_content_bytes}): such a request would never be taken"
            )
        return self

    @field_validator("timeout")
    @classmethod
    def _is_some_time(cls, value: str) -> str:
        if not 0 < milliseconds(value) <= 3_600_000:
            raise ValueError("timeout is more than 0 s and at most 1h")
        return value


class HttpSpoutOptions(ServingOptions):
    """The `config` of an HttpSpout."""

    paths: Annotated[tuple[Path, ...], Field(min_length=1, max_length=100)] = ("/",)
    """The paths that are served, exactly as they are in a request. Any other gets 404."""
    methods: Annotated[tuple[Method, ...], Field(min_length=1)] = ("POST",)
    """The methods that are served. Any other gets 405."""
    format: SourceFormat = JsonOptions(type="json")
    """How a content is written down. One that can't be read gets 422 with the reason, and nothing
    of it is emitted."""
    content: Literal["one", "lines"] = "one"
    """Whether a content is one message, or has one in each line (NDJSON, CSV): empty lines are
    none. A content of the type `application/x-ndjson` has lines in any case."""
    max_messages: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """The most messages of one request. One with more gets 413."""
    properties: tuple[Property, ...] = ()
    """What of a request becomes further fields, after those of the format: `query` and `headers`
    are mappings (names of headers in small letters), `client` is an address, `received` a time."""
    answer: Literal["at-once", "committed", "acked"] = "committed"
    """When a request is answered. `at-once`: with 202, when it is read; it is lost if the driver is
    lost then. `committed`: with 200, when a commit has it; then it is never lost. `acked`: with 200
    when all that came of it is processed, and with 500 and the reason when that failed."""
    signature: SignatureOptions | None = None
    """How requests are signed. One without the right signature gets 401."""
    remember_keys: Duration = "1h"
    """How long the answer to an `Idempotency-Key` is remembered: a request that comes again with
    its key meanwhile gets that answer, and is not emitted again."""


CALL = "call"
"""The field that names a call."""
LINES, EVENTS = "application/x-ndjson", "text/event-stream"
"""What clients of calls may accept instead of a list."""
LONGEST_KEY = 255
"""Characters of an Idempotency-Key."""


class CallSpoutOptions(ServingOptions):
    """The `config` of a CallSpout."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")] | None = None
    """The name of the call: its clients post to `/NAME`. Default: that of the component."""
    format: JsonOptions = JsonOptions(type="json")
    """How the arguments are written down: as JSON, whose members become fields behind `call`.
    Default: any JSON value, in the field `value`. A call that lacks a field gets 422, unless
    `required` names those that it must have: then another one that is missing is null."""
    results: Literal["one", "many"] = "one"
    """What a call is answered with: the value that was returned for it, or null if none was; or a
    list of all values."""
    remember_keys: Duration = "1h"
    """How long the answer to an `Idempotency-Key` is remembered: a call that comes again with its
    key meanwhile gets that answer, and is not run again."""

    @field_validator("format")
    @classmethod
    def _needs_all_fields(cls, given: JsonOptions) -> JsonOptions:
        if "required" in given.model_fields_set:
            return given
        return given.model_copy(update={"required": tuple(given.fields)})


class ReturnOptions(Options):
    """The `config` of a Return."""

    call: Text = CALL
    """The field that names the call."""
    fields: Names = ()
    """The fields of a result, which is an object. Default: all but `call`; a single one is the
    result itself."""
