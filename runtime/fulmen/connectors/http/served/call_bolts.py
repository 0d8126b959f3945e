"""What bolts do with calls: hand results back, and gather the tuples of one call.

A call's name says till when its client waits. Nobody wants what comes later, so it is left out.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import BasicBolt, Bolt
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.tuples import Tuple
from fulmen.connectors.formats.values import DEFAULT
from fulmen.connectors.http.served.options import CALL, ReturnOptions
from fulmen.connectors.options import Options
from fulmen.errors import PASSED_ON

OVER = "its client does not wait any more"
_UNTIL = " until "


def call_name(component: str, number: int, until: float) -> str:
    """The name of a call.

    Args:
        component: Its spout.
        number: Of the call.
        until: Till when its client waits: the time of day.
    """
    return f"{component} {number}{_UNTIL}{until:.3f}"


def number_of(name: str, component: str) -> int:
    """The number of a call of a spout."""
    return int(name.removeprefix(f"{component} ").partition(_UNTIL)[0])


def call_is_over(name: str, now: float | None = None) -> bool:
    """Whether the client of a call does not wait any more, so nothing need be done for it.

    Args:
        name: Of the call: the field `call`.
        now: The time of day. Default: now.
    """
    try:
        until = float(name.rpartition(_UNTIL)[2])
    except ValueError:
        return False
    return until <= (time.time() if now is None else now)  # noqa: TID251 (of the bolt's machine)


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

        It is not asked for a call whose client does not wait any more. An exception fails the call,
        which is answered with it.

        Args:
            call: Its name: the field `call`.
            tuples: What came for it, in the order in which it came.
        """

    def end_batch(self) -> None:
        """Finish the calls of the batch."""
        of_calls, self._of_calls = self._of_calls, {}
        for call, tuples in of_calls.items():
            if call_is_over(call):
                for tup in tuples:
                    self._collector.fail(tup, OVER)
                continue
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
