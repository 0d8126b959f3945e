"""The base of formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fulmen.api.components.sinks import MALFORMED_FIELDS, Rows, ServiceUnavailable
from fulmen.api.declarer import Stream
from fulmen.errors import PASSED_ON, error_text, repr_of

ERRORS = Stream(
    MALFORMED_FIELDS,
    types={"data": "binary", "reason": "string", "position": "string"},
)
"""The stream `errors` of sources: messages that can't be read, and why."""


Rowlike = Sequence[Sequence[Any]]
_FEW = 8
"""So few messages are read one by one if one of them is another case."""


class Malformed(ValueError):
    """A message can't be read, or values can't be written, in this format. The text says why."""


def named(what: str, made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a function of a value so that its error names the value."""

    def named_made(value: Any) -> Any:
        try:
            return made(value)
        except Malformed as error:
            raise Malformed(f"{what}: {error}") from None

    return named_made


def unread(error: BaseException) -> Malformed:
    """Why a message can't be read, by what reading it has raised: that costs this message alone.

    It may be anything: an exception that nobody has thought of, or one of an extension in C or Rust
    that is no Exception.

    Raises:
        ServiceUnavailable: What the format needs is away, so nothing is known of the message.
        BaseException: It is none of reading, such as a KeyboardInterrupt.
    """
    if isinstance(error, Malformed):
        return error
    if isinstance(error, (*PASSED_ON, ServiceUnavailable)):
        raise error
    return Malformed(f"reading it raised {error_text(error)}")


class Format(ABC):
    """Turns the bytes of a message into the values of a tuple, and back.

    Attributes:
        fields: The names of the values that `decode` returns, in their order.
        types: Those that the values of some fields have, whatever a message is.
    """

    fields: tuple[str, ...]
    types: Mapping[str, str] = MappingProxyType({})

    def stream(self, *more: str, **types: str) -> Stream:
        """The stream of what is read."""
        return Stream((*self.fields, *more), types={**self.types, **types})

    def connect(self) -> None:
        """Called in `open` or `prepare`: see that what the format needs is there.

        Raises:
            ServiceUnavailable: It is away. Formats that need something may also raise this later.
        """

    @abstractmethod
    def decode(self, data: bytes) -> list[Any]:
        """The values of a message.

        Raises:
            Malformed: The bytes are not in this format.
        """

    def decode_each(self, messages: Sequence[bytes]) -> list[list[Any] | Malformed]:
        """The values of each message, or why it can't be read.

        Raises:
            ServiceUnavailable: What the format needs is away.
        """
        decoded: list[list[Any] | Malformed] = []
        for data in messages:
            try:
                decoded.append(self.decode(data))
            except BaseException as error:  # noqa: BLE001 (of any decoder)
                decoded.append(unread(error))
        return decoded

    def by_halves(
        self, messages: Sequence[bytes], at_once: Callable[[Sequence[bytes]], list[list[Any]]]
    ) -> list[list[Any] | Malformed]:
        """What `decode_each` returns, by a faster function for the usual case.

        Args:
            messages: Those to read.
            at_once: Gives the values of each, exactly as `decode` does, or raises if one of them
                is another case.
        """
        try:
            return list(at_once(messages))
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (of any decoder)
            if len(messages) <= _FEW:
                return Format.decode_each(self, messages)
        half = len(messages) // 2
        return [
            *self.by_halves(messages[:half], at_once),
            *self.by_halves(messages[half:], at_once),
        ]

    @abstractmethod
    def encoder(self, fields: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
        """A function that writes values down. It raises Malformed for values that can't be.

        Args:
            fields: The names of the values that it will get, in their order. All of them are
                written, unless the format names fields itself.

        Raises:
            Malformed: The format needs a field that is not among them.
        """

    def encoder_of_many(self, fields: Sequence[str]) -> Callable[[Rowlike], list[bytes]]:
        """A function that writes rows down, exactly as that of `encoder` writes each.

        It raises whatever it may if one of them is another case: then all are to be written one by
        one.
        """
        encode = self.encoder(fields)
        return lambda rows: list(map(encode, rows))


def encode_each(
    rows: Rows,
    encode: Callable[[Any], Any],
    encode_many: Callable[[Rowlike], list[Any]] | None = None,
) -> list[Any]:
    """Encode each row. A row that can't be encoded fails, with the reason.

    Args:
        rows: What a sink is to write.
        encode: Raises Malformed, or UnicodeError, for values that can't be written. What it raises
            beside these is told with its type: it may run the code of a value's class.
        encode_many: Encodes rows as `encode` does each, or raises if one of them is another case.

    Raises:
        ServiceUnavailable, OSError: What a format needs is away.
    """
    if encode_many is not None:
        try:
            return encode_many(rows)
        except (*PASSED_ON, ServiceUnavailable, OSError):
            raise
        except BaseException:  # noqa: BLE001 (of an author's class)
            pass
    made: list[Any] = []
    for i, values in enumerate(rows):
        try:
            made.append(encode(values))
        except (Malformed, UnicodeError) as error:
            made.append(None)
            rows.fail(i, str(error))
        except (*PASSED_ON, ServiceUnavailable, OSError):
            raise
        except BaseException as error:  # noqa: BLE001 (of an author's class)
            made.append(None)
            rows.fail(i, error_text(error))
    return made


def is_deletion(name: str, value: Any) -> bool:
    """Whether a row deletes, by the value of the field that tells it.

    Raises:
        Malformed: It is no boolean, and not null.
    """
    if value is not None and not isinstance(value, bool):
        raise Malformed(
            f"field {name!r} tells whether a row is deleted, and is {repr_of(value, 50)}, which is"
            " not true, false or null"
        )
    return bool(value)


def refuse_field(
    names: Sequence[str], values: Sequence[Any], write: Callable[[Any], Any], error: Malformed
) -> Malformed:
    """Add to an error the name of the field that it is about.

    Args:
        names: Of the fields that were to be written.
        values: Theirs.
        write: Raises Malformed for the one that can't be written.
        error: What was raised for all of them.
    """
    for name, value in zip(names, values, strict=True):
        try:
            write(value)
        except Malformed as of_field:
            return Malformed(f"field {name!r}: {of_field}")
    return error


def positions(wanted: Sequence[str], fields: Sequence[str]) -> list[int]:
    """The positions of the wanted fields.

    Raises:
        Malformed: A field is missing.
    """
    missing = [name for name in wanted if name not in fields]
    if missing:
        raise Malformed(f"there is no field {missing[0]!r}, only {list(fields)}")
    return [list(fields).index(name) for name in wanted]


def refused(make: Callable[[], object]) -> Iterator[str]:
    """Why a sink can't have a stream's fields: what Malformed says, if making its parts raises it.

    Args:
        make: Makes what the sink needs for these fields, without a connection.
    """
    try:
        make()
    except Malformed as error:
        yield str(error)


def text_in(data: bytes, encoding: str) -> str:
    """The text that bytes are.

    Raises:
        Malformed: They are none in this encoding.
    """
    try:
        return data.decode(encoding)
    except UnicodeError as error:  # of any kind: not all encodings say where
        raise Malformed(
            f"it is not text in {encoding}: {error}. If it is in another one, name it in `encoding`"
        ) from error


def readable(data: bytes) -> str | bytes:
    """Bytes as people read them: as text if they are some."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
