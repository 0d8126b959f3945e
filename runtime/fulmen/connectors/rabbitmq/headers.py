"""Messages whose headers pika can't read, such as a time in milliseconds where seconds belong.

pika gives up the connection, and the broker hands out the message again with the next one, for
ever. Here only the headers are unreadable, and said to be so where somebody wants them.
"""

from __future__ import annotations

import struct
from typing import Any

from pika import frame, spec  # type: ignore[import-untyped]
from pika.adapters.select_connection import SelectConnection  # type: ignore[import-untyped]
from typing_extensions import override

from fulmen.connectors.formats import Malformed, unread

_TEXTS = (spec.BasicProperties.FLAG_CONTENT_TYPE, spec.BasicProperties.FLAG_CONTENT_ENCODING)
"""What is before the headers."""


class LenientConnection(SelectConnection):  # type: ignore[misc]
    """Goes on behind headers that can't be read."""

    @override
    def _read_frame(self) -> Any:
        try:
            return super()._read_frame()
        except BaseException as error:
            reason = unread(error)
            found = _without_headers(self._frame_buffer, reason)
            if found is None:
                raise
            return found


def _without_headers(data: bytes, reason: Malformed) -> tuple[int, Any] | None:
    """The frame, with the reason as its headers. None: something else is wrong with it."""
    kind, channel, size = struct.unpack_from(">BHL", data)
    body = data[spec.FRAME_HEADER_SIZE : spec.FRAME_HEADER_SIZE + size]
    if kind != spec.FRAME_HEADER:
        return None
    _, _, body_size, flags = struct.unpack_from(">HHQH", body)
    at = struct.calcsize(">HHQH")
    for flag in _TEXTS:
        if flags & flag:
            at += 1 + body[at]
    if not flags & spec.BasicProperties.FLAG_HEADERS:
        return None
    (length,) = struct.unpack_from(">I", body, at)
    properties = spec.BasicProperties()
    empty = struct.pack(">I", 0)
    properties.decode(body[struct.calcsize(">HHQ") : at] + empty + body[at + 4 + length :])
    properties.headers = Malformed(f"its headers can't be read: {reason}")
    end = spec.FRAME_HEADER_SIZE + size + spec.FRAME_END_SIZE
    return end, frame.Header(channel, body_size, properties)
