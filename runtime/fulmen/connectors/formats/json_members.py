"""Members of JSON objects, as a column for each. Pure.

Nothing is made of members that nobody asked for: of messages with thirty members of which four are
read, that takes a third of the time. They are looked at all the same: what is no JSON, or no UTF-8,
is refused wherever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import orjson

from fulmen.connectors.formats import exact

MembersReader = Callable[[Sequence[bytes]], list[list[Any]]]
"""Gives for each name the values of its members, None where there is none; or raises whatever it
may, if one of the messages is another case."""


def members_reader(names: Sequence[str]) -> MembersReader:
    """What reads these members, each of another name."""
    import msgspec  # here, as it takes 20 ms, and few workers read JSON

    try:
        own = [f"member_{i}" for i in range(len(names))]  # names may be no identifiers
        cls = msgspec.defstruct(
            "Members",
            [(name, Any, None) for name in own],
            rename=dict(zip(own, names, strict=True)),
            gc=False,
        )
    except ValueError:  # a name has a quote in it
        return members_of_objects(names)
    read = msgspec.json.Decoder(cls).decode
    getters = [attrgetter(name) for name in own]

    def columns(messages: Sequence[bytes]) -> list[list[Any]]:
        for message in messages:
            if not message.isascii():
                message.decode()
        made = list(map(read, messages))
        return [list(map(get, made)) for get in getters]

    return columns


def members_of_objects(names: Sequence[str]) -> MembersReader:
    """What reads members by making values of all."""

    def columns(messages: Sequence[bytes]) -> list[list[Any]]:
        made = list(map(orjson.loads, messages))
        found = [[one.get(name) for one in made] for name in names]
        if exact.may_have_large(messages) and any(map(exact.has_large, chain(*found))):
            raise ValueError("digits may be lost")
        return found

    return columns
