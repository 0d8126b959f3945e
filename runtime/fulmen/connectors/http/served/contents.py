"""Turns the content of a request into rows. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote

from typing_extensions import override

from fulmen.api.declarer import Stream
from fulmen.connectors.formats import Format, Malformed
from fulmen.connectors.http.served.options import (
    CloudEventOptions,
    FormOptions,
    HttpSpoutOptions,
)

Headers = Mapping[str, str]
LINES_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
EVENT = ("id", "source", "type", "subject", "time")
_NEEDED = ("id", "source", "type")
_MOST_INPUTS = 1000


def media_type(headers: Headers) -> str:
    """The type of a content, without its parameters, in small letters."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


class Contents(ABC):
    """Reads contents."""

    @abstractmethod
    def stream(self, *properties: str) -> Stream:
        """The stream of what is read."""

    def connect(self) -> None:
        """See that what reading needs is there. Raises what `Format.connect` does."""

    @abstractmethod
    def rows(self, headers: Headers, content: bytes) -> list[list[Any]]:
        """The values of each message.

        Raises:
            Malformed: One of them can't be read.
            ServiceUnavailable: What reading it needs is away.
        """


def contents_of(options: HttpSpoutOptions) -> Contents:
    """Make what reads the contents."""
    if isinstance(options.format, FormOptions):
        return _Forms(options.format.fields)
    if isinstance(options.format, CloudEventOptions):
        return _Events()
    return _Messages(options.format.make(), has_lines=options.content == "lines")


class _Messages(Contents):
    """Messages of a format that files and queues have as well."""

    def __init__(self, reads: Format, *, has_lines: bool) -> None:
        self._format, self._has_lines = reads, has_lines

    @override
    def stream(self, *properties: str) -> Stream:
        return self._format.stream(*properties)

    @override
    def connect(self) -> None:
        self._format.connect()

    @override
    def rows(self, headers: Headers, content: bytes) -> list[list[Any]]:
        if not (self._has_lines or media_type(headers) in LINES_TYPES):
            return [_readable(one, "") for one in self._format.decode_each([content])]
        numbered = enumerate(content.split(b"\n"), 1)
        lines = [(number, line.removesuffix(b"\r")) for number, line in numbered if line.strip()]
        decoded = self._format.decode_each([line for _, line in lines])
        numbers = [number for number, _ in lines]
        return [_readable(one, f"line {n}: ") for n, one in zip(numbers, decoded, strict=True)]


def _readable(values: list[Any] | Malformed, where: str) -> list[Any]:
    if isinstance(values, Malformed):
        raise Malformed(f"{where}{values}")
    return values


class _Forms(Contents):
    def __init__(self, fields: Sequence[str]) -> None:
        self._fields = tuple(fields)

    @override
    def stream(self, *properties: str) -> Stream:
        types = dict.fromkeys(self._fields, "string")
        return Stream((*(self._fields or ("value",)), *properties), types=types)

    @override
    def rows(self, headers: Headers, content: bytes) -> list[list[Any]]:
        if media_type(headers) == "multipart/form-data":
            raise Malformed("it is multipart/form-data, and not application/x-www-form-urlencoded")
        try:
            text = content.decode()
            pairs = parse_qsl(
                text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_INPUTS
            )
        except ValueError as error:
            raise Malformed(f"it is no form: {error}") from None
        inputs = dict(pairs)
        return [[inputs.get(name) for name in self._fields] if self._fields else [inputs]]


class _Events(Contents):
    """CloudEvents 1.0: structured, binary, and in batches."""

    @override
    def stream(self, *properties: str) -> Stream:
        return Stream((*EVENT, "data", *properties), types=dict.fromkeys(EVENT, "string"))

    @override
    def rows(self, headers: Headers, content: bytes) -> list[list[Any]]:
        kind = media_type(headers)
        if kind == "application/cloudevents+json":
            return [_event(_json(content), "")]
        if kind == "application/cloudevents-batch+json":
            events = _json(content)
            if not isinstance(events, list):
                raise Malformed("a batch of CloudEvents is a list")
            return [_event(one, f"event {i}: ") for i, one in enumerate(events, 1)]
        named = {name: headers.get(f"ce-{name}") for name in EVENT}
        named = {name: None if v is None else unquote(v) for name, v in named.items()}
        _check(named, "", "header ce-")
        is_json = kind.endswith(("/json", "+json"))
        return [[*named.values(), _json(content) if is_json and content else content or None]]


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"it is not JSON: {error}") from None


def _event(event: Any, where: str) -> list[Any]:
    if not isinstance(event, dict):
        raise Malformed(f"{where}a CloudEvent is an object")
    named = {name: event.get(name) for name in EVENT}
    _check(named, where, "member ")
    data = event.get("data")
    if "data_base64" in event:
        try:
            data = base64.b64decode(event["data_base64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise Malformed(f"{where}data_base64 is not base64") from None
    return [*named.values(), data]


def _check(named: Mapping[str, Any], where: str, what: str) -> None:
    for name, value in named.items():
        if not (isinstance(value, str) and value) and (name in _NEEDED or value is not None):
            raise Malformed(f"{where}a CloudEvent has the {what}{name}, a text")
