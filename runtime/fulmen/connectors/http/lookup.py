"""Completes tuples with what an endpoint answers, many at a time.

What is emitted follows from the answer at the time: a tuple that is replayed may get another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from secrets import SystemRandom
from time import monotonic
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import BasicBolt, FailedException, Outputs
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import DEFAULT_STREAM, Stream
from fulmen.api.tuples import Tuple
from fulmen.connectors.formats import Malformed
from fulmen.connectors.formats.base import positions, refused, unread
from fulmen.connectors.http.asking import Asker, HttpRequest
from fulmen.connectors.http.filling import headers_filler, url_filler
from fulmen.connectors.http.json_template import json_filler
from fulmen.connectors.http.lookup_memory import AnswerCache, CircuitBreaker, Content
from fulmen.connectors.http.lookup_options import HttpLookupOptions
from fulmen.services.http.endpoint import Endpoint, UnexpectedAnswer
from fulmen.services.service import ErrorKind


class HttpLookup(BasicBolt):
    """Asks an endpoint for each tuple: see `HttpLookupOptions`."""

    config_model = HttpLookupOptions
    max_concurrency: ClassVar[int] = 1000  # the options say how many of these ask
    durable: ClassVar[Sequence[str]] = ()

    @override
    def outputs_for(self, options: HttpLookupOptions) -> Outputs:
        made = options.format.make()
        stream = Stream((*options.fields, *made.fields), types=dict(made.types))
        return {DEFAULT_STREAM: stream}

    @override
    def check_input(self, options: HttpLookupOptions, stream: Stream) -> Iterable[str]:
        return [
            *refused(lambda: positions(options.fields, stream.fields)),
            *refused(lambda: url_filler(options.url, stream.fields)),
            *refused(lambda: headers_filler(options.headers, stream.fields)),
            *refused(lambda: json_filler(options.body, stream.fields)),
        ]

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Look at the options. It connects when there is something to ask.

        Raises:
            ServiceUnavailable: The URL can't be understood, or a file for TLS can't be used.
        """
        options: HttpLookupOptions = context.options
        self._options = options
        self._format = options.format.make()
        self._nulls: Sequence[Any] = [None] * len(self._format.fields)
        self._endpoint: Endpoint = options.endpoint()
        self._asker = Asker(options, self._endpoint, self._kind_of_status, SystemRandom().random)
        self._lanes = asyncio.Semaphore(options.concurrency)
        of = f"lookup of {context.component}"
        self._cache = context.shared(f"{of}: answers", partial(_answers, options))
        self._breaker = context.shared(f"{of}: breaker", partial(_breaker, options))
        self._makers: dict[tuple[str, ...], Any] = {}
        self._requests = context.counter("http_requests", "Requests that were answered.")
        self._retries = context.counter("http_retries", "Requests that were made again.")
        self._known = context.counter("http_cached", "Tuples that needed no request.")

    def _kind_of_status(self, status: int) -> ErrorKind | None:
        if status in self._options.missing_statuses:
            return None
        return self._endpoint.kind_of_status(status)

    @override
    async def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if tup.is_tick():
            return
        try:
            passed, request = self._request(tuple(tup.fields), tup.values)
            answer = await self._answer(request)
        except Malformed as error:
            raise FailedException(str(error)) from None
        if answer is not None:
            collector.emit([*passed, *answer])

    def _request(
        self, fields: tuple[str, ...], values: Sequence[Any]
    ) -> tuple[Sequence[Any], HttpRequest]:
        """What is passed on of a tuple, and what is asked for it."""
        options = self._options
        if fields not in self._makers:
            body = None if options.body is None else json_filler(options.body, fields)
            self._makers[fields] = (
                positions(options.fields, fields),
                url_filler(options.url, fields),
                headers_filler(options.headers, fields),
                body,
            )
        places, url, headers, body = self._makers[fields]
        made = dict(headers(values))
        if body is not None and "content-type" not in map(str.lower, made):
            made["Content-Type"] = "application/json"
        content = None if body is None else body(values)
        request = HttpRequest(options.method, url(values), made, content)
        return [values[at] for at in places], request

    async def _answer(self, request: HttpRequest) -> Sequence[Any] | None:
        """The values of the answer; None: nothing is emitted.

        Raises:
            FailedException: The tuple fails.
            ServiceUnavailable: The topology waits.
        """
        options = self._options
        key = (request.url, tuple(request.headers.items()), request.body)
        try:
            content, was_known = await self._cache.get(key, partial(self._ask, request))
        except UnexpectedAnswer as error:
            raise FailedException(f"{self._endpoint.name}: {error}") from None
        except ServiceUnavailable as error:
            if options.when_away == "wait":
                raise
            if options.when_away == "fail":
                raise FailedException(str(error)) from None
            return self._nulls
        if was_known:
            self._known.inc()
        if content is not None:
            return self._decoded(content)
        if options.missing == "fail":
            raise FailedException(f"{self._endpoint.name} has nothing at {request.url}")
        return self._nulls if options.missing == "nulls" else None

    async def _ask(self, request: HttpRequest) -> Content:
        breaker, most = self._breaker, self._options.most_answer_bytes
        async with self._lanes:
            if not breaker.lets_ask():
                reason = f"it is not asked for a while, after: {breaker.reason}"
                raise ServiceUnavailable(self._endpoint.name, reason)
            try:
                answer = await self._asker.ask(request, most)
            except ServiceUnavailable as error:
                breaker.failed(error.reason)
                raise
            except UnexpectedAnswer:
                breaker.answered()
                raise
            finally:
                self._retries.inc(self._asker.retried)
                self._asker.retried = 0
        breaker.answered()
        self._requests.inc()
        if answer.status in self._options.missing_statuses:
            return None
        if not answer.is_whole:
            raise Malformed(f"the answer has more than {most} bytes: see mostAnswerBytes")
        return answer.content

    def _decoded(self, content: bytes) -> Sequence[Any]:
        try:
            return self._format.decode(content)
        except BaseException as error:  # noqa: BLE001 (of any decoder)
            raise Malformed(f"the answer can't be read: {unread(error)}") from None

    @override
    async def cleanup(self) -> None:
        await self._asker.close()


def _answers(options: HttpLookupOptions) -> AnswerCache:
    return AnswerCache(options.cache, monotonic)


def _breaker(options: HttpLookupOptions) -> CircuitBreaker:
    return CircuitBreaker(options.breaker, monotonic)
