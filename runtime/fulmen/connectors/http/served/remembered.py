"""The answers that were given to requests with an Idempotency-Key."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import MutableMapping
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

KEY = "key"
OTHERS_KEY = "its Idempotency-Key was that of another request"


def digest_of(request: web.BaseRequest, content: bytes) -> bytes:
    """What tells requests of one key apart."""
    asked = f"{request.method} {request.path_qs}\n".encode() + content
    return hashlib.blake2b(asked, digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is kept of a key.

    Attributes:
        at: When its request came: the time of day.
        digest: What the request asked for.
        number: Of the request.
        status: Of the answer; 0: it has none yet.
        said: What the answer says.
    """

    at: float
    digest: bytes
    number: int
    status: int = 0
    said: Any = None


class RememberedKeys:
    """The keys of one spout, in its state, until they are old enough to be forgotten."""

    def __init__(self, state: MutableMapping[Any, Any], seconds: float) -> None:
        """Go on with what the checkpoint has.

        Args:
            state: Of the spout. An entry is of a tuple with the key.
            seconds: How long a key is remembered.
        """
        self._state, self._seconds = state, seconds
        kept = [(one.at, key) for key, one in state.items() if isinstance(one, Remembered)]
        self._order = deque(sorted(kept))
        open_ones = ((one.number, key) for key, one in state.items() if type(one) is Remembered)
        self._of_number = {number: key for number, key in open_ones if not state[key].status}

    def get(self, key: str) -> Remembered | None:
        """What is kept of a key; None: nothing."""
        found: Remembered | None = self._state.get((KEY, key))
        return found

    def add(self, key: str, one: Remembered) -> None:
        """Remember a key."""
        place = (KEY, key)
        self._state[place] = one
        self._order.append((one.at, place))
        if not one.status:
            self._of_number[one.number] = place

    def answered(self, number: int, status: int, said: Any) -> None:
        """Note how a request was answered, if it has a key."""
        place = self._of_number.pop(number, None)
        if place is not None and (one := self._state.get(place)) is not None:
            self._state[place] = replace(one, status=status, said=said)

    def forget(self, now: float) -> None:
        """Forget those that are too old, and whose requests have ended."""
        while self._order and self._order[0][0] <= now - self._seconds:
            at, place = self._order.popleft()
            one = self._state.get(place)
            if one is None or one.at != at:
                continue
            if not one.status:
                self._order.append((now, place))
                self._state[place] = replace(one, at=now)
                return
            del self._state[place]
