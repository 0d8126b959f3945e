"""An HTTP server as a source: webhooks, and whatever else posts messages.

A request is emitted whole, in one turn, and its messages stay in the
state until they are acked. So what a commit has of them is never lost, and `committed` is when a
client may be told so.

With `answer: acked` a message that fails is not emitted again: its client hears of it, and decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from aiohttp import web
from typing_extensions import override

from fulmen.api.components import Outputs
from fulmen.api.components.kept import Kept
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.declarer import DEFAULT_STREAM, Stream
from fulmen.api.times.event_time import milliseconds
from fulmen.connectors.base.blocks import EmittedBlocks
from fulmen.connectors.base.redealing import refuse_own_fields
from fulmen.connectors.formats import Malformed
from fulmen.connectors.http.served.contents import contents_of
from fulmen.connectors.http.served.listening.authentication import why_unsigned
from fulmen.connectors.http.served.listening.received import Received, Reply, later, refusal
from fulmen.connectors.http.served.options import LONGEST_KEY, HttpSpoutOptions
from fulmen.connectors.http.served.remembered import (
    OTHERS_KEY,
    Remembered,
    RememberedKeys,
    digest_of,
)
from fulmen.connectors.http.served.source import ServingSource
from fulmen.connectors.options import Options

TYPES: Mapping[str, str] = {
    "method": "string",
    "path": "string",
    "client": "string",
    "received": "timestamp",
}
"""Of properties."""
PRIVATE = frozenset({"authorization", "cookie", "proxy-authorization"})
"""Headers that don't become data."""


@dataclass(eq=False)
class _Open:
    """A request that is not answered yet.

    Attributes:
        requests: Those that wait for the answer: the first one, and those that came with its key.
        left: Its messages that are pending.
        count: Its messages.
        reason: Why one of them failed.
    """

    requests: list[Received] = field(default_factory=list)
    left: int = 0
    count: int = 0
    reason: str | None = None


