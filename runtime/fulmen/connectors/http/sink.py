"""Calls an endpoint with rows.

At least once: an endpoint can't keep a mark together with what a call has done. Instead, requests
have keys by which it knows repeats (see `RowIds`). With exactly-once rows are sent behind their
commit, and a key says which row of which commit it is: so each has its effect once, whatever is
killed, if the endpoint does not do twice what has the same key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from secrets import SystemRandom
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from fulmen.api.components.sinks import Mark, Rows
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.connectors.base.row_ids import RowIds, sink_identity
from fulmen.connectors.base.sink import MessageSink
from fulmen.connectors.formats import DEFAULT, Malformed, readable
from fulmen.connectors.formats.base import positions, refused
from fulmen.connectors.http.asking import Asker, HttpRequest, OwnLoop, in_lanes
from fulmen.connectors.http.filling import headers_filler, url_filler
from fulmen.connectors.http.json_template import json_filler
from fulmen.connectors.http.request_options import checked_header
from fulmen.connectors.http.sink_options import HttpSinkOptions
from fulmen.connectors.options import Options
from fulmen.connectors.templates import filler
from fulmen.services.http.endpoint import Endpoint, UnexpectedAnswer
from fulmen.services.service import ErrorKind

MOST_ANSWER_BYTES = 64 * 1024
"""More of an answer's content is not read."""


class CallOfRow(NamedTuple):
    """What a row becomes. It is kept in the checkpoint until it is sent, with exactly-once."""

    url: str
    headers: Mapping[str, str]
    body: bytes | None
    key: str
    order: str


