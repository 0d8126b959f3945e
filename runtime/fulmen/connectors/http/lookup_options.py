"""Options of the lookup."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fulmen.connectors.formats import FormatOptions, JsonOptions
from fulmen.connectors.formats.options import Names
from fulmen.connectors.http.json_template import JsonTemplate
from fulmen.connectors.http.request_options import RequestOptions
from fulmen.connectors.options import Options

Seconds = Annotated[float, Field(ge=0, le=10_000_000)]


class CacheOptions(Options):
    """Answers that are remembered, in each worker."""

    seconds: Seconds = 60.0
    """How long an answer is used again."""
    missing_seconds: Seconds = 10.0
    """How long it is that there is nothing."""
    most: Annotated[int, Field(ge=1, le=10_000_000)] = 10_000
    """How many answers are kept at most. The one that was not used for longest goes first."""


class BreakerOptions(Options):
    """When an endpoint that is away is not asked for a while, in each worker."""

    failures: Annotated[int, Field(ge=1, le=1_000_000)] = 5
    """After so many requests without an answer, one after another, retries not counted."""
    seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """So long. Then one request is made, and its answer decides."""


class HttpLookupOptions(RequestOptions):
    """The `config` of a HttpLookup."""

    fields: Names = ()
    """Fields of the input that are passed on, before those of the answer."""
    method: Literal["GET", "POST"] = "GET"
    """The method of the requests."""
    body: JsonTemplate | None = None
    """The body of a POST: any JSON value, in whose texts `{name}` is replaced. A text that is only
    `{name}` becomes the field's value with its type."""
    format: FormatOptions = JsonOptions(type="json")
    """How answers are written down; its fields are those of the answer. Default: the whole JSON
    value is one field, `value`."""
    missing: Literal["nulls", "drop", "fail"] = "nulls"
    """What follows if there is nothing: the fields of the answer are null, nothing is emitted, or
    the tuple fails."""
    missing_statuses: Annotated[tuple[int, ...], Field(max_length=400)] = (404, 410)
    """Statuses that mean that there is nothing."""
    when_away: Literal["wait", "nulls", "fail"] = "wait"
    """What follows while the service is away: the topology waits for it, the fields of the answer
    are null, or the tuple fails."""
    cache: CacheOptions | None = None
    """Answers that are used again. Default: none."""
    breaker: BreakerOptions | None = None
    """When an endpoint that is away is not asked for a while. Default: it always is."""
    most_answer_bytes: Annotated[int, Field(ge=1, le=100_000_000)] = 1_000_000
    """The longest answer. A tuple with a longer one fails."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        names = [*self.fields, *self.format.make().fields]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f"the field {name!r} is there twice: in `fields` and in the answer's. Leave it"
                    " out of one"
                )
        if self.body is not None and self.method != "POST":
            raise ValueError("body: a GET has none. Write method: POST")
        return self
