"""Options of the sink."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fulmen.connectors.formats import JsonOptions, MessageFormatOptions
from fulmen.connectors.formats.options import Names
from fulmen.connectors.http.json_template import JsonTemplate
from fulmen.connectors.http.request_options import HeaderName, RequestOptions
from fulmen.connectors.options import SinkOptions
from fulmen.connectors.templates import Template

Status = Annotated[int, Field(ge=200, le=599)]
Statuses = Annotated[tuple[Status, ...], Field(max_length=400)]


class HttpSinkOptions(SinkOptions, RequestOptions):
    """The `config` of a HttpSink."""

    method: Literal["POST", "PUT", "PATCH", "DELETE"] = "POST"
    """The method of the requests. Those of DELETE have no body."""
    format: MessageFormatOptions = JsonOptions(type="json")
    """How a row is written down."""
    body: JsonTemplate | None = None
    """The body instead of `format`: any JSON value, in whose texts `{name}` is replaced. A text
    that is only `{name}` becomes the field's value with its type."""
    rows_per_request: Annotated[int, Field(ge=1, le=100_000)] = 1
    """How many rows a request has at most; they have the same URL and headers."""
    rows_as: Literal["array", "lines"] = "array"
    """What the body of several rows is: a JSON array, or a line for each row."""
    content_type: Annotated[str, Field(max_length=200)] | None = None
    """The content type. Default: that of the format."""
    order_by: Names = ()
    """Fields: rows with the same values are sent one after another. Default: no order; with
    `concurrency: 1` all rows of a task are."""
    idempotency_header: HeaderName | None = "Idempotency-Key"
    """The header with the key by which the endpoint knows what is sent again; null: none."""
    idempotency_key: Template = ""
    """The key; `{name}` is replaced. Default: one that follows from the row, and is the same
    whenever the row is sent again."""
    taken_statuses: Statuses = ()
    """Statuses that mean that the row is there, beside 200 to 299: such as 409."""
    refused_statuses: Statuses = ()
    """Statuses that mean that the row is refused, beside most from 400 to 499: such as 500."""
    retried_statuses: Statuses = ()
    """Statuses that mean that the service is away, beside 408, 425, 429 and 500 to 599: such as
    404."""

    @model_validator(mode="after")
    def _keys_fit(self) -> Self:
        key, header = self.idempotency_key, self.idempotency_header
        if self.guarantee == "exactly-once" and header is None:
            raise ValueError(
                "guarantee: exactly-once needs an endpoint that drops what it has by its key. Write"
                " the name of its header in idempotencyHeader"
            )
        if header is None and key:
            raise ValueError("idempotencyKey: there is no idempotencyHeader to put it in")
        if key and self.rows_per_request > 1:
            raise ValueError("idempotencyKey is for one row, and rowsPerRequest is more than 1")
        for name in self.headers:
            if name.lower() == "content-type":
                raise ValueError(f"headers: write contentType instead of {name!r}")
            if header is not None and name.lower() == header.lower():
                raise ValueError(f"headers: write idempotencyKey instead of {name!r}")
        return self

    @model_validator(mode="after")
    def _bodies_fit(self) -> Self:
        self.format.for_topic(None)
        if self.body is not None and "format" in self.model_fields_set:
            raise ValueError("body and format both say what the body is. Leave one out")
        if self.rows_per_request > 1:
            kind = "json" if self.body is not None else self.format.type
            if kind in ("avro", "bytes"):
                raise ValueError("rowsPerRequest: rows in a binary format can't be told apart")
            if self.rows_as == "array" and kind != "json":
                raise ValueError("rowsAs: array is for JSON. Write rowsAs: lines")
            if self.method == "DELETE":
                raise ValueError("rowsPerRequest: a DELETE has no body with rows")
        return self

    @model_validator(mode="after")
    def _statuses_fit(self) -> Self:
        _told_apart(self.taken_statuses, self.refused_statuses, self.retried_statuses)
        return self

    def content_type_of(self) -> str:
        """The content type of the bodies."""
        if self.content_type is not None:
            return self.content_type
        kind: Any = "json" if self.body is not None else self.format.type
        if kind == "json" and self.rows_per_request > 1 and self.rows_as == "lines":
            return "application/x-ndjson"
        return CONTENT_TYPES.get(kind, "application/octet-stream")


CONTENT_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "text": "text/plain; charset=utf-8",
}


def _told_apart(*lists: tuple[int, ...]) -> None:
    times = Counter(status for some in lists for status in set(some))
    for status, count in times.items():
        if count > 1:
            raise ValueError(
                f"the status {status} is in two of takenStatuses, refusedStatuses and"
                " retriedStatuses"
            )
