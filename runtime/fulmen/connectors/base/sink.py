"""A sink that makes something of each row by itself, such as a message."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from typing_extensions import override

from fulmen.api.components.sinks import Guarantee, Rows, Sink
from fulmen.api.context import TopologyContext
from fulmen.connectors.formats import Malformed, Rowlike, encode_each
from fulmen.errors import FulmenError

Encode = Callable[[Sequence[Any]], Any]
"""Makes of a row's values what is written. It raises Malformed for rows that can't be."""


@runtime_checkable
class EncoderOfMany(Protocol):
    """An encoder that is faster with the usual rows."""

    def __call__(self, values: Sequence[Any]) -> Any:
        """As `Encode`."""

    def each(self, rows: Rowlike) -> list[Any]:
        """Encode all rows.

        Raises:
            BaseException: One of them is not as usual: they are to be encoded one by one.
        """


class MessageSink(Sink):
    """Rows of the same fields have one encoder."""

    guarantees: ClassVar[Sequence[Guarantee]] = ("at-least-once", "exactly-once")
    durable: ClassVar[Sequence[str]] = ()
    _encoders: dict[tuple[str, ...], Encode]

    @abstractmethod
    def encoder(self, fields: tuple[str, ...]) -> Encode:
        """The function that encodes rows with these fields.

        Raises:
            Malformed: A field that the options name is not among them.
        """

    def look_at_inputs(self, context: TopologyContext) -> None:
        """See that all inputs have the fields that the options name: part of `prepare`.

        Raises:
            FulmenError: One has not.
        """
        self._encoders = {}
        for (component, _), stream in context.inputs.items():
            try:
                self._encoders[stream.fields] = self.encoder(stream.fields)
            except Malformed as error:
                raise FulmenError(
                    f"bolt {context.component!r}: in what it receives from {component!r}, {error}"
                ) from error

    @override
    def encode(self, rows: Rows) -> Sequence[Any]:
        if rows.fields not in self._encoders:
            self._encoders[rows.fields] = self.encoder(rows.fields)
        encoder = self._encoders[rows.fields]
        many = encoder.each if isinstance(encoder, EncoderOfMany) else None
        return encode_each(rows, encoder, many)