class HttpSink(MessageSink):
    """Calls an endpoint for each row, or for some at a time."""

    config_model: ClassVar[type[Options]] = HttpSinkOptions
    durable = ("identity",)

    def __init__(self) -> None:
        self.identity = ""

    @property
    @override
    def appends(self) -> bool:
        return self._options.method == "POST"

    @override
    def check_input(self, options: Any, stream: Stream) -> Iterable[str]:
        mistakes = [*refused(lambda: _encoder(options, _no_body, stream.fields))]
        if _has_body(options):
            if options.body is None:
                mistakes += options.format.mistakes(stream)
            else:
                mistakes += refused(lambda: json_filler(options.body, stream.fields))
        return mistakes

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Look at the options. It connects when there is something to send.

        Raises:
            ServiceUnavailable: The URL can't be understood, or a file for TLS can't be used.
            FulmenError: The options name a field that the sink does not receive.
        """
        self._context = context
        self.identity = sink_identity(context, self.identity)
        self._options: HttpSinkOptions = context.options
        options = self._options
        self._format = options.format.for_topic(None).make()
        if options.body is None and _has_body(options):
            self._format.connect()
        self.look_at_inputs(context)
        self._endpoint: Endpoint = options.endpoint()
        self._loop = OwnLoop()
        self._asker = Asker(options, self._endpoint, self._kind_of_status, SystemRandom().random)
        self._content_type = options.content_type_of()
        self._requests = context.counter("http_requests", "Requests that were taken or refused.")
        self._retries = context.counter("http_retries", "Requests that were made again.")

    def _kind_of_status(self, status: int) -> ErrorKind | None:
        options = self._options
        if status in options.taken_statuses:
            return None
        if status in options.refused_statuses:
            return ErrorKind.ROW
        if status in options.retried_statuses:
            return ErrorKind.BUSY
        return self._endpoint.kind_of_status(status)

    @override
    def encoder(self, fields: tuple[str, ...]) -> Callable[[Sequence[Any]], CallOfRow]:
        options = self._options
        if not _has_body(options):
            return _encoder(options, _no_body, fields)
        if options.body is not None:
            return _encoder(options, json_filler(options.body, fields), fields)
        return _encoder(options, self._format.encoder(fields), fields)

    @override
    def describe(self, item: CallOfRow) -> Any:
        return {"url": item.url, "body": None if item.body is None else readable(item.body)}

    @override
    def write(self, rows: Rows, mark: Mark | None) -> None:
        keys = self._keys(rows, mark)
        chains = self._chains(rows)

        async def send(places: Sequence[int]) -> None:
            try:
                await self._asker.ask(self._request(rows, keys, places), MOST_ANSWER_BYTES)
            except UnexpectedAnswer as error:
                if len(places) > 1:  # it does not say which row it is
                    half = len(places) // 2
                    await send(places[:half])
                    await send(places[half:])
                    return
                rows.fail(places[0], str(error))
            self._requests.inc()

        try:
            self._loop.run(in_lanes(chains, self._options.concurrency, send))
        finally:
            self._retries.inc(self._asker.retried)
            self._asker.retried = 0

    def _keys(self, rows: Rows, mark: Mark | None) -> Sequence[str]:
        """The keys of rows: the same whenever they are sent again."""
        if mark is not None:
            own = f"{mark.sink}-{mark.number}-{mark.tag}"
            return [row.key or f"{own}-{i}" for i, row in enumerate(rows)]
        ids = RowIds(self.identity, self._context.batch.number, rows)
        return [
            row.key or ids.next_id(i, row.body or b"", row.url, dict(row.headers))
            for i, row in enumerate(rows)
        ]

    def _chains(self, rows: Rows) -> list[list[list[int]]]:
        """The positions of rows that go into one request each; those of a chain keep their order.

        A chain ends one request where the URL or the headers change.
        """
        most, by_order = self._options.rows_per_request, self._options.order_by
        if not by_order:
            if most == 1:
                return [[[i]] for i in range(len(rows))]
            alike: dict[Any, list[int]] = {}
            for i, row in enumerate(rows):
                alike.setdefault((row.url, tuple(row.headers.items())), []).append(i)
            return [
                [places[at : at + most]]
                for places in alike.values()
                for at in range(0, len(places), most)
            ]
        chains: dict[str, list[list[int]]] = {}
        for i, row in enumerate(rows):
            chain = chains.setdefault(row.order, [])
            last = rows[chain[-1][0]] if chain else None
            is_alike = last is not None and (last.url, last.headers) == (row.url, row.headers)
            if is_alike and len(chain[-1]) < most:
                chain[-1].append(i)
            else:
                chain.append([i])
        return list(chains.values())

    def _request(self, rows: Rows, keys: Sequence[str], places: Sequence[int]) -> HttpRequest:
        options, first = self._options, rows[places[0]]
        headers, body, key = dict(first.headers), first.body, keys[places[0]]
        if len(places) > 1:
            joined = "\n".join(keys[i] for i in places).encode()
            key = hashlib.blake2b(joined, digest_size=16).hexdigest()
        if body is not None:
            headers.setdefault("Content-Type", self._content_type)
            if options.rows_per_request > 1:
                body = self._joined([rows[i].body for i in places])
        if options.idempotency_header is not None:
            headers[options.idempotency_header] = key
        return HttpRequest(options.method, first.url, headers, body)

    def _joined(self, bodies: Sequence[bytes]) -> bytes:
        if self._options.rows_as == "array":
            return b"[" + b",".join(bodies) + b"]"
        return b"".join(body if body.endswith(b"\n") else body + b"\n" for body in bodies)

    @override
    def cleanup(self) -> None:
        self._loop.run(self._asker.close())
        self._loop.close()


def _has_body(options: HttpSinkOptions) -> bool:
    return options.method != "DELETE"


def _no_body(_values: Sequence[Any]) -> None:
    return None


def _encoder(
    options: HttpSinkOptions, body: Callable[[Sequence[Any]], bytes | None], fields: Sequence[str]
) -> Callable[[Sequence[Any]], CallOfRow]:
    """A function that makes a call of a row. It raises Malformed for rows it can't.

    Raises:
        Malformed: A field is named that is not among them.
    """
    url, headers = url_filler(options.url, fields), headers_filler(options.headers, fields)
    key = filler(options.idempotency_key, fields)
    ordered = positions(options.order_by, fields)

    def encode(values: Sequence[Any]) -> CallOfRow:
        made = body(values)
        order = DEFAULT.dumps([values[at] for at in ordered]).decode() if ordered else ""
        return CallOfRow(url(values), headers(values), made, _checked_key(key(values)), order)

    return encode


def _checked_key(key: str) -> str:
    try:
        key.encode("ascii")
        return checked_header("idempotencyKey", key)
    except ValueError:
        raise Malformed(f"idempotencyKey: {key!r:.50} is no key: it must be ASCII") from None
