"""Calls: a client's question runs through a topology, and what comes of it is the answer.

What Storm's DRPC is. `CallSpout` emits a call as a tuple, whose first field names the call; any
bolts process it and pass that field on; `Return` hands a result back. A call is answered when its
tree is acked: then all that came of it is committed, and all of its results are there. A batch
that comes to nothing takes its results along, so a call whose worker was lost is run again and has
each result once. A call whose tree fails is answered with the reason, and not run again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from aiohttp import web
from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import BasicBolt, Bolt, Outputs
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import DEFAULT_STREAM, Stream
from fulmen.api.kept import Kept
from fulmen.api.sinks import ServiceUnavailable
from fulmen.api.tuples import Tuple
from fulmen.connectors.base.redealing import refuse_own_fields
from fulmen.connectors.formats import Malformed
from fulmen.connectors.formats.values import DEFAULT
from fulmen.connectors.http.served.listener import Received, Reply, refusal
from fulmen.connectors.http.served.openapi import description
from fulmen.connectors.http.served.options import CALL, CallSpoutOptions, ReturnOptions
from fulmen.connectors.http.served.source import ServingSource
from fulmen.connectors.options import Options
from fulmen.errors import PASSED_ON


@dataclass(eq=False)
class _Call:
    """A call that is not answered yet.

    Attributes:
        request: Its client's.
        results: What was returned for it, as JSON.
    """

    request: Received
    results: list[bytes] = field(default_factory=list)


class CallSpout(ServingSource):
    """Emits calls, and answers them with what `Return` was given."""

    backoff = False
    config_model: ClassVar[type[Options]] = CallSpoutOptions
    durable = ("failed", "number")
    options: CallSpoutOptions

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    @override
    @classmethod
    def redistribute(cls, kept: Sequence[Kept], tasks: int) -> Sequence[Kept]:
        refuse_own_fields(cls, kept, CallSpout.durable)
        return [kept[0], *(Kept() for _ in range(1, tasks))]

    @override
    def stream(self, options: CallSpoutOptions) -> Stream:
        made = options.format.make().stream()
        return Stream((CALL, *made.fields), types={CALL: "string", **made.types})

    @override
    def outputs_for(self, options: CallSpoutOptions) -> Outputs:
        return {DEFAULT_STREAM: self.stream(options)}

    @override
    def needs_acks(self, options: CallSpoutOptions) -> str | None:
        return "calls would be answered before anything is done"

    @override
    def connect(self) -> None:
        self.format = self.options.format.make()
        self._calls: dict[str, _Call] = {}
        self._path = f"/{self.options.name or self.context.component}"
        super().connect()

    # On the server's loop

    @override
    def read(self, request: web.BaseRequest, content: bytes) -> Received | Reply:
        if request.path == "/openapi.json" and request.method == "GET":
            return Reply(200, description(self.context.topology, self._path, self.options))
        if request.path != self._path:
            text = f"there is no call {request.path.removeprefix('/')!r}, only {self._path[1:]!r}"
            return refusal(404, text)
        if request.method != "POST":
            return refusal(405, "a call is a POST", Allow="POST")
        try:
            return Received([self.format.decode(content)])
        except Malformed as error:
            return refusal(422, str(error))

    # Calls

    @override
    def emit(self, request: Received) -> None:
        self.number += 1
        call = f"{self.context.component} {self.number}"
        self._calls[call] = _Call(request)
        self.listener.pending += 1
        self.collector.emit([call, *request.rows[0]], DEFAULT_STREAM, call)
        self.context.want_batch()  # after this one, which tells how it ended

    @override
    def emit_again(self, msg_id: str) -> None:
        """Nothing does: a call that has failed was answered."""

    @override
    def unanswered(self) -> Iterable[Received]:
        return [one.request for one in self._calls.values()]

    def _take_results(self) -> None:
        for call, result in self.context.signals.take_returned():
            if (known := self._calls.get(call)) is not None:  # else its client has gone
                known.results.append(result)

    @override
    def ack_batch(self, msg_ids: Sequence[Any]) -> None:
        """Answer calls of which all is processed."""
        self._take_results()
        for call in msg_ids:
            if (known := self._calls.get(call)) is not None:
                self._answer(call, self._reply(known.results))
        self.context.want_batch()  # where some end, others may end soon

    @override
    def ack(self, msg_id: Any) -> None:
        self.ack_batch([msg_id])

    @override
    def fail(self, msg_id: Any, reason: str) -> None:
        """Answer a call with what went wrong."""
        self._take_results()
        if msg_id in self._calls:
            self._answer(msg_id, refusal(504 if reason == TIMED_OUT else 500, reason))

    def _answer(self, call: str, reply: Reply) -> None:
        self.listener.pending -= 1
        self.listener.answer([self._calls.pop(call).request], reply)

    def _reply(self, results: Sequence[bytes]) -> Reply:
        if self.options.results == "many":
            return Reply(200, b"[" + b",".join(results) + b"]")
        if len(results) > 1:
            text = f"{len(results)} values were returned: `results: many` gives a list of them"
            return refusal(500, text)
        return Reply(200, results[0] if results else b"null")


TIMED_OUT = "timed out"
"""The reason of a tree that took longer than `messageTimeoutSeconds`."""


class Return(BasicBolt):
    """Hands results back to the clients of calls."""

    config_model: ClassVar[type[Options]] = ReturnOptions

    @override
    def check_input(self, options: ReturnOptions, stream: Stream) -> Iterable[str | Warning]:
        known = stream.fields
        wanted = (options.call, *options.fields)
        told = [
            f"there is no field {name!r}, only {list(known)}"
            for name in wanted
            if name not in known
        ]
        if not options.fields and known == (options.call,):
            told.append(f"there is nothing to return beside the field {options.call!r}")
        return told

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self._context, self._options = context, context.options

    @override
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        options: ReturnOptions = self._options
        names = options.fields or [name for name in tup.fields if name != options.call]
        values = [tup[name] for name in names]
        is_single = len(values) == 1 and not options.fields
        result = values[0] if is_single else dict(zip(names, values, strict=True))
        self._context.signals.answer(str(tup[options.call]), DEFAULT.dumps(result))


class CallBolt(Bolt):
    """Gets all the tuples of a call at once that a batch brings to its task.

    Where its inputs come from other bolts of the same topology, and none of these keeps tuples for
    a later batch, these are all that the call has for this task: each bolt gets its tuples after
    all those before it have ended theirs. Storm's CoordinatedBolt and KeyedFairBolt.
    """

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: Any) -> None:  # noqa: ARG002
        """Begin. Call it if you override it."""
        self._collector = collector
        self._of_calls: dict[str, list[Tuple]] = {}

    def execute(self, tup: Tuple) -> None:
        """Keep a tuple until the end of the batch."""
        if tup.is_tick():
            self._collector.ack(tup)
        else:
            self._of_calls.setdefault(tup[CALL], []).append(tup)

    @abstractmethod
    def finish(self, call: str, tuples: Sequence[Tuple]) -> Iterable[Sequence[Any]]:
        """The rows to emit for a call, without its name, which is put in front of each.

        An exception fails the call, which is answered with it.

        Args:
            call: Its name: the field `call`.
            tuples: What came for it, in the order in which it came.
        """

    def end_batch(self) -> None:
        """Finish the calls of the batch."""
        of_calls, self._of_calls = self._of_calls, {}
        for call, tuples in of_calls.items():
            try:
                rows = [[call, *row] for row in self.finish(call, tuples)]
            except (*PASSED_ON, ServiceUnavailable):
                raise
            except BaseException as error:  # noqa: BLE001 (author's code)
                for tup in tuples:
                    self._collector.fail(tup, error)
                continue
            for row in rows:
                self._collector.emit(row, anchors=tuples)
            for tup in tuples:
                self._collector.ack(tup)
