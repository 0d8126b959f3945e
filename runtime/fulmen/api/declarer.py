"""How a component says which streams it emits.

Either by the class attribute `outputs`, or by Storm's `declare_output_fields`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fulmen.errors import PASSED_ON, DeclarationError, error_text

DEFAULT_STREAM = "default"
DEAD_LETTERS = "__dead_letters"
"""The stream that every spout has besides its own: messages that failed `maxReplays` times."""
DEAD_LETTER_FIELDS = ("stream", "values", "msg_id", "failures", "reason")


@dataclass(frozen=True)
class StreamTime:
    """The event time of a stream: `eventTime` of its component in the topology.

    Attributes:
        field: The field with the time.
        unit: Of numbers; None: their size tells.
        timezone: Of times that have none.
    """

    field: str
    unit: str | None = None
    timezone: str = "UTC"


@dataclass(frozen=True)
class Stream:
    """One output stream of a component.

    Attributes:
        fields: Their names.
        direct: Whether who emits names the receiving task.
        types: What is known of the types of fields, by the names that `fields` of a format has.
            Who receives the stream may refuse it by them before the topology runs.
        no_key: Fields that do not tell rows apart, and why: a sink that replaces rows by such a
            field warns of it.
        parts: Of each field of the key that divides rows among tasks: the outputs that have it.
            Rows that differ in one come from several tasks, so in no order. Empty: not known.
        time: Its event time; None: it has none, or its component does not know the topology.
        goes_by_clock: Whether event time behind it is the time of day, whatever its rows have.
    """

    fields: tuple[str, ...]
    direct: bool = False
    types: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    no_key: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    parts: Sequence[frozenset[str]] = field(default=(), compare=False, repr=False)
    time: StreamTime | None = field(default=None, compare=False, repr=False)
    goes_by_clock: bool = field(default=False, compare=False, repr=False)


ANY_STREAM = Stream(
    ("component", "stream", "values"),
    types={"component": "string", "stream": "string", "values": "json"},
)
"""What a sink with `anyStream: true` gets of each tuple, whatever its fields are."""


class OutputFieldsDeclarer:
    """Given to `declare_output_fields`. Collects the streams of one component.

    Raises:
        DeclarationError: A stream or a field is declared twice, or a name is no non-empty string.
    """

    def __init__(self, component: str = "component") -> None:
        self._component = component
        self.streams: dict[str, Stream] = {}

    def declare(self, fields: Sequence[str], direct: bool = False) -> None:
        """Declare the stream `default`."""
        self.declare_stream(DEFAULT_STREAM, fields, direct)

    def declare_stream(self, stream: str, fields: Sequence[str], direct: bool = False) -> None:
        """Declare the stream `stream`, with its fields in the order in which values are emitted."""
        if not isinstance(stream, str) or not stream:
            raise DeclarationError(
                f"{self._component}: the stream name {stream!r} is not a non-empty string"
            )
        if stream.startswith("__"):
            raise DeclarationError(
                f"{self._component}: the stream name {stream!r} is reserved: it begins with '__'"
            )
        if stream in self.streams:
            raise DeclarationError(f"{self._component}: stream {stream!r} is declared twice")
        self.streams[stream] = Stream(self._fields(stream, fields), direct)

    def know(self, stream: str, like: Stream) -> None:
        """Keep what is known of a declared stream's fields."""
        known = self.streams[stream]
        self.streams[stream] = replace(
            known,
            types=like.types,
            no_key=like.no_key,
            parts=like.parts,
            goes_by_clock=like.goes_by_clock,
        )

    def _fields(self, stream: str, fields: Sequence[str]) -> tuple[str, ...]:
        if isinstance(fields, str) or not isinstance(fields, Sequence):
            raise DeclarationError(
                f"{self._component}, stream {stream!r}: the fields are {fields!r}, but must be a"
                f' list of names, such as ["{fields if isinstance(fields, str) else "word"}"]'
            )
        for name in fields:
            if not isinstance(name, str) or not name:
                raise DeclarationError(
                    f"{self._component}, stream {stream!r}: field {name!r} is not a non-empty"
                    " string"
                )
            if list(fields).count(name) > 1:
                raise DeclarationError(
                    f"{self._component}, stream {stream!r}: field {name!r} is declared twice"
                )
        return tuple(fields)


def output_streams(component: Any, options: Any = None) -> dict[str, Stream]:
    """The streams that a spout or bolt declares, by name.

    `outputs` is a list of fields (of the stream `default`), or a mapping of stream names to lists
    of fields or to `Stream` objects; `outputs_for` gives the same for the options. A class that
    overrides `declare_output_fields` is asked through that instead.

    Args:
        component: A class derived from Spout or Bolt, or an instance of one.
        options: Its validated `config_model`; None if it has none.

    Raises:
        DeclarationError: What is declared can't be understood.
    """
    cls = component if isinstance(component, type) else type(component)
    declarer = OutputFieldsDeclarer(cls.__name__)
    instance = component
    if isinstance(component, type):
        # In Storm it is an instance's method, but it reads nothing that open or prepare sets.
        instance = object.__new__(component)
    name = "outputs_for" if _only_declares(cls) else "declare_output_fields"
    try:
        if name == "outputs_for":
            declare(instance.outputs_for(options), declarer)
        else:
            instance.declare_output_fields(declarer)
    except DeclarationError:
        raise
    except PASSED_ON:
        raise
    except BaseException as e:
        raise DeclarationError(f"{cls.__name__}.{name} raised {error_text(e)}") from e
    return declarer.streams


def _only_declares(cls: type) -> bool:
    """Whether a class has `declare_output_fields` from its base, which reads `outputs` alone."""
    method = getattr(cls, "declare_output_fields", None)
    return getattr(method, "__module__", "") == "fulmen.api.components.component"


def declare(outputs: Any, declarer: OutputFieldsDeclarer) -> None:
    """Tell `declarer` what the class attribute `outputs` says."""
    if isinstance(outputs, Mapping):
        for name, stream in outputs.items():
            if isinstance(stream, Stream):
                declarer.declare_stream(name, stream.fields, stream.direct)
                declarer.know(name, stream)
            else:
                declarer.declare_stream(name, stream)
    elif isinstance(outputs, Stream):
        declarer.declare(outputs.fields, outputs.direct)
        declarer.know(DEFAULT_STREAM, outputs)
    elif outputs:
        declarer.declare(outputs)
