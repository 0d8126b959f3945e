"""Lines of logs: by a pattern, as web servers and syslog write them, or in logfmt. For reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from typing_extensions import override

from fulmen.connectors.formats.base import Format, Malformed, text_in
from fulmen.connectors.formats.encodings import UTF_8
from fulmen.connectors.formats.types import convert_all, converters
from fulmen.connectors.formats.written_types import WrittenType
from fulmen.expressions.library import patterns
from fulmen.expressions.library.arithmetic import Failed

_TEXT = "string"


class LineLayout(NamedTuple):
    """How the lines of a kind of log look.

    Attributes:
        pattern: Its named groups are the fields.
        types: Of fields that are no text.
        nulls: Texts that mean null.
    """

    pattern: str
    types: Mapping[str, str]
    nulls: tuple[str, ...] = ("-",)


_REQUEST = (
    r'"(?P<request>(?P<method>[A-Z]+) (?P<path>[^ "]+)(?: (?P<protocol>[^ "]+))?'
    r'|(?:[^"\\]|\\.)*)"'
)
_COMMON = (
    r"(?P<host>\S+) \S+ (?P<user>\S+) \[(?P<time>[^\]]+)\] "
    + _REQUEST
    + r" (?P<status>\d{3}) (?P<bytes>\d+|-)"
)
_AGENT = r' "(?P<referer>(?:[^"\\]|\\.)*)" "(?P<agent>(?:[^"\\]|\\.)*)"'
_OF_SERVERS = {
    "time": WrittenType("timestamp", "%d/%b/%Y:%H:%M:%S %z"),
    "status": "int32",
    "bytes": "int64",
}

LAYOUTS: Final[Mapping[str, LineLayout]] = {
    "common": LineLayout(_COMMON, _OF_SERVERS),
    "combined": LineLayout(_COMMON + _AGENT, _OF_SERVERS),
    "syslog": LineLayout(
        r"<(?P<priority>\d{1,3})>1 (?P<time>\S+) (?P<host>\S+) (?P<program>\S+) (?P<pid>\S+)"
        r" (?P<id>\S+) (?P<data>-|\[.*?[^\\]\])(?: (?:\x{FEFF})?(?P<message>.*))?",
        {"priority": "int32", "time": "timestamp"},
    ),
    "syslog-file": LineLayout(
        r"(?P<time>\d{4}-\d\d-\d\dT\S+) (?P<host>\S+) (?P<program>[^\s:\[]+)(?:\[(?P<pid>\d+)\])?:"
        r" ?(?P<message>.*)",
        {"time": "timestamp", "pid": "int64"},
        nulls=(),
    ),
}
"""By their names: the access logs of web servers, syslog of RFC 5424, and files of rsyslog."""


def _named_groups(text: str) -> Any:
    try:
        pattern = patterns.compiled(text)
    except Failed as error:
        raise ValueError(str(error)) from None
    if not pattern.groupindex:
        raise ValueError("the pattern names no field. Write (?P<name>…) around what is one")
    return pattern


class _ReadOnly(Format):
    """A format that is not for sinks."""

    @override
    def encoder(self, fields: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
        raise Malformed("this format is for reading. Write text, json or csv")


class PatternFormat(_ReadOnly):
    """The message is a text that a pattern matches as a whole; its named groups are the fields."""

    def __init__(
        self,
        layout: LineLayout,
        fields: Sequence[str] = (),
        types: Mapping[str, str] | None = None,
        encoding: str = UTF_8,
    ) -> None:
        """Know what is asked for.

        Args:
            layout: What lines look like.
            fields: The groups that become fields; none: all of them.
            types: Of some of the fields, instead of the layout's.
            encoding: Of messages.

        Raises:
            ValueError: The pattern is none, or has no such group.
        """
        pattern = _named_groups(layout.pattern)
        groups = sorted(pattern.groupindex, key=pattern.groupindex.__getitem__)
        for name in fields:
            if name not in groups:
                raise ValueError(f"the pattern names no field {name!r}, only {groups}")
        self.fields = tuple(fields) or tuple(groups)
        others = {n: kind for n, kind in (types or {}).items() if kind != layout.types.get(n)}
        known = {**layout.types, **others}
        self.types = {name: known.get(name, _TEXT) for name in self.fields}
        self._match = pattern.fullmatch
        self._at = [pattern.groupindex[name] for name in self.fields]
        self._nulls = frozenset(layout.nulls)
        self._encoding = encoding
        wanted = {name: kind for name, kind in self.types.items() if kind != _TEXT}
        self._typed = converters(wanted, self.fields)

    @override
    def decode(self, data: bytes) -> list[Any]:
        found = self._match(text_in(data, self._encoding))
        if found is None:
            raise Malformed("the pattern does not match it")
        nulls = self._nulls
        values = [found.group(at) for at in self._at]
        if not nulls.isdisjoint(values):
            values = [None if value in nulls else value for value in values]
        convert_all(values, self._typed)
        return values


_PAIR = re.compile(r'([^\s="]+)(?:=("(?:[^"\\]|\\.)*"|[^\s"]*))?(?:\s+|\Z)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MEANT = {"n": "\n", "t": "\t", "r": "\r"}


class LogfmtFormat(_ReadOnly):
    """The message is pairs such as `level=info msg="it runs"`, whose names are the fields."""

    def __init__(
        self,
        fields: Sequence[str] = (),
        types: Mapping[str, str] | None = None,
        encoding: str = UTF_8,
    ) -> None:
        """Know what is asked for.

        Args:
            fields: The names that become fields; none: the pairs are one field, `value`.
            types: Of some of the fields.
            encoding: Of messages.
        """
        self.fields = tuple(fields) or ("value",)
        self._names = tuple(fields)
        self.types = {name: (types or {}).get(name, _TEXT) for name in self._names}
        self._encoding = encoding
        wanted = {name: kind for name, kind in self.types.items() if kind != _TEXT}
        self._typed = converters(wanted, self.fields)

    @override
    def decode(self, data: bytes) -> list[Any]:
        text = text_in(data, self._encoding).strip()
        pairs: dict[str, str] = {}
        at = 0
        while at < len(text):
            found = _PAIR.match(text, at)
            if found is None:
                raise Malformed(f"it is not logfmt at {text[at : at + 20]!r}")
            name, value = found[1], found[2]
            pairs[name] = "true" if value is None else _plain(value)
            at = found.end()
        if not self._names:
            return [pairs]
        values: list[Any] = [pairs.get(name) for name in self._names]
        convert_all(values, self._typed)
        return values


def _plain(value: str) -> str:
    if value[:1] != '"':
        return value
    return _ESCAPED.sub(lambda one: _MEANT.get(one[1], one[1]), value[1:-1])