class HttpSpout(ServingSource):
    """Emits what clients send, and answers them."""

    config_model: ClassVar[type[Options]] = HttpSpoutOptions
    durable = ("failed", "in_blocks", "number")
    options: HttpSpoutOptions

    def __init__(self) -> None:
        super().__init__()
        self.in_blocks: dict[int, int] = {}
        self.number = 0

    @override
    @classmethod
    def redistribute(cls, kept: Sequence[Kept], tasks: int) -> Sequence[Kept]:
        refuse_own_fields(cls, kept, HttpSpout.durable)
        return [kept[0], *(Kept() for _ in range(1, tasks))]

    @override
    def stream(self, options: HttpSpoutOptions) -> Stream:
        made = contents_of(options).stream(*options.properties)
        known: dict[str, str] = {name: TYPES[name] for name in options.properties if name in TYPES}
        return Stream(made.fields, types={**made.types, **known})

    @override
    def outputs_for(self, options: HttpSpoutOptions) -> Outputs:
        """One stream: whoever sends what can't be read is told so."""
        return {DEFAULT_STREAM: self.stream(options)}

    @override
    def needs_acks(self, options: HttpSpoutOptions) -> str | None:
        if options is None or options.answer != "acked":
            return None
        return "with answer: acked, requests would be answered before anything is done"

    # Its life

    @override
    def connect(self) -> None:
        options = self.options
        self._contents = contents_of(options)
        self._contents.connect()
        self._blocks = EmittedBlocks(self.state, self.in_blocks)
        self._keys = RememberedKeys(self.state, milliseconds(options.remember_keys) / 1000)
        numbers = Counter(map(_number_of, self._blocks.ids()))
        self._open = {n: _Open(left=left, count=left) for n, left in numbers.items()}
        self._uncommitted: list[_Open] = []
        super().connect()
        if self.serves:
            self.listener.pending = sum(numbers.values())
            if options.answer == "at-once":
                self.listener.at_once = Reply(202, {})

    @override
    def begin_turn(self) -> bool:
        self._keys.forget(type(self).today())
        return super().begin_turn()

    @override
    def unanswered(self) -> Iterable[Received]:
        opened = [*self._open.values(), *self._uncommitted]
        return [request for one in opened for request in one.requests]

    # A request, on the server's loop

    @override
    def read(self, request: web.BaseRequest, content: bytes) -> Received | Reply:
        options = self.options
        if request.path not in options.paths:
            return refusal(404, f"there is no path {request.path!r}")
        if request.method not in options.methods:
            text = f"{request.method} is not served here"
            return refusal(405, text, Allow=", ".join(options.methods))
        now = type(self).today()
        if options.signature is not None:
            why = why_unsigned(request.headers, content, options.signature, now)
            if why is not None:
                return refusal(401, why)
        key = request.headers.get("Idempotency-Key", "")
        if len(key) > LONGEST_KEY:
            return refusal(400, f"an Idempotency-Key has at most {LONGEST_KEY} characters")
        try:
            rows = self._contents.rows(request.headers, content)
        except Malformed as error:
            return refusal(422, str(error))
        except ServiceUnavailable as error:  # what reading it needs
            return later(503, str(error))
        if len(rows) > options.max_messages:
            text = f"it has {len(rows)} messages, and at most {options.max_messages} are taken"
            return refusal(413, text)
        if options.properties:
            known = _properties(request, now)
            more = [known[name] for name in options.properties]
            rows = [[*row, *more] for row in rows]
        return Received(rows, key, digest_of(request, content) if key else b"")

    # Its messages

    @override
    def emit(self, request: Received) -> None:
        if request.key and (known := self._keys.get(request.key)) is not None:
            self._answer_again(request, known)
            return
        listener, answer = self.listener, self.options.answer
        self.number += 1
        count = len(request.rows)
        ids = [f"{self.number}.{i}" for i in range(count)]
        opened = self._open[self.number] = _Open([request], left=count, count=count)
        if request.key:
            reply = {"at-once": (202, {}), "committed": (200, {"messages": count})}
            status, said = reply.get(answer, (0, None))
            one = Remembered(type(self).today(), request.digest, self.number, status, said)
            self._keys.add(request.key, one)
        self._blocks.add(ids, request.rows)
        listener.pending += count
        self.collector.emit_many(request.rows, msg_ids=ids)
        if answer == "committed":
            self._uncommitted.append(opened)
        if answer == "at-once":
            listener.answer(opened.requests, Reply(202, {}))
            opened.requests = []
        else:
            self.context.want_batch()  # after this one, which tells how it ended

    def _answer_again(self, request: Received, known: Remembered) -> None:
        """Answer a request whose key has come before, or have it wait with the one that had it."""
        listener = self.listener
        if known.digest != request.digest:
            listener.answer([request], refusal(422, OTHERS_KEY))
            return
        opened = self._open.get(known.number)
        if opened is not None and (opened in self._uncommitted or not known.status):
            # it is answered with the first one
            opened.requests.append(request)
        elif known.status:
            listener.answer([request], Reply(known.status, known.said))
        else:  # it had ended before this process began, and nobody has noted how
            listener.answer([request], later(503, "what became of it is not known yet"))

    @override
    def emit_again(self, msg_id: str) -> None:
        self.collector.emit(list(self._blocks[msg_id]), DEFAULT_STREAM, msg_id)

    @override
    def committed(self, number: int) -> None:
        """Answer the requests whose messages are durable now."""
        for opened in self._uncommitted:
            self.listener.answer(opened.requests, Reply(200, {"messages": opened.count}))
            opened.requests = []
        self._uncommitted = []

    @override
    def ack(self, msg_id: Any) -> None:
        self.ack_batch([msg_id])

    @override
    def ack_batch(self, msg_ids: Sequence[Any]) -> None:
        """Forget messages, and answer the requests of which all are processed."""
        for number, count in Counter(map(_number_of, self._blocks.end(msg_ids))).items():
            self._ended(number, count)
        if self.options.answer == "acked":
            self.context.want_batch()  # where some end, others may end soon

    @override
    def fail(self, msg_id: Any, reason: str) -> None:
        """Emit the message again; or have its client told that it failed."""
        if self.options.answer != "acked":
            if self._blocks.fail(msg_id):
                super().fail(msg_id, reason)
        elif self._blocks.end([msg_id]):
            self._ended(_number_of(msg_id), 1, reason)

    def _ended(self, number: int, count: int, reason: str | None = None) -> None:
        """So many messages of a request are processed, or have failed for that reason."""
        opened = self._open.get(number)
        if opened is None:
            return
        listener = self.listener
        listener.pending -= count
        opened.left -= count
        opened.reason = opened.reason or reason
        if opened.left:
            return
        del self._open[number]
        if self.options.answer != "acked":
            return
        reply = Reply(200, {"messages": opened.count})
        if opened.reason is not None:
            reply = refusal(500, opened.reason)
            if not opened.requests:
                self.collector.report_error(f"request {number} failed: {opened.reason}")
        self._keys.answered(number, reply.status, reply.body)
        listener.answer(opened.requests, reply)


def _number_of(msg_id: str) -> int:
    """The number of the request that a message is of."""
    return int(msg_id.partition(".")[0])


def _properties(request: web.BaseRequest, now: float) -> Mapping[str, Any]:
    """What can become fields of a tuple."""
    named = {name.lower(): value for name, value in request.headers.items()}
    return {
        "method": request.method,
        "path": request.path,
        "query": dict(request.query),
        "headers": {name: value for name, value in named.items() if name not in PRIVATE},
        "client": request.remote,
        "received": datetime.fromtimestamp(now, UTC),
    }
