"""Calls: a client's question runs through a topology, and what comes of it is the answer.

What Storm's DRPC is. `CallSpout` emits a call as a tuple, whose first field names the call; any
bolts process it and pass that field on; `Return` hands a result back. A call is answered when its
tree is acked: then all that came of it is committed, and all of its results are there. A batch
that comes to nothing takes its results along, so a call whose worker was lost is run again and has
each result once. A call whose tree fails is answered with the reason, and not run again.

The answer to a call with a key is kept in the state. If the driver is lost after a call was
committed and before that, nobody knows the results: whoever asks again is told that it was done.

Values that are handed out as they come are those of commits, too. So whatever is killed but the
driver, a client gets each once, and never one of an attempt that came to nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from aiohttp import web
from typing_extensions import override

from fulmen.api.components import Outputs
from fulmen.api.components.kept import Kept
from fulmen.api.declarer import DEFAULT_STREAM, Stream
from fulmen.api.times.event_time import milliseconds
from fulmen.connectors.base.redealing import refuse_own_fields
from fulmen.connectors.formats import Malformed
from fulmen.connectors.http.served.call_bolts import OVER, call_name, number_of
from fulmen.connectors.http.served.listening.received import Received, Reply, refusal
from fulmen.connectors.http.served.listening.values import FORMS, ValueParts
from fulmen.connectors.http.served.openapi import description
from fulmen.connectors.http.served.options import CALL, LONGEST_KEY, CallSpoutOptions
from fulmen.connectors.http.served.remembered import (
    OTHERS_KEY,
    Remembered,
    RememberedKeys,
    digest_of,
)
from fulmen.connectors.http.served.source import ServingSource
from fulmen.connectors.options import Options

TIMED_OUT = "timed out"
"""The reason of a tree that took longer than `messageTimeoutSeconds`."""
LOST = "it was done, and its results were lost with the driver"


@dataclass(eq=False)
class _Call:
    """A call that is not answered yet.

    Attributes:
        requests: Its client's, and those that came with its key.
        keeps: Whether its results are needed once they are handed out.
        results: What was returned for it, as JSON.
    """

    requests: list[Received] = field(default_factory=list)
    keeps: bool = True
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
        options = self.options
        self.format = options.format.make()
        self._seconds = milliseconds(options.timeout) / 1000
        self._keys = RememberedKeys(self.state, milliseconds(options.remember_keys) / 1000)
        self._lock = threading.Lock()  # what open calls have; the driver's thread adds to it
        self._calls: dict[str, _Call] = {}  # those of this process, by name
        self._with_key: dict[int, _Call] = {}  # by number; of earlier processes, too
        self._path = f"/{options.name or self.context.component}"
        self.context.signals.on_returned = self._take_results
        super().connect()

    @override
    def begin_turn(self) -> bool:
        self._keys.forget(type(self).today())
        return super().begin_turn()

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
        key = request.headers.get("Idempotency-Key", "")
        if len(key) > LONGEST_KEY:
            return refusal(400, f"an Idempotency-Key has at most {LONGEST_KEY} characters")
        try:
            rows = [self.format.decode(content)]
        except Malformed as error:
            return refusal(422, str(error))
        received = Received(rows, key, digest_of(request, content) if key else b"")
        received.until = type(self).today() + self._seconds
        if self.options.results == "many":
            accepted = request.headers.get("Accept", "")
            form = next((form for kind, form in FORMS.items() if kind in accepted), None)
            received.values = None if form is None else ValueParts(form)
        return received

    # Calls

    @override
    def emit(self, request: Received) -> None:
        if request.key and (known := self._keys.get(request.key)) is not None:
            self._answer_again(request, known)
            return
        self.number += 1
        call = call_name(self.context.component, self.number, request.until)
        keeps = bool(request.key) or request.values is None
        opened = self._calls[call] = _Call([request], keeps)
        if request.key:
            self._with_key[self.number] = opened
            one = Remembered(type(self).today(), request.digest, self.number)
            self._keys.add(request.key, one)
        self.listener.pending += 1
        self.collector.emit([call, *request.rows[0]], DEFAULT_STREAM, call)
        self.context.want_batch()  # after this one, which tells how it ended

    def _answer_again(self, request: Received, known: Remembered) -> None:
        """Answer a call whose key has come before, or have it wait with the one that had it."""
        if known.digest != request.digest:
            self.listener.answer([request], refusal(422, OTHERS_KEY))
        elif known.status:
            if known.status == 200:
                self.listener.hand_out([request], known.said)
            self._send([request], known.status, known.said)
        else:  # of another process, if it is not open: its tree will end
            opened = self._with_key.setdefault(known.number, _Call())
            with self._lock:
                opened.requests.append(request)
                self.listener.hand_out([request], [*opened.results])

    @override
    def emit_again(self, msg_id: str) -> None:
        """Nothing does: a call that has failed was answered."""

    @override
    def unanswered(self) -> Iterable[Received]:
        opened = dict.fromkeys([*self._calls.values(), *self._with_key.values()])
        return [request for one in opened for request in one.requests]

    def _take_results(self, results: Iterable[tuple[str, bytes]]) -> None:
        """Keep what a commit has of results, or hand them out. On the driver's thread.

        It is called before the spout hears how trees have ended in that commit.
        """
        of_calls: dict[str, list[bytes]] = {}
        for call, result in results:
            of_calls.setdefault(call, []).append(result)
        for call, new in of_calls.items():
            if (known := self._calls.get(call)) is not None:  # else it is of another spout
                with self._lock:
                    if known.keeps:
                        known.results += new
                    self.listener.hand_out(known.requests, new)

    @override
    def ack_batch(self, msg_ids: Sequence[Any]) -> None:
        """Answer calls of which all is processed."""
        for call in msg_ids:
            self._end(call, None)
        self.context.want_batch()  # where some end, others may end soon

    @override
    def ack(self, msg_id: Any) -> None:
        self.ack_batch([msg_id])

    @override
    def fail(self, msg_id: Any, reason: str) -> None:
        """Answer a call with what went wrong."""
        self._end(msg_id, reason)

    def _end(self, call: str, failure: str | None) -> None:
        """A call has ended: answer it, and note the answer if it has a key.

        Args:
            call: Its name.
            failure: Why it failed; None: it did not.
        """
        number = number_of(call, self.context.component)
        known = self._calls.pop(call, None)
        if known is not None:
            self.listener.pending -= 1
        opened = self._with_key.pop(number, known)
        status, said = 200, None if known is None else self._said(known.results)
        if failure is not None:
            status, said = 504 if failure in (TIMED_OUT, OVER) else 500, {"error": failure}
        elif known is None:
            status, said = 500, {"error": LOST}
        elif isinstance(said, dict):
            status = 500
        self._keys.answered(number, status, said)
        if opened is not None:
            self._send(opened.requests, status, said)

    def _said(self, results: list[bytes]) -> list[bytes] | dict[str, str]:
        """What is kept of a call's results, or why they can't be its answer."""
        if self.options.results == "one" and len(results) > 1:
            text = f"{len(results)} values were returned: `results: many` gives a list of them"
            return {"error": text}
        return results

    def _send(self, requests: Iterable[Received], status: int, said: Any) -> None:
        """Answer requests. Those whose values are handed out have them already."""
        if status == 200:
            said = self._body(said)
        self.listener.answer(requests, Reply(status, said))

    def _body(self, results: Sequence[bytes]) -> bytes:
        if self.options.results == "one":
            return results[0] if results else b"null"
        return b"[" + b",".join(results) + b"]"
